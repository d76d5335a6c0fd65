"""Slash commands: parsed, validated, carried out without a terminal."""

import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.cli.interactive import open_session
from sagent.config import Settings, load
from sagent.config.plugins import Installed
from sagent.context.frontmatter import read_document
from sagent.errors import UsageError
from sagent.peer import Switch
from sagent.plugin import SlashCommand
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.repl.commands.command import Command, split_command
from sagent.repl.commands.filling import fill_placeholders
from sagent.repl.commands.registry import all_commands, own_command, plugin_commands
from sagent.repl.headless_command import run_headless_command
from sagent.repl.opening import OpenedHere
from sagent.session import contents
from sagent.session.folds import title
from sagent.session.store import Session, sessions
from sagent.testing import ScriptedModel
from tests.depth import later
from tests.repl.recorded import RecordingContext


@dataclass(frozen=True)
class Row:
    """A command: how it is used, what completes its argument, an argument that is refused, and what comes of it as the
    first line of a prompt, without a person: words of what it writes, or of its refusal."""

    usage: str
    headless: str  # the line
    writes: str = ""
    refuses: str = ""
    completes: str = ""
    wrong: str = ""


COMMANDS = (
    Row("/model [name]", "/model openai/gpt-5.5", completes="openai/gpt-5.5"),
    Row("/executor [name]", "/executor openai/gpt-5.5", completes="openai/gpt-5.5"),
    Row("/model [name]", "/model", refuses="give it after the command: openai/gpt-5.5"),
    Row("/provider [name]", "/provider", refuses="give it after the command: openai", completes="anthropic"),
    Row("/provider [name]", "/provider openai", wrong="opneai"),
    Row("/effort [level]", "/effort low", completes="xhigh", wrong="hihg"),
    Row("/advisor [text]", "/advisor openai/gpt-5.5", completes="off", refuses="(?i)advisor"),
    Row("/ask-advisor [question]", "/ask-advisor why?", refuses="(?i)advisor"),
    Row("/cost [budget]", "/cost", "tokens read", wrong="-1"),
    Row("/compact [text]", "/compact the names", "There is nothing to compact yet: the context has about"),
    Row("/clear", "/clear", "is empty now", wrong="x"),
    Row("/new", "/new", refuses="Without a terminal", wrong="x"),
    Row("/resume [session]", "/resume nothing", refuses="(?i)no session"),
    Row("/rename <name>", "/rename mine", "called 'mine'", wrong=""),
    Row("/permissions [mode]", "/permissions", "Mode edit", completes="full", wrong="everything"),
    Row("/permissions [mode]", "/permissions full", refuses="give --permission-mode on the command line"),
    Row("/plan [task]", "/plan", refuses="give --plan on the command line"),
    Row("/quit", "/quit", wrong="now"),
    Row("/exit", "/exit", wrong="now"),
)
"""The slash commands of the REPL's specification."""


def test_slash_commands_are_these() -> None:
    commands = plugin_commands(Installed(), [])
    assert set(commands) == {row.usage.split()[0][1:] for row in COMMANDS}
    assert all(one.help and one.help[0].isupper() for one in commands.values())
    declared = {row.command.rpartition(":") for _, row in Installed().owned(SlashCommand)}
    assert len(declared) == len(commands)
    for module in {module for module, _, _ in declared}:
        there = {name for name, one in vars(import_module(module)).items() if isinstance(one, Command)}
        assert there == {name for home, _, name in declared if home == module}, f"{module} has others"


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.headless)
async def test_command_row_works_without_terminal(context: RecordingContext, row: Row) -> None:
    await check_row(context, row)


async def check_row(context: RecordingContext, row: Row) -> None:
    """Check a command's usage and help, its completions, and what it does without a terminal."""
    commands = plugin_commands(context.settings.plugins, [])
    command = commands[row.usage.split()[0][1:]]
    assert command.usage.startswith(row.usage)
    if "help" in commands:
        assert command.usage in await context.do(f"/help {command.name}")
    completions = {word for word, _ in command.completions(context)}
    completions |= {word for argument in command.arguments for word in argument.choices}
    assert row.completes in completions | {""}
    await context.opened.agent.run("a question")
    if row.wrong:
        with pytest.raises(UsageError):
            await context.do(f"/{command.name} {row.wrong}")
    written: list[str] = []
    work = run_headless_command(f"{row.headless}\nGo on.", context.settings, context.opened, written.append)
    if row.refuses:
        with pytest.raises(UsageError, match=row.refuses):
            await work
    else:
        assert (await work).endswith("Go on.")
        assert re.search(row.writes, "".join(written))


