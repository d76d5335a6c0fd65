"""The examples of plugins do what they say."""

import hmac
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.depth import later

EXAMPLES = CHECKOUT / "examples/plugins"


def run(shell: Shell, name: str, *words: str) -> tuple[int, str, str]:
    done = shell.run("--plugin", str(EXAMPLES / f"{name}.py"), *words)
    return done.code, done.out, done.err


def test_example_subcommand_lists_lines(shell: Shell) -> None:
    (shell.cwd / "a.py").write_text("x = 1\ny = 2  # TODO: 3\n")
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/subcommand.py"
    file.parent.mkdir(parents=True)
    file.write_text((EXAMPLES / "subcommand.py").read_text())
    assert shell.run("notes", model="").out == "a.py:2: y = 2  # TODO: 3\n"
    assert shell.run("notes", "NONE", model="").code == 1


def test_example_listener_writes_costs(shell: Shell) -> None:
    shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    for _ in range(2):
        assert run(shell, "listener", "--spend-log", "spend.db", "hello")[1] == "Fine.\n"
    with closing(sqlite3.connect(shell.cwd / "spend.db")) as database:
        rows = database.execute("SELECT agent, stop, usd FROM runs").fetchall()
    assert [row[:2] for row in rows] == [("root", "end"), ("root", "end")]
    assert all(float(row[2]) > 0 for row in rows)


def test_example_tool_reports_progress(shell: Shell) -> None:
    (shell.cwd / "there").write_text("")
    call = Call("WaitForFile", {"file_path": "there"})
    server = shell.serve([Turn(calls=(call,)), Turn(text="Fine.")])
    assert run(shell, "tool", "hello")[1] == "Fine.\n"
    assert "there is there." in str(server.requests[1].json["messages"])


def test_example_policy_costs_counted(shell: Shell) -> None:
    command = Call("Bash", {"command": "touch made"})
    script = [
        Turn(calls=(command,)),
        Turn(text="It makes a file."),
        Turn(calls=(command,)),
        Turn(text="OK"),
        Turn(text="Fine."),
    ]
    server = shell.serve(script)
    code, out, _ = run(
        shell,
        "policy",
        "--reviewer",
        "anthropic/claude-haiku-4-5",
        "--allow",
        "Bash(touch:*)",
        "--sandbox",
        "off",
        "go",
    )
    assert (code, out) == (0, "Fine.\n")
    assert "It makes a file." in str(server.requests[2].json["messages"])
    assert server.requests[3].json["model"] == "claude-haiku-4-5"
    assert (shell.cwd / "made").exists()


