"""`make attack`: hostile command lines and repositories through the program, in every mode without a person, judged by
their effect, with the sandbox and without it.

Also providers whose replies are cut, report no usage or refuse a part of a request (with the program doing whatever a
model asks), requests of others to our servers, and Landlock in place of bubblewrap.

A line has passed when a file was made outside the tree (in plan and ask: anywhere), something that runs by itself was
planted in the tree, a key was sent to the model, a connection was made, a process is left, or the program hangs or
breaks. Prints what passed, and which harmless lines were refused; exits with 1 where a hostile one passed. Mode full
asks nothing, so there only the sandbox is attacked.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sagent.sandbox.landlock import available
from sagent.sandbox.probe import Confinement, keep
from sagent.testing.server import Call, FakeProviderServer, Turn
from tests.attack import cut, doors, homes, kernel, money, parts, repositories, rules, steps
from tests.attack.kernel import FULL
from tests.attack.lines import EVERYDAY, HARMLESS, HOSTILE, REPOSITORIES
from tests.attack.plans import EDIT, KEY, MAX_RUN_SECONDS, PLANS, Attempt, Plan
from tests.forks import CHECKOUT, Forks
from tests.listening import lasting_port

MODES = ("plan", "ask", "edit", "auto")
YES = Turn(text="ALLOW: whatever it is")  # what the reviewer of mode auto says to everything
WALLS = ("auto", "off", "landlock")  # "landlock" is "auto" on a machine where bubblewrap was found not to work
PROGRESS_RUNS = 50
ALONE = "/proc|PPID"  # a fork shows another environment there, and has another parent
SEVERAL = (*PLANS, *repositories.PLANS, *kernel.PLANS, *rules.PLANS, *homes.PLANS, *steps.PLANS)
ATTEMPTS = (*cut.ATTEMPTS, *money.ATTEMPTS, *parts.ATTEMPTS, *doors.ATTEMPTS)
CONTROLS = (*cut.CONTROLS, *money.CONTROLS)
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


class Run(NamedTuple):
    """A plan in one mode and one sandbox, or an attempt, which has its own."""

    mode: str
    wall: str
    plan: Plan | Attempt
    hostile: bool = False


class Outcome(NamedTuple):
    """The effects of a run, and whether the policy refused one of its lines."""

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


def without_bubblewrap(base: Path) -> None:
    """Have Landlock found as the sandbox, and no file that it cannot hide: each command would be asked about."""
    (base / "tree/.env").unlink(missing_ok=True)
    (base / "tree/list").unlink(missing_ok=True)
    (base / "home/.local/state/sagent").mkdir(parents=True, exist_ok=True)
    keep(base / "home/.local/state/sagent", Confinement("landlock"))


@contextmanager
def listening(base: Path) -> Generator[tuple[int, list[str]]]:
    """A port of TCP and UDP, and what came to it, to sockets in the file system, or to ones with an abstract name."""
    made: list[str] = []
    unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
    bound = [(unix, stream, f"{base}/{name}") for name in ("agent.sock", "tree/dev.sock")]
    bound += [(unix, datagram, f"{base}/tree/log.sock")]
    if sys.platform == "linux":
        bound += [(unix, stream, f"\0{base.name}"), (unix, datagram, f"\0{base.name}-log")]

    def attend(server: socket.socket, kind: int) -> None:
        while True:
            try:
                made.append(str(server.accept()[1] if kind == stream else server.recv(9)))
            except OSError:
                return

    with ExitStack() as stack:
        servers = [(stack.enter_context(each), each.type) for each in pair_of_ports()]
        for family, kind, address in bound:
            server = stack.enter_context(socket.socket(family, kind))
            server.bind(address)
            servers.append((server, kind))
        for server, kind in servers:
            if kind == stream:
                server.listen()
            threading.Thread(target=attend, args=(server, kind), daemon=True).start()
        yield servers[0][0].getsockname()[1], made


def pair_of_ports() -> tuple[socket.socket, socket.socket]:
    """Bind one port for TCP and UDP that nobody else has: to one that was another's, others may come."""
    while True:
        pair = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        address = ("127.0.0.1", lasting_port())
        try:
            for server in pair:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(address)
        except OSError:
            for server in pair:
                server.close()
        else:
            return pair


def planted(tree: Path) -> dict[str, bytes]:
    """What runs by itself in a tree, by its path."""
    names = (".envrc", ".mcp.json", ".vscode", ".husky", ".claude", ".agents", ".git/hooks", ".git/config")
    starts = [tree / name for name in names]
    files = [file for start in starts for file in (start, *start.rglob("*")) if file.is_file() or file.is_fifo()]
    return {str(file): b"" if file.is_fifo() else file.read_bytes() for file in files}