@later
@pytest.mark.plugin("audit")
@pytest.mark.parametrize("person", [True, False])
async def test_compaction_savings_are_told(context: RecordingContext, *, person: bool) -> None:
    agent = context.opened.agent
    assert "compaction" not in await context.do("/cost")
    for number in range(6):
        await agent.run(f"question {number} " + "word " * 4000)
    context.has_person = person
    assert bool(await context.do("/compact")) != person  # who is there has read so in a notice
    await agent.run("and then?")
    await agent.run("and now?")
    told = r"1 compaction: [\d.]+k? tokens and \$[\d.]+ more than without"  # two short turns do not pay for a summary
    assert re.search(told, await context.do("/cost"))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/model", ("model", "")),
        ("/model  openai/x ", ("model", "openai/x")),
        ("/Model x", ("model", "x")),
        ("/tmp is full", ("tmp", "is full")),
        ("/etc/hosts is a file", None),
        (" /tmp is full", None),
        ("/ model", None),
        ("hello /model", None),
        ("/ask-advisor why\nso?", ("ask-advisor", "why\nso?")),
    ],
)
def test_slash_lines_that_are_commands(line: str, found: tuple[str, str] | None) -> None:
    assert split_command(line) == found


async def test_wrong_arguments_are_told(context: RecordingContext) -> None:
    with pytest.raises(UsageError, match="Did you mean /model"):
        await context.do("/modle x")
    with pytest.raises(UsageError, match=r"'hihg' is not accepted; accepted are .*high.*\. Did you mean high"):
        await context.do("/effort hihg")
    with pytest.raises(UsageError, match="/rename needs name: /rename <name>"):
        await context.do("/rename")
    with pytest.raises(UsageError, match="takes no 'now'"):
        await context.do("/quit now")


async def test_without_person_asks_for_a_name(context: RecordingContext) -> None:
    with pytest.raises(UsageError, match="name it"):
        await context.do("/model")
    assert [one.also for one in context.offered] == ["openai/gpt-5.5", "anthropic/opus"]


async def test_switching(context: RecordingContext) -> None:
    context.picks = ["openai/gpt-5.5"]
    await context.do("/model")
    await context.do("/effort high")
    context.picks = [None]
    await context.do("/effort")
    assert [option.label for option in context.offered if option.current] == ["high"]
    assert context.opened.agent.status().effort == "high"
    await context.do("/permissions plan")
    assert context.opened.policy.mode == "plan"
    assert "Mode plan" in await context.do("/permissions")


async def test_looking(context: RecordingContext) -> None:
    await context.opened.agent.run("a question")
    cost = await context.do("/cost")
    assert "executor" in cost
    assert "of $5.00" in cost
    assert "of $7.00" in await context.do("/cost 7")
    assert context.opened.agent.ledger.cap == 7
    by_role, by_model = (next(line for line in cost.splitlines() if name in line) for name in ("executor", "scripted/"))
    assert by_model.split()[1:] == by_role.split()[1:]  # tokens, the cache's share and USD


async def test_doing(context: RecordingContext) -> None:
    await context.opened.agent.run("a question")
    await context.do("/rename a better name")
    assert title(context.opened.agent.log.entries()) == "a better name"
    await context.do("/quit")
    assert context.left


async def test_own_slash_commands(context: RecordingContext, tmp_path: Path) -> None:
    for directory, text in ((context.settings.config_dir, "mine $ARGUMENTS"), (tmp_path / ".sagent", "theirs")):
        (directory / "commands").mkdir(parents=True)
        (directory / "commands" / "fix.md").write_text(text)
    (tmp_path / ".sagent" / "commands" / "model.md").write_text("never")
    await context.do("/fix the bug")
    assert context.prompts == ["mine the bug"]
    assert all_commands(context.settings)["model"].help.startswith("Switch")


async def test_resume_lists_sessions_by_prompt(tmp_path: Path) -> None:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    paths: list[Path] = []
    for asked, answer in (("mend the gate", "The hinge was loose."), ("paint it", "Green, I think.")):
        with Session.create(settings.state_dir, tmp_path) as session:
            agent = Agent(ScriptedModel(answer), resources=Resources(log=session.log()))
            await agent.run(asked)
            await agent.aclose()
        paths.append(session.path)
    with Session.create(settings.state_dir, tmp_path) as session:
        agent = Agent(ScriptedModel("Yes."), resources=Resources(log=session.log()))
        context = RecordingContext(replace(settings, fork="another"), OpenedHere(agent, PermissionPolicy("edit")))
        context.picks = [paths[0]]
        async with context.turn:
            with pytest.raises(UsageError, match="A turn is in progress"):
                await context.do("/resume")
        await context.do("/resume")
        assert [option.label for option in context.offered] == ["paint it", "mend the gate"]  # and not this one
        lookup = context.lookup
        assert lookup is not None
        assert lookup.search("LOOSE hinge", lambda: False) == {paths[0]: "The hinge was loose."}
        assert lookup.search("loose green", lambda: False) == lookup.search("g", lambda: False) == {}
        assert lookup.search("hinge", lambda: True) == {}
        about = dict(lookup.describe(paths[1], lambda: False))
        assert (about["said"], about["asked"]) == ("Green, I think.", "paint it")
        assert "open elsewhere" not in about["used"]
        assert "open elsewhere" in dict(lookup.describe(session.path, lambda: False))["used"]
        assert context.reopened is not None
        assert (context.reopened[0].session, context.reopened[0].fork) == (paths[0], None)
        await agent.aclose()


