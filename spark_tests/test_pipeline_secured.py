"""A pipeline whose source wants a login: Spark's connector and kwire's own client get in."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from kwire.testing.process import BrokerProcess
from spark_tests.commands import Commands
from spark_tests.pipelines import numbers, produce_values, settings_of
from spark_tests.processes import toml
from tests.support.ports import free_port
from tests.support.topics import create_topics

PASSWORD = "geheim"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} user_etl="{PASSWORD}";',
}
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{_PLAIN} username="etl" password="{PASSWORD}";',
}


def test_a_source_with_a_login(spark: SparkSession, tmp_path: Path, commands: Commands) -> None:
    """It is read, verified and watched, its dead letters come back; nothing shows the password."""
    address = f"127.0.0.1:{free_port()}"
    options = ("--listen", f"SASL_PLAINTEXT://{address}")
    with BrokerProcess(tmp_path / "data", SETTINGS, options=options) as broker:
        plain = broker.bootstrap.partition(",")[0]
        create_topics(plain, "t", "dead")
        produce_values(plain, "t", b'{"n": 1}', b"garbage", b'{"n": 2}')
        settings = settings_of(address, "t", tmp_path, dead_letters={"topic": "dead"})
        settings["source"]["client"] = settings["source"]["client"] | CLIENT
        (tmp_path / "p.toml").touch(mode=0o600)  # or each command warns of its secrets
        (tmp_path / "p.toml").write_text(toml(settings))
        said = commands("run", "--quiet") + commands("check")
        assert numbers(tmp_path) == [1, 2]
        found = commands.verify()
        assert (found["sink"], found["dead_letters"], found["gaps"]) == (2, 1, 0)
        said += commands("replay", "--dead-letters", "--execute")
        assert "1 sent" in said
        said += commands("status", "--json")
        wrong = toml(settings).replace(PASSWORD, f"not-{PASSWORD}")
        (tmp_path / "p.toml").write_text(wrong)
        for action in ("run", "verify", "status", "check"):
            said += commands(action, *(["--quiet"] if action == "run" else []), code=1)
    status = json.loads((tmp_path / "checkpoint" / "status.json").read_text())
    assert status["state"] == "failed"
    assert PASSWORD not in said + json.dumps(status)
