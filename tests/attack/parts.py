"""One part of a request that a provider refuses: neither the run nor those that go on with its session may end with it.

A part is a tool's schema, an image, or what a model wrote itself: the name, the id or the arguments of a call, a reply
of nothing. The provider refuses each request that has it.
"""

import base64
import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

from sagent.lib.json import as_array, as_object, as_str
from sagent.testing.server import Call, Fail, Received, Step, Turn
from tests.attack.plans import Attempt
from tests.attack.program import FAMILIES, Program, failed
from tests.forks import Forks

Json: TypeAlias = dict[str, object] | list[object]
Complaint: TypeAlias = Callable[[Received], Fail | None]

_ODD = "mcp__maps__odd"
_SERVER = """
import json, sys
tools = [("good", {"type": "object", "properties": {"q": {"type": "string"}}}), ("odd", json.loads(sys.argv[1]))]
image = {"type": "image", "mimeType": "image/png", "data": sys.argv[2]}
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            said = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "maps", "version": "1"}}
        case "tools/list":
            said = {"tools": [{"name": name, "description": name, "inputSchema": schema} for name, schema in tools]}
        case "tools/call":
            said = {"content": [image]}
        case _:
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}), flush=True)
"""
_TEXT = {"type": "string"}
# Schemas of tools, and a word of each by which a provider knows what it does not take.
_SCHEMAS: Mapping[str, tuple[Mapping[str, object], str]] = {
    "a name with a dollar": ({"type": "object", "properties": {"$.xgafv": _TEXT}}, "$.xgafv"),
    "a name with a space": ({"type": "object", "properties": {"a b": _TEXT}}, '"a b"'),
    "a long name": ({"type": "object", "properties": {"a" * 90: _TEXT}}, "a" * 65),
    "a choice at the top": ({"anyOf": [{"type": "object", "properties": {"zq": _TEXT}}, {"type": "object"}]}, "anyOf"),
    "one of at the top": ({"type": "object", "oneOf": [{"required": ["zq"]}], "properties": {"zq": _TEXT}}, "oneOf"),
    "all of at the top": ({"type": "object", "allOf": [{"required": ["zq"]}], "properties": {"zq": _TEXT}}, "allOf"),
    "no type": ({"properties": {"zq": {}}}, "zq"),
    "a reference to itself": ({"type": "object", "properties": {"zq": {"$ref": "#"}}}, "$ref"),
    "a reference to nothing": ({"type": "object", "properties": {"zq": {"$ref": "#/$defs/none"}}}, "zq"),
    "a list without items": ({"type": "object", "properties": {"zq": {"type": "array"}}}, "zq"),
    "an empty enumeration": ({"type": "object", "properties": {"zq": {"enum": []}}}, "zq"),
    "a pattern": ({"type": "object", "properties": {"zq": {"type": "string", "pattern": "(?=a)"}}}, "(?="),
    "a constant null": ({"type": "object", "properties": {"zq": {"const": None}}}, "const"),
    "deep": ({"type": "object", "properties": {"zq": {"type": "array", "items": {"type": ["array", "null"]}}}}, "zq"),
    "true": ({"type": "object", "properties": {"zq": True}}, "zq"),
}  # fmt: skip


def _fail(family: str, about: str, words: str) -> Fail:
    match family:
        case "anthropic":
            return Fail(400, type="invalid_request_error", message=f"{about}: {words}")
        case "google":
            return Fail(400, type="INVALID_ARGUMENT", message=f"* GenerateContentRequest.{about}: {words}")
        case "converse":
            return Fail(400, message=f"The model returned the following errors: {about}: {words}")
        case _:
            return Fail(400, type="invalid_request_error", message=f"{words} ({about})")


def _tools(received: Received) -> list[tuple[str, str]]:
    """Return the name and the JSON of each tool that a request offers."""
    listed = [*as_array(received.json.get("tools")), *as_array(as_object(received.json.get("toolConfig")).get("tools"))]
    found: list[tuple[str, str]] = []
    for entry in map(as_object, listed):
        inner = [entry.get("function"), entry.get("toolSpec"), *as_array(entry.get("functionDeclarations")), entry]
        each = [as_object(member) for member in inner if as_str(as_object(member).get("name"))]
        found += [(as_str(tool.get("name")), json.dumps(tool, default=dict, ensure_ascii=False)) for tool in each]
    return found


def _refuses_tool(word: str, *, is_vague: bool) -> Complaint:
    """Refuse tools that have a word in what describes them."""

    def check(received: Received) -> Fail | None:
        for number, (name, text) in enumerate(_tools(received)):
            if name == _ODD and word in text:
                where = {"google": f"tools[0].function_declarations[{number}].parameters"}
                about = where.get(received.family, f"tools.{number}.custom.input_schema")
                words = "schema is invalid" if received.family != "chat" else f"Invalid schema for function '{name}'"
                return _fail(received.family, "tools" if is_vague else about, words)
        return None

    return check