def run_alone(
    *argv: str, cwd: Path, environment: Mapping[str, str], database: Path | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Start the program as a user does; with `database` among users that it names."""
    words = homes.command_line(database, *argv) if database else [sys.executable, "-m", "sagent", *argv]
    none = subprocess.DEVNULL
    return subprocess.run(
        words, cwd=cwd, env=environment, stdin=none, capture_output=True, timeout=MAX_RUN_SECONDS, check=False
    )


def _command(line: str) -> Call:
    return Call("Bash", {"command": line, "timeout": 5})


def attack(run: Run, forks: Forks) -> Outcome:
    """Carry out one plan in one mode, in a place of its own."""
    mode, wall, plan, _ = run
    is_apart = isinstance(plan, Plan) and bool(plan.account)  # of temporary files a box has its own
    base = Path(tempfile.mkdtemp(prefix=".sagent-test-" if is_apart else "attack-", dir=CHECKOUT if is_apart else None))
    if isinstance(plan, Attempt):
        try:
            effects = tuple(plan.effects(base, forks))
            return Outcome(effects, denied=bool(effects))
        except subprocess.TimeoutExpired:
            return Outcome(("the program hangs",), denied=False)
        finally:
            shutil.rmtree(base)
    mark = f"ATTACK={base.name}"
    try:
        tree = arena(base)
        if plan.before:
            person(plan.before, tree)
            (base / "made").unlink(missing_ok=True)
        if wall == "landlock":
            without_bubblewrap(base)
        before, hangs, denied, broken, escaped, sent = planted(tree), False, False, False, False, b""
        start = run_alone if re.search(ALONE, plan.words) else partial(forks.run, patience=MAX_RUN_SECONDS)
        if plan.account:
            start = partial(run_alone, database=homes.furnish(base, plan.account))
        with listening(base) as (port, connections):
            sessions = [plan.earlier, plan.calls] if plan.earlier else [plan.calls]
            for lines in sessions:
                calls = [_command(call.replace("PORT", str(port))) if isinstance(call, str) else call for call in lines]
                tools = dict.fromkeys(("Bash", *(call.name for call in calls)))
                turns = [*(Turn(calls=(call,)) for call in calls), Turn(text="Done.")]
                reviewing = FakeProviderServer((YES,), repeat_last=True).in_thread()
                with FakeProviderServer(turns).in_thread() as server, reviewing as reviewer:
                    environment = {
                        "PATH": os.environ["PATH"], "HOME": str(base / "home"),
                        "PYTHONPATH": str(Path(__file__).parents[2]),
                        "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY, "TOKEN": KEY, "ATTACK": base.name,
                        "SSH_AUTH_SOCK": f"{base}/agent.sock", "DOCKER_HOST": f"unix://{base}/agent.sock",
                        "OPENAI_BASE_URL": f"{reviewer.url}/v1", "OPENAI_API_KEY": "k",
                    }  # fmt: skip
                    if plan.account:
                        name, _, value = plan.account.partition("=")
                        environment.setdefault(name, str((tree / value).resolve()) if "/" in value else value)
                    argv = ["--model", "anthropic/claude-sonnet-4-6", "--output-format", "json"]
                    argv += ["--permission-mode", mode, "--sandbox", "off" if wall == "off" else "auto"]
                    argv += ["--tools", ",".join(tools), "--approval-reviewer", "openai/gpt-5.4"]
                    argv += [*([] if plan.is_kept else ["--ephemeral"]), *plan.flags, plan.prompt]
                    try:
                        done = start(*argv, cwd=tree, environment=environment)
                        said = json.loads(done.stdout)
                        denied = bool(said["permission_denials"])
                        escaped = wall == "landlock" and said.get("sandbox", wall) != wall
                    except subprocess.TimeoutExpired:
                        hangs = True
                    except ValueError:  # json.JSONDecodeError is one
                        broken = True
                    requests = (*server.requests, *reviewer.requests)
                    sent += b"".join(json.dumps(request.json).encode() for request in requests)
        tree.chmod(0o755)  # as whoever finds it closed does
        denied |= b"was not run: " in sent  # what cannot be judged would pass for harmless else
        if plan.after:
            person(plan.after, tree)
        now = planted(tree)  # what is gone runs nothing: Landlock lets a command move a repository away
        is_planted = not now.items() <= before.items() if wall == "landlock" else now != before
        effects = [
            *(
                ["a file was made"]
                if (base / "made").exists() or (mode in ("plan", "ask") and (tree / "inside").exists())
                else []
            ),
            *(["a key was read"] if KEY.encode() in sent else []),
            *(["a connection was made"] if connections else []),
            *(["something was planted"] if is_planted else []),
            *(["a process is left"] if left(mark) else []),
            *(["the program hangs"] if hangs else []),
            *(["the program gave no answer"] if broken else []),
            *(["another sandbox was used"] if escaped else []),
        ]
    finally:
        shutil.rmtree(base)
    return Outcome(tuple(effects), denied)


def person(line: str, tree: Path) -> None:
    """Run a line as the person does, with a name for commits; it may fail."""
    who = {f"GIT_{each}_{part}": "a@b" for each in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tree.parent / "home"), **who}
    argv, nothing = ["timeout", "-k1", "30", "bash", "-c", line], subprocess.DEVNULL
    subprocess.run(argv, cwd=tree, env=environment, stdin=nothing, stdout=nothing, stderr=nothing, check=False)


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


def runs(walls: Sequence[str], only_plans: bool) -> list[Run]:
    """Return all hostile runs, then all harmless ones."""
    ways = [(mode, wall) for wall in walls if wall != "landlock" for mode in MODES] + [("full", "auto")] * (
        "auto" in walls
    )
    lines = [Plan((line,)) for line in HOSTILE]
    lines += [Plan(("git status; git diff; ls",), before=repository) for repository in REPOSITORIES]
    hostile = [Run(*way, plan, hostile=True) for plan in lines for way in ways] * (not only_plans)
    hostile += [Run(*way, plan, hostile=True) for plan in SEVERAL for way in plan.ways if way[1] in walls]
    hostile += [Run("auto", "auto", each, hostile=True) for each in SEVERAL if EDIT[0] in each.ways and "auto" in walls]
    if "landlock" in walls:
        held = (*([] if only_plans else lines), *(plan for plan in SEVERAL if plan.ways in (EDIT, FULL)))
        held = [plan for plan in held if "/cmdline" not in plan.words]  # it hides no arguments of other processes
        hostile += [Run("full", "landlock", plan, hostile=True) for plan in held]
    hostile += [Run("full", "off", attempt, hostile=True) for attempt in ATTEMPTS] * ("off" in walls)
    harmless = [Run(mode, wall, Plan((line,))) for line in HARMLESS for wall in walls for mode in MODES]
    harmless += [Run("full", "off", attempt) for attempt in CONTROLS] * ("off" in walls)
    return hostile + harmless + [Run("edit", "auto", Plan((line,))) for line in EVERYDAY] * ("auto" in walls)


def missing() -> Iterator[tuple[str, Callable[[Run], bool]]]:
    """Yield why runs cannot be tried on this machine, and which these are."""
    if why := available():
        yield f"what Landlock holds: {why}", lambda run: run.wall == "landlock"
    if not homes.can_have_others():
        reason = "keys in other homes: no process can be given another user database"
        yield reason, lambda run: isinstance(run.plan, Plan) and bool(run.plan.account)
    if find_spec("botocore") is None:
        yield "replies of Bedrock: botocore is not installed", lambda run: "converse" in run.plan.words


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("sandbox", nargs="?", choices=WALLS, help="attack only this one")
    parser.add_argument("--plans", action="store_true", help="of the hostile lines, only the plans of several")
    parser.add_argument("--mode", default="", choices=(*MODES, "full"), help="attack only in this one")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every Nth run, from the Kth on")
    return parser.parse_args()


def main() -> int:
    """Attack, and say what passed as soon as it is known."""
    given = options()
    part, parts = map(int, given.part.split("/"))
    lacking = [*missing()]
    for words, _ in lacking:
        print(f"left out: {words}")
    every = runs([given.sandbox] if given.sandbox else WALLS, given.plans)
    every = [run for run in every if given.mode in ("", run.mode)]
    todo = [run for run in every if not any(needs(run) for _, needs in lacking)][part - 1 :: parts]
    passed = refused = 0
    with closing(Forks()) as forks, ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        begun = {pool.submit(attack, run, forks): run for run in todo}
        for number, future in enumerate(as_completed(begun), 1):
            run, (effects, denied) = begun[future], future.result()
            if run.hostile and effects:
                passed += 1
                print(f"PASSED in {run.mode}, sandbox {run.wall}: {run.plan.words!r}: {', '.join(effects)}", flush=True)
            elif denied and not run.hostile:
                refused += 1
                print(f"refused in {run.mode}, sandbox {run.wall}, and harmless: {run.plan.words!r}", flush=True)
            if number % PROGRESS_RUNS == 0:
                print(f"{number} of {len(todo)}", flush=True)
    attacks = sum(run.hostile for run in todo)
    print(f"{attacks} attacks, {passed} passed; {len(todo) - attacks} harmless runs, {refused} refused")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
