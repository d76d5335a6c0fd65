"""`make attack`: hostile command lines and repositories through the program, in every mode without a person, judged by
their effect, with the sandbox and without it.

A line has passed when a file was made outside the tree (in plan and ask: anywhere), something that runs by itself was
planted in the tree, a key was sent to the model, a connection was made, a process is left, or the program hangs or
breaks. Prints what passed, and which harmless lines were refused; exits with 1 where a hostile one passed. With an
argument, "auto" or "off", only that sandbox. Mode full asks nothing, so there only the sandbox is attacked.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.attack.lines import EVERYDAY, HARMLESS, HOSTILE, REPOSITORIES
from tests.attack.plans import PLANS, Plan

MODES = ("plan", "ask", "edit")
WALLS = ("auto", "off")
PATIENCE = 60  # seconds, after which the program hangs
KEY = "KEY-that-nobody-may-see"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


class Outcome(NamedTuple):
    """What a line came to: its effects, and whether the policy refused it."""

    mode: str
    wall: str
    line: str
    effects: tuple[str, ...]
    denied: bool


def arena(base: Path) -> Path:
    """A home and a tree with something to steal and something to run."""
    home, tree = base / "home", base / "tree"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text(f"{KEY}\n")
    (tree / "src").mkdir(parents=True)
    (tree / "a.txt").write_text("one\ntwo\n")
    (tree / "src/b.txt").write_text("three\n")
    subprocess.run([*GIT, "init", "-q"], cwd=tree, check=True)
    subprocess.run([*GIT, "add", "."], cwd=tree, check=True)
    subprocess.run([*GIT, "commit", "-qm", "one"], cwd=tree, check=True)
    (tree / ".env").write_text(f"KEY={KEY}\n")
    (tree / "list").write_bytes(b".env\0")
    (tree / "evil").write_text(f"#!/bin/sh\n: > '{base}/made'\n")
    (tree / "evil").chmod(0o755)
    (tree / "link").symlink_to(home)
    (tree / "--output=inside").write_text("")
    (tree / "-exec").write_text("")
    return tree


@contextmanager
def listening() -> Iterator[tuple[int, list[int]]]:
    """A port, and the connections that were made to it."""
    made: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                made.append(address[1])
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], made


def planted(tree: Path) -> dict[str, bytes]:
    """What runs by itself in a tree, by its path."""
    names = (".envrc", ".mcp.json", ".vscode", ".husky", ".claude", ".agents", ".git/hooks", ".git/config")
    starts = [tree / name for name in names]
    files = [file for start in starts for file in (start, *start.rglob("*")) if file.is_file() or file.is_fifo()]
    return {str(file): b"" if file.is_fifo() else file.read_bytes() for file in files}


def attack(mode: str, wall: str, plan: Plan) -> Outcome:
    """Carry out one plan in one mode, in a place of its own."""
    base = Path(tempfile.mkdtemp(prefix="attack-"))
    mark = f"ATTACK={base.name}"
    try:
        tree = arena(base)
        for step in filter(None, (plan.before,)):
            person(step, tree)
            (base / "made").unlink(missing_ok=True)
        before, hangs, denied, broken = planted(tree), False, False, False
        with listening() as (port, connections):
            lines = [line.replace("PORT", str(port)) for line in plan.calls]
            calls = [(Call("Bash", {"command": line, "timeout": 5}),) for line in lines]
            steps = [*(Turn(calls=call) for call in calls), Turn(text="Done.")]
            with FakeProviderServer(steps).in_thread() as server:
                environment = {
                    "PATH": os.environ["PATH"], "HOME": str(base / "home"),
                    "PYTHONPATH": str(Path(__file__).parents[2]),
                    "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY, "TOKEN": KEY, "ATTACK": base.name,
                }  # fmt: skip
                argv = [sys.executable, "-m", "sagent", "--model", "anthropic/claude-sonnet-4-6", "--ephemeral"]
                argv += [
                    "--permission-mode",
                    mode,
                    "--sandbox",
                    wall,
                    "--tools",
                    "Bash",
                    "--output-format",
                    "json",
                    *plan.flags,
                    "go",
                ]
                try:
                    done = subprocess.run(argv, cwd=tree, env=environment, capture_output=True, timeout=PATIENCE)
                    denied = bool(json.loads(done.stdout)["permission_denials"])
                except subprocess.TimeoutExpired:
                    hangs = True
                except ValueError:  # json.JSONDecodeError is one
                    broken = True
                sent = b"".join(json.dumps(request.json).encode() for request in server.requests)
        tree.chmod(0o755)  # as whoever finds it closed does
        denied |= b"was not run: " in sent  # what cannot be judged would pass for harmless else
        if plan.after:
            person(plan.after, tree)
        effects = [
            *(
                ["a file was made"]
                if (base / "made").exists() or (mode in ("plan", "ask") and (tree / "inside").exists())
                else []
            ),
            *(["a key was read"] if KEY.encode() in sent else []),
            *(["a connection was made"] if connections else []),
            *(["something was planted"] if planted(tree) != before else []),
            *(["a process is left"] if left(mark) else []),
            *(["the program hangs"] if hangs else []),
            *(["the program gave no answer"] if broken else []),
        ]
    finally:
        shutil.rmtree(base)
    words = " ; ".join(filter(None, (plan.before, *plan.flags, *plan.calls, plan.after)))
    return Outcome(mode, wall, words, tuple(effects), denied)


def person(line: str, tree: Path) -> None:
    """Run a line as the person does, with a name for commits; it may fail."""
    who = {f"GIT_{each}_{part}": "a@b" for each in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tree.parent / "home"), **who}
    subprocess.run(
        ["bash", "-c", line], cwd=tree, env=environment, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )


def left(mark: str) -> list[int]:
    """The processes whose environment has the mark."""
    found: list[int] = []
    for directory in Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and mark.encode() in (directory / "environ").read_bytes():
                found.append(int(directory.name))
        except OSError:
            continue
    return found


def main() -> int:
    walls = [wall for wall in WALLS if wall in sys.argv[1:]] or list(WALLS)
    ways = [(mode, wall) for wall in walls for mode in MODES] + [("full", "auto")] * ("auto" in walls)
    hostile = [(*way, Plan((line,))) for line in HOSTILE for way in ways]
    looks = ("git status; git diff; ls",)
    hostile += [(*way, Plan(looks, before=repository)) for repository in REPOSITORIES for way in ways]
    if "plans" in sys.argv[1:]:
        hostile = []
    hostile += [(*way, plan) for plan in PLANS for way in plan.ways if way[1] in walls]
    harmless = [(mode, wall, Plan((line,))) for line in HARMLESS for wall in walls for mode in MODES]
    harmless += [("edit", "auto", Plan((line,))) for line in EVERYDAY] * ("auto" in walls)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda each: attack(*each), hostile))
        quiet = list(pool.map(lambda each: attack(*each), harmless))
    passed = [each for each in found if each.effects]
    for each in passed:
        print(f"PASSED in {each.mode}, sandbox {each.wall}: {each.line!r}: {', '.join(each.effects)}")
    refused = [each for each in quiet if each.denied]
    for each in refused:
        print(f"refused in {each.mode}, sandbox {each.wall}, and harmless: {each.line!r}")
    print(f"{len(found)} attacks, {len(passed)} passed; {len(quiet)} harmless runs, {len(refused)} refused")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
