"""A part of a request that a provider refuses is left out, said, logged and kept out."""

import base64
import json
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import pytest

from sagent import Agent
from sagent.errors import ModelError
from sagent.lib.image import measure_image
from sagent.lib.json import JsonObject, json_freeze_object, sha256_hex
from sagent.messages import Document, Image, Message, Text, ToolCall, ToolResult, user
from sagent.model import Request, ToolSpec
from sagent.plugins.clouds import Bedrock
from sagent.providers import Anthropic, Google, OpenAI, OpenAICompatible
from sagent.providers.leftout import find_refused
from sagent.testing.model_suite import collect
from sagent.testing.script import Received
from sagent.testing.server import Fail, FakeProviderServer, Turn
from sagent.tool import RunContext, ToolOutput
from sagent.tools.pdf import encode_png
from tests.depth import later
from tests.repl.samples import PNG

Wire: TypeAlias = Anthropic | OpenAI | OpenAICompatible | Google
Made: TypeAlias = Wire | Bedrock
MODELS: dict[type[Made], str] = {
    Anthropic: "claude-sonnet-4-6",
    OpenAI: "gpt-5.6-terra",
    OpenAICompatible: "some-model",
    Google: "gemini-3.1-pro-preview",
    Bedrock: "amazon.nova-pro-v1:0",
}


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


NOTHING = set[str]()
OTHER = PNG[:-12] + b"\0\0\0\0tEXt" + PNG[-12:]  # another image, by its bytes
SPECS = tuple(
    ToolSpec(name, name, json_freeze_object({"type": "object", "properties": {}}))
    for name in ("Read", "mcp__maps__key")
)
HISTORY = [
    Message("user", (Text("look"), Image("image/png", PNG))),
    Message("assistant", (Text("I see"), ToolCall("c1", "Read", json_freeze_object({"file_path": "b.png"})))),
    Message("user", (ToolResult("c1", (Text("b.png"), Image("image/png", OTHER))),)),
]


def refused(made: type[Wire], words: str, *, status: int = 400) -> set[str]:
    """What an error is found to be about, in short."""
    provider = made.from_key("k" * 9, base_url="http://127.0.0.1:9")
    model = provider.model(MODELS[made])
    request = Request("c", HISTORY, "", SPECS)
    error = ModelError("invalid_request", words, provider="p", status=status)
    found = find_refused(error, model.prepare(request).body.data, request, None)
    return {"first" if "bytes)" in said else "second" if "b.png" in said else named(key) for key, said in found.items()}


def named(key: str) -> str:
    """Return the key of a tool without the digest of its definition."""
    return key.rpartition(" ")[0] if key.startswith("tool ") else key


@pytest.mark.parametrize(
    ("made", "words", "found"),
    [
        (Anthropic, "tools.1.custom.input_schema: JSON schema is invalid", {"tool mcp__maps__key"}),
        (Anthropic, "messages.0.content.1.image.source.base64.data: image exceeds 5 MB", {"first"}),
        (
            Anthropic,
            "messages.2.content.0.tool_result.content.1.image: Could not process image",
            {"second"},
        ),
        (Anthropic, "Could not process image", {"second"}),
        (OpenAI, "Invalid 'tools[1].parameters': schema must have type 'object'", {"tool mcp__maps__key"}),
        (OpenAI, "Invalid schema for function 'mcp__maps__key': ('a',) is not valid", {"tool mcp__maps__key"}),
        (OpenAI, "[{'type': 'missing', 'loc': ('body', 'tools', 1, 'name'), 'msg': 'odd'}]", {"tool mcp__maps__key"}),
        (OpenAI, '{"detail":[{"loc":["body","tools",1],"msg":"odd"}]}', {"tool mcp__maps__key"}),
        (OpenAI, '{"loc": ["query", "a"], "msg": "odd"}', set()),
        (OpenAI, "Invalid 'input[0].content[1].image_url'. Expected a valid URL", {"first"}),
        (OpenAI, "The image data you provided does not represent a valid image", {"second"}),
        (
            OpenAICompatible,
            "body -> tools -> 1 -> function -> parameters: not valid",
            {"tool mcp__maps__key"},
        ),
        (OpenAICompatible, "[{'loc': 'x'}] messages[0].content[1].image_url: cannot identify image file", {"first"}),
        (OpenAICompatible, "tools[1].function.name: too long", {"tool mcp__maps__key"}),
        (
            Google,
            "* GenerateContentRequest.tools[0].function_declarations[1].name: no",
            {"tool mcp__maps__key"},
        ),
        (Google, "Invalid value at 'contents[0].parts[1].inline_data.data' (TYPE_BYTES)", {"first"}),
        (Google, "Unable to process input image. Please retry", {"second"}),
        (Google, "Request contains an invalid argument.", {"second"}),
        (OpenAICompatible, "illegal base64 data at input byte 4", {"second"}),
        (OpenAICompatible, "image_parse_error", {"second"}),
        (OpenAICompatible, "1 validation error for image_url", {"second"}),
        (OpenAICompatible, "Multimodal input failed", {"second"}),
        (OpenAICompatible, "unexpected EOF while decoding", {"second"}),
        (OpenAICompatible, "imageless requests are free", NOTHING),
        (Anthropic, "messages: roles must alternate", NOTHING),
        (Anthropic, "max_tokens: 5 is too few", NOTHING),
        (Anthropic, "tools.99.custom.input_schema: bad", {"tool mcp__maps__key"}),  # of a schema, nobody knows which
    ],
)
def test_part_is_found(made: type[Wire], words: str, found: set[str]) -> None:
    assert refused(made, words) == found


