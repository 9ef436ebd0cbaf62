"""``format=serialized``: a Protobuf schema as the file's descriptor, in base64.

Confluent's clients for Python and others ask for it before they read a value.
"""

from base64 import b64encode

from kwire.registry import parsing
from kwire.registry.records import Body, Schema
from kwire.registry.refusals import invalid_schema
from kwire.registry.registry import Registry

PROTOBUF = "PROTOBUF"
SERIALIZED = "serialized"


async def serialized(
    registry: Registry, form: str, subject: str, schema: Schema, body: Body
) -> Body:
    """The answer in the format that the client asks for; other types and formats change nothing."""
    if form != SERIALIZED or schema.type != PROTOBUF:
        return body
    tree = parsing.tree_of(registry.state, subject, schema)
    return body | {"schema": await registry.in_thread(_descriptor, tree)}


def _descriptor(tree: parsing.SchemaTree) -> str:
    from google.protobuf import descriptor_pb2

    from kwire.schemas.protobuf_compiler import compile_text
    from kwire.schemas.undecodable import WrongSchema

    used = tuple(sorted(_texts(tree).items()))
    try:
        content = compile_text(tree.schema.text, used)
    except WrongSchema as error:
        raise invalid_schema(str(error)) from error
    files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    return b64encode(files[-1].SerializeToString()).decode()


def _texts(tree: parsing.SchemaTree) -> dict[str, str]:
    """The texts under a schema by name, each once, whatever number of schemas refers to it."""
    found: dict[str, str] = {}
    waiting = list(tree.references.items())
    while waiting:
        name, one = waiting.pop()
        if name not in found:
            found[name] = one.schema.text
            waiting += one.references.items()
    return found