def test_example_command_switches_branch(shell: Shell) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    first = (*who, "commit", "-q", "--allow-empty", "-m", "first")
    for words in (("init", "-q", "-b", "main"), first, ("branch", "other")):
        subprocess.run(["git", *words], cwd=shell.cwd, env=shell.environment, check=True)
    shell.serve([Turn(text="Fine.")])
    assert "On other." in run(shell, "slash_command", "/branch other")[1]
    shown = subprocess.run(
        ["git", "branch", "--show-current"], cwd=shell.cwd, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "other\n"
    code, _, err = run(shell, "slash_command", "/branch none")
    assert (code, "none" in err) == (2, True)
    assert "command: main, other" in run(shell, "slash_command", "/branch")[2]


@later
@pytest.mark.plugin("exports")
def test_example_export_in_both_places(shell: Shell) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    shell.serve([Turn(text="Fine.")])
    run(shell, "export_format", f"my key is {secret}")
    file = Path(shell.environment["HOME"]) / ".config/sagent/plugins/export_format.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text((EXAMPLES / "export_format.py").read_text())
    assert "chat: roles and contents" in " ".join(shell.run("export", "--help", model="").out.split())
    done = shell.run("export", "--format", "chat", "--out", "-", model="")
    assert [row["role"] for row in json.loads(done.out)["messages"]] == ["user", "assistant"]
    assert secret not in done.out
    assert "1 secret taken out" in done.err
    shell.run("--continue", "/export chat")
    (written,) = shell.cwd.glob("*.json")
    assert json.loads(written.read_text())["messages"][1]["content"] == "Fine."
    shell.run("--continue", "/export cast")
    assert len(list(shell.cwd.glob("*.cast"))) == 1


def test_example_providers_by_row_and_class(shell: Shell) -> None:
    server = shell.serve([Turn(text="Fine."), Turn(text="Fine.")])
    shell.environment |= {
        "ACME_API_KEY": "k" * 8,
        "ACME_BASE_URL": server.url,
        "SIGNED_SECRET": "secret",
        "SIGNED_BASE_URL": server.url,
    }
    assert run(shell, "provider", "--model", "acme-large", "hello")[1] == "Fine.\n"
    assert run(shell, "provider", "--model", "signed/large", "hello")[1] == "Fine.\n"
    sent = [(request.json["model"], request.headers["authorization"]) for request in server.requests]
    assert [each[0] for each in sent] == ["acme-large", "large"]
    assert sent[0][1] == f"Bearer {'k' * 8}"
    now, _, signature = sent[1][1].removeprefix("Signature ").partition(":")
    assert signature == hmac.digest(b"secret", now.encode(), "sha256").hex()


@later
def test_example_trigger_asks_advisor(shell: Shell) -> None:
    writes = tuple(Call("Write", {"file_path": f"{name}.txt", "content": name}) for name in "abcde")
    script = [Turn(calls=writes), Turn(text="VERDICT: proceed\nGo on."), Turn(text="Fine.")]
    server = shell.serve(script)
    words = ("--advisor", "anthropic/claude-opus-4-6", "--advisor-mode", "client", "go")
    assert run(shell, "trigger", *words)[:2] == (0, "Fine.\n")
    assert "5 files were changed in this task" in str(server.requests[1].json["messages"])
    assert server.requests[1].json["model"] == "claude-opus-4-6"
    shell.environment["SAGENT_ADVISOR_TRIGGERS"] = "failures"
    server = shell.serve([Turn(calls=writes), Turn(text="Fine.")])
    assert run(shell, "trigger", *words)[:2] == (0, "Fine.\n")
    shell.environment["SAGENT_ADVISOR_TRIGGERS"] = "many_file"
    code, _, err = run(shell, "trigger", *words)
    assert (code, "many_files" in err) == (2, True)


def spend(shell: Shell, *words: str) -> tuple[int, str, int]:
    """Run once; return the exit code, what was said, and the output that the first call was allowed (0: no call)."""
    server = shell.serve([Turn(text="Fine.")])
    code, _, err = run(shell, "team_budget", *words, "hello")
    return code, err, int(str(server.requests[0].json["max_tokens"])) if server.requests else 0


@later
def test_example_budget_shared_by_runs(shell: Shell) -> None:
    settings = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('team_budget = ["search=1", "web=0.25"]\n')
    assert spend(shell, "--bill-to", "search")[0] == 0
    (file,) = Path(shell.environment["HOME"]).rglob("team_budget.db")
    with closing(sqlite3.connect(file)) as database:
        [(team, usd)] = database.execute("SELECT team, usd FROM spent").fetchall()
        assert team == "search" and 0 < float(usd) < 1
        with database:
            database.execute("INSERT INTO spent VALUES ('web', '0.20')")

    search = spend(shell, "--bill-to", "search")[2]
    assert 0 < spend(shell, "--bill-to", "web", "--max-budget-usd", "1")[2] < search, "what is left lowers the cap"
    assert 0 < spend(shell, "--bill-to", "search", "--max-budget-usd", "0.04")[2] < search, "but does not raise it"
    assert spend(shell) == (2, "sagent: Say who pays, with --bill-to: search, web.\n", 0)
    assert "Say who pays" in spend(shell, "--bill-to", "webb")[1]

    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO spent VALUES ('web', '0.05')")
    assert spend(shell, "--bill-to", "web") == (2, "sagent: The budget of the team web, $0.25, is used up.\n", 0)
    assert spend(shell, "--continue", "--bill-to", "search")[0] == 0
    file.write_text("no database at all")
    assert "cannot be read" in spend(shell, "--bill-to", "search")[1]
