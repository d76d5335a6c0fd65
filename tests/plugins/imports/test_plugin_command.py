"""`sagent plugin`: what a folder or a repository brings is shown, copied and pinned, and used from then on."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from sagent.config.plugins import find_plugins
from sagent.plugins.imports.folders import fetched, install, read_plugin
from sagent.testing.server import Call, Turn
from tests.cli.program import Shell
from tests.depth import later

pytestmark = pytest.mark.plugin("authoring")

AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def write(path: Path, content: object, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plugin with one of each."""
    found = tmp_path / "demo"
    write(found / ".claude-plugin/plugin.json", {"name": "demo", "version": "1.2", "lspServers": "./lsp"})
    write(found / "skills/greet/SKILL.md", "---\ndescription: greets people\n---\nSay hello.")
    write(found / "agents/look.md", "---\nname: look\ndescription: looks at things\n---\nLook.")
    write(found / "commands/hello.md", "Say hello to $1.")
    handler = {"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}"/check.sh'}
    write(found / "hooks/hooks.json", {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler]}]}})
    write(found / "check.sh", "#!/bin/sh\ngrep -q touch && { echo no touching >&2; exit 2; }\nexit 0\n", 0o755)
    return found


def git(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, **AUTHOR}
    done = subprocess.run(
        ["git", "-C", directory, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def config_of(shell: Shell) -> Path:
    return Path(shell.environment["HOME"]) / ".config" / "sagent"


def test_plugin_added_only_with_yes(shell: Shell, folder: Path) -> None:
    done = shell.run("plugin", "add", str(folder), model="")
    assert done.code == 2 and "give --yes" in done.err
    for said in ("demo 1.2", "greet", "look", "hello", 'PreToolUse Bash: "${CLAUDE_PLUGIN_ROOT}"/check.sh'):
        assert said in done.out, done.out
    assert "lspServers in its manifest" in done.out
    assert not config_of(shell).exists()


def test_plugin_parts_used_until_removed(shell: Shell, folder: Path) -> None:
    added = shell.run("plugin", "add", str(folder), "--yes", model="")
    assert added.code == 0, added.err
    (pin,) = re.findall(r"pinned to sha256 (\w{12})", added.out)
    assert pin in shell.run("plugin", "list", model="").out  # of what was shown, not of what was made of it
    shown = shell.run("config", "show", model="")
    assert "PreToolUse Bash" in shown.out and "plugin: " in shown.out
    (config_of(shell) / "plugins/demo/more.txt").write_text("changed")
    server = shell.serve([Turn(text="", calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="One.")])
    done = shell.run("/demo:hello Ann")
    assert done.out == "One.\n" and "no touching" in done.err and not (shell.cwd / "made").exists(), done.err
    first = json.dumps(server.requests[0].json)
    assert (
        "Say hello to Ann." in first and "demo:greet: greets people" in first and "demo:look: looks at things" in first
    )
    listed = shell.run("plugin", "list", model="").out
    assert "demo" in listed and "1.2" in listed and "changed since it was added" in listed
    assert shell.run("plugin", "remove", "demo", model="").code == 0
    after = shell.run("plugin", "list", model="").out
    assert "1.2" not in after and pin not in after
    assert "PreToolUse" not in shell.run("config", "show", model="").out
    assert shell.run("plugin", "remove", "../x", model="").code == 2


@later
def test_repository_pinned_to_commit(shell: Shell, folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "tag", "v1")
    first = git(folder, "rev-parse", "HEAD")
    (folder / "commands/hello.md").write_text("Changed.")
    git(folder, "commit", "-q", "-am", "two")
    second = git(folder, "rev-parse", "HEAD")
    hook = folder / ".git/hooks/post-checkout"
    write(hook, f"#!/bin/sh\ntouch {folder}/ran\n", 0o755)
    for ref, commit, text in (("v1", first, "Say hello to $1."), ("main", second, "Changed.")):
        done = shell.run("plugin", "add", str(folder), "--ref", ref, "--yes", model="")
        assert done.code == 0 and f"pinned to {commit}" in done.out, done.err
        assert (config_of(shell) / "plugins/demo/commands/hello.md").read_text() == text
        listed = shell.run("plugin", "list", model="").out
        assert commit[:12] in listed and "changed" not in listed
        assert shell.run("plugin", "remove", "demo", model="").code == 0
    done = shell.run("plugin", "add", f"file://{folder}", "--yes", model="")
    assert done.code == 0 and second in done.out, done.err
    assert not (folder / "ran").exists()
    again = shell.run("plugin", "add", str(folder), "--ref", "nothing", "--yes", model="")
    assert again.code == 2 and f"{folder} has no" in again.err and "'nothing'" in again.err
    gone = shell.run("plugin", "add", f"file://{folder}/nowhere", "--yes", model="")
    assert gone.code == 2 and "/nowhere'" in gone.err and "git repository" in gone.err
    evil = shell.run("plugin", "add", "ext::sh -c 'touch ran%' .git", "--yes", model="")
    assert evil.code == 2 and not (shell.cwd / "ran").exists()


@pytest.mark.parametrize("what", ["a link", "a FIFO", "nothing", "a bad name", "bad hooks"])
def test_non_plugin_refused(what: str, shell: Shell, folder: Path, tmp_path: Path) -> None:
    match what:
        case "a link":
            (folder / "key").symlink_to("/etc/passwd")
        case "a FIFO":
            os.mkfifo(folder / "pipe")
        case "nothing":
            folder = tmp_path / "empty"
            folder.mkdir()
        case "bad hooks":
            write(folder / "hooks/hooks.json", {"hooks": {"Nothing": [{"hooks": []}]}})
        case _:
            write(folder / ".claude-plugin/plugin.json", {"name": "../x"})
    done = shell.run("plugin", "add", str(folder), "--yes", model="")
    assert done.code == 2, done.out
    assert not list(config_of(shell).glob("plugins/*"))


def test_added_plugin_is_as_shown(folder: Path, tmp_path: Path) -> None:
    with fetched(str(folder), "") as (shown, _):
        plugin = read_plugin(shown, "", find_plugins(tmp_path, tmp_path))
        write(folder / "check.sh", "#!/bin/sh\ntouch ran\n", 0o755)
        write(folder / "commands/hello.md", "!`touch ran`")
        added = install(plugin, shown, tmp_path / "config", {})
    assert "no touching" in (added / "check.sh").read_text() and os.access(added / "check.sh", os.X_OK)
    assert (added / "commands/hello.md").read_text() == "Say hello to $1."
