"""Answers of MCP servers: each block that can be shown is, and what is left out is named."""

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.types import CallToolResult
from mcp_types.methods import parse_server_result

from sagent.lib.json import as_array, as_object, json_freeze_object
from sagent.messages import Document, Image, Text
from sagent.plugins.mcp.answers import COMPLETE, mend_answer
from sagent.plugins.mcp.output import is_said, is_same, output_of
from sagent.tool import RunContext, ToolOutput, Workspace
from tests.depth import later
from tests.plugins.mcp.odd import Odd, do, tool
from tests.repl.samples import PNG

WAV = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\x08\0\0\0" + b"\x80" * 8


MEMBERS = ("type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "content", "_meta", "source", "size")
WORDS = st.sampled_from(["", "x", "text", "image", "resource", "imageUrl", "data:image/png;base64,iVBORw0KGgo=", "a:b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=12,
)
ANSWERS = ("content", "structuredContent", "isError", "_meta", "toolResult", "resultType", "rows")


@given(st.dictionaries(st.sampled_from(ANSWERS), VALUES, max_size=5))
@example({"content": [{"type": ["x"], "text": "y"}]})
@example({"content": [{"type": {}, "content": ["y"]}]})
@example({"resultType": ["table"], "_meta": False, "rows": []})
def test_any_answer_to_a_call_is_taken(answer: dict[str, object]) -> None:
    blocks = [as_object(block) for block in as_array(answer.get("content"))]
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    mend_answer(answer, "2025-06-18", of_call=True)
    read = parse_server_result("tools/call", "2025-06-18", {**COMPLETE, **answer})
    assert isinstance(read, CallToolResult)
    shown = "".join(part.text for part in output_of(read, "it").content if isinstance(part, Text))
    assert all(str(text) in shown for text in texts)


@later
@pytest.mark.parametrize(
    ("result", "read"),
    [
        ({"content": None, "structuredContent": {"a": 1}}, '{"a":1}'),
        ({"structuredContent": {"a": 1}}, '{"a":1}'),
        ({"structuredContent": [1, 2]}, "[1,2]"),
        ({"content": [], "structuredContent": "words"}, "words"),
        ({"content": {"type": "text", "text": "alone"}}, "alone"),
        ({"content": "plain"}, "plain"),
        ({"content": ["plain"]}, "plain"),
        ({"content": [{"type": "text", "text": {"a": 1}}]}, '{"a":1}'),
        ({"content": [{"type": "text", "text": "x", "annotations": {"priority": "high"}, "_meta": 5}]}, "x"),
        ({"content": [{"type": "text", "text": "x"}], "isError": None, "_meta": None}, "x"),
        ({"toolResult": {"a": 1}}, '{"a":1}'),
        (
            {"content": [{"type": "text", "text": "x"}, {"type": "hologram", "beam": 7}]},
            'x(a block of the type hologram cannot be shown: {"beam":7})',
        ),
        ({"content": [{"type": "image"}]}, "(a block of the type image cannot be shown: {})"),
        ({"isError": False}, "(nothing)"),
        ({"_meta": {}}, "(nothing)"),
        ({"text": "at the top"}, '{"text":"at the top"}'),
        ({"isError": False, "message": "said"}, '{"message":"said"}'),
        (
            {"content": [{"type": "text", "text": "x"}], "rows": [1]},
            "x(members of the answer that cannot be shown: rows)",
        ),
        ({"structuredContent": {"a": 1}, "rows": [1]}, '(members of the answer that cannot be shown: rows){"a":1}'),
        ({"content": [[{"type": "text", "text": "a"}], "b"]}, "ab"),
        ({"content": [{"text": "no type"}, {"type": "TEXT", "text": "!"}]}, "no type!"),
        (
            {"content": [{"type": "output_text", "text": "y" * 900}]},
            "(a block of the type output_text, of which this is the text:)\n" + "y" * 900,
        ),
        ({"content": [7]}, "(a block without a type cannot be shown: 7)"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "held", "mimeType": 5}}]},
            "a:b:\nheld",
        ),
        (
            {"content": [{"type": "resource_link", "uri": "a:b", "size": "big", "description": "the log"}]},
            "a:b: a:b (the log)",
        ),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
@pytest.mark.parametrize("discover", ["legacy", "modern"])
async def test_odd_answer_is_shown(tmp_path: Path, result: dict[str, object], read: str, discover: str) -> None:
    odd = Odd(tmp_path, discover=discover)
    extra = {"resultType": "complete"} if discover == "modern" else {}
    async with odd.opened() as servers:
        assert await do(servers, f"result = { ({**extra, **result})!r}") == read


