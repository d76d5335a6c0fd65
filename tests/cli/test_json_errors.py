"""Where JSON is asked for, an error is JSON too, on stdout; stderr has the sentence, and the exit code stays."""

import json
from pathlib import Path

import pytest
from program import Shell

RUNS = [
    ["--json", "--nonsense", "hello"],
    ["--output-format", "json", "--max-turns", "x", "hello"],
    ["--output-format=stream-json", "--effort"],
    ["--output-format", "stream-json", "--model", "nobody/x", "hello"],
    ["run", "--json", "--nonsense"],
    ["--json", "--continue", "--session", "x", "hello"],
    ["--json", "sesions", "list"],
    ["--json", "--tools", "default,nonsense", "hello"],
]
OTHERS = [
    ["sessions", "list", "--json", "--nonsense"],
    ["sessions", "show", "--json", "no-such-session"],
    ["sessions", "nonsense", "--json"],
    ["config", "--json", "--nonsense"],
    ["config", "show", "--json", "--nonsense"],
]


@pytest.mark.parametrize("argv", RUNS, ids=" ".join)
def test_run_reports_a_result(shell: Shell, argv: list[str]) -> None:
    done = shell.run(*argv, model="")
    assert done.code == 2
    (line,) = done.out.splitlines()
    told = json.loads(line)
    assert told["is_error"] is True
    assert told["error"]["kind"] in ("usage", "config")
    assert done.err.startswith("sagent: ")
    assert told["error"]["message"] in done.err


@pytest.mark.parametrize("argv", OTHERS, ids=" ".join)
def test_other_command_reports_one_object(shell: Shell, argv: list[str]) -> None:
    check_error(shell, argv)


def check_error(shell: Shell, argv: list[str]) -> None:
    """Check that a command's error is one object."""
    done = shell.run(*argv, model="")
    assert done.code in (1, 2)
    (line,) = done.out.splitlines()
    error = json.loads(line)["error"]
    assert error["message"] in done.err
    assert error["kind"]


@pytest.mark.parametrize(
    "argv", [["--nonsense"], ["sessions", "list", "--nonsense"], ["--output-format", "text", "--nonsense"]]
)
def test_without_json_stdout_stays_empty(shell: Shell, argv: list[str]) -> None:
    done = shell.run(*argv, model="")
    assert (done.code, done.out) == (2, "")


def test_words_after_two_dashes_are_no_flags(shell: Shell) -> None:
    done = shell.run("--nonsense", "--", "--json", model="")
    assert (done.code, done.out) == (2, "")


def test_variable_asks_for_json(shell: Shell) -> None:
    shell.environment["SAGENT_OUTPUT_FORMAT"] = "json"
    done = shell.run("--nonsense", "hello", model="")
    assert json.loads(done.out)["error"]["kind"] == "usage"


@pytest.mark.costly
@pytest.mark.parametrize("more", ["", "max_turns = 'x'\n", "nonsense = 1\n"])
def test_settings_file_asks_for_json(shell: Shell, more: str) -> None:
    file = Path(shell.environment["HOME"], ".config/sagent/config.toml")
    file.parent.mkdir(parents=True)
    file.write_text(f'output_format = "json"\n{more}')
    for argv in (["--nonsense", "hello"], ["--output-format", "text", "--nonsense"]):
        done = shell.run(*argv, model="")
        assert (done.code, bool(done.out)) == (2, "text" not in argv)
    if more.startswith("max"):
        assert json.loads(shell.run("hello", model="").out)["error"]["kind"] == "config"
