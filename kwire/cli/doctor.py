"""``kwire doctor``: look at data directories, settings and the machine, and say what to do.

It changes nothing, and may run beside a broker. Exit codes: 0 if nothing has to be done, 1 if
something has, 2 for a wrong command line.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.options import add_json

if TYPE_CHECKING:
    from kwire.cli.finding import Finding
    from kwire.config.broker import BrokerConfig

_DEFAULT_DIRECTORY = "kwire-data"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    doctor = commands.add_parser(
        "doctor",
        description="Looks at data directories, a properties file and the machine: open files, "
        "disk room, clock, ports, certificates, settings without effect, the last shutdown, "
        "strays, damage. It changes nothing. The exit code is 1 if something has to be done.",
    )
    doctor.add_argument(
        "--data-dir",
        metavar="DIR",
        action="append",
        default=[],
        type=Path,
        help="a data directory; may be repeated (default: log.dirs of --config, or ./kwire-data)",
    )
    doctor.add_argument("--config", metavar="FILE", type=Path, help="a server.properties file")
    doctor.add_argument(
        "--deep", action="store_true", help="read every segment, not only the last of a partition"
    )
    add_json(doctor)
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Examine; returns the exit code."""
    from kwire.cli.certificate_checks import check_certificates
    from kwire.cli.directory_checks import check_directory, is_in_use, partition_directories
    from kwire.cli.finding import ACT
    from kwire.cli.machine_checks import check_clock, check_descriptors, check_ports
    from kwire.cli.settings_checks import check_settings

    config, findings = check_settings(options.config)
    directories = options.data_dir or _directories(config)
    readable = [path for path in directories if path.is_dir()]
    partitions = sum(len(partition_directories(path)) for path in readable)
    for directory in directories:
        findings += check_directory(directory, deep=options.deep)
    findings += check_certificates(config)
    is_running = any(is_in_use(path) for path in readable)
    findings.append(check_descriptors(partitions))
    findings.append(check_clock(readable))
    findings += check_ports(_addresses(config), is_running=is_running)
    _print_findings(options, findings)
    return 1 if any(one.level == ACT for one in findings) else 0


def _directories(config: "BrokerConfig | None") -> list[Path]:
    given = config.strings("log.dirs") if config is not None else []
    return [Path(one) for one in given] or [Path(_DEFAULT_DIRECTORY)]


def _addresses(config: "BrokerConfig | None") -> list[tuple[str, int]]:
    if config is None:
        return []
    return [(one.host, one.port) for one in config.listeners() if one.port]


def _print_findings(options: argparse.Namespace, findings: "list[Finding]") -> None:
    from kwire.cli.finding import ACT, GOOD
    from kwire.cli.tables import one_line, show_json

    if options.json:
        show_json([one._asdict() for one in findings])
        return
    marks = {GOOD: "ok  ", ACT: "ACT "}
    for one in findings:
        print(f"{marks.get(one.level, 'note')}  {one_line(one.what)}")
        if one.level != GOOD:
            print(f"      why: {one_line(one.why)}")
            print(f"      do:  {one_line(one.remedy)}")
    todo = sum(one.level == ACT for one in findings)
    print(f"{todo} thing{'s' * (todo != 1)} to do" if todo else "nothing has to be done")