@pytest.mark.costly
@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"result": "words"}, "words"),
        ({"result": 5}, "5"),
        ({"result": ["a", 1]}, '["a",1]'),
        ({"result": None}, "(nothing)"),
        ({"error": "it broke"}, "it broke"),
        ({"error": {"message": "no code"}}, "no code"),
        ({"error": {"code": "E1", "message": "odd code"}}, "odd code"),
        ({"error": {"code": -1}}, '{"code": -1}'),
        ({}, "an answer with neither a result nor an error"),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
async def test_malformed_answer_fails_the_call(tmp_path: Path, answer: dict[str, object], read: str) -> None:
    odd = Odd(tmp_path)
    async with asyncio.timeout(60), odd.opened() as servers:
        code = f"raw(json.dumps({{'jsonrpc': '2.0', 'id': number, **{answer!r}}}).encode())"
        assert read in await do(servers, code)


async def test_error_keeps_structured_content(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "failed"}, {"type": "new"}]
    result = {"content": content, "structuredContent": {"line": 121}, "isError": "true"}
    output = await _call(Odd(tmp_path), result)
    assert output.is_error
    assert [part.text for part in output.content if isinstance(part, Text)] == [
        "failed",
        "(a block of the type new cannot be shown: {})",
        '{"line":121}',
    ]


async def test_schema_mismatch_shown(tmp_path: Path) -> None:
    typed = {**tool("do"), "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    async with Odd(tmp_path, tools=[typed]).opened() as servers:
        read = await do(servers, "result = {'content': [], 'structuredContent': {'n': 'x'}}")
        assert "Invalid structured content" in read and '{"n":"x"}' in read
        read = await do(servers, "result = {'content': [{'type': 'text', 'text': 'only words'}]}")
        assert "only words" in read and "did not return structured content" in read


@later
async def test_audio_recording_becomes_document(tmp_path: Path) -> None:
    audio = {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(WAV).decode()}
    output = await _call(Odd(tmp_path), {"content": [audio]})
    (part,) = output.content
    assert isinstance(part, Document) and part.media_type == "audio/wav"


@later
@pytest.mark.parametrize("form", ["plain", "url-safe", "data URL", "unpadded"])
async def test_base64_in_any_form_is_read(tmp_path: Path, form: str) -> None:
    data = b"\xfb\xff\xfe text"
    text = base64.b64encode(data).decode()
    text = {
        "url-safe": base64.urlsafe_b64encode(data).decode(),
        "data URL": f"data:application/x-odd;base64,{text}",
        "unpadded": text.rstrip("="),
    }.get(form, text)
    held = {"uri": "a:b", "mimeType": "application/x-odd", "blob": text}
    output = await _call(Odd(tmp_path), {"content": [{"type": "resource", "resource": held}]})
    assert output.content == (Document("application/x-odd", data, "a:b"),)


@later
async def test_odd_prompt_and_resource_readable(tmp_path: Path) -> None:
    uri = "file:///x"
    held = [{"uri": uri, "text": "one", "mimeType": 5}, {"uri": uri, "hologram": 1}, {"uri": uri, "text": "two"}]
    odd = Odd(tmp_path, resources=[{"uri": uri, "name": "x"}], read={uri: {"contents": held}})
    async with odd.opened() as servers:
        parts = await servers.read(f"odd:{uri}")
    texts = [part.text for part in parts if isinstance(part, Text)]
    assert "one" in texts[0] and "cannot be shown" in texts[1] and '"hologram":1' in texts[1] and "two" in texts[2]


@pytest.mark.parametrize(
    ("data", "texts", "said"),
    [
        ({"a": 1}, ['{ "a": 1.0 }'], True),
        ({"a": 1}, ['The answer is:\n```json\n{"a": 1}\n```'], True),
        ({"a": 1}, ['some [brackets] and then {"a": 1} end'], True),
        ({"a": 1}, ['{"a": true}'], False),
        ({"a": 1, "b": 2}, ['{"a": 1}'], False),
        ({"result": "hello"}, ["hello"], True),
        ({"result": 42}, ["42"], True),
        ({"result": [{"a": 1}, {"a": 2}]}, ['{"a": 1}', '{"a": 2}'], True),
        ({"result": [1, 2]}, ["1", "3"], False),
        ({"rows": [17, 18]}, ["1 page read; its rows are in the structured content."], False),
        ({}, ["{}"], True),
        ({}, ["[]"], False),
    ],
)
def test_same_json_is_not_shown_twice(data: object, texts: list[str], said: bool) -> None:
    assert is_said(data, [Text(text) for text in texts]) is said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_same_json_compares_equal(value: object) -> None:
    assert is_same(json.loads(json.dumps(value)), value)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=3), st.integers(0, 3))
