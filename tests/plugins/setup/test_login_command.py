"""`sagent login`: what is no login."""

from tests.cli.program import Shell


def test_impossible_login_explained(shell: Shell) -> None:
    asked = shell.run("login", "openai", model="")
    assert asked.code == 2
    assert "a terminal to enter the key on" in asked.err
    asked = shell.run("login", "nosuch", model="")
    assert asked.code == 2
    assert "'nosuch'" in asked.err and "The providers are anthropic" in asked.err
    host = shell.run("login", "openai", "--host", "x.example", model="")
    assert host.code == 2
