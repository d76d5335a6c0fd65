"""A block without a path that is a new version of a known file is written, and no other is."""

from dataclasses import replace
from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.engine.context import specs_of
from sagent.messages import Message, ToolCall, ToolResult, assistant, user
from sagent.model import Reply, Request, ToolSpec
from sagent.plugins.textcalls.model import TextModel
from sagent.plugins.textcalls.writing import enclose
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import coding_tools

TOOLS = tuple(specs_of(coding_tools()))
CONF = "# Services\nservices:\n  web:\n    image: shop:1.4\n    ports:\n      - 8080\n"
SCRIPT = '#!/bin/sh\nFROM=notes\necho "copying $FORM"\n'
UNITS = "def to_miles(km):\n    return km * 0.6\n"
ASKED = user("Mend them.", enclose("conf.yaml", CONF), enclose("backup.sh", SCRIPT), enclose("units.py", UNITS))


async def reply_to(said: str, *history: Message, tools: tuple[ToolSpec, ...] = TOOLS) -> Message:
    async for item in TextModel(ScriptedModel(said)).stream(Request("c", history or (ASKED,), "", tools)):
        if isinstance(item, Reply):
            return item.message
    raise AssertionError("there was no reply")


def block(text: str, info: str = "") -> str:
    return f"Here it is:\n\n```{info}\n{text}```\n\nThat will do."


@pytest.mark.parametrize(
    ("said", "path"),
    [
        (block(CONF.replace("1.4", "1.5"), "yaml"), "conf.yaml"),
        (block(CONF.replace("      - 8080\n", "")), "conf.yaml"),
        (block(SCRIPT.replace("FORM", "FROM"), "bash"), "backup.sh"),
        (block(SCRIPT.replace("FORM", "FROM")), "backup.sh"),
        (block(f"{UNITS}\ndef to_km(miles):\n    return miles / 0.6\n", "python"), "units.py"),
        (block(f"# units.py\n{UNITS.replace('0.6', '0.621371')}", "python"), "units.py"),
    ],
)
async def test_version_without_path_written(said: str, path: str) -> None:
    (call,) = (await reply_to(said)).calls
    assert (call.name, call.arguments["file_path"], call.whole) == ("Write", path, True)
    assert call.arguments["content"] == said.split("```")[1].partition("\n")[2].removeprefix("# units.py\n")


@pytest.mark.parametrize(
    "said",
    [
        block(CONF, "yaml"),  # as it is
        block("  web:\n    image: shop:1.5\n", "yaml"),  # a part
        block("  web:\n    image: shop:1.5\n    ports:\n      - 8080\n      - 8081\n", "yaml"),
        block("copying notes\n", "output"),
        block("print('hello')\nprint('world')\n", "python"),
        block(CONF.replace("1.4", "1.5"), "output"),
        f"{block(CONF.replace('1.4', '1.5'), 'yaml')[:-20]}",  # cut
    ],
)
async def test_other_blocks_without_path_stay_text(said: str) -> None:
    assert not (await reply_to(said)).calls


async def test_block_stays_text_if_unwritable() -> None:
    said = block(CONF.replace("1.4", "1.5"), "yaml")
    assert not (await reply_to(said, user("Mend it."))).calls
    unable = tuple(tool for tool in TOOLS if tool.name != "Write")
    assert not (await reply_to(said, ASKED, tools=unable)).calls


async def test_command_and_named_file_kept_apart() -> None:
    reply = await reply_to("```bash\nFROM=notes\necho $FROM\n```")
    assert [(call.name, call.whole) for call in reply.calls] == [("Bash", True)]
    changed = CONF.replace("1.4", "1.5")
    reply = await reply_to(f"conf.yaml\n```\n{changed}```\n\nSo it is:\n\n```yaml\n{changed}```\n")
    assert [(call.name, call.whole) for call in reply.calls] == [("Write", True)]


async def test_own_earlier_write_known() -> None:
    call = ToolCall("1", "Write", {"file_path": "new.py", "content": UNITS})
    history = (user("Do it."), assistant("", call, stop="tool_use"), Message("user", (ToolResult("1", ()),)))
    reply = await reply_to(block(UNITS.replace("km", "kilometres")), *history)
    assert [(call.arguments["file_path"], call.whole) for call in reply.calls] == [("new.py", True)]


async def test_answer_may_show_other_version() -> None:
    asked = user("How would it look with shop 1.5?", enclose("conf.yaml", CONF))
    said = block(CONF.replace("1.4", "1.5"), "yaml")
    assert not (await reply_to(said, asked)).calls
    assert (await reply_to(said, asked, assistant("So."), user("Do that."))).calls


async def test_agent_writes_and_keeps_reply_text(tmp_path: Path) -> None:
    (tmp_path / "backup.sh").write_text(SCRIPT)
    mended = SCRIPT.replace("FORM", "FROM")
    model = ScriptedModel(block(mended, "bash"), "Done.")
    workspace = Workspace(tmp_path)
    workspace.saw(tmp_path / "backup.sh", SCRIPT.encode())
    async with Agent(TextModel(model), tools=coding_tools(), resources=Resources(workspace=workspace)) as agent:
        await agent.run(ASKED)
    assert (tmp_path / "backup.sh").read_text() == mended
    assert model.requests[1].messages[1].content.strip() == block(mended, "bash").removesuffix("\n\nThat will do.")


async def test_path_in_other_case_is_known_file() -> None:
    said = f"CONF.yaml\n```\n{CONF.replace('1.4', '1.5')}```\n"
    assert [call.arguments["file_path"] for call in (await reply_to(said)).calls] == ["conf.yaml"]
    both = user("Mend them.", enclose("conf.yaml", CONF), enclose("Conf.yaml", CONF))
    assert [call.arguments["file_path"] for call in (await reply_to(said, both)).calls] == ["CONF.yaml"]


async def test_bare_command_that_was_told_is_made() -> None:
    told = user("It is still there:\n\n```bash\nrm -r old\n```", sender="sagent")
    for sender, made in (("sagent", True), ("root/other", False), ("", False)):
        message = await reply_to("rm -r old\n", ASKED, assistant("Done."), replace(told, sender=sender))
        assert [call.arguments["command"] for call in message.calls] == ["rm -r old"] * made
    assert not (await reply_to("rm -r new", ASKED, assistant("Done."), told)).calls
