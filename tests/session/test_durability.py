"""`kill -9` at random moments of a busy tree: what was told to somebody is in the logs, and the session goes on.

A few kills in the ordinary suite, forty in `make test-all`.
"""

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.session.entries import read_body
from sagent.session.folds import spend
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import log_files
from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn
from tests.depth import deep
from tests.intact import faults
from tests.warm import STATE, warm

CHECKOUT = Path(__file__).parents[2]
KILLS = deep(4, 40)
EACH = min(KILLS, 10)  # kills of one session, one run after the other
WHO = re.compile(r"You are (root/[^ ,]+), an agent")
LATE = 1.5  # seconds after a run's first line in which it is killed


class Crowd:
    """What the models of a tree say: without end until `ending` is set, and then as little as possible."""

    def __init__(self, seed: int) -> None:
        self.ending = False
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._serial = 0

    def answer(self, request: Received) -> Step:
        """The next step of whoever asks."""
        found = WHO.search(json.dumps(request.json["messages"]))
        with self._lock:
            self._serial += 1
            if self.ending:
                return Turn(text="the end")
            return self._busy(found[1] if found else "root", self._serial)

    def advise(self, _: Received) -> Step:
        """What an advisor says."""
        return Turn(text="VERDICT: proceed\nNEXT: go on", delay=0.01)

    def _busy(self, who: str, serial: int) -> Step:
        dice = self._random
        calls = [self._work(f"{serial}_{number}") for number in range(dice.randrange(1, 4))]
        if who == "root":
            if dice.random() < 0.4:
                live_on = dice.random() < 0.2
                for number in range(2):
                    order = {"prompt": f"task {serial}", "name": f"w{serial}-{number}", "persistent": live_on}
                    calls.append(Call("AgentSpawn", {**order, "background": dice.random() < 0.5}))
            if dice.random() < 0.2:
                calls.append(Call("advisor", {}))
            if dice.random() < 0.05:
                calls.append(Call("AgentSelf", {"context": {"drop": ["Read"]}}))
        elif dice.random() < 0.3:
            return Turn(text=f"{who} is done with {serial}", delay=0.01)
        text = f"step {serial} of {who}: " + "and so on, " * dice.randrange(0, 30)
        return Turn(text=text, calls=tuple(calls), delay=dice.random() * 0.03, gap=dice.choice((0, 0, 0.002)))

    def _work(self, name: str) -> Call:
        match self._random.randrange(6):
            case 0:
                return Call("Write", {"file_path": f"file-{name}.txt", "content": f"{name}\n" * 200})
            case 1:
                return Call("Bash", {"command": f"echo {name}; head -c 60000 /dev/zero | tr '\\0' x"})  # spills
            case 2:
                return Call("Bash", {"command": f"sleep 0.1; echo {name}", "background": True})
            case 3:
                return Call("Read", {"file_path": "notes.txt"})
            case 4:
                return Call("AgentSend", {"to": "root/nobody", "content": name})
            case _:
                return Call("Bash", {"command": f"echo {name}; seq 200"})


class Told:
    """What a run has said on its output, by agents: all of it is to be in the logs."""

    def __init__(self) -> None:
        self.session = ""
        self.messages: dict[str, list[tuple[object, ...]]] = {}
        self.results: dict[str, set[str]] = {}
        self.advice: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.usd = Decimal(0)
        self.heads: dict[str, str] = {}
        self.result: Mapping[str, object] = {}
        self.lines = 0

    def read(self, line: bytes) -> None:
        """Take one whole line."""
        event = as_object(json.loads(line))
        agent, self.lines = as_str(event.get("agent")), self.lines + 1
        match event.get("type"):
            case "session":
                self.session = self.session or as_str(event.get("session_path"))
            case "received":
                self.messages.setdefault(agent, []).append(essence(as_object(event.get("message"))))
            case "reply_finished":
                self.messages.setdefault(agent, []).append(essence(as_object(event.get("message"))))
                usage = as_object(event.get("usage"))
                self.usd += Decimal(str(event.get("usd") or 0))
                self.tokens[agent] += as_int(usage.get("input")) + as_int(usage.get("output"))
            case "tool_finished":
                self.results.setdefault(agent, set()).add(as_str(event.get("call_id")))
            case "advice":
                self.advice[agent] += 1
            case "result":
                self.heads[agent] = as_str(event.get("head"))
                if agent == "root":
                    self.result = event
            case _:
                pass


def essence(message: Mapping[str, object]) -> tuple[object, ...]:
    """A message in few words, the same whether it was told or logged."""
    parts = [as_object(part) for part in as_array(message.get("parts"))]
    text = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
    ids = [as_str(part.get("call_id")) or as_str(part.get("id")) for part in parts if part.get("type") != "text"]
    return (message.get("role"), text, *ids)


