"""Commands in the sandbox, through the program: who is asked, what is refused, and what a need lets through."""

# JSON is read as what it must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportOptionalSubscript=false

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import CHECKOUT, PROGRAM, Outcome, Shell

from sagent.testing.server import Call, Turn
from tests.depth import later, slow
from tests.intact import faults

pytestmark = pytest.mark.needs("bwrap")


def bash(shell: Shell, command: str, *flags: str, **arguments: object) -> tuple[str, Outcome]:
    """What the model reads of one command, and how the program ended."""
    server = shell.serve([Turn(calls=(Call("Bash", {"command": command, **arguments}),)), Turn(text="Done.")])
    done = shell.run("--output-format", "json", *flags, "go")
    assert done.code == 0, done.err
    return json.dumps(server.requests[1].json["messages"][-1]), done


@later
def test_ignored_sigchld_loses_no_exit_code(shell: Shell) -> None:
    server = shell.serve([Turn(calls=(Call("Bash", {"command": "exit 7"}),)), Turn(text="Done.")])
    argv = ["bash", "-c", 'trap "" CHLD; exec "$@"', "bash", *PROGRAM, "--model", "claude-sonnet-4-6", "go"]
    done = subprocess.run(argv, cwd=shell.cwd, env=shell.environment, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 0
    assert "exit code 7" in json.dumps(server.requests[1].json["messages"][-1])
    lines = (file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists())
    assert not [line for line in lines if line.startswith(b"/usr/bin/bwrap") and os.fsencode(shell.cwd) in line]


@later
@pytest.mark.costly
@pytest.mark.parametrize("way", ["module", "", *(pytest.param(way, marks=slow) for way in (".", "below", "link"))])
def test_files_of_commands_are_not_imported(shell: Shell, way: str) -> None:
    below, link = shell.cwd / "below", shell.cwd.parent / "link"
    below.mkdir()
    link.symlink_to(shell.cwd)
    write = 'echo \'open(__file__ + "-ran", "w")\' | tee difflib.py below/difflib.py'  # which Edit imports
    edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
    calls = [
        Call("Bash", {"command": f"{write}; echo one > a.txt"}),
        Call("Read", {"file_path": "a.txt"}),
        Call("Edit", edit),
    ]
    shell.serve([*(Turn(calls=(call,)) for call in calls), Turn(text="Done.")])

    paths = {"module": str(CHECKOUT), "link": str(link)}
    environment = {**shell.environment, "PYTHONPATH": f"{paths.get(way, way)}:{CHECKOUT}"}
    program = [sys.executable, "-m", "sagent"] if way == "module" else [str(Path(sys.executable).with_name("sagent"))]
    argv = [*program, "--model", "claude-sonnet-4-6", "go"]
    done = subprocess.run(argv, cwd=shell.cwd, env=environment, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert (done.returncode, (shell.cwd / "a.txt").read_text()) == (0, "two\n")
    assert not list(shell.cwd.rglob("*-ran"))


@later
def test_session_in_workspace_is_read_only(shell: Shell) -> None:
    told = "cat s/root.jsonl; cat s/blobs/*"
    change = "echo >> s/root.jsonl; echo > s/blobs/new; mkdir s/root; rm -rf s; mv s t"
    commands = ("seq 20000", told, change)
    edit = Call("Write", {"file_path": "s/root/x.jsonl", "content": "x"})
    calls = [*(Call("Bash", {"command": command}) for command in commands), edit]
    server = shell.serve([*(Turn(calls=(call,)) for call in calls), Turn(text="Done.")])
    done = shell.run("--session", "s", "--output-format", "json", "go")
    assert done.code == 0, done.err
    _, read, _, written = (json.dumps(request.json["messages"][-1]) for request in server.requests[1:])
    assert "s/root.jsonl: No such file" in read
    assert "19999" in read  # a long output stays within reach
    assert "Permission denied" in written
    assert faults(shell.cwd / "s") == []
    assert "19999" in "".join(file.read_text() for file in (shell.cwd / "s" / "blobs").iterdir())


def denied(done: Outcome) -> bool:
    return bool(done.json["permission_denials"])


@pytest.fixture
def page() -> Iterator[int]:
    """The port of a server on the machine's own loopback."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"the-page")

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 -- as there
            del format

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.costly
@pytest.mark.parametrize("need", ["read:~", "write:.", "read:.", "write:src/..", "write:./"])
def test_granted_directory_keeps_keys_closed(shell: Shell, need: str) -> None:
    home = Path(shell.environment["HOME"])
    (home / ".ssh").mkdir(parents=True)
    for place in (home / ".ssh/id", shell.cwd / ".env"):
        place.write_text("secret-of-mine")
    for place in (shell.cwd / ".vscode", shell.cwd / "src"):
        place.mkdir()
    said, _ = bash(shell, "cat .env ~/.ssh/id; echo evil > .vscode/tasks.json", needs=[need], reason="I want it")
    assert "secret-of-mine" not in said
    assert not (shell.cwd / ".vscode/tasks.json").exists()


def test_edit_mode_asks_and_leaks_nothing(shell: Shell) -> None:
    home = Path(shell.environment["HOME"])
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("secret-of-mine")
    (home / "notes").write_text("a note")
    (shell.cwd / ".env").write_text("KEY=secret-of-mine")
    said, done = bash(shell, f"echo made > inside; echo out > {home}/out; cat ~/notes ~/.ssh/id .env; echo end")
    assert not denied(done)
    assert (shell.cwd / "inside").read_text() == "made\n"
    assert not (home / "out").exists()
    assert "a note" in said
    assert "secret-of-mine" not in said
    assert "end" in said


def test_plan_mode_commands_write_nothing(shell: Shell) -> None:
    said, done = bash(shell, "touch inside; echo ran", "--permission-mode", "plan")
    assert not denied(done)
    assert "ran" in said
    assert not (shell.cwd / "inside").exists()
    _, done = bash(shell, "touch inside", "--permission-mode", "plan", needs=[f"write:{shell.cwd}"], reason="x")
    assert denied(done)
    assert not (shell.cwd / "inside").exists()


@later
def test_ask_mode_and_no_sandbox_ask(shell: Shell) -> None:
    for flags in (("--permission-mode", "ask"), ("--sandbox", "off")):
        _, done = bash(shell, "touch inside", *flags)
        assert denied(done)
    assert not (shell.cwd / "inside").exists()


@later
@pytest.mark.parametrize(
    ("need", "rule"),
    [
        ("write:{out}", "Edit({out})"),
        ("read:{key}", "Read({key})"),
        ("all", "Unsandboxed(cat {key})"),
    ],
)
def test_need_is_granted_by_the_named_rule(shell: Shell, tmp_path: Path, need: str, rule: str) -> None:
    home = Path(shell.environment["HOME"])
    (home / ".ssh").mkdir(parents=True)
    out, key = tmp_path / "out", home / ".ssh/id"
    out.mkdir()
    key.write_text("the-key")
    need, rule = (text.format(out=out, key=key) for text in (need, rule))
    command = f"cp /etc/hostname {out}/made" if need.startswith("write") else f"cat {key}"
    said, done = bash(shell, command, needs=[need], reason="because")
    (denial,) = done.json["permission_denials"]
    assert "because" in denial["reason"]
    assert f"--allow '{rule}'" in denial["reason"]
    assert "the-key" not in said
    said, done = bash(shell, command, "--allow", rule, needs=[need], reason="because")
    assert not denied(done)
    assert (out / "made").exists() if need.startswith("write") else "the-key" in said


@later
def test_full_mode_grants_needs_sandbox_holds(shell: Shell, tmp_path: Path) -> None:
    _, done = bash(shell, f"touch {tmp_path}/made", "--permission-mode", "full")
    assert not denied(done)
    assert not (tmp_path / "made").exists()
    _, done = bash(shell, f"touch {tmp_path}/made", "--permission-mode", "full", needs=["all"], reason="x")
    assert not denied(done)
    assert (tmp_path / "made").exists()


@pytest.mark.plugin("network")
def test_host_is_reached_only_where_allowed(shell: Shell, page: int) -> None:
    command = f"curl -sS http://localhost:{page}/; curl -sS http://blocked.example/"
    said, _ = bash(shell, command)
    assert "the-page" not in said
    assert "no network" in said  # what it lacked
    said, done = bash(shell, command, "--allow-domains", f"localhost:{page}")
    assert not denied(done)
    assert "the-page" in said
    assert "network:blocked.example" in said
    said, done = bash(shell, command, needs=[f"network:localhost:{page}"], reason="x")
    assert denied(done)
    said, done = bash(
        shell, command, "--allow", f"Network(localhost:{page})", needs=[f"network:localhost:{page}"], reason="x"
    )
    assert "the-page" in said


def test_deny_rule_for_path_is_a_wall(shell: Shell) -> None:
    (shell.cwd / "secrets").mkdir()
    (shell.cwd / "secrets/k").write_text("the-key")
    (shell.cwd / "kept.lock").write_text("old")
    rules = ("--deny", "Read(secrets/**)", "--deny", "Edit(*.lock)")
    read = (
        "python3 -c \"import glob; print(open(glob.glob('sec*/k')[0]).read())\"; grep -r key . ; tar cf - . | strings"
    )
    said, _ = bash(shell, read, *rules)
    assert "the-key" not in said
    bash(shell, "find . -name '*.lock' | while read f; do echo new > $f; done; rm -rf kept.lock", *rules)
    assert (shell.cwd / "kept.lock").read_text() == "old"


@later
def test_commands_and_tools_share_one_tmp(shell: Shell) -> None:
    turns = [
        Turn(calls=(Call("Bash", {"command": "echo from-bash > /tmp/sagent-test-a"}),)),
        Turn(calls=(Call("Read", {"file_path": "/tmp/sagent-test-a"}),)),
        Turn(calls=(Call("Write", {"file_path": "/tmp/sagent-test-b", "content": "from-write"}),)),
        Turn(
            calls=(
                Call(
                    "Bash", {"command": "cat /tmp/sagent-test-b; cd /tmp && mkdir -p sagent-test-d && cd sagent-test-d"}
                ),
            )
        ),
        Turn(calls=(Call("Bash", {"command": "pwd && touch here && ls /tmp/sagent-test-d"}),)),
        Turn(text="Done."),
    ]
    server = shell.serve(turns)
    done = shell.run("--output-format", "json", "go")
    assert not denied(done)
    said = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "from-bash" in said[2]
    assert "from-write" in said[4]
    assert "/tmp/sagent-test-d\\nhere" in said[5]
    assert not Path("/tmp/sagent-test-a").exists()
    assert not Path("/tmp/sagent-test-b").exists()


@later
def test_server_is_reached_by_next_command(shell: Shell) -> None:
    turns = [
        Turn(calls=(Call("Bash", {"command": "python3 -m http.server 8123 >/dev/null 2>&1 & echo $! > pid"}),)),
        Turn(
            calls=(
                Call(
                    "Bash",
                    {"command": "curl -s --retry 20 --retry-connrefused -o x -w 'code %{http_code}' localhost:8123"},
                ),
            )
        ),
        Turn(calls=(Call("Bash", {"command": "kill $(cat pid) && echo ended"}),)),
        Turn(text="Done."),
    ]
    server = shell.serve(turns)
    assert shell.run("go").code == 0
    said = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "code 200" in said[2]
    assert "ended" in said[3]


@later
def test_planted_programs_are_not_run_outside(shell: Shell, tmp_path: Path) -> None:
    """Our own programs, git and ripgrep, run outside of the sandbox, and so do those that raise it."""
    own = shell.cwd / ".venv/bin"
    own.mkdir(parents=True)
    shell.environment["PATH"] = f"{own}:{shell.environment['PATH']}"
    program = f'#!/bin/sh\n: > "{tmp_path}/made-${{0##*/}}"\n'
    plant = "for p in rg git sh cat grep ls ps sleep nsenter unshare setpriv prlimit bwrap; do "
    plant += f"printf '%s' '{program}' > .venv/bin/$p; chmod +x .venv/bin/$p; done"
    export = "export PATH=$PWD/.venv/bin:$PATH RIPGREP_CONFIG_PATH=$PWD/x"
    searches = (Call("Grep", {"pattern": "made"}), Call("Glob", {"pattern": "**"}))
    turns = [
        Turn(calls=(Call("Bash", {"command": f"{plant}; {export}"}),)),
        Turn(calls=(*searches, Call("Bash", {"command": "true"}))),
        Turn(text="Done."),
    ]
    shell.serve(turns)
    assert shell.run("go").code == 0
    shell.serve([Turn(text="Again.")])
    assert shell.run("again").code == 0
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("made")] == []


@later
def test_worktree_commits_work_hooks_are_closed(shell: Shell, tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q", main], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], cwd=main, check=True)
    subprocess.run([*git, "worktree", "add", "-q", "-b", "topic", tree], cwd=main, check=True)
    shell.cwd = tree
    before = (main / ".git/config").read_bytes(), (tree / ".git").read_bytes()
    plants = ["echo x >> ../main/.git/config", "echo x > ../main/.git/hooks/pre-commit", "echo 'gitdir: x' > .git"]
    plants += ["echo x > $(git rev-parse --git-dir)/commondir", "echo x > $(git rev-parse --git-dir)/config.worktree"]
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two"
    bash(shell, f"{commit}; {'; '.join(plants)}; true")
    log = subprocess.run(["git", "log", "--format=%s", "topic"], cwd=main, capture_output=True, text=True, check=True)
    assert log.stdout.split() == ["two", "one"]
    assert before == ((main / ".git/config").read_bytes(), (tree / ".git").read_bytes())
    assert not (main / ".git/hooks/pre-commit").exists()
    assert (main / ".git/worktrees/tree/commondir").read_text() == "../..\n"
    assert not (main / ".git/worktrees/tree/config.worktree").exists()


@later
def test_undone_file_is_kept_where_told(shell: Shell) -> None:
    said, _ = bash(shell, "echo mine > .envrc")
    assert not (shell.cwd / ".envrc").exists()
    found = re.search(r" are in (\S+?), or", said)
    assert found
    (kept,) = Path(found[1]).glob(".envrc.undone-*")
    assert kept.read_text() == "mine\n"
    assert [place.name for place in Path(found[1]).parent.iterdir()] == ["put-back"]
    shutil.rmtree(Path(found[1]).parent)


@later
@pytest.mark.plugin("network")
def test_grant_of_one_command_is_its_own(shell: Shell, page: int) -> None:
    need = f"network:localhost:{page}"
    turns = [
        Turn(
            calls=(Call("Bash", {"command": f"echo $HTTP_PROXY > kept; curl -sS localhost:{page}", "needs": [need]}),)
        ),
        Turn(calls=(Call("Bash", {"command": f"curl -sS -x $(cat kept) localhost:{page}; echo tried"}),)),
        Turn(text="Done."),
    ]
    server = shell.serve(turns)
    assert shell.run("--permission-mode", "full", "go").code == 0
    said = [json.dumps(request.json["messages"][-1]) for request in server.requests]
    assert "the-page" in said[1]
    assert "tried" in said[2]
    assert "the-page" not in said[2]