@pytest.mark.parametrize("status", [401, 404, 503])
def test_other_errors_leave_nothing_out(status: int) -> None:
    assert refused(Anthropic, "tools.1.custom.input_schema: bad", status=status) == set()


def test_bedrock_counts_from_one() -> None:
    body = json.dumps({"toolConfig": {"tools": [{"toolSpec": {"name": spec.name}} for spec in SPECS]}}).encode()
    words = "Value at 'toolConfig.tools.2.member.toolSpec.name' failed to satisfy constraint"
    error = ModelError("invalid_request", words, provider="p", status=400)
    found = find_refused(error, body, Request("c", HISTORY, "", SPECS), None)
    assert [*map(named, found)] == ["tool mcp__maps__key"]


def test_all_images_over_size_are_found() -> None:
    wide = [Image("image/png", encode_png(b"\0" * size, size, 1, size, 1)) for size in (300, 301, 299)]
    words = "messages.0.content.1: image dimensions exceed the size for many-image requests: 299 pixels"
    error = ModelError("invalid_request", words, provider="p", status=400)
    assert len(find_refused(error, b"{}", Request("c", [Message("user", tuple(wide))]), None)) == 2


def test_older_half_of_images_is_found() -> None:
    images = tuple(Image("image/png", PNG + bytes([number])) for number in range(5))
    error = ModelError("invalid_request", "Too many images and documents: 5 + 0 > 4", provider="p", status=400)
    found = find_refused(error, b"{}", Request("c", [Message("user", images)]), None)
    assert [*found] == [f"media {sha256_hex(image.data)}" for image in images[:3]]


def test_last_of_too_many_tools_found() -> None:
    tools = tuple(ToolSpec(name, name, SPECS[0].parameters) for name in ("Read", *(f"mcp__a__{n}" for n in range(10))))
    words = "Invalid 'tools': array too long. Expected an array with maximum length 9, but got one with length 11."
    error = ModelError("invalid_request", words, provider="p", status=400)
    found = find_refused(error, b"{}", Request("c", [], "", tools), None)
    assert [*map(named, found)] == ["tool mcp__a__8", "tool mcp__a__9"]


def test_document_of_a_person_is_named() -> None:
    messages = [Message("user", (Text("read"), Document("application/pdf", b"%PDF-1.4", "a.pdf")))]
    error = ModelError("invalid_request", "The PDF specified is password protected.", provider="p", status=400)
    (said,) = find_refused(error, b"{}", Request("c", messages), None).values()
    assert said.startswith("the document a.pdf")


class Plain:
    """A tool that a provider may dislike."""

    description = "Finds."

    def __init__(self, name: str, kind: str = "object") -> None:
        self.name = name
        self.parameters = json_freeze_object({"type": "object", "properties": {"a": {"type": kind}}})

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        raise NotImplementedError


Check = Callable[[bytes], Fail | None]


def dislikes_tool(body: bytes) -> Fail | None:
    return (
        Fail(400, message="tools: Invalid schema for function 'mcp__maps__key': no")
        if b"mcp__maps__key" in body
        else None
    )


