"""Nearly-JSON in what providers send: one reader for arguments, answers as data, and events."""

import json

import pytest

from sagent import Agent
from sagent.agent.output import output_of
from sagent.cli.headless import EXIT_FAILED, exit_code
from sagent.errors import ModelError
from sagent.events import Event, Notice
from sagent.lib.json import json_freeze_object
from sagent.lib.schema import parse_arguments
from sagent.messages import Message, ToolCall
from sagent.providers.deferral import Deferral
from sagent.testing.server import Call, FakeProviderServer, Raw, Turn
from tests.agent.test_cut_calls import FAMILIES, SSE, Wipe, provider_of, region

__all__ = ["region"]  # a fixture

PATH = "/tmp/a\nb"
NEAR = [
    '```json\n{"path": "/tmp/a\\nb"}\n```',
    '{"path": "/tmp/a\nb"}',
    '```\n{"path": "/tmp/a\nb"}\n```\n',
    '"{\\"path\\": \\"/tmp/a\\\\nb\\"}"',
]
CUT = ['```json\n{"path": "/tmp/a"}', '```json\n{"path": "/tmp', '{"path": "/tmp\n', '"{\\"path\\": \\"/t"']


@pytest.mark.parametrize("arguments", NEAR)
@pytest.mark.parametrize("family", FAMILIES)
async def test_nearly_json_call_is_run_and_told(family: str, arguments: str) -> None:
    wipe, notices = Wipe(), list[str]()

    def hear(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event.text)

    async with FakeProviderServer([Turn(calls=[Call("wipe", arguments)]), Turn("ok")]) as server:
        provider, model = provider_of(family, server.url)
        agent = Agent(provider.model(model), tools=[wipe.tool])
        agent.listen(hear)
        assert (await agent.run("go")).content == "ok"
        await agent.aclose()
        await provider.aclose()
    assert wipe.paths == [PATH]
    assert any("wipe" in notice and "was read" in notice for notice in notices)


@pytest.mark.parametrize("arguments", CUT)
@pytest.mark.parametrize("family", FAMILIES)
async def test_cut_nearly_json_is_not_run(family: str, arguments: str) -> None:
    wipe = Wipe()
    async with FakeProviderServer([Turn(calls=[Call("wipe", arguments)]), Turn("ok")]) as server:
        provider, model = provider_of(family, server.url)
        async with Agent(provider.model(model), tools=[wipe.tool]) as agent:
            await agent.run("go")
            assert agent.messages[2].results[0].is_error
        await provider.aclose()
    assert wipe.paths == []


@pytest.mark.parametrize("text", NEAR[:3])
def test_answers_and_arguments_read_alike(text: str) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert output_of(schema).find(text) == {"path": PATH} == dict(parse_arguments(text)[0])


@pytest.mark.parametrize("text", CUT[1:3])
def test_cut_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it has no JSON"):
        output_of({"type": "object", "properties": {"path": {"type": "string"}}}).find(text)


def test_object_in_cut_answer_is_no_answer() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    with pytest.raises(ValueError, match="it has no JSON"):
        output_of(schema).find('{"items": [{"name": "a"}, {"name": "b"')


def test_tool_by_name_takes_nearly_json() -> None:
    given = {"name": "wipe", "arguments": NEAR[0]}
    call = ToolCall("c", "call_tool", json_freeze_object(given))
    meant = Deferral(frozenset({"wipe"})).original(Message("assistant", (call,)))
    assert (meant.calls[0].name, dict(meant.calls[0].arguments)) == ("wipe", {"path": PATH})


# -- events ------------------------------------------------------------------------------------------------------------


def stream(text: str) -> bytes:
    """A reply whose text is put into the JSON as it is."""
    return (
        f'data: {{"id": "c", "choices": [{{"index": 0, "delta": {{"content": "{text}"}}}}]}}\n\n'
        'data: {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    ).encode()


@pytest.mark.parametrize("control", ["\t", "\x00", "\x01", "\x0b", "\x1b", "\x1f"])
async def test_raw_control_character_in_event(control: str) -> None:
    async with FakeProviderServer([Raw(200, SSE, stream(f"a{control}b"))]) as server:
        provider, model = provider_of("chat", server.url)
        async with Agent(provider.model(model)) as agent:
            assert (await agent.run("go")).content == f"a{control}b"
        await provider.aclose()
    assert len(server.requests) == 1


async def test_raw_control_characters_in_body() -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "a|b"}, "finish_reason": "stop"}]})
    answer = Raw(200, (("content-type", "application/json"),), body.replace("|", "\n").encode())
    async with FakeProviderServer([answer]) as server:
        provider, model = provider_of("chat", server.url)
        async with Agent(provider.model(model)) as agent:
            assert (await agent.run("go")).content == "a\nb"
        await provider.aclose()


async def test_non_json_event_is_retried_once() -> None:
    async with FakeProviderServer([Raw(200, SSE, stream("a\nb"))] * 9) as server:
        provider, model = provider_of("chat", server.url)
        agent = Agent(provider.model(model))
        with pytest.raises(ModelError) as caught:
            await agent.run("go")
        assert (caught.value.kind, len(server.requests)) == ("protocol", 2)
        assert exit_code(await agent.wait()) == EXIT_FAILED
        await agent.aclose()
        await provider.aclose()
