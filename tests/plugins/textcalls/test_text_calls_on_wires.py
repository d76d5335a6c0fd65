"""Calls in text in every form, streamed by a server of each family in pieces of every size."""

from collections.abc import Callable

import pytest

from sagent.context.calls import own_forms, valid_stream
from sagent.messages import user
from sagent.model import Model, Reply, Request, TextPart
from sagent.plugins.textcalls.model import TextModel
from sagent.providers import Anthropic, Google, OpenAI
from sagent.providers.registry import provider_named
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer
from tests.plugins.textcalls.test_text_calls import FORMS, GIVEN, TOOLS, called

FAMILIES: dict[str, Callable[[str], Model]] = {
    "messages": lambda url: Anthropic.from_key("k", base_url=url).model("claude-sonnet-4-6"),
    "chat": lambda url: provider_named("openai-compatible", key="k", base_url=f"{url}/v1").model("some-70b"),
    "responses": lambda url: OpenAI.from_key("k", base_url=f"{url}/v1").model("gpt-5.5"),
    "google": lambda url: Google.from_key("k", base_url=url).model("gemini-2.5-pro"),
}


@pytest.mark.costly
@pytest.mark.parametrize("size", [0, 1, 2, 5, 24])
@pytest.mark.parametrize("family", FAMILIES)
async def test_call_parsed_from_any_chunks(family: str, size: int) -> None:
    turns = [Turn(text=f"I read it.\n\n{form}", pieces=size) for form in FORMS.values()]
    async with FakeProviderServer(turns, require_key=False) as server:
        model = FAMILIES[family](server.url)
        for form in FORMS:
            request = Request("c", (user("go"),), tools=TOOLS, max_output=1_000)
            items = [item async for item in valid_stream(model, request, own_forms)]
            (reply,) = (item for item in items if isinstance(item, Reply))
            assert called(reply.message) == [("Read", GIVEN)], form
            shown = "".join(item.text for item in items if isinstance(item, TextPart))
            assert shown == reply.message.content == "I read it.\n\n"


@pytest.mark.parametrize("family", FAMILIES)
async def test_block_is_read_from_any_pieces(family: str) -> None:
    text = "I look.\r\n\r\n```bash\r\nls größe 🌍\r\n```\r\nIt prints x."
    sizes = range(1, len(text))
    async with FakeProviderServer([Turn(text=text, pieces=size) for size in sizes], require_key=False) as server:
        model = TextModel(FAMILIES[family](server.url))
        for _ in sizes:
            request = Request("c", (user("go"),), tools=TOOLS, max_output=1_000)
            items = [item async for item in valid_stream(model, request, own_forms)]
            (reply,) = (item for item in items if isinstance(item, Reply))
            assert called(reply.message) == [("Bash", {"command": "ls größe 🌍"})]
            assert reply.message.content == "I look."
            assert "It prints" not in "".join(item.text for item in items if isinstance(item, TextPart))
