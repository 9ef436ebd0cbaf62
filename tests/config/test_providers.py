"""config.providers: values in files, directories and the environment."""

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.providers import resolved
from kwire.config.settings import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "file, env,dir",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
    "config.providers.env.param.allowlist.pattern": "KWIRE_.*",
}


@pytest.fixture
def secrets(tmp_path):
    """A file of properties, which is a file of a directory too."""
    path = tmp_path / "secrets"
    path.touch(mode=0o600)
    path.write_text("one=hush\ntwo=${file:x:y}\n")
    return path


def _resolved(text, environment=None, **more):
    given = {**PROVIDERS, **more, "ssl.key.password": text}
    return resolved(given, environment or {})["ssl.key.password"]


def test_references_stand_for_values(secrets):
    """One or several, with text around them; what they give isn't looked through again."""
    assert _resolved(f"${{file:{secrets}:one}}") == "hush"
    assert _resolved(f"<${{file:{secrets}:one}}-${{env:KWIRE_X}}>", {"KWIRE_X": "y"}) == "<hush-y>"
    assert _resolved(f"${{file:{secrets}:two}}") == "${file:x:y}"
    assert _resolved(f"${{dir:{secrets.parent}:secrets}}").startswith("one=hush")
    assert _resolved("${other:x} $x ${x}") == "${other:x} $x ${x}"


def test_a_broker_reads_them_when_it_starts(secrets):
    """Also in the settings of one listener."""
    config = BrokerConfig.load({**PROVIDERS, "ssl.key.password": f"${{file:{secrets}:one}}"})
    assert config["ssl.key.password"] == "hush"
    assert (
        BrokerConfig.load({"ssl.key.password": "${file:x:y}"})["ssl.key.password"] == "${file:x:y}"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${file:FILE:three}", "there is no such value"),
        ("${file:/no/such:x}", "cannot read /no/such"),
        ("${env:PATH}", "there is no such value"),
        ("${env:KWIRE_Z}", "there is no such value"),
        ("${dir:DIRECTORY:..}", "there is no such value"),
        ("${dir:DIRECTORY:../secrets}", "there is no such value"),
    ],
)
def test_a_value_that_is_not_there(secrets, text, problem):
    """The error names the reference, and nothing of what the file has."""
    text = text.replace("FILE", str(secrets)).replace("DIRECTORY", str(secrets.parent))
    with pytest.raises(ConfigError, match=problem) as caught:
        _resolved(text, {"PATH": "hush"})
    assert "hush" not in str(caught.value)


def test_files_outside_the_allowed_paths_and_files_for_everybody(secrets, tmp_path):
    """Both are refused."""
    allowed = {"config.providers.file.param.allowed.paths": str(tmp_path / "other")}
    with pytest.raises(ConfigError, match=r"outside param\.allowed\.paths"):
        _resolved(f"${{file:{secrets}:one}}", **allowed)
    allowed = {"config.providers.file.param.allowed.paths": f"/x, {tmp_path}"}
    assert _resolved(f"${{file:{secrets}:one}}", **allowed) == "hush"
    secrets.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod o-rwx"):
        _resolved(f"${{file:{secrets}:one}}")


def test_a_class_that_kwire_does_not_know():
    """It loads no Java classes."""
    with pytest.raises(ConfigError, match=r"config\.providers\.x\.class: must be one of"):
        resolved({"config.providers": "x", "config.providers.x.class": "a.B"})