_IMAGE = re.compile(r"^(?:data:image/\w+;base64,)?(?:iVBOR|/9j/|R0lGOD|UklGR)")


def _images(value: object) -> Iterator[str]:
    """Yield the images in a body, in base64."""
    match value:
        case str() if _IMAGE.match(value):
            yield value.rpartition(",")[2]
        case dict() | list():
            for member in _members(cast("Json", value)):
                yield from _images(member)
        case _:
            pass


def _members(value: Json) -> Sequence[object]:
    return [*value.values()] if isinstance(value, dict) else value


_WORDS = {
    "anthropic": "Could not process image",
    "responses": "The image data you provided is no valid image.",
    "chat": "Invalid image data",
    "google": "Unable to process input image. Please retry or report in",
    "converse": "Could not process image",
}


def _refuses_images(received: Received) -> Fail | None:
    about = "messages.2.content.0.image.source.base64"
    return _fail(received.family, about, _WORDS[received.family]) if any(_images(json.loads(received.body))) else None


def _refuses_many(received: Received) -> Fail | None:
    """Refuse more than 20 images of which one is larger than 2,000 pixels."""
    images = [base64.b64decode(each)[:24] for each in _images(json.loads(received.body))]
    sides = [max(struct.unpack(">II", each[16:24])) for each in images if each.startswith(b"\x89PNG")]
    words = "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"
    about = "messages.3.content.0.image.source.base64.data"
    return _fail(received.family, about, words) if len(images) > 20 and max(sides, default=0) > 2000 else None


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


_SMALL = _png(20, 20)
_DAMAGED: Mapping[str, bytes] = {
    "a.png": _SMALL[:45] + bytes([_SMALL[45] ^ 255]) + _SMALL[46:],
    "b.png": _SMALL,
    "c.png": _png(9_000, 3),
    "d.jpg": bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb004300")
    + b"\1" * 64
    + bytes.fromhex("ffc0000b080010001001011100ffda0008010100003f00d2ffd9"),
    "e.gif": b"GIF89a" + bytes.fromhex("10001000800000ffffff0000002c00000000100010000002024401003b"),
}


class _Provider:
    """A provider that says its turns, one after the other, and refuses what it does not take."""

    def __init__(self, complaint: Complaint, turns: Sequence[Turn]) -> None:
        self._complaint, self._turns, self.refusals = complaint, [*turns], 0

    def answer(self, received: Received) -> Step:
        if (fail := self._complaint(received)) is not None:
            self.refusals += 1
            return fail
        return self._turns.pop(0) if self._turns else Turn(text="Done.")


def _tried(
    family: str,
    complaint: Complaint,
    turns: Sequence[Turn],
    base: Path,
    forks: Forks,
    server: str = "",
    image: bytes = b"",
) -> Sequence[str]:
    """Run it, and go on; both must succeed, and what was refused must not be sent again and again."""
    program, provider = Program(base, forks, family), _Provider(complaint, turns)
    for name, data in _DAMAGED.items():
        (program.tree / name).write_bytes(data)
    for number in range(24):
        (program.tree / f"{number}.png").write_bytes(_png(2_560, 4) if turns and len(turns[0].calls) > 7 else b"")
    if server:
        (program.base / "server.py").write_text(_SERVER)
        words = [sys.executable, str(program.base / "server.py"), server, base64.b64encode(image).decode()]
        program.configure(f"[mcp.maps]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n")
    found: list[str] = []
    for prompt, *flags in (("go",), ("again", "--continue")):
        found += failed(program.run(provider.answer, prompt, *flags, strict=True))
    return [*found[:1], *(["refused again and again"] if provider.refusals > 2 else [])]


def _attempt(
    words: str, family: str, complaint: Complaint, *turns: Turn, server: str = "", image: bytes = b""
) -> Attempt:
    def effects(base: Path, forks: Forks) -> Sequence[str]:
        return _tried(family, complaint, turns, base, forks, server, image)

    return Attempt(words, effects)


def _schema_attempts() -> Iterator[Attempt]:
    for words, (schema, token) in _SCHEMAS.items():
        for family in FAMILIES if words == "a name with a dollar" else ("anthropic", "google"):
            for is_vague in (False, True) if token == "zq" and family == "anthropic" else (False,):
                said = f"schema of a tool, {family}: {words}{', and no word about which' if is_vague else ''}"
                yield _attempt(said, family, _refuses_tool(token, is_vague=is_vague), server=json.dumps(schema))


def _image_attempts() -> Iterator[Attempt]:
    plain = json.dumps({"type": "object", "properties": {}})
    for family in FAMILIES:
        for name in list(_DAMAGED)[: 1 if family == "converse" else None]:
            turn = Turn(calls=[Call("Read", {"file_path": name})])
            yield _attempt(f"image, {family}: {name}", family, _refuses_images, turn)
        if family == "converse":
            continue
        names = [[f"{number}.png" for number in range(start, start + 8)] for start in (0, 8, 16)]
        turns = [Turn(calls=[Call("Read", {"file_path": name}) for name in each]) for each in names]
        yield _attempt(f"image, {family}: 24 large ones", family, _refuses_many, *turns)
        called, damaged = Turn(calls=[Call(_ODD, {})]), _DAMAGED["a.png"]
        said = f"image, {family}: of an MCP server"
        yield _attempt(said, family, _refuses_images, called, server=plain, image=damaged)


