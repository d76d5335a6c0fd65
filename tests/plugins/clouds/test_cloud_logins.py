"""Logins of clouds that are on a machine are named by `sagent doctor`, and offered by /setup."""

from pathlib import Path

from tests.cli.program import Shell


def test_logins_of_clouds_are_found(shell: Shell) -> None:
    home = Path(shell.environment["HOME"])
    assert "--provider bedrock" not in shell.run("doctor", model="").out
    for name in (".aws/config", ".config/gcloud/application_default_credentials.json"):
        (home / name).parent.mkdir(parents=True)
        (home / name).touch()
    said = shell.run("doctor", model="").out
    assert f"{home / '.aws/config'}" in said and "--provider bedrock" in said
    assert "--provider vertex" in said
    shell.environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(home / "none.json")
    shell.environment["AWS_CONFIG_FILE"] = str(home / "none")
    said = shell.run("doctor", model="").out
    assert "--provider bedrock" not in said and "--provider vertex" not in said
