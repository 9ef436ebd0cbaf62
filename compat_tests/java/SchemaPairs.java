import io.apicurio.registry.rules.compatibility.jsonschema.JsonSchemaDiffLibrary;
import io.apicurio.registry.rules.compatibility.protobuf.ProtobufCompatibilityCheckerLibrary;
import io.apicurio.registry.utils.protobuf.schema.ProtobufFile;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Map;
import java.util.TreeSet;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * What others' checkers say of pairs of schemas.
 *
 * <p>A line of the input is a type, the old and the new schema in base64, with tabs between them. The
 * line that answers it is "yes", "no" or "error", a tab, and what is wrong; for Avro then a tab and
 * the old schema as its library writes it.
 */
public class SchemaPairs {
  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split("\t");
      String before = new String(Base64.getDecoder().decode(parts[1]), "UTF-8");
      String after = new String(Base64.getDecoder().decode(parts[2]), "UTF-8");
      String answer;
      try {
        answer = switch (parts[0]) {
          case "AVRO" -> avro(before, after);
          case "JSON" -> json(before, after);
          default -> protobuf(before, after);
        };
      } catch (Exception | StackOverflowError error) {
        answer = "error\t" + error.getClass().getName() + " " + error.getMessage();
      }
      System.out.println(answer.replaceAll("[\r\n]+", " "));
    }
  }

  private static String told(TreeSet<String> wrong) {
    return (wrong.isEmpty() ? "yes\t" : "no\t") + String.join(" ", wrong);
  }

  private static String avro(String before, String after) {
    Schema writer = new Schema.Parser().parse(before);
    Schema reader = new Schema.Parser().parse(after);
    TreeSet<String> wrong = new TreeSet<>();
    SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
        .getResult().getIncompatibilities()
        .forEach(one -> wrong.add(one.getType().name() + one.getLocation()));
    return told(wrong) + "\t" + writer;
  }

  private static String json(String before, String after) {
    TreeSet<String> wrong = new TreeSet<>();
    JsonSchemaDiffLibrary.getIncompatibleDifferences(before, after, Map.of())
        .forEach(one -> wrong.add(one.getDiffType().name()));
    return told(wrong);
  }

  private static String protobuf(String before, String after) throws Exception {
    TreeSet<String> wrong = new TreeSet<>();
    new ProtobufCompatibilityCheckerLibrary(new ProtobufFile(before), new ProtobufFile(after))
        .findDifferences()
        .forEach(one -> wrong.add(one.getMessage() + ";"));
    return told(wrong);
  }
}
