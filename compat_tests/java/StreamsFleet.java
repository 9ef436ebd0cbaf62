import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Instances of one application of Kafka Streams, in one JVM, each with a state directory of its own.
 *
 * <p>The arguments are the bootstrap servers, the application, its source and target topic, a
 * directory, and further settings as NAME=VALUE. The application counts the values of each key. A
 * line of stdin is a command, and a line of stdout answers it:
 *
 * <p>{@code start NAME}: an instance begins; {@code stop NAME}: it leaves the group and ends;
 * {@code tasks NAME}: its active tasks, a bar, and its standby tasks; {@code who NAME KEY}: which
 * instance has the key by what this one knows, a bar, and the standby instances; {@code get NAME
 * KEY}: the count in its own stores, active or standby.
 */
public final class StreamsFleet {
  private static final String STORE = "counts";
  private static final Map<String, KafkaStreams> INSTANCES = new HashMap<>();
  private static String[] given;

  public static void main(String[] arguments) throws Exception {
    given = arguments;
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      String answer;
      try {
        answer = carriedOut(words[0], words[1], words.length > 2 ? words[2] : "");
      } catch (InvalidStateStoreException | IllegalStateException error) {
        answer = "not now: " + error.getMessage();
      }
      System.out.println(answer);
    }
    INSTANCES.values().parallelStream().forEach(StreamsFleet::stop);
    System.exit(0);
  }

  private static String carriedOut(String command, String name, String key) {
    switch (command) {
      case "start":
        start(name);
        return "started";
      case "stop":
        stop(INSTANCES.remove(name));
        return "stopped";
      case "tasks":
        return tasks(INSTANCES.get(name));
      case "who":
        return who(INSTANCES.get(name), key);
      default:
        return get(INSTANCES.get(name), key);
    }
  }

  private static void start(String name) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, given[4] + "/" + name);
    settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, name + ":1");
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    Arrays.stream(given).skip(5).map(one -> one.split("=", 2))
        .forEach(one -> settings.put(one[0], one[1]));
    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(given[2])
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(given[3], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    INSTANCES.put(name, streams);
    streams.start();
  }

  private static void stop(KafkaStreams streams) {
    streams.close(
        CloseOptions.timeout(Duration.ofSeconds(60))
            .withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
  }

  private static String tasks(KafkaStreams streams) {
    TreeSet<String> active = new TreeSet<>();
    TreeSet<String> standby = new TreeSet<>();
    streams.metadataForLocalThreads().forEach(thread -> {
      thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
      thread.standbyTasks().forEach(task -> standby.add(task.taskId().toString()));
    });
    return String.join(" ", active) + "|" + String.join(" ", standby);
  }

  private static String who(KafkaStreams streams, String key) {
    KeyQueryMetadata found =
        streams.queryMetadataForKey(STORE, key, Serdes.String().serializer());
    if (found == null || found.equals(KeyQueryMetadata.NOT_AVAILABLE)) {
      return "not now: unknown";
    }
    return found.activeHost().host() + "|" + found.standbyHosts().stream()
        .map(host -> host.host()).sorted().collect(Collectors.joining(" "));
  }

  private static String get(KafkaStreams streams, String key) {
    ReadOnlyKeyValueStore<String, Long> store = streams.store(
        StoreQueryParameters.fromNameAndType(
                STORE, QueryableStoreTypes.<String, Long>keyValueStore())
            .enableStaleStores());
    Long count = store.get(key);
    return count == null ? "0" : Long.toString(count);
  }
}