def dislikes_image(body: bytes) -> Fail | None:
    return Fail(400, message="Could not process image") if base64.b64encode(PNG)[:60] in body else None


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize(("check", "named"), [(dislikes_tool, "MCP server maps"), (dislikes_image, "the image")])
async def test_turn_goes_on_without_the_part(made: type[Made], check: Check, named: str, tmp_path: Path) -> None:
    def steps(request: Received) -> Fail | Turn:
        return check(request.body) or Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        for number, prompt in enumerate((Message("user", (Text("see"), Image("image/png", PNG))), user("again"))):
            provider = made.from_key("k" * 9, base_url=server.url)  # a new process knows nothing
            model = provider.model(MODELS[made])
            notices = list[str]()
            tools = [Plain("mcp__maps__key"), Plain("good")]
            async with Agent(model, tools=tools, session=tmp_path / "s", max_budget_usd=None) as agent:
                agent.listen(partial(_note, notices))
                assert (await agent.run(prompt)).content == "hello"
            await provider.aclose()
            assert any(named in each and "left out" in each for each in notices)
            assert len(server.requests) == 2 + number  # refused once, and never sent again
    bodies = [request.body for request in server.requests]
    assert check(bodies[0]) is not None and check(bodies[1]) is None and check(bodies[2]) is None
    assert b"good" in bodies[1]


@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
async def test_damaged_middle_is_left_out(made: type[Made], form: str, tmp_path: Path) -> None:
    """Its structure is whole, so that only the provider finds it."""
    pillow, out = pytest.importorskip("PIL.Image"), BytesIO()
    pillow.effect_noise((64, 64), 90).save(out, form)
    data = bytearray(out.getvalue())
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    image = Image(f"image/{form.lower()}", bytes(data))
    assert measure_image(image.data, image.media_type) == (64, 64)
    start = base64.b64encode(data)[:80]

    def steps(request: Received) -> Fail | Turn:
        shown = re.search(rb"/9j/|UklGR|iVBORw0KGgo", request.body)  # in any form
        return Turn(text="hello") if shown is None else Fail(400, message="Could not process image")

    async with FakeProviderServer(steps, strict=False) as server:
        for prompt in (Message("user", (Text("see"), image)), user("again")):
            provider, notices = made.from_key("k" * 9, base_url=server.url), list[str]()
            async with Agent(provider.model(MODELS[made]), session=tmp_path / "s", max_budget_usd=None) as agent:
                agent.listen(partial(_note, notices))
                assert (await agent.run(prompt)).content == "hello"
            await provider.aclose()
            assert any("the image" in each and "left out" in each for each in notices)
        assert sum(start in request.body for request in server.requests) == 1  # and once in a new encoding, if at all
        assert len(server.requests) <= 4


def _note(notices: list[str], event: object) -> None:
    notices.append(str(event))


async def test_useless_omission_is_undone() -> None:
    fails = Fail(400, message="messages.0.content.1: Could not process image")
    async with FakeProviderServer(lambda _: fails, strict=False) as server:
        provider = Anthropic.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("claude-sonnet-4-6")) as agent:
            with pytest.raises(ModelError, match="sessions compact"):
                await agent.run(Message("user", (Text("see"), Image("image/png", PNG))))
        await provider.aclose()
    assert len(server.requests) == 2
    assert provider.refused_parts["claude-sonnet-4-6"] == {}


async def test_many_refused_parts_end() -> None:
    tools = [Plain(f"t{number}") for number in range(20)]

    def steps(request: Received) -> Fail | Turn:
        tools = json.loads(request.body).get("tools", ())
        return Fail(400, message=f"tools.{len(tools) - 1}.custom: no") if tools else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = Anthropic.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("claude-sonnet-4-6"), tools=tools) as agent:
            for _ in range(2):  # what was found to be refused stays out
                with pytest.raises(ModelError):
                    await agent.run("go")
            assert (await agent.run("go")).content == "hello"
        await provider.aclose()
    assert len(server.requests) == 23