def check_logged(session: Path, told: Told) -> None:
    """Every log verifies or ends in one torn line; whatever was told is in them."""
    problems = faults(session)
    torn = [problem for problem in problems if "unfinished entry at the end" in problem]
    assert sorted(problems) == sorted(torn)
    assert len(torn) <= len(log_files(session))
    found = {agent_of(session, file): list(read_log(file)) for file in log_files(session)}
    for agent, messages in told.messages.items():
        logged = iter(essence(read_body(entry)) for entry in found[agent] if entry.kind == "message")
        for message in messages:
            assert message in logged, f"{agent} was told to have {message!r}, and its log has not"
    for agent, calls in told.results.items():
        results = {
            as_str(as_object(read_body(entry).get("result")).get("call_id"))
            for entry in found[agent]
            if entry.kind == "result"
        }
        assert calls <= results, f"{agent}: results that were told are not in the log: {calls - results}"
    for agent, count in told.advice.items():
        assert sum(entry.kind == "advice" for entry in found[agent]) >= count
    for agent, head in told.heads.items():
        assert head in {entry.id for entry in found[agent]}
    spent = {agent: spend(entries) for agent, entries in found.items()}
    for agent, tokens in told.tokens.items():
        assert spent[agent].whole.usage.input + spent[agent].whole.usage.output >= tokens
    # what a line tells of is in JSON numbers, which are not as exact as the log
    assert sum(each.cost().total for each in spent.values()) >= told.usd - Decimal("1e-9")


class Runner:
    """Runner of the program in one directory, with a provider and an advisor on loopback."""

    def __init__(self, home: Path, crowd: Crowd, url: str, advisor: str) -> None:
        self.home, self.crowd, self.told = home, crowd, Told()
        warm(home / STATE)
        (home / "work").mkdir()
        (home / "work" / "notes.txt").write_text("notes\n" * 50)
        self._environment = {
            "PATH": os.environ["PATH"], "TMPDIR": os.environ["TMPDIR"], "HOME": str(home), "PYTHONPATH": str(CHECKOUT),
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k",
            "OPENAI_BASE_URL": f"{advisor}/v1", "OPENAI_API_KEY": "k",
        }  # fmt: skip

    def start(self) -> subprocess.Popen[bytes]:
        """The next run; it goes on with the session, if there is one."""
        flags = ["--model", "anthropic/claude-sonnet-4-6", "--advisor", "openai/gpt-5.2", "--permission-mode", "full"]
        flags += ["--output-format", "stream-json", *(["--continue"] if self.told.session else [])]
        return subprocess.Popen(
            [sys.executable, "-m", "sagent.bin.cli", *flags, "go on"],
            cwd=self.home / "work", env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def kill(self, seconds: float, *, at_once: bool) -> None:
        """Run for some seconds, from the start or from the first line on, and kill; what was told is kept."""
        with self.start() as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first = b"" if at_once else process.stdout.readline()
            reader = threading.Thread(target=self._listen, args=(first, process.stdout))
            reader.start()
            time.sleep(seconds)
            process.kill()
            reader.join()
            assert process.wait() == -9, process.stderr.read().decode()

    def end(self) -> Mapping[str, object]:
        """A run to the end; its result."""
        self.crowd.ending = True
        done = self.start()
        out, err = done.communicate(timeout=60)
        assert done.returncode == 0, err.decode()
        for line in out.splitlines():
            self.told.read(line)
        return self.told.result

    def _listen(self, first: bytes, lines: Iterator[bytes]) -> None:
        for line in (first, *lines):
            if line.endswith(b"\n"):
                self.told.read(line)


@pytest.mark.needs("bash")
@pytest.mark.parametrize("seed", range(-(-KILLS // EACH)))
def test_kill_9_loses_nothing_told(seed: int, tmp_path: Path) -> None:
    crowd, dice = Crowd(seed), random.Random(seed)
    server, advisor = FakeProviderServer(crowd.answer), FakeProviderServer(crowd.advise)
    with server.in_thread(), advisor.in_thread():
        runner = Runner(tmp_path, crowd, server.url, advisor.url)
        for number in range(EACH):
            early = number > 0 and dice.random() < 0.25  # also while the session is being opened
            runner.kill(dice.random() * (0.8 if early else LATE), at_once=early)
            assert runner.told.session
            check_logged(Path(runner.told.session), runner.told)
        assert runner.told.lines > EACH  # they were killed at work
        result = runner.end()
    assert result["result"] == "the end"
    session = Path(runner.told.session)
    assert faults(session, str(result["head"])) == []
    check_logged(session, runner.told)
    cost = as_object(result["cost_usd"])["total"]
    logged = sum((spend(read_log(file)).cost().total for file in log_files(session)), Decimal(0))
    assert float(logged) == pytest.approx(cost)
