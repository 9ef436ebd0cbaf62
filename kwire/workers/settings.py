"""The settings of each worker, made from the command's settings.

Rules:

- Worker 1 has the given settings. So it is the same broker as the single broker before.
- Worker i has the next node ids and ports, and its logs are in ``worker.i`` below the first data
  directory. Its name is no partition's name: ``worker-2`` would be partition 2 of a topic. They
  are cordoned if that directory is.
- A port of 0 is a free port for every worker.
"""

from kwire.config.broker import BrokerConfig, Listener
from kwire.config.cordoned import ALL, cordoned_entries
from kwire.config.cordoned import NAME as CORDONED
from kwire.config.settings import ConfigError

LAST_PORT = 65535


def worker_settings(config: BrokerConfig, count: int) -> list[BrokerConfig]:
    """The settings of so many workers; ConfigError if their ports don't fit."""
    configs = [config.changed({"kwire.workers": str(count)})]
    configs += [configs[0].changed(_differences(config, number)) for number in range(2, count + 1)]
    _check_ports(configs)
    return configs


def _differences(config: BrokerConfig, number: int) -> dict[str, str]:
    shift = number - 1
    node_id = str(config.integer("node.id") + shift)
    directory = str(config.data_directories()[0] / f"worker.{number}")
    first = config.strings("log.dirs")[:1]
    is_cordoned = bool(cordoned_entries(config.strings(CORDONED), first))
    found = {
        "node.id": node_id,
        "broker.id": node_id,
        "log.dir": directory,
        "log.dirs": directory,
        CORDONED: ALL if is_cordoned else "",
        "listeners": _shifted(config.listeners(), shift),
    }
    advertised = config.advertised_listeners()
    if advertised:
        found["advertised.listeners"] = _shifted(advertised, shift)
    http = config.http_address()
    if http is not None:
        host, port = http
        found["kwire.http.listen"] = f"{_written(host) or '*'}:{_port(port, shift)}"
    return found


def _shifted(listeners: list[Listener], shift: int) -> str:
    return ",".join(
        f"{name}://{_written(host)}:{_port(port, shift)}" for name, host, port in listeners
    )


def _port(port: int, shift: int) -> int:
    if port + shift > LAST_PORT:
        problem = f"worker {shift + 1} would need port {port + shift}; choose a lower port"
        raise ConfigError("listeners", port, problem)
    return port + shift if port else 0


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_ports(configs: list[BrokerConfig]) -> None:
    """Raise ConfigError if two listeners would need the same port."""
    users: dict[tuple[str, int], str] = {}
    for number, config in enumerate(configs, 1):
        wanted = [(name, host, port) for name, host, port in config.listeners()]
        http = config.http_address()
        if http is not None:
            wanted.append(("HTTP", *http))
        for name, host, port in wanted:
            user = f"{name} of worker {number}"
            other = users.setdefault((host, port), user) if port else user
            if other != user:
                problem = (
                    f"{other} and {user} would both need port {port}, because each worker takes "
                    f"the ports after those of the worker before: leave {len(configs)} ports free "
                    "from each port on"
                )
                raise ConfigError("listeners", ",".join(configs[0].strings("listeners")), problem)
