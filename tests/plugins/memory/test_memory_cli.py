"""The memory in the program: kept by file tools, named in new sessions' prompts, shown and forgotten by a command."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from sagent.config import load
from sagent.lib.json import as_array, as_object, as_str
from sagent.plugins.memory.notes import folders
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.cli.program import Outcome, Shell
from tests.depth import later


def person(shell: Shell, text: str) -> None:
    file = Path(shell.environment["HOME"]) / ".config" / "sagent" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def folder(shell: Shell, owner: str = "project") -> Path:
    home = Path(shell.environment["HOME"])
    found = folders(load({"cwd": str(shell.cwd)}, shell.environment, shell.cwd))[owner]
    assert found.is_relative_to(home)
    return found


def prompt(server: FakeProviderServer, number: int = -1) -> str:
    return json.dumps(server.requests[number].json["system"], ensure_ascii=False)


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.err
    return outcome


def note(shell: Shell, name: str, text: str, owner: str = "project") -> Path:
    path = folder(shell, owner) / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_note_kept_listed_and_forgotten(shell: Shell) -> None:
    path = folder(shell) / "build.md"
    writes = Turn(
        calls=(Call("Write", {"file_path": str(path), "content": "# Build with `make all`\n\nNever alone.\n"}),)
    )
    reads = Turn(calls=(Call("Read", {"file_path": str(path)}),))
    server = shell.serve([writes, Turn(text="Kept."), Turn(text="On."), reads, Turn(text="Read."), Turn(text="Off.")])
    person(shell, "memory = true\n")
    assert done(shell.run("keep it")).out == "Kept.\n"
    assert path.read_text().startswith("# Build") and path.parent.stat().st_mode & 0o777 == 0o700
    assert f"Of this project: {path.parent}" in prompt(server) and "no notes yet" in prompt(server)
    done(shell.run("--continue", "go on"))
    assert prompt(server) == prompt(server, 0)  # not one byte of the prefix has changed
    assert done(shell.run("what is known?")).out == "Read.\n"
    assert "- build.md: Build with `make all`" in prompt(server) and "not instructions" in prompt(server)
    assert "Never alone" in json.dumps(server.requests[-1].json["messages"])
    assert "project/build.md" in done(shell.run("--continue", "/memory")).out
    assert "Never alone." in done(shell.run("--continue", "/memory show build")).out
    assert "no terminal for an editor" in shell.run("--continue", "/memory edit build").err
    assert "Deleted project/build.md" in done(shell.run("--continue", "/memory forget build")).out
    assert not path.exists()
    assert "has no note 'build'" in shell.run("--continue", "/memory forget build").err
    done(shell.run("and now?"))
    assert "build.md" not in prompt(server)


@pytest.mark.plugin("branches")
def test_subagent_notes_rewound(shell: Shell) -> None:
    path = folder(shell) / "build.md"
    writes = Call("Write", {"file_path": str(path), "content": "Build with make\n"})
    spawns = Call("AgentSpawn", {"name": "kid", "prompt": "keep it"})
    shell.serve([Turn(calls=(spawns,)), Turn(calls=(writes,)), Turn(text="Kept."), Turn(text="Done.")])
    person(shell, "memory = true\n")
    assert done(shell.run("--tools", "Write,AgentSpawn", "keep it")).out == "Done.\n"
    assert path.read_text() == "Build with make\n"
    assert "1 deleted" in done(shell.run("--continue", "/rewind 1 files")).out
    assert not path.exists()


@later
def test_disabled_memory_costs_nothing(shell: Shell) -> None:
    server = shell.serve([Turn(text="Hi.")] * 3)
    note(shell, "build", "Build with make\n")
    done(shell.run("hi"))
    person(shell, "memory = true\n")
    done(shell.run("--ephemeral", "hi"))
    assert server.requests[0].json["system"] == server.requests[1].json["system"]
    assert "Memory" not in prompt(server, 0)
    assert "memory = true in your config" not in done(shell.run("/memory")).out
    (shell.cwd / ".sagent").mkdir()
    person(shell, "")
    (shell.cwd / ".sagent" / "config.toml").write_text("memory = true\n")  # a project cannot have one kept
    assert "memory" in done(shell.run("hi")).err and "Memory" not in prompt(server)
    assert "memory = true in your config" in done(shell.run("/memory")).out


def test_index_bounded_without_secrets(shell: Shell) -> None:
    server = shell.serve([Turn(text="Hi.")])
    person(shell, "memory = true\n")
    for number in range(45):
        path = note(shell, f"n{number}", "word " * 100, "person" if number % 2 else "project")
        os.utime(path, (number, number))
    note(shell, "zkey", "\n\n## uses sk-ant-api03-" + "x1Y2z3" * 8)
    (folder(shell) / "run.sh").write_text("Not a note")
    (folder(shell) / "linked.md").symlink_to("/etc/passwd")
    done(shell.run("hi"))
    index = server.requests[0].json["system"]
    text = index if isinstance(index, str) else "".join(as_str(as_object(part)["text"]) for part in as_array(index))
    lines = [line for line in text.splitlines() if line.startswith("- ") and ".md: " in line]
    assert len(lines) == 40 and max(map(len, lines)) == 200
    assert "- n5.md" not in text and "- n6.md" in text and "At most 40 notes" in text
    assert "- zkey.md: uses [redacted" in text and "x1Y2z3" not in text
    assert "run.sh" not in text and "linked.md" not in text


@later
def test_project_notes_and_shared_notes(shell: Shell) -> None:
    server = shell.serve([Turn(text="Hi.")] * 2)
    person(shell, "memory = true\n")
    subprocess.run(["git", "init", "-q", shell.cwd], check=True)
    mine, everywhere = note(shell, "same", "Of here"), note(shell, "same", "Of all", "person")
    (shell.cwd / "deep").mkdir()
    done(shell.run("--cwd", "deep", "hi"))  # the repository is the project
    assert "same.md: Of here" in prompt(server) and "same.md: Of all" in prompt(server)
    assert "project/same.md or person/same.md" in shell.run("/memory forget same").err
    assert mine.exists() and everywhere.exists()
    done(shell.run("/memory forget person/same"))
    assert mine.exists() and not everywhere.exists()
    (shell.cwd.parent / "elsewhere").mkdir()
    done(shell.run("--cwd", str(shell.cwd.parent / "elsewhere"), "hi"))
    assert "same.md" not in prompt(server)


@pytest.mark.needs("bwrap")
def test_sandboxed_commands_cannot_see_notes(shell: Shell) -> None:
    path = note(shell, "build", "Build with make\n")
    look = Turn(calls=(Call("Bash", {"command": f"cat {path}; echo x > {path.parent}/b.md; echo looked"}),))
    server = shell.serve([look, Turn(text="Hi.")])
    person(shell, "memory = true\n")
    done(shell.run("hi"))
    said = json.dumps(server.requests[-1].json["messages"])
    assert "looked" in said and "Build with make" not in said
    assert not (path.parent / "b.md").exists()
