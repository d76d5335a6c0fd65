"""Slash commands: parsed, validated, carried out at a desk without a terminal."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sagent.agent import Agent, Resources
from sagent.config import Settings, load
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.command import carry_out, split_command
from sagent.repl.commands.registry import all_commands, built_in_commands, filled, own_command
from sagent.repl.errand import run_errand
from sagent.repl.lines import Line, plain
from sagent.repl.opening import Opened
from sagent.repl.picker import Option
from sagent.session.entries import opened
from sagent.session.folds import title
from sagent.session.log import MemoryLog
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tools import Read


@dataclass
class Desk:
    """A desk that remembers what was done at it."""

    settings: Settings
    opened: Opened
    written: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    copied: str = ""
    reopened: Settings | None = None
    manners: list[tuple[str, str]] = field(default_factory=list)
    left: bool = False
    picks: list[Any] = field(default_factory=list)
    offered: Sequence[Option[Any]] = ()

    def write(self, lines: Sequence[Line]) -> None:
        self.written.append(plain(lines))

    def say(self, text: str) -> None:
        self.written.append(text)

    async def pick(self, title: str, options: Sequence[Option[Any]]) -> Any:
        self.offered = options
        if not self.picks:
            raise UsageError(f"{title} Nobody can choose here; name it.")
        return self.picks.pop(0)

    def rewound(self, text: str) -> None:
        self.prompts.append(text)

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        raise UsageError("nobody is here")

    def prompt(self, text: str) -> None:
        self.prompts.append(text)

    def copy(self, text: str) -> None:
        self.copied = text

    def reopen(self, settings: Settings) -> None:
        self.reopened = settings

    def manner(self, what: str, value: str) -> None:
        self.manners.append((what, value))

    def leave(self) -> None:
        self.left = True

    async def do(self, line: str) -> str:
        """Carry a line out; what it wrote."""
        found = split_command(line)
        assert found is not None
        self.written.clear()
        await carry_out(all_commands(self.settings), self, *found)
        return "\n".join(self.written)


@pytest.fixture
async def desk(tmp_path: Path) -> Any:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    async with AsyncExitStack() as stack:
        model = ScriptedModel("The answer.")
        agent = Agent(
            model,
            tools=(Read(),),
            resources=Resources(
                log=MemoryLog(),
                ledger=Ledger(Decimal(5), PriceBook({f"{model.provider}/{model.id}": {"input": 1, "output": 2}})),
                catalog=lambda: "openai/gpt-5.5: window 400000, 1 in and 2 out\nanthropic/opus: window unknown",
                resolve=lambda name: ScriptedModel("Other."),
            ),
        )
        stack.push_async_callback(agent.aclose)
        policy = PermissionPolicy("edit")

        yield Desk(settings, Opened(agent, policy))


def test_all_names_have_help_and_none_is_another() -> None:
    commands = built_in_commands()
    wanted = (
        "help model provider effort advisor ask-advisor cost context status compact clear resume sessions rename "
        "copy agents send stop tasks detach permissions tools memory init config login vim theme doctor bug quit "
        "rewind tree fork export mcp skills"
    )
    assert set(commands) == set(wanted.split())
    assert all(one.help and one.help[0].isupper() for one in commands.values())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/model", ("model", "")),
        ("/model  openai/x ", ("model", "openai/x")),
        ("/etc/hosts is a file", None),
        ("/ model", None),
        ("hello /model", None),
        ("/ask-advisor why\nso?", ("ask-advisor", "why\nso?")),
    ],
)
def test_what_is_a_command(line: str, found: tuple[str, str] | None) -> None:
    assert split_command(line) == found


async def test_wrong_names_and_arguments_are_told(desk: Desk) -> None:
    with pytest.raises(UsageError, match="Did you mean /model"):
        await desk.do("/modle x")
    with pytest.raises(UsageError, match=r"one of .*high.* not 'hihg'. Did you mean high"):
        await desk.do("/effort hihg")
    with pytest.raises(UsageError, match="/send needs text: /send <agent> <text>"):
        await desk.do("/send root/a")
    with pytest.raises(UsageError, match="takes no 'now'"):
        await desk.do("/quit now")
    with pytest.raises(UsageError, match="is none of the living agents"):
        await desk.do("/send nobody hello")


async def test_the_desk_without_a_person_says_what_to_name(desk: Desk) -> None:
    with pytest.raises(UsageError, match="name it"):
        await desk.do("/model")
    assert [one.label for one in desk.offered] == ["openai/gpt-5.5", "anthropic/opus"]


async def test_switching(desk: Desk) -> None:
    desk.picks = ["openai/gpt-5.5"]
    await desk.do("/model")
    await desk.do("/effort high")
    assert desk.opened.agent.status().effort == "high"
    await desk.do("/permissions plan")
    assert desk.opened.policy.mode == "plan"
    assert "Mode plan" in await desk.do("/permissions")
    await desk.do("/vim on")
    await desk.do("/theme light")
    assert desk.manners == [("vim", "on"), ("theme", "light")]


async def test_looking(desk: Desk) -> None:
    await desk.opened.agent.run("a question")
    assert "/ask-advisor" in await desk.do("/help")
    assert "/send <agent> <text>" in await desk.do("/help send")
    assert "Read" in await desk.do("/tools")
    assert "permission_mode" in await desk.do("/config permission")
    assert "█" in await desk.do("/context")
    assert "edit" in await desk.do("/status")
    assert "root" in await desk.do("/agents")
    assert "nothing in the background" in await desk.do("/tasks")
    assert "AGENTS.md" in await desk.do("/memory")
    assert "state directory" in await desk.do("/doctor")
    assert "sagent" in await desk.do("/bug")
    assert "no sessions" in await desk.do("/sessions")
    cost = await desk.do("/cost")
    assert "executor" in cost
    assert "of $5.00" in cost


async def test_doing(desk: Desk) -> None:
    await desk.opened.agent.run("a question")
    await desk.do("/copy")
    assert desk.copied == "The answer."
    await desk.do("/rename a better name")
    assert title(desk.opened.agent.log.entries()) == "a better name"
    await desk.do("/init")
    assert "AGENTS.md" in desk.prompts[0]
    await desk.do("/quit")
    assert desk.left


async def test_commands_of_ones_own(desk: Desk, tmp_path: Path) -> None:
    for directory, text in ((desk.settings.config_dir, "mine $ARGUMENTS"), (tmp_path / ".sagent", "theirs")):
        (directory / "commands").mkdir(parents=True)
        (directory / "commands" / "fix.md").write_text(text)
    (tmp_path / ".sagent" / "commands" / "model.md").write_text("never")
    await desk.do("/fix the bug")
    assert desk.prompts == ["mine the bug"]
    assert all_commands(desk.settings)["model"].help.startswith("Switch")


async def test_a_session_is_exported_in_each_form_and_secrets_are_counted(tmp_path: Path) -> None:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    session = Session.create(settings.state_dir, tmp_path)
    log = session.log()
    log.append("opened", opened(session.id, "root", str(tmp_path), {}))
    model = ScriptedModel("The answer.")
    agent = Agent(model, resources=Resources(log=log))
    desk = Desk(settings, Opened(agent, PermissionPolicy("edit")))
    await agent.run("my key is sk-abcdefghijklmnopqrstuvwxyz")
    assert "1 that looked like secrets" in await desk.do("/export md talk.md")
    text = (tmp_path / "talk.md").read_text()
    assert "The answer." in text
    assert "abcdefghijklmnop" not in text
    assert (tmp_path / "talk.md").stat().st_mode & 0o777 == 0o600
    await desk.do("/export")
    await desk.do("/export jsonl")
    await desk.do("/export bundle")
    found = {path.suffix for path in tmp_path.iterdir() if path.name.startswith(session.path.name)}
    assert found == {".html", ".jsonl", ".tar"}
    with pytest.raises(UsageError, match=r"one of html, md, jsonl, bundle, not 'pdf'"):
        await desk.do("/export pdf")
    await agent.aclose()
    session.close()


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Fix $ARGUMENTS now", "a b", "Fix a b now"),
        ("From $1 to $2.", "'a b' c", "From a b to c."),
        ("From $1 to $2.", "a", "From a to ."),
        ("Do it.", "well", "Do it.\n\nwell"),
        ("Do it.", "", "Do it."),
        ("$ARGUMENTS", "$1 it's", "$1 it's"),
    ],
)
def test_place_holders(body: str, arguments: str, text: str) -> None:
    assert filled(body, arguments) == text


def test_a_command_of_ones_own_has_a_description() -> None:
    assert own_command("x", "---\ndescription: does it\n---\nText").help == "does it"
    assert own_command("x", "Text\nmore").help == "Text"


async def test_a_command_as_the_first_line_of_a_prompt(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / ".sagent" / "commands").mkdir(parents=True)
    (tmp_path / ".sagent" / "commands" / "fix.md").write_text("Fix $ARGUMENTS.")
    said: list[str] = []

    async def errand(text: str) -> str:
        return await run_errand(text, desk.settings, desk.opened, said.append)

    assert await errand("just /model this\n/quit") == "just /model this\n/quit"
    assert await errand("/effort low\nDo it.\nWell.") == "Do it.\nWell."
    assert desk.opened.agent.status().effort == "low"
    assert await errand("/fix the bug\nand test") == "Fix the bug.\n\nand test"
    assert await errand("/tools") == ""
    assert "Read" in "".join(said)
    for text in ("/model", "/login openai", "/copy", "/resume x", "/vim", "/nothing"):
        with pytest.raises(UsageError):
            await errand(text)
