"""The commands by name: the module of each, its place in the help, its text and its examples.

``kwire --help`` is made from this table alone, so that it imports no command.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command, as the help shows it; the examples are whole command lines that work."""

    module: str
    section: str
    help: str
    examples: tuple[str, ...]


_BROKER = "Run a broker"
_RECORDS = "Topics and records"
_GROUPS = "Groups and transactions"
_CLUSTER = "The cluster"
_ACCESS = "Who may do what, and how much"
_FILES = "A broker's files"
_MORE = "More"

COMMANDS = {
    "serve": Command(
        "kwire.cli.serve",
        _BROKER,
        "run a broker until Ctrl-C or SIGTERM",
        (
            "kwire serve",
            "kwire serve --data-dir /var/lib/kwire --listen '*:9092' --http 127.0.0.1:8080",
            "kwire serve --config server.properties -o num.partitions=3",
        ),
    ),
    "secure": Command(
        "kwire.cli.secure",
        _BROKER,
        "make or renew the files of a secured cluster",
        ("kwire secure init --help",),
    ),
    "doctor": Command(
        "kwire.cli.doctor",
        _BROKER,
        "check a data directory and the machine, and say what to do",
        ("kwire doctor --data-dir /var/lib/kwire",),
    ),
    "topics": Command(
        "kwire.cli.topics",
        _RECORDS,
        "list, describe, create, delete and alter topics",
        (
            "kwire topics list",
            "kwire topics create orders --partitions 3 --config retention.ms=3600000",
            "kwire topics describe orders --json",
            "kwire topics add-partitions orders --to 6",
        ),
    ),
    "produce": Command(
        "kwire.cli.produce",
        _RECORDS,
        "write records from standard input or files",
        (
            "seq 1000 | kwire produce orders",
            "kwire produce orders lines.txt --key-separator : --create",
            "kwire produce orders records.json --format json --compression zstd",
            "kwire produce orders values.json --schema orders.avsc",
        ),
    ),
    "consume": Command(
        "kwire.cli.consume",
        _RECORDS,
        "print records of topics",
        (
            "kwire consume orders --from-beginning --exit",
            "kwire consume orders --tail 10 --follow --format pretty",
            "kwire consume orders --from-time 1h --value error --json",
            "kwire consume orders --group billing --from-beginning",
        ),
    ),
    "records": Command(
        "kwire.cli.records",
        _RECORDS,
        "delete records of a topic",
        ("kwire records delete orders --before-offset 100 --partitions 0",),
    ),
    "configs": Command(
        "kwire.cli.configs",
        _RECORDS,
        "show and change configs of topics, brokers, groups",
        (
            "kwire configs describe topic orders --all",
            "kwire configs set topic orders retention.ms=3600000 --dry-run",
            "kwire configs unset broker default log.retention.ms",
        ),
    ),
    "schemas": Command(
        "kwire.cli.schemas",
        _RECORDS,
        "list, register, check and compare the schemas of a registry",
        (
            "kwire schemas list --registry http://127.0.0.1:8081",
            "kwire schemas check orders-value order.avsc",
            "kwire schemas register orders-value order.proto",
            "kwire schemas diff orders-value 3 4",
        ),
    ),
    "groups": Command(
        "kwire.cli.groups",
        _GROUPS,
        "list, describe, reset, delete, explain groups",
        (
            "kwire groups list",
            "kwire groups describe billing --members",
            "kwire groups reset billing --to-beginning --execute",
        ),
    ),
    "share": Command(
        "kwire.cli.share",
        _GROUPS,
        "consume, list, describe and reset share groups (queues)",
        (
            "kwire share consume orders --group workers",
            "kwire share consume orders --group workers --workers 4 --exec ./bill.sh",
            "kwire share describe workers --records",
            "kwire share dead-letters workers --replay --dry-run",
            "kwire share reset workers --to-beginning --dry-run",
        ),
    ),
    "transactions": Command(
        "kwire.cli.transactions",
        _GROUPS,
        "list, describe and abort transactions",
        ("kwire transactions list", "kwire transactions open orders --json"),
    ),
    "cluster": Command(
        "kwire.cli.cluster",
        _CLUSTER,
        "show brokers, controller and features",
        ("kwire cluster brokers", "kwire cluster controller --json"),
    ),
    "health": Command(
        "kwire.cli.health",
        _CLUSTER,
        "check that brokers, partitions and coordinators serve",
        ("kwire health", "kwire health --json"),
    ),
    "reassign": Command(
        "kwire.cli.reassign",
        _CLUSTER,
        "move replicas to other brokers, with a plan and a progress bar",
        (
            "kwire reassign plan --brokers 1-4",
            "kwire reassign run orders --brokers 2,3 --dry-run",
            "kwire reassign run --file plan.json",
            "kwire reassign status",
            "kwire reassign cancel orders:0",
        ),
    ),
    "elections": Command(
        "kwire.cli.elections",
        _CLUSTER,
        "show and elect leaders of partitions",
        ("kwire elections list", "kwire elections run orders --dry-run"),
    ),
    "bench": Command(
        "kwire.cli.bench",
        _CLUSTER,
        "measure produce, consume and latency of a cluster",
        ("kwire bench --records 100000 --size 200",),
    ),
    "users": Command(
        "kwire.cli.users",
        _ACCESS,
        "list, add and remove users of SCRAM, and change passwords",
        (
            "kwire users add alice",
            "kwire users password alice < password.txt",
            "kwire users list",
            "kwire users remove alice --dry-run",
        ),
    ),
    "acls": Command(
        "kwire.cli.acls",
        _ACCESS,
        "list, add, remove and explain who may do what",
        (
            "kwire acls add User:alice READ,DESCRIBE topic:orders 'group:billing-*'",
            "kwire acls list User:alice",
            "kwire acls explain User:alice READ topic:orders",
            "kwire acls remove User:alice --resource topic:orders --dry-run",
        ),
    ),
    "quotas": Command(
        "kwire.cli.quotas",
        _ACCESS,
        "list, set and remove quotas of users, client ids and addresses",
        (
            "kwire quotas set producer_byte_rate=1048576 --user alice",
            "kwire quotas set request_percentage=50 --every-client-id --dry-run",
            "kwire quotas list",
            "kwire quotas unset producer_byte_rate --user alice",
        ),
    ),
    "tokens": Command(
        "kwire.cli.tokens",
        _ACCESS,
        "list, create, renew and expire delegation tokens",
        ("kwire tokens create --renewer User:bob --lifetime 7d", "kwire tokens list"),
    ),
    "dump-log": Command(
        "kwire.cli.dump_log",
        _FILES,
        "print the content of log files",
        ("kwire dump-log kwire-data/orders-0 --print-data-log",),
    ),
    "mend-log": Command(
        "kwire.cli.mend_log",
        _FILES,
        "remove damaged batches from a partition's log",
        ("kwire mend-log --help",),
    ),
    "strays": Command(
        "kwire.cli.strays",
        _FILES,
        "list or remove logs of deleted topics and moved replicas",
        ("kwire strays list --data-dir kwire-data",),
    ),
    "leave-store": Command(
        "kwire.cli.leave_store",
        _FILES,
        "take the metadata of a stopped cluster back from etcd",
        ("kwire leave-store --help",),
    ),
    "pipeline": Command(
        "kwire.cli.pipeline",
        _MORE,
        "topics into tables and back, exactly once, with PySpark",
        ("kwire pipeline init --help",),
    ),
    "completion": Command(
        "kwire.cli.completion",
        _MORE,
        "print a script for shell completion",
        ("kwire completion bash",),
    ),
}
"""In the order of the help text."""

_HEAD = """\
usage: kwire COMMAND ...

Kafka in Python: a broker for tests, laptops and pipelines, and the commands for it and for any
other Kafka.
"""

_END = """
Examples:
  kwire serve
  kwire topics create orders --partitions 3
  seq 1000 | kwire produce orders
  kwire consume orders --from-beginning --exit

Options:
  -h, --help  show this text; kwire COMMAND --help shows a command's options and examples
  --version   show kwire's version

The options of the cluster, such as -b HOST:PORT, may stand before the command or after it.
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 not known (kwire health), 130 Ctrl-C.
"""


def overview() -> str:
    """The help about all commands, by section."""
    lines = [_HEAD]
    width = max(map(len, COMMANDS))
    for section in dict.fromkeys(command.section for command in COMMANDS.values()):
        lines.append(f"{section}:")
        lines += [
            f"  {name:<{width}}  {command.help}"
            for name, command in COMMANDS.items()
            if command.section == section
        ]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" + _END
