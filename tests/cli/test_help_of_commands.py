"""The help of each subcommand and operation ends with two examples, and has one line for the flags of a run."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sagent.cli.flags import Parser, ParserExit, plugins_of
from sagent.cli.main import run, run_command
from sagent.plugin import Command

PLUGINS = plugins_of(["--no-plugins"])
COMMANDS = sorted(PLUGINS.named(Command))
LISTED = (
    *(("config", "stall_seconds"), ("plugin", "the core"), ("sessions", "No sessions in"), ("team", "code_review")),
    *(("mcp", "sagent mcp add NAME URL"), ("schedule", "There are no schedules")),
)
SHOWN = ("a2a", "completion", "import", "lab", "mesh")


def parser_of(words: Sequence[str]) -> Parser | None:
    """Write a command's help and return its parser, None for a family of commands."""
    try:
        assert run_command(PLUGINS, words[0], [*words[1:], "--help"]) == 0
    except ParserExit as ended:
        return ended.parser
    return None


def with_operations(name: str) -> Iterator[tuple[str, ...]]:
    """Yield a command's words, and those of its operations that have a help of their own."""
    yield (name,)
    parser = parser_of([name])
    for action in parser.positionals if parser else ():
        if action.dest == "operation":
            words = [(name, str(choice)) for choice in action.choices or ()]
            yield from (each for each in words if (inner := parser_of(each)) and inner.prog != f"sagent {name}")
            return


@pytest.mark.parametrize("name", COMMANDS)
def test_two_examples_end_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    every = [*with_operations(name)]
    for words in every:
        capsys.readouterr()
        parser = parser_of(words)
        above, _, end = capsys.readouterr().out.rpartition("\nexamples:\n")
        command = " ".join(("sagent", *words))
        examples = [line.partition("  # ")[0].strip() for line in end.splitlines()]
        assert len(examples) == 2, command
        assert all(f"{command} " in f"{line} " for line in examples)
        assert len(above.splitlines()) < 70, f"{command} lists the flags of every run"
        if parser is not None and len(every) == 1:
            known = {flag for action in parser.flags for flag in action.option_strings}
            flags = {
                word for line in examples for word in shlex.split(line.partition(command)[2]) if word.startswith("--")
            }
            assert flags <= known, command


def test_shared_flags_stay_flags(capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_of(["run"])
    assert parser is not None
    assert "--append-system" in {flag for action in parser.flags for flag in action.option_strings}
    assert "--append-system" not in capsys.readouterr().out
    assert all(action.help != "==SUPPRESS==" for action in parser.flags)  # completion shows it


@pytest.mark.parametrize(("name", "text"), LISTED)
def test_bare_command_lists(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in PLUGINS.named(Command):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        assert run([name]) == 0
        assert text in capsys.readouterr().out


@pytest.mark.parametrize("name", SHOWN)
def test_bare_command_shows_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in PLUGINS.named(Command):
        assert run([name]) == 0
        assert capsys.readouterr().out.rpartition("\nexamples:\n")[1]
