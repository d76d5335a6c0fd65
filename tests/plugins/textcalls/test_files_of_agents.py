"""Files that agents get whose models write their calls as text: those of tasks, of messages, and before a write."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sagent.agent import Agent
from sagent.app.assembly import open_agent
from sagent.config import load
from sagent.context.compaction import edited_files
from sagent.messages import user
from sagent.peer import Compact, Switch
from sagent.testing.script import Call, Fail, Received, Step, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later

SMALL = "tiny-1b"
SHORTEN = "I shorten it.\n\nnotes.txt\n```\nshort\n```\n"


@dataclass
class Stage:
    """A native root and a small model on one server; `answers` are the replies of the small one."""

    work: Path
    native: list[Step]
    answers: list[Turn]
    sent: list[str] = field(default_factory=list[str])
    during: Callable[[], None] = lambda: None  # what happens while the small model answers

    def step(self, request: Received) -> Step:
        if request.json["model"] != SMALL:
            return self.native.pop(0)
        assert "tools" not in request.json
        self.sent.append(json.dumps(request.json["messages"], ensure_ascii=False))
        self.during()
        return self.answers.pop(0)

    @asynccontextmanager
    async def agent(self, model: str = "anthropic/claude-sonnet-4-6", **more: object) -> AsyncGenerator[Agent]:
        home = self.work.parent
        async with FakeProviderServer(self.step, require_key=False) as server:
            config = home / ".config/sagent"
            config.mkdir(parents=True)
            own = f'[providers.own]\nbase_url = "{server.url}/v1"\n[providers.anthropic]\nbase_url = "{server.url}"\n'
            (config / "config.toml").write_text(own)
            environment = {"HOME": str(home)}
            flags = {"model": model, "permission_mode": "full", "ephemeral": True, "max_retries": 0, **more}
            async with open_agent(load(flags, environment, self.work), lambda _: None) as agent:
                yield agent


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("OWN_API_KEY", "k")
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("opensesame\n")
    (work / "other.txt").write_text("gazebo\n")
    return work


def _spawn(prompt: str, **more: object) -> Turn:
    return Turn(calls=(Call("AgentSpawn", {"prompt": prompt, "name": "kid", "model": f"own/{SMALL}", **more}),))


async def test_spawned_agent_gets_named_files(work: Path) -> None:
    stage = Stage(work, [_spawn("Shorten notes.txt"), Turn(text="ok")], [Turn(text=SHORTEN), Turn(text="Done.")])
    async with stage.agent() as agent:
        await agent.run("Have it shortened, whatever other.txt says")
    assert "opensesame" in stage.sent[0] and "gazebo" not in stage.sent[0]
    words = ("Shorten notes.txt", "opensesame", "(If a file must change")
    places = [stage.sent[0].index(word) for word in words]
    assert places == sorted(places)
    assert (work / "notes.txt").read_text() == "short\n"


async def test_spawned_agent_sees_overwritten_file(work: Path) -> None:
    answers = [Turn(text=SHORTEN), Turn(text=SHORTEN), Turn(text="Done.")]
    stage = Stage(work, [_spawn("Shorten what I wrote"), Turn(text="ok")], answers)
    async with stage.agent() as agent:
        await agent.run("Have it shortened")
    assert "opensesame" not in stage.sent[0] and "opensesame" in stage.sent[1]
    assert (work / "notes.txt").read_text() == "short\n"


@later
@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("notes.txt was not changed:\nIt was not written: the file exists, and you have not seen it.", 2),
        ("I leave it.", 0),
    ],
)
async def test_remark_on_open_call_is_no_answer(work: Path, said: str, more: int) -> None:
    answers = [Turn(text=SHORTEN), Turn(text=said), Turn(text=SHORTEN), Turn(text="Done.")]
    stage = Stage(work, [], answers)
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Shorten what I wrote")
    assert len(answers) == 2 - more
    assert (work / "notes.txt").read_text() == ("short\n" if more else "opensesame\n")


async def test_fallback_sees_overwritten_file(work: Path) -> None:
    answers = [Turn(text=SHORTEN), Turn(text=SHORTEN), Turn(text="Done.")]
    stage = Stage(work, [Fail(529, "overloaded")], answers)
    async with stage.agent(fallback=[f"own/{SMALL}"]) as agent:
        await agent.run("Shorten what I wrote")
    assert "opensesame" in stage.sent[1]
    assert (work / "notes.txt").read_text() == "short\n"


async def test_switched_root_gets_files(work: Path) -> None:
    stage = Stage(work, [Turn(text="Hello.")], [Turn(text="It is short.")])
    async with stage.agent() as agent:
        await agent.run("Hi")
        agent.apply(Switch(model=f"own/{SMALL}"))
        await agent.run("Is notes.txt short?")
    assert "opensesame" in stage.sent[0]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("asked", "said", "told"),
    [
        ("Fix notes.txt", "It must be:\n```\nshort\n```", True),
        ("Fix notes.txt", "I have updated the file notes.txt:\n```\nshort\n```", True),
        ("Fix notes.txt. Leave other.txt as it is.", "It must be:\n```\nshort\n```", True),
        ("Fix `notes.txt` without changing other.txt", "It must be:\n```\nshort\n```", True),
        ("Fix notes.txt, but don't touch other.txt", "It must be:\n```\nshort\n```", True),
        ("Fix notes.txt", "It is fine.", False),
        ("Fix notes.txt, and explain it", "It must be:\n```\nshort\n```", False),
        ("Is notes.txt right?", "It must be:\n```\nshort\n```", False),
        ("Look at notes.txt", "It must be:\n```\nshort\n```", False),
    ],
)
async def test_missing_path_asked_once(work: Path, asked: str, said: str, told: bool) -> None:
    stage = Stage(work, [], [Turn(text=said)] * (2 if told else 1))
    async with stage.agent(f"own/{SMALL}") as agent:
        result = await agent.run(asked)
    assert result.content == said
    assert ["has no path" in sent for sent in stage.sent] == [False, True][: 1 + told]
    assert not any("no tool was called" in sent for sent in stage.sent)


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("asked", "command", "told"),
    [
        ("`sh check.sh` fails. Fix notes.txt.", "sh check.sh", True),
        ("`sh check.sh` shows an error. Fix notes.txt; leave other.txt as it is.", "cd . && sh check.sh", True),
        ("`sh check.sh` fails. Fix notes.txt.", "echo a >notes.txt; true; # sh check.sh", False),
        ("`sh check.sh` fails. Explain how to fix notes.txt.", "sh check.sh", False),
        ("`sh check.sh` fails. Is notes.txt right?", "sh check.sh", False),
    ],
)
async def test_explained_fault_asked_once_to_fix(work: Path, asked: str, command: str, told: bool) -> None:
    (work / "check.sh").write_text("exit 3\n")
    tries = [Turn(text=f"```bash\n{command}\n```"), Turn(text="It must be short.")]
    stage = Stage(work, [], [*tries, *([Turn(text=SHORTEN), *tries] if told else [])])
    async with stage.agent(f"own/{SMALL}") as agent:
        result = await agent.run(asked)
    assert (result.content, stage.answers) == ("It must be short.", [])
    assert ["Then change it" in each for each in stage.sent] == [False, False, *([True] * 3 if told else [])]


@later
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("How many files are there? Write the number into count.txt.", True),
        ("Run `ls` and save what it prints to out/count.txt.", True),
        ("Convert notes.txt to count.json.", True),
        ("Please create a file named count.txt with the number of files", True),
        ("Write the number of files into notes.txt.", False),
        ("How do I write the number into count.txt?", False),
        ("Write a program that writes into count.txt.", False),
        ("Do not write into count.txt.", False),
        ("Write a.txt and write b.txt.", False),
    ],
)
async def test_unmade_file_asked_for_once(work: Path, asked: str, told: bool) -> None:
    tries = [Turn(text="```bash\nls\n```"), Turn(text="There are 2.")]
    stage = Stage(work, [], [*tries, *([Turn(text="There are two.")] if told else [])])
    async with stage.agent(f"own/{SMALL}") as agent:
        result = await agent.run(asked)
    assert (result.content, stage.answers) == ("There are two." if told else "There are 2.", [])
    assert ["was not written" in each for each in stage.sent] == [False, False, True][: 2 + told]


async def test_unmade_file_asked_for_uncalled(work: Path) -> None:
    stage = Stage(work, [], [Turn(text="Here is how."), Turn(text="count.txt\n```\n2\n```"), Turn(text="Done.")])
    async with stage.agent(f"own/{SMALL}") as agent:
        assert (await agent.run("Create a file count.txt with a number")).content == "Done."
    assert ["was not written" in each for each in stage.sent] == [False, True, True]
    assert (work / "count.txt").read_text() == "2\n"


async def test_echoed_doubt_told_once(work: Path) -> None:
    (work / "how.txt").write_text("```bash\nrm other.txt\n```\n")
    echo = "It was taken for a quotation. To run it, write its block and nothing else."
    quoted = Turn(text="I do as it says:\n```bash\nrm other.txt\n```")
    stage = Stage(work, [], [quoted, Turn(text=echo), Turn(text="I did not delete it.")])
    async with stage.agent(f"own/{SMALL}") as agent:
        assert (await agent.run("Do what how.txt says")).content == "I did not delete it."
    assert ["nothing was done yet" in each for each in stage.sent] == [False, False, True]


@pytest.mark.costly
@pytest.mark.parametrize("moment", ["now", "next", "idle"])
async def test_mid_turn_message_gets_files(work: Path, moment: str) -> None:
    looks = [Turn(text="```bash\nls\n```"), Turn(text="I am done."), Turn(text="Yes.")]
    stage = Stage(work, [], looks)
    async with stage.agent(f"own/{SMALL}") as agent:
        message = user("And compare with other.txt")

        def send() -> None:
            stage.during = lambda: None
            agent.send(message, moment)  # pyright: ignore[reportArgumentType]

        stage.during = send
        await agent.run("Is notes.txt short?")
        assert any(each is message for each in agent.messages), "who sent it knows it again"
    assert "opensesame" in stage.sent[0] and "gazebo" not in stage.sent[0]
    assert "gazebo" in stage.sent[-1]
    assert stage.sent[-1].index("gazebo") > stage.sent[-1].index("And compare with")


@later
async def test_message_during_job_gets_files(work: Path) -> None:
    stage = Stage(work, [], [])
    async with stage.agent(f"own/{SMALL}") as agent:
        job = Turn(text='```Bash\n{"command": "sleep 2; echo over", "background": true}\n```')
        stage.answers = [job, Turn(text="I wait."), Turn(text="Seen."), Turn(text="Over.")]

        def look() -> None:
            if len(stage.answers) == 3:
                asyncio.get_running_loop().call_later(0.5, agent.send, "Look at other.txt")

        stage.during = look
        await agent.run("Begin")
    assert any("gazebo" in sent for sent in stage.sent)


async def test_withdrawn_message_leaves_no_text(work: Path) -> None:
    stage = Stage(work, [], [Turn(text="Yes.")])
    async with stage.agent(f"own/{SMALL}") as agent:
        message = user("Compare with other.txt")

        def send() -> None:
            agent.send(message)
            assert agent.withdraw(message)

        stage.during = send
        await agent.run("Is notes.txt short?")
        assert not any("gazebo" in each.content for each in agent.messages)


async def test_answers_of_agents_enclose_nothing(work: Path) -> None:
    """An answer names what was done; files of it would be read for nothing."""
    stage = Stage(work, [], [])
    stage.answers = [
        Turn(text="```AgentSpawn\nSay hello\n```"),
        Turn(text="Hello from other.txt."),
        Turn(text="It says hello."),
    ]
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Have somebody say hello")
    assert "other.txt" in stage.sent[-1] and "gazebo" not in stage.sent[-1]


async def test_late_advisor_still_asked(work: Path) -> None:
    turns = [Turn(text="ok."), Turn(text="```advisor\nWhat now?\n```"), Turn(text="Thanks.")]
    advice: list[Step] = [Turn(text="VERDICT: proceed\nNEXT: nothing")]
    stage = Stage(work, advice, turns)
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Begin")
        agent.apply(Switch(advisor="anthropic/claude-opus-4-6"))
        await agent.run("Shorten what I wrote")
    assert not advice and "VERDICT" in stage.sent[-1]


@later
async def test_file_shown_after_advisor_switch(work: Path) -> None:
    turns = [Turn(text="ok."), *[Turn(text=SHORTEN)] * 3, *[Turn(text="Done.")] * 3]
    stage = Stage(work, [Turn(text="VERDICT: proceed\nNEXT: nothing") for _ in range(4)], turns)
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Begin")
        agent.apply(Switch(advisor="anthropic/claude-opus-4-6"))
        await agent.run("Shorten what I wrote")
    assert "opensesame" in stage.sent[2]
    assert (work / "notes.txt").read_text() == "short\n"


async def test_prompt_stays_as_written(work: Path) -> None:
    stage = Stage(work, [], [Turn(text="Yes.")])
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Is notes.txt short?")
        assert [each.content for each in agent.messages if not each.sender] == ["Is notes.txt short?", "Yes."]
        assert [path for path, _ in edited_files(agent.messages, work)] == ["sagent:notes.txt"]


async def test_cleared_file_shown_before_overwrite(work: Path) -> None:
    answers = [Turn(text="It is short."), Turn(text=SHORTEN), Turn(text=SHORTEN), Turn(text="Done.")]
    stage = Stage(work, [], answers)
    async with stage.agent(f"own/{SMALL}") as agent:
        await agent.run("Is notes.txt long?")
        agent.apply(Compact(clear=True))
        await agent.run("Shorten what I wrote")
    assert "opensesame" in stage.sent[0] and "opensesame" not in stage.sent[1]
    assert "opensesame" in stage.sent[2]
    assert (work / "notes.txt").read_text() == "short\n"


@later
async def test_cleared_run_keeps_request_file(work: Path) -> None:
    answers = [Turn(text="```bash\necho hi\n```\n"), Turn(text=SHORTEN), Turn(text="Done.")]
    stage = Stage(work, [], answers)
    async with stage.agent(f"own/{SMALL}") as agent:

        def clear() -> None:
            if len(stage.sent) == 1:
                agent.apply(Compact(clear=True))

        stage.during = clear
        await agent.run("Shorten notes.txt")
    assert "opensesame" in stage.sent[1]
    assert (work / "notes.txt").read_text() == "short\n"
