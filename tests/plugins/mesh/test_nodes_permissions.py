"""`sagent nodes permissions`: users are made, listed and removed, without a bus."""

from pathlib import Path

import pytest

from tests.cli.program import Shell


def test_users_are_made_listed_and_removed(shell: Shell) -> None:
    made = shell.run("nodes", "permissions", "--dir", "u", "--node", "n1", "--agent", "r=team.review,b", model="")
    assert made.code == 0, made.err
    assert "sagent bus --users" in made.err
    assert "team.review b" in made.out
    listed = shell.run("nodes", "permissions", "--dir", "u", "--json", model="").json
    users = listed["users"]
    assert isinstance(users, list)
    assert [(user["tenant"], user["name"], user["role"]) for user in users] == [
        ("main", "n1", "node"), ("main", "r", "agent"),
    ]  # fmt: skip
    seed = Path(users[0]["key_file"]).read_text().strip()
    assert seed.startswith("SU") and seed not in made.out + made.err
    assert shell.run("nodes", "permissions", "--dir", "u", "--remove", "n1", model="").code == 0
    assert Path(str(listed["configuration"])).read_text().count("nkey:") == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--node", "a b"], "not an address"),
        (["--agent", "x"], "NAME=ADDRESS"),
        (["--agent", "x=a..b"], "not an address"),
        (["--remove", "x"], "There is no user x"),
        (["--tenant", "a/b"], "valid tenant name"),
        (["--node", "a", "--person", "a"], "There is a user a"),
    ],
)
def test_invalid_user_changes_nothing(shell: Shell, argv: list[str], said: str) -> None:
    done = shell.run("nodes", "permissions", "--dir", "u", *argv, model="")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not list((shell.cwd / "u").glob("users.*"))
