"""How a batch is decoded is kept before anything else of it, for the case that it runs again."""

from pathlib import Path
from typing import Any, cast

from kwire.spark.decided import needs_begun
from kwire.spark.decode.resolved_decoding import resolve_decoding
from kwire.spark.partition_values import part_of
from kwire.spark.settings import DeadLetters, Decode, PipelineSettings, SinkSettings, Source

JSON = Decode()
NO_RECORDS = cast(Any, None)
SCHEMA = '{"type": "object", "properties": {"n": {"type": "%s"}}}'


def test_an_edited_schema_file_is_another_way(tmp_path: Path) -> None:
    """Its content counts, not its name; neither do settings that decode nothing."""
    found = []
    for number, kind in enumerate(("integer", "string", "integer")):
        file = tmp_path / f"{number}.json"
        file.write_text(SCHEMA % kind)
        decode = Decode(options={"schema_file": str(file), "refresh_s": 1.0 + number})
        found.append(resolve_decoding(NO_RECORDS, decode, ["orders"]))
    assert found[0] == found[2] != found[1]


def test_no_secret_is_kept() -> None:
    """Neither the registry's password nor its address, which may hold one."""
    options = {"schema": "n INT", "registry_user": "u", "registry_password": "geheim"}
    decode = Decode(registry="http://u:geheim@127.0.0.1:1", options=options)
    found = resolve_decoding(NO_RECORDS, decode, ["orders"])
    assert "geheim" not in str(found)
    assert found["has_header"]


def test_which_pipelines_need_it() -> None:
    """Those with dead letters, whatever the sink."""
    dead = DeadLetters(topic="dead")

    def pipeline(kind: str, decode: Decode = JSON, letters: Any = dead) -> PipelineSettings:
        source = Source("127.0.0.1:1", ("orders",))
        return PipelineSettings("p", source, SinkSettings(kind), "", decode, (), letters)

    assert needs_begun(pipeline("delta"))
    assert not needs_begun(pipeline("delta", letters=None))
    assert needs_begun(pipeline("parquet"))
    assert needs_begun(pipeline("topic", Decode("avro", registry="http://127.0.0.1:1")))


def test_what_becomes_of_records_without_a_key() -> None:
    """A dead letter where there are any, unless the settings say otherwise."""

    def null_keys(letters: Any, form: str = "json", **options: str) -> str:
        source = Source("127.0.0.1:1", ("orders",))
        sink = SinkSettings("upsert", "/t", options={"key": ["n"], **options})
        found = part_of(PipelineSettings("p", source, sink, "", Decode(form), (), letters))
        return "stop" if found is None else str(found.options["null_keys"])

    dead = DeadLetters(topic="dead")
    assert null_keys(dead) == "dead letter"
    assert null_keys(None) == "stop"
    assert null_keys(None, "debezium") == "dead letter"
    assert null_keys(dead, null_keys="stop") == "stop"