async def test_tools_of_one_server_left_out_together() -> None:
    names = [f"mcp__{server}__t{number}" for server in ("bad", "good") for number in range(12)]

    def steps(request: Received) -> Fail | Turn:
        sent = [tool["name"] for tool in json.loads(request.body)["tools"]]
        bad = [place for place, name in enumerate(sent) if "bad" in name]
        return Fail(400, message=f"tools.{bad[0]}.custom.input_schema: no") if bad else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = Anthropic.from_key("k" * 9, base_url=server.url)
        notices = list[str]()
        async with Agent(provider.model("claude-sonnet-4-6"), tools=[*map(Plain, names)]) as agent:
            agent.listen(partial(_note, notices))
            assert (await agent.run("go")).content == "hello"
        await provider.aclose()
    assert len(server.requests) == 4
    assert len(json.loads(server.requests[-1].body)["tools"]) == 12
    assert len([each for each in notices if "tools of the MCP server bad" in each]) == 1


@pytest.mark.parametrize(
    ("prompt", "words", "later"),
    [
        (Message("user", (Text("see"), Image("image/png", PNG))), "Could not process image", 358),
        (user("hi"), "this gateway counts nothing", None),
    ],
)
async def test_count_refused_for_part_keeps_counting(
    raw_server: Callable[..., AbstractAsyncContextManager[FakeProviderServer]],
    prompt: Message,
    words: str,
    later: int | None,
) -> None:
    answers = [b'{"error": {"message": "%s"}}' % words.encode(), b'{"input_tokens": 100}']
    lines = (b"400 Bad Request", b"200 OK")
    sent = [
        b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (line, len(body), body)
        for line, body in zip(lines, answers, strict=True)
    ]
    async with raw_server(*([each] for each in sent)) as server:
        provider = Anthropic.from_key("k" * 9, base_url=server.url)
        model = provider.model("claude-sonnet-4-6")
        assert await model.count_tokens(Request("c", [prompt])) is None
        assert await model.count_tokens(Request("c", [user("again")])) == later
        await provider.aclose()


def _dislikes_integers(request: Received) -> Fail | Turn:
    fails = Fail(400, message="tools: Invalid schema for function 'mcp__maps__key': no")
    return fails if b'"integer"' in request.body else Turn(text="hello")


@pytest.mark.parametrize("made", MODELS)
async def test_corrected_tool_is_offered_again(made: type[Made]) -> None:
    async with FakeProviderServer(_dislikes_integers, strict=False) as server:
        provider = made.from_key("k" * 9, base_url=server.url)
        for kind in ("integer", "string", "integer"):  # of three agents, whose servers have the same names
            async with Agent(provider.model(MODELS[made]), tools=[Plain("mcp__maps__key", kind)]) as agent:
                assert (await agent.run("go")).content == "hello"
        await provider.aclose()
    assert [b"mcp__maps__key" in request.body for request in server.requests] == [True, False, True, False]


def large(side: int) -> Image:
    return Image("image/png", encode_png(bytes(side * side), side, side, side, 1))


def shown(body: bytes) -> set[bytes]:
    """The beginnings of the images in a body."""
    return {found[:120] for found in re.findall(rb"[A-Za-z0-9+/=]{120,}", body)}


@later
@pytest.mark.costly
@pytest.mark.parametrize("made", MODELS)
async def test_large_image_is_sent_smaller_once(made: type[Made], tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    image = large(1_500)
    original = base64.b64encode(image.data)

    def steps(request: Received) -> Fail | Turn:
        fails = Fail(400, message="Could not process image: it exceeds the size that is allowed")
        return fails if original in request.body else Turn(text="hello")

    notices = list[str]()
    async with FakeProviderServer(steps, strict=False) as server:
        for prompt in (Message("user", (Text("see"), image)), user("again")):
            provider = made.from_key("k" * 9, base_url=server.url)
            async with Agent(provider.model(MODELS[made]), session=tmp_path / "s") as agent:
                agent.listen(partial(_note, notices))
                assert (await agent.run(prompt)).content == "hello"
            await provider.aclose()
    assert [request.path for request in server.requests] == [server.requests[0].path] * 3
    first, second, third = (shown(request.body) for request in server.requests)
    assert first != second
    assert second  # an image
    assert second <= third  # the same one in another process
    assert any("sent smaller" in each for each in notices)


@pytest.mark.costly
@pytest.mark.parametrize("made", MODELS)
async def test_image_refused_smaller_is_left_out(made: type[Made]) -> None:
    pytest.importorskip("PIL")

    def steps(request: Received) -> Fail | Turn:
        return Fail(400, message="Could not process image") if shown(request.body) else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = made.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model(MODELS[made])) as agent:
            assert (await agent.run(Message("user", (Text("see"), large(1_500))))).content == "hello"
            assert (await agent.run("again")).content == "hello"
        await provider.aclose()
    assert len(server.requests) == 4
    assert b"the provider refused it" in server.requests[2].body