@pytest.mark.plugin("branches")
@pytest.mark.parametrize(
    ("flags", "model"),
    [
        ({"model": "anthropic/claude-sonnet-4-6", "max_budget_usd": "5"}, "openai/gpt-5.5"),
        ({"model": "one", "base_url": "http://127.0.0.1:9/v1", "effort": "low"}, "openai-compatible/two"),
    ],
)
async def test_fork_keeps_choices(
    flags: dict[str, object], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC", "OPENAI", "OPENAI_COMPATIBLE"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
    given = {"cwd": str(tmp_path), "advisor": ["a=openai/gpt-5.5", "b=openai/gpt-5.5"], "continue": False, **flags}
    settings = load(given, {"HOME": str(tmp_path / "home")}, tmp_path)

    async def open_(settings: Settings) -> OpenedHere:
        return await stack.enter_async_context(open_session(settings, lambda _: None, no_one, no_one))

    async def no_one(*_: object) -> str:
        raise AssertionError

    async with AsyncExitStack() as stack:
        first = await open_(settings)
        first.agent.log.append(contents.Label("begun"))
        for change in ("a=off", "b=anthropic/claude-opus-4-6,effort=high", "c=openai/gpt-5.5"):
            first.agent.apply(Switch(advisor=change))
        first.agent.apply(Switch(model=model.removeprefix("openai-compatible/"), effort="high"))
        assert first.sandbox is not None
        first.sandbox.switch("off")
        first.policy.mode, first.policy.rules = "plan", Rules.parse(["Bash(make:*)", "Network(a.org)"], ["Read(x)"])

        context = RecordingContext(settings, first)
        if "max_budget_usd" in flags:
            await context.do("/cost 2")
        await context.do("/fork")
        assert context.reopened is not None
        reopened, choices = context.reopened
        assert choices is not None
        assert reopened.session is not None
        assert all(
            one in context.said_of_it for one in (reopened.session.name, f"/resume {first.agent.log.session_id}")
        )
        second = await open_(reopened)
        assert second.policy.mode == "edit"  # what is in settings is for other sessions too
        assert await choices.make(second) == []
        before, after = first.agent.status(), second.agent.status()
        assert after.model == model
        assert (after.model, after.effort, after.advisors) == (before.model, "high", before.advisors)
        assert (second.policy.mode, second.policy.rules) == ("plan", first.policy.rules)
        assert second.sandbox is not None
        assert second.sandbox.wanted == "off"
        assert second.agent.ledger.cap == (Decimal(2) if "max_budget_usd" in flags else None)
        head = second.agent.log.head
        assert await choices.make(second) == []
        assert second.agent.log.head == head  # nothing is left to be changed

        await context.do("/new")
        assert "/resume" not in context.said_of_it  # nothing was said in it
        reopened, choices = context.reopened
        assert choices is not None
        third = await open_(reopened)
        assert await choices.make(third) == []
        assert third.agent.log.session_id != first.agent.log.session_id
        assert (third.agent.status().model, third.agent.status().advisors) == (model, before.advisors)
        assert third.policy.mode == "plan"
        assert third.policy.rules == Rules()  # what was allowed was allowed for the other session
        assert third.agent.ledger.cap == settings.max_budget_usd


async def test_compacting_empty_session_is_refused(context: RecordingContext) -> None:
    with pytest.raises(UsageError, match="is empty already"):
        await context.do("/clear")


@pytest.mark.plugin("branches")
async def test_unusable_fork_is_removed(tmp_path: Path) -> None:
    """`--continue` would go on in it."""
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    with Session.create(settings.state_dir, tmp_path) as session:
        agent = Agent(ScriptedModel("Yes."), resources=Resources(log=session.log()))
        await agent.run("a question")
        opened = OpenedHere(agent, PermissionPolicy("edit"))
        with pytest.raises(UsageError, match="--fork"):
            await run_headless_command("/fork\nGo on.", settings, opened, lambda _: None)
        await agent.aclose()
    assert list(sessions(settings.state_dir)) == [session.path]


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
    assert fill_placeholders(body, arguments) == text


def test_own_command_has_description() -> None:
    assert own_command("x", read_document("---\ndescription: does it\n---\nText")).help == "does it"
    assert own_command("x", read_document("Text\nmore")).help == "Text"


async def test_command_on_first_prompt_line(context: RecordingContext, tmp_path: Path) -> None:
    (tmp_path / ".sagent" / "commands").mkdir(parents=True)
    (tmp_path / ".sagent" / "commands" / "fix.md").write_text("Fix $ARGUMENTS.")
    said: list[str] = []

    async def headless_command(text: str) -> str:
        return await run_headless_command(text, context.settings, context.opened, said.append)

    assert await headless_command("just /model this\n/quit") == "just /model this\n/quit"
    assert await headless_command("/effort low\nDo it.\nWell.") == "Do it.\nWell."
    assert context.opened.agent.status().effort == "low"
    assert await headless_command("/fix the bug\nand test") == "Fix the bug.\n\nand test"
    assert await headless_command("/permissions") == ""
    assert "Mode " in "".join(said)
    for text in ("/model", "/login openai", "/copy", "/resume x", "/vim", "/nothing"):
        with pytest.raises(UsageError):
            await headless_command(text)
