"""``kwire produce`` and ``kwire consume``: formats, places, filters, round trips."""

import json

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from compat_tests.command_line import CommandLine
from compat_tests.conftest import Names


@pytest.fixture
def topic(cli: CommandLine, names: Names) -> str:
    """A topic of one partition."""
    name = names.topic()
    cli.ok("topics", "create", name)
    return name


def test_lines_become_records_that_stock_clients_read(
    cli: CommandLine, topic: str, bootstrap: str
) -> None:
    """Key, value and headers; a line without an end counts."""
    done = cli.produce(topic, "k1:v1\r\nk2:\nk3:v3", "-K", ":", "-H", "x=1", "--tombstones")
    assert (done.code, done.err) == (0, "3 records written\n")
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = [next(consumer) for _ in range(3)]
    consumer.close()
    assert [(one.key, one.value) for one in found] == [
        (b"k1", b"v1"),
        (b"k2", None),
        (b"k3", b"v3"),
    ]
    assert all([tuple(header) for header in one.headers] == [("x", b"1")] for one in found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_codec_and_every_acks(cli: CommandLine, topic: str, codec: str, acks: str) -> None:
    """What was written is read, whatever it took."""
    lines = [f"line {number}" for number in range(2000)]
    options = ("-z", codec, "--acks", acks, "--batch-bytes", "5000", "-q")
    cli.ok("topics", "describe", topic)  # of a cluster the leader knows now that it leads
    assert cli.produce(topic, "\n".join(lines), *options) == (0, "", "")
    if acks == "0":  # nobody has said yet that it is there
        assert cli.ok("consume", topic, "--from-beginning", "-n", "2000").lines == lines
    else:
        assert cli.consume(topic, "--from-beginning") == lines


def test_json_goes_round(cli: CommandLine, topic: str, names: Names, bootstrap: str) -> None:
    """Bytes that aren't UTF-8, nulls, empty strings, headers and timestamps come back."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    headers = [("h", b"\xff"), ("n", b""), ("h", b"again")]
    at_ms = 1_700_000_000_000
    producer.send(topic, b"\x80binary", b"\xfe\x00", headers, timestamp_ms=at_ms)
    producer.send(topic, "ü\n\u2028".encode(), timestamp_ms=at_ms + 1)
    producer.send(topic, b"", b"", timestamp_ms=5)
    producer.send(topic, None, b"k")
    producer.close()
    written = cli.consume(topic, "--from-beginning", "--json")
    copy = names.topic()
    cli.ok("topics", "create", copy)
    assert cli.produce(copy, "\n".join(written), "--format", "json").code == 0
    again = cli.consume(copy, "--from-beginning", "--json")
    assert [json.loads(line) | {"topic": topic} for line in again] == list(map(json.loads, written))
    first = json.loads(written[0])
    assert first["key"] == {"base64": "/gA="}
    assert (first["headers"][1], first["timestamp"]) == (["n", ""], at_ms)


def test_a_line_that_is_no_record_is_named(cli: CommandLine, topic: str) -> None:
    """The records before it are written, and counted."""
    done = cli.produce(topic, '{"value": "a"}\n{"value": 3}\n', "--format", "json")
    assert done.code == 1
    assert "input, line 2: value must be a string" in done.err
    assert done.err.endswith("1 records written\n")
    assert cli.consume(topic, "--from-beginning") == ["a"]
    done = cli.produce(topic, "key value", "-K", ":")
    assert "line 1: it has no ':' after its key" in done.err
    assert cli.produce(topic, "x", "-p", "7").code == 1
    assert "cannot read" in cli("produce", topic, "/nowhere").err


def test_raw_input_is_one_record(cli: CommandLine, topic: str) -> None:
    """With its line feeds."""
    cli.produce(topic, b"\x00a\nb\n", "--format", "raw", "-k", "file")
    assert cli.ok("consume", topic, "--from-beginning", "--exit", "-f", "raw").out == "\x00a\nb\n"
    [line] = cli.consume(topic, "--from-beginning", "-f", "hex")
    assert line == f"{topic}-0@0 key=66696c65 value=00610a620a"


def test_keys_go_where_kafkas_producers_put_them(
    cli: CommandLine, names: Names, bootstrap: str
) -> None:
    """The partition of each key is the same for kafka-python."""
    topic = names.topic()
    cli.ok("topics", "create", topic, "-p", "7")
    keys = [f"key-{number}" for number in range(50)]
    cli.produce(topic, "".join(f"{key}\tkwire\n" for key in keys), "-K", "\t")
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for key in keys:
        producer.send(topic, b"kafka", key.encode())
    producer.close()
    places: dict[str, set[int]] = {}
    for line in cli.consume(topic, "--from-beginning", "--json"):
        found = json.loads(line)
        places.setdefault(found["key"], set()).add(found["partition"])
    assert sorted(places) == sorted(keys)
    assert all(len(partitions) == 1 for partitions in places.values())


def test_places_to_start_and_to_stop(cli: CommandLine, topic: str) -> None:
    """Offsets, times, the tail, a count."""
    content = "".join(
        json.dumps({"value": f"v{number}", "timestamp": 1_000_000 + number}) + "\n"
        for number in range(10)
    )
    cli.produce(topic, content, "--format", "json")
    assert cli.consume(topic) == [], "the end is where it starts"
    assert cli.consume(topic, "--offset", "8") == ["v8", "v9"]
    assert cli.consume(topic, "--offset=-1") == ["v9"]
    assert cli.consume(topic, "--offset=-99")[0] == "v0"
    assert cli.consume(topic, "--from-time", "@1000007") == ["v7", "v8", "v9"]
    assert cli.consume(topic, "--from-time", "1h") == []
    assert cli.ok("consume", topic, "--tail", "2").lines == ["v8", "v9"]
    assert cli.ok("consume", topic, "--tail", "2", "--value", "[12]").lines == ["v1", "v2"]
    assert cli.ok("consume", topic, "--from-beginning", "-n", "2").lines == ["v0", "v1"]
    done = cli("consume", topic, "--offset", "99", "--exit")
    assert done == (0, "", ""), "there is nothing to read"
    done = cli("consume", topic, "--offset", "99", "--count", "1")
    assert (done.code, "has the offsets 0 to 10, and 99 was asked for" in done.err) == (1, True)
    assert "no partition 3" in cli("consume", topic, "-p", "3", "--exit").err
    assert "--from-time yesterday" in cli("consume", topic, "--from-time", "yesterday").err
    assert "there is no topic no-such-topic" in cli("consume", "no-such-topic", "--exit").err


def test_the_tail_of_several_partitions_is_in_the_order_of_time(
    cli: CommandLine, names: Names
) -> None:
    """The last records of all together."""
    topic = names.topic()
    cli.ok("topics", "create", topic, "-p", "3")
    rows = [
        {"value": f"v{number}", "timestamp": 1_000_000 + number, "partition": number % 3}
        for number in range(9)
    ]
    cli.produce(topic, "\n".join(map(json.dumps, rows)), "--format", "json")
    assert cli.ok("consume", topic, "--tail", "4").lines == ["v5", "v6", "v7", "v8"]
    some = sorted(cli.consume(topic, "--from-beginning", "-p", "1-2,2"))
    assert some == ["v1", "v2", "v4", "v5", "v7", "v8"]


def test_the_tail_counts_records_and_no_markers(
    cli: CommandLine, bootstrap: str, topic: str
) -> None:
    """A marker has an offset of its own; an open transaction may be at the end."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for number in range(20):
        producer.begin_transaction()
        producer.produce(topic, f"v{number}", partition=0)
        producer.commit_transaction()
    last = [f"v{number}" for number in range(10, 20)]
    assert cli.ok("consume", topic, "--tail", "10").lines == last
    producer.begin_transaction()
    for number in range(20):
        producer.produce(topic, f"open {number}", partition=0)
    producer.flush()
    assert cli.ok("consume", topic, "--tail", "10", "--read-committed").lines == last
    producer.abort_transaction()


def test_filters(cli: CommandLine, topic: str) -> None:
    """Key, value and header, all of which have to match."""
    rows = [
        {"key": "a1", "value": "red", "headers": [["trace", "x7"]]},
        {"key": "a2", "value": "green", "headers": [["trace", "y"]]},
        {"key": None, "value": "red"},
        {"key": "b1", "value": None},
    ]
    cli.produce(topic, "\n".join(map(json.dumps, rows)), "--format", "json")
    begin = ("--from-beginning", "-f", "key-value", "--key-separator", "=")
    assert cli.consume(topic, *begin, "--key", "^a") == ["a1=red", "a2=green"]
    assert cli.consume(topic, *begin, "--value", "e{2}") == ["a2=green"]
    assert cli.consume(topic, *begin, "--header", "trace=[0-9]") == ["a1=red"]
    assert cli.consume(topic, *begin, "--header", "trace", "--value", "r") == ["a1=red", "a2=green"]
    assert cli.consume(topic, *begin, "--key", "", "--value", "d$", "-n", "1") == ["a1=red"]
    done = cli("consume", topic, "--key", "(")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
