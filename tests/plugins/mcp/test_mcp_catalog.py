"""Prompts of servers as commands, and their resources as mentions."""

import base64
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.messages import Image, Text
from tests.depth import later
from tests.plugins.mcp.odd import Odd, do
from tests.repl.samples import PNG as PIXEL
from tests.waiting import until

WORDS = {
    "name": "words",
    "description": "Finds\x1b[2J words.",
    "arguments": [{"name": "first", "required": True}, {"name": "rest"}],
}
BARE = {"name": "Bare One"}
PNG = {"uri": "odd://png", "mimeType": "image/png", "blob": base64.b64encode(PIXEL).decode()}


async def test_prompts_become_slash_commands(tmp_path: Path) -> None:
    odd = Odd(tmp_path, prompts=[WORDS, BARE, {"name": "third"}])
    async with odd.opened() as servers:
        words, bare, third = await servers.prompts()
        assert [one.name for one in (words, bare, third)] == [
            "mcp__odd__words",
            "mcp__odd__bare_one",
            "mcp__odd__third",
        ]
        assert words.about == "Finds\ufffd[2J words."
        assert words.usage == "<first> [rest]"
        assert await servers.fill(words, "'a b' c d") == 'words {"first": "a b", "rest": "c d"}'
        assert await servers.fill(bare, "") == "Bare One {}"
        with pytest.raises(UsageError, match="mcp__odd__words needs first: /mcp__odd__words <first> "):
            await servers.fill(words, "")
        with pytest.raises(UsageError, match="takes no arguments"):
            await servers.fill(bare, "more")
        assert odd.log.count("prompts/list") == 2  # two pages, once


async def test_changed_prompts_listed_again(tmp_path: Path) -> None:
    odd = Odd(tmp_path, prompts=[BARE])
    heard: list[None] = []
    async with odd.opened() as servers:
        servers.follow(lambda: heard.append(None))
        assert len(await servers.prompts()) == 1
        odd.offer(tools=[], prompts=[BARE, WORDS])
        await do(servers, "notify('notifications/prompts/list_changed')")
        await until(lambda: bool(heard), "the change")
        assert len(await servers.prompts()) == 2


async def test_resources_listed_on_first_use(tmp_path: Path) -> None:
    listed = [{"uri": uri, "name": "n"} for uri in ("odd://a", "odd://png", "odd://\x1b[2J", 'odd://"b"', "odd://a b")]
    held = {"odd://a": {"contents": [{"uri": "odd://a", "text": "long " * 100_000}]}, "odd://png": {"contents": [PNG]}}
    odd = Odd(tmp_path, resources=listed, read=held)
    async with odd.opened() as servers:
        assert "resources/list" not in odd.log
        assert await servers.resources() == ["odd:odd://a", "odd:odd://png"]
        assert await servers.resources() == ["odd:odd://a", "odd:odd://png"]
        assert odd.log.count("resources/list") == 3  # pages
        (text,) = await servers.read("odd:odd://a")
        assert isinstance(text, Text)
        assert text.text.startswith('\n<resource uri="odd://a">\nlong long')
        assert "[100000 more characters]" in text.text
        assert await servers.read("odd:odd://png") == [Image("image/png", PIXEL)]
        with pytest.raises(UsageError, match="@odd:odd://none could not be read"):
            await servers.read("odd:odd://none")
        assert servers.has("odd:odd://x")
        assert not servers.has("odd:")
        assert not servers.has("other:odd://x")


async def test_server_without_tools_accepted(tmp_path: Path) -> None:
    odd = Odd(tmp_path)
    odd.offer(prompts=[BARE])
    async with odd.opened() as servers:
        assert servers.tools == ()
        assert odd.notices == []
        assert [one.own for one in await servers.prompts()] == ["Bare One"]
        assert await servers.resources() == []


@later
@pytest.mark.parametrize("mime", ["image/png", "application/pdf"])
@pytest.mark.parametrize("data", ["a", "\u00e9"])
async def test_bad_base64_reported(tmp_path: Path, mime: str, data: str) -> None:
    held = {"uri": "file:///x", "mimeType": mime, "blob": data}
    odd = Odd(tmp_path, resources=[{"uri": "file:///x", "name": "x"}], read={"file:///x": {"contents": [held]}})
    async with odd.opened() as servers:
        (part,) = await servers.read("odd:file:///x")
        assert isinstance(part, Text) and "not base64" in part.text
        for block in ({"type": "resource", "resource": held}, {"type": "image", "mimeType": mime, "data": data}):
            assert "not base64" in await do(servers, f"result = {{'content': [{block}]}}")