def test_own_json_found_in_text(data: dict[str, object], indent: int) -> None:
    assert is_said(data, [Text(json.dumps(data, indent=indent))])


async def test_media_type_comes_from_bytes(tmp_path: Path) -> None:
    image = {"type": "image", "mimeType": "image/jpeg", "data": base64.b64encode(PNG).decode()}
    output = await _call(Odd(tmp_path), {"content": [image]})
    assert getattr(output.content[0], "media_type", "") == "image/png"


async def _call(odd: Odd, result: Mapping[str, object]) -> ToolOutput:
    async with odd.opened() as servers:
        (found,) = servers.tools
        run = RunContext("root", "c", Workspace(Path.cwd()), SimpleNamespace(), lambda _: None)  # pyright: ignore[reportArgumentType] -- no blobs
        return await found(json_freeze_object({"code": f"result = {result!r}"}), run)


@later
@pytest.mark.parametrize(
    "block",
    [
        {"data": base64.b64encode(PNG).decode()},
        {"data": base64.b64encode(PNG).decode(), "mime_type": "image/png"},
        {"data": base64.b64encode(PNG).decode(), "mimeType": None},
        {"source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}},
    ],
)
async def test_nonstandard_image_type_shown(tmp_path: Path, block: dict[str, object]) -> None:
    [image] = (await _call(Odd(tmp_path), {"content": [{"type": "image", **block}]})).content
    assert isinstance(image, Image)
    assert (image.media_type, image.data) == ("image/png", PNG)


_PNG = base64.b64encode(PNG).decode()


@later
@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PNG}"}},
        {"type": "input_image", "image_url": f"data:image/png;base64,{_PNG}"},
        {"type": "image", "url": f"data:image/png;base64,{_PNG}"},
        {"type": "Image", "data": _PNG, "mimeType": "image/png"},
        {"type": "blob", "blob": _PNG},
        {"inlineData": {"mimeType": "image/png", "data": _PNG}},
        {"type": "file", "file": {"filename": "a.png", "file_data": f"data:image/png;base64,{_PNG}"}},
        {"type": "tool_result", "content": [{"type": "image_url", "image_url": f"data:image/png;base64,{_PNG}"}]},
        {"type": "figure", "text": "Figure 1", "image": {"media_type": "image/png", "data": _PNG}},
        {"type": "resource", "uri": "a:b", "blob": _PNG, "mimeType": "image/png"},
    ],
    ids=lambda block: str(block)[:40],
)
async def test_foreign_image_shown(tmp_path: Path, block: dict[str, object]) -> None:
    content = (await _call(Odd(tmp_path), {"content": [{"type": "text", "text": "x"}, block]})).content
    image = content[-1]
    assert isinstance(image, Image)
    assert (image.media_type, image.data) == ("image/png", PNG)
    assert all(_PNG[:60] not in part.text for part in content if isinstance(part, Text))


@later
@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "markdown", "markdown": "word " * 300}, "word " * 300),
        ({"type": "rows", "rows": [{"n": n} for n in range(200)]}, '{"n":199}'),
        ({"type": "rows", "rows": ["x" * 900], "last": "end"}, "(900 characters of data)"),
        ({"type": "resourceLink", "uri": "a:b", "name": "log"}, "log: a:b"),
        ({"type": "resource", "resource": "a:b"}, "a:b"),
        ({"type": "resource", "uri": "a:b", "text": "held"}, "a:b:\nheld"),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "held"}}, "held"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "within"}]}, "within"),
        ({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}, "https://a.example/b.png"),
    ],
    ids=lambda block: str(block)[:40],
)
async def test_foreign_block_named(tmp_path: Path, block: dict[str, object], shown: str) -> None:
    content = (await _call(Odd(tmp_path), {"content": [block]})).content
    assert shown in "".join(part.text for part in content if isinstance(part, Text))


@later
async def test_untyped_recording_is_document(tmp_path: Path) -> None:
    [part] = (
        await _call(Odd(tmp_path), {"content": [{"type": "audio", "data": base64.b64encode(WAV).decode()}]})
    ).content
    assert isinstance(part, Document) and part.data == WAV


@later
async def test_drawing_in_svg_is_shown_as_text(tmp_path: Path) -> None:
    data = base64.b64encode(b"<svg><text>Gr\xc3\xb6\xc3\x9fe</text></svg>").decode()
    [part] = (
        await _call(Odd(tmp_path), {"content": [{"type": "image", "data": data, "mimeType": "image/svg+xml"}]})
    ).content
    assert isinstance(part, Text) and "Gr\u00f6\u00dfe" in part.text