# What a model wrote, which is sent back to the provider with each request that follows.
_NAMES = (
    "a b/c!",
    "x" * 200,
    "\u0444\u0443\u043d\u043a\u0446\u0438\u044f",
    "functions.Bash",
    "Bash\n",
    "$Bash",
    "-",
    "\ud800",
)
_IDS = ("", "x" * 200, "a b", "c/1:2", "\u00e9", "call_1\n", "../x")
_ARGUMENTS = (
    "{",
    "[1]",
    "null",
    '"x"',
    "3",
    "{'command': 'ls'}",
    '{"command": "\\ud800"}',
    '{"a": 1}{"b": 2}',
    '{"command": NaN}',
)
_WROTE: Mapping[str, Turn] = {
    **{f"name {name!r}": Turn(calls=[Call(name, {})]) for name in _NAMES},
    **{f"id {id_!r}": Turn(calls=[Call("Bash", {"command": "true"}, id=id_)]) for id_ in _IDS},
    "one id twice": Turn(calls=[Call("Bash", {"command": "true"}, id="c1")] * 2),
    **{f"arguments {text!r}": Turn(calls=[Call("Bash", text)]) for text in _ARGUMENTS},
    "a space": Turn(text=" "),
    "a line": Turn(text="\n\n"),
    "thoughts": Turn(thinking="Hm."),
    "a half letter": Turn(text="a\ud83d"),
    "a space and a call": Turn(text=" ", calls=[Call("Bash", {"command": "true"})]),
    "a command that says NUL": Turn(calls=[Call("Bash", {"command": "printf 'a\\0b\\x1b[1m\\xed\\xa0\\x80'"})]),
    "a command that says nothing": Turn(calls=[Call("Bash", {"command": "printf ' '"})]),
}
_ID_NAMES = ("id", "call_id", "tool_call_id", "tool_use_id", "toolUseId")
_OTHERS = ("tools", "toolConfig", "input", "args", "arguments", "schema")  # which hold none of these
_IDENTIFIED = ("tool_use", "tool_result")
_CALL_NAMES = ("tool_use", "function", "functionCall", "toolUse", "function_call", "functionResponse")


def _refuses_written(received: Received) -> Fail | None:
    """Refuse names and ids of calls that no API takes, texts of nothing, half letters, and arguments that are none."""
    body = json.loads(received.body)
    if re.search("[\ud800-\udfff]", json.dumps(body, ensure_ascii=False)):
        return _fail(received.family, "messages", "The request body is not valid JSON: no low surrogate in string")
    return next(_complaints(received.family, body), None)


def _complaints(family: str, value: object, holder: str = "") -> Iterator[Fail]:
    if isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _complaints(family, member, holder)
    if not isinstance(value, dict):
        return
    members = cast("dict[str, object]", value)
    kind = as_str(members.get("type"))
    if holder in _CALL_NAMES or kind in _CALL_NAMES:
        name, words = members.get("name"), "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
        if isinstance(name, str) and not re.fullmatch(r"[a-zA-Z0-9_.:-]{1,64}", name):
            yield _fail(family, "messages.1.content.0.tool_use.name", words)
        arguments = members.get("arguments", members.get("args", members.get("input", {})))
        if not isinstance(_loaded(arguments), dict) and (holder or kind) != "functionResponse":
            yield _fail(family, "messages.1.content.0.tool_use.input", "Input should be a valid dictionary")
    if family in ("anthropic", "converse") and (kind in _IDENTIFIED or holder.startswith("toolU")):
        for id_ in (members[name] for name in _ID_NAMES if name in members):
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", str(id_)):
                yield _fail(
                    family, "messages.1.content.0.tool_use.id", "String should match pattern '^[a-zA-Z0-9_-]+$'"
                )
    if family in ("anthropic", "converse") and isinstance(text := members.get("text"), str) and not text.strip():
        yield _fail(family, "messages", "text content blocks must contain non-whitespace text")
    for name, member in members.items():
        if name not in _OTHERS or (family == "responses" and name == "input" and not kind):
            yield from _complaints(family, member, name if isinstance(member, dict) else "")


def _loaded(arguments: object) -> object:
    """Return arguments as the object that they are in JSON; None where they are none."""
    try:
        return json.loads(arguments, parse_constant=str) if isinstance(arguments, str) else arguments
    except ValueError:
        return None


ATTEMPTS = (
    *_schema_attempts(),
    *_image_attempts(),
    *(
        _attempt(f"what a model wrote, {family}: {words}", family, _refuses_written, turn)
        for family in FAMILIES
        for words, turn in list(_WROTE.items())[:: 6 if family == "converse" else 1]
    ),
)
CONTROLS = ()
