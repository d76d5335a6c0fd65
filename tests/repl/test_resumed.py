"""A session that is continued shows what was seen of it, and how its last turn ended."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.agent import Agent, Resources
from sagent.config import load
from sagent.context.compaction import compose
from sagent.events import Event, ToolFinished
from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall, user
from sagent.policy import Allow, Ask
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.repl.session import _last_blocks
from sagent.repl.view.blocks import Block, MessageBlock, Report, past_blocks, render_block
from sagent.repl.view.lines import plain
from sagent.repl.view.view import View, reduce
from sagent.session.store import Session
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import Bash, Edit, Read
from tests.messages import call, calls

if TYPE_CHECKING:
    from sagent.config import Settings


async def recorded(tmp_path: Path, *more: ToolCall) -> tuple["Settings", list[Block]]:
    """A session of four calls under one id and `more`, as settings that continue it, and the blocks that were seen."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "f").write_text("x = 1\ny = 2\n")
    settings = load({"cwd": str(work), "continue_session": True}, {"HOME": str(tmp_path)}, work)
    policy = PermissionPolicy("edit", home=tmp_path)
    policy.rules = Rules.parse((), ("Bash(false)",))
    steps = [
        call("c", "Read", file_path="f"),
        call("c", "Edit", file_path="f", old_string="x = 1", new_string="x = 2"),
        call("c", "Bash", command="printf 'a\\nb\\nc\\n'; exit 3"),
        call("c", "Bash", command="false"),
        *more,
    ]
    seen, view = list[Block](), View()

    async def change(call: ToolCall, ask: Ask) -> Allow | None:
        if call.arguments["command"] == "asked":
            return Allow(json_freeze_object({**call.arguments, "command": "echo it ran"}))
        return None

    def listen(event: Event) -> None:
        nonlocal view
        view, blocks = reduce(view, event, 0.0)
        seen.extend(blocks)

    with Session.create(settings.state_dir, work) as session:
        model = ScriptedModel(*map(calls, steps), "Done.")
        resources = Resources(log=session.log(), workspace=Workspace(work), ask=change)
        agent = Agent(model, tools=[Bash(), Edit(), Read()], policy=policy, resources=resources)
        agent.listen(listen)
        await agent.run("go")
        await agent.aclose()
        assert [one for one in past_blocks(agent.messages, "root") if isinstance(one, Report)] == []
    return replace(settings, session=session.path), seen


async def test_resumed_cards_are_those_seen(tmp_path: Path) -> None:
    settings, seen = await recorded(tmp_path, call("c", "Bash", command="asked"))  # which the person changes
    cards = [
        [render_block(one, 80) for one in blocks if isinstance(one, ToolFinished)]
        for blocks in (seen, _last_blocks(settings))
    ]
    assert len(cards[0]) == 5
    assert cards[0] == cards[1]
    assert "echo it ran" in plain(cards[0][-1]) and "asked" not in plain(cards[0][-1])


async def test_cut_off_turn_is_named(tmp_path: Path) -> None:
    settings, _ = await recorded(tmp_path)
    assert settings.session is not None
    log = settings.session / "root.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if b'"kind":"message"' in line)
    last = max(at for at, line in enumerate(lines) if b'"kind":"message"' in line)
    for end in range(first + 1, last + 2):  # as the end of the process may leave it
        log.write_bytes(b"".join(lines[:end]))
        told = [one for one in _last_blocks(settings) if isinstance(one, Report)]
        assert [one.level for one in told] == ([] if end > last else ["warning"]), end


def test_summary_is_told_and_not_shown() -> None:
    messages = [user("first"), user(compose("## Goal\nsecret words"), sender="sagent"), user("a hint", sender="sagent")]
    first, summary, hint = past_blocks(messages, "root")
    assert isinstance(summary, Report) and "summarized" in summary.text
    assert [isinstance(one, MessageBlock) for one in (first, hint)] == [True, True]