async def test_wrongly_suspected_image_put_back() -> None:
    """The first image is suspected in vain; later the second one is refused."""
    image = Message("user", (Text("see"), large(8), large(9)))
    replies = [
        Fail(400, message="messages.0.content.1.image: no"),
        Fail(400, message="max_tokens: too many"),
        Fail(400, message="messages.0.content.2.image: no"),
        Turn(text="hello"),
    ]
    async with FakeProviderServer(replies, strict=False) as server:
        provider = Anthropic.from_key("k" * 9, base_url=server.url)
        model, request = provider.model("claude-sonnet-4-6"), Request("c", [image])
        with pytest.raises(ModelError, match="max_tokens"):
            await collect(model, request)
        _, reply = await collect(model, request)
        await provider.aclose()
    assert reply.message.content == "hello"
    kinds = [[block["type"] for block in json.loads(each.body)["messages"][0]["content"]] for each in server.requests]
    assert kinds[0] == ["text", "image", "image"]
    assert kinds[1] == ["text", "text", "image"]
    assert kinds[3] == ["text", "image", "text"]


@pytest.mark.parametrize(
    "words",
    [
        "cannot identify image file <_io.BytesIO object at 0x7f>",
        "image file is truncated (3 bytes not processed)",
        "Failed to load image: broken data stream when reading image file",
        "image: unknown format",
        "Provided image is not valid.",
        "Image is too large",
    ],
)
async def test_error_500_about_image_leaves_it_out(words: str) -> None:
    """vLLM, SGLang and Ollama pass on what their libraries raise."""

    def steps(request: Received) -> Fail | Turn:
        return Fail(500, message=words) if base64.b64encode(PNG)[:60] in request.body else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = OpenAICompatible.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("some-model")) as agent:
            image = Message("user", (Text("see"), Image("image/png", PNG)))
            assert (await agent.run(image)).content == "hello"
        await provider.aclose()
    assert len(server.requests) == 2


async def test_500_about_grammar_leaves_tool_out() -> None:
    def steps(request: Received) -> Fail | Turn:
        fails = Fail(500, message="failed to parse grammar")
        return fails if b"mcp__maps__key" in request.body else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = OpenAICompatible.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("some-model"), tools=[Plain("mcp__maps__key"), Plain("good")]) as agent:
            assert (await agent.run("go")).content == "hello"
        await provider.aclose()
    assert b"good" in server.requests[1].body


@pytest.mark.parametrize("words", ["internal error", "failed to load model", "the image service is down"])
async def test_other_500_is_retried_unchanged(words: str) -> None:
    answers = [Fail(500, message=words), Turn(text="hello")]
    async with FakeProviderServer(answers, strict=False) as server:
        provider = OpenAICompatible.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("some-model")) as agent:
            image = Message("user", (Text("see"), Image("image/png", PNG)))
            assert (await agent.run(image)).content == "hello"
        await provider.aclose()
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize(
    "words",
    [
        "Unsupported image format: image/x-odd is not supported",
        "images larger than 5 MB are not accepted",
        "At most 1 image(s) may be provided in one prompt: more are not allowed",
    ],
)
async def test_one_bad_image_does_not_blind_model(words: str) -> None:
    bad, good = large(8), large(9)

    def steps(request: Received) -> Fail | Turn:
        return Fail(400, message=words) if base64.b64encode(bad.data) in request.body else Turn(text="hello")

    async with FakeProviderServer(steps, strict=False) as server:
        provider = OpenAICompatible.from_key("k" * 9, base_url=server.url)
        async with Agent(provider.model("some-model")) as agent:
            assert (await agent.run(Message("user", (Text("see"), bad)))).content == "hello"
            assert (await agent.run(Message("user", (Text("see"), good)))).content == "hello"
        await provider.aclose()
    assert base64.b64encode(good.data) in server.requests[-1].body
    assert len(server.requests) == 3
