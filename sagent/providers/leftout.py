"""Parts of a request that a provider refuses: finds the part that an error is about, and makes requests without it.

A part is a tool, identified by its definition, or an image, document or recording of the conversation, identified by
its bytes. A large image is first made smaller. Refused parts are an option of later requests and a parameter of logged
ones, so they stay out when a session is resumed.
"""

import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sagent.lib.image import is_animated, measure_image
from sagent.lib.json import (
    EMPTY,
    JsonObject,
    as_array,
    as_object,
    as_str,
    json_dump,
    json_freeze_object,
    json_load,
    sha256_hex,
)
from sagent.lib.pictures import shrink_image
from sagent.messages import Document, Image, Message, Part, Text, ToolResult
from sagent.model import Request, ToolSpec
from sagent.providers.toolforms import ANTHROPIC, LEFT_OUT, are_plain

if TYPE_CHECKING:
    from sagent.errors import ModelError
    from sagent.providers.toolforms import Naming

_STATUSES = (None, 400, 413, 415, 422, 500)  # 500 if it is known to be about the request (`wire/faults.py`)
_PATH = re.compile(
    r"\b(?:tools|messages|input|contents|tool_?config|function_?declarations)(?:\.\w+|\[\d+\]|\[['\"]\w+['\"]\])+",
    re.IGNORECASE,
)
_LOCATION = re.compile(r"['\"]?loc['\"]?\s*[:=]\s*[\[(]\s*(?:['\"](?:body|request)['\"]\s*,)?([^\])]*)[\])]")
"""A place as pydantic names it, in the answers of FastAPI's servers (vLLM, SGLang)."""
_PIXELS = re.compile(r"(\d{3,5}) ?(?:px|pixels?)\b", re.IGNORECASE)
_MANY_MEDIA = re.compile(r"(too many|at most \d+) (images?|documents?|files?|media|audios?)\b", re.IGNORECASE)
_MANY_TOOLS = re.compile(r"too many (tools|functions)|'?tools'?: array too long|number of tools", re.IGNORECASE)
_MIN_TOOLS = 8  # a smaller number is not a limit of tools
_KINDS: Mapping[str, tuple[str, ...]] = {
    r"(?<![a-z])(images?|pictures?|photos?|vision|multi-?modal)(?![a-z])": ("image/",),
    r"(?<![a-z])(pdfs?|documents?|pages?|files?|multi-?modal)(?![a-z])": ("application/",),
    r"(?<![a-z])(audio|recordings?|multi-?modal)(?![a-z])": ("audio/",),
}
_SCHEMA = re.compile(r"schema|grammar|function[ _]declaration|tools?[ _]definition", re.IGNORECASE)
Known: TypeAlias = dict[tuple[int, int], tuple[Message, Message]]
"""Messages by their identity and by how much is left out, and what goes out in their place."""
_NOTHING = re.compile(
    r"request contains an invalid argument|(invalid|illegal) base64|\bdecod|\bbad request\b", re.IGNORECASE
)
_MAX_OF_SERVER = 3  # refused tools of an MCP server, before all of them are
_MAX_MESSAGE_CHARS = 300  # characters of a provider's message
_MEDIA, _LARGE = "media ", "large "  # prefixes of keys: left out, and sent smaller
_MAX_SIDE, _MAX_BYTES = 1_024, 1_000_000  # pixels and bytes of an image that is made smaller


def without(request: Request, left: Mapping[str, object], known: Known, smaller: dict[str, Image]) -> Request:
    """Return the request without the parts that are left out. `known` keeps changed messages: the same each time."""

    def shown(message: Message) -> Message:
        place = id(message), len(left)
        if place not in known:
            known[place] = message, _without(message, left, smaller)
        return known[place][1]

    tools = tuple(tool for tool in request.tools if _tool_key(tool) not in left)
    return replace(request, tools=tools, messages=tuple(map(shown, request.messages)))


def _without(message: Message, left: Mapping[str, object], smaller: dict[str, Image]) -> Message:
    parts = tuple(_replaced(part, left, smaller) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _replaced(part: Part, left: Mapping[str, object], smaller: dict[str, Image]) -> Part:
    if isinstance(part, ToolResult):
        content = tuple(_shown(each, left, smaller) for each in part.content)
        return part if content == part.content else replace(part, content=content)
    return _shown(part, left, smaller) if isinstance(part, Image | Document) else part


def _shown(
    part: Text | Image | Document, left: Mapping[str, object], smaller: dict[str, Image]
) -> Text | Image | Document:
    """Return what goes out in the place of a part."""
    key = _key(part).replace(_MEDIA, _LARGE)
    if isinstance(part, Image) and key in left:
        if key not in smaller:  # another process found that it is too large
            smaller[key] = _shrunk(part) or part
        part = smaller[key]
    return _stand_in(part) if _key(part) in left else part


def shrink_refused(
    refused_parts: Mapping[str, str], messages: Iterable[Message]
) -> tuple[Mapping[str, str], Mapping[str, Image]]:
    """Replace refused large images by keys of smaller versions, and return these versions. It takes 0.1 s and more for
    each. If there are too many images, none is too large."""
    parts = {_key(part): part for part in _media(messages)}
    large = {key: part for key in refused_parts if isinstance(part := parts.get(key), Image) and _is_large(part)}
    if not large or any(_MANY_MEDIA.search(said) for said in refused_parts.values()):
        return refused_parts, {}
    made = {key: image for key, part in large.items() if (image := _shrunk(part)) is not None}
    refused = {key.replace(_MEDIA, _LARGE) if key in made else key: said for key, said in refused_parts.items()}
    return refused, {key.replace(_MEDIA, _LARGE): image for key, image in made.items()}


def _is_large(image: Image) -> bool:
    """Return True if an image may be accepted in a new encoding: it is large, has frames, or could not be read."""
    size = measure_image(image.data, image.media_type)
    return size is None or max(size) > _MAX_SIDE or len(image.data) > _MAX_BYTES or is_animated(image.data)


def _shrunk(image: Image) -> Image | None:
    made = shrink_image(image.data, _MAX_SIDE, _MAX_BYTES)
    return None if made is None or measure_image(made[1], made[0]) is None else Image(*made)


def notes_on(left: Mapping[str, object], provider: str, model: str) -> list[str]:
    """Return a sentence for each thing that a provider says of the parts that it refused."""
    said = {str(words): key.startswith(_LARGE) for key, words in left.items()}
    return [
        f"{provider} refused {words}. It is {'sent smaller in' if smaller else 'left out of'} requests to {model}"
        for words, smaller in said.items()
    ]


def _stand_in(part: Text | Image | Document) -> Text:
    """Return the text that a model reads in the place of a part that was refused."""
    if isinstance(part, Text):
        return part
    what = "image" if isinstance(part, Image) else part.name or "document"
    return Text(f"[{what}: {part.media_type}, {len(part.data)} bytes; the provider refused it, so it was left out]")


def find_refused(
    error: "ModelError", body: bytes, request: Request, naming: "Naming | None", left: Collection[str] = ()
) -> Mapping[str, str]:
    """Return the parts that an error is about, each with a description and the provider's message; none for other
    errors.

    They are found by the place in the body that the error names, the name of a tool, or a size in pixels; else the new
    parts since the last reply of the kind that the error names (of any kind if it names none), and then all of that
    kind. If `left` has several tools of an MCP server, its other tools follow.
    """
    if error.kind != "invalid_request" or error.status not in _STATUSES or error.sent:
        return {}
    words = str(error.args[0])
    media, wire = [*_media(request.messages)], EMPTY if naming is None else naming.tools
    tools = {as_str(wire.get(tool.name), tool.name): tool for tool in request.tools}
    found = _too_many(words, media, request.tools) or _placed(words, body, media, tools)
    found = found or _named(words, tools)
    if pixels := [int(number) for number in _PIXELS.findall(words)]:
        sides = ((part, measure_image(part.data, part.media_type)) for part in media if isinstance(part, Image))
        found = [part for part, size in sides if max(size or (0,)) > min(pixels)] or found
    found = found or _of_kind(words, request.messages, media) or _suspected(words, request.tools)
    said = " ".join(words.split())[:_MAX_MESSAGE_CHARS].rstrip(".")
    refused = {_key(part): f"{_described(part, request.messages)}: {said}" for part in found}
    return {**_of_servers((*left, *refused), request.tools), **refused}


def _of_servers(refused: Iterable[str], tools: Iterable[ToolSpec]) -> Mapping[str, str]:
    """Return all tools of MCP servers with too many refused ones: they are likely made by one program."""
    counts = Counter(_server(key.removeprefix("tool ")) for key in refused if key.startswith("tool "))
    return {
        _tool_key(tool): f"the other tools of the MCP server {server}: {_MAX_OF_SERVER} of its tools were refused"
        for tool in tools
        if (server := _server(tool.name)) and counts[server] >= _MAX_OF_SERVER
    }


def _too_many(
    words: str, media: Sequence[Image | Document], tools: Sequence[ToolSpec]
) -> Sequence[ToolSpec | Image | Document]:
    """Return the parts to drop if there are too many: the older half of images and documents; the last tools,
    preferably of MCP servers."""
    if _MANY_MEDIA.search(words):
        return media[: (len(media) + 1) // 2]
    if not _MANY_TOOLS.search(words):
        return ()
    most = min((number for number in map(int, re.findall(r"\d+", words)) if number >= _MIN_TOOLS), default=len(tools))
    served = [tool for tool in tools if _server(tool.name)]
    return (served or tools)[-(len(tools) - most) :] if most < len(tools) else ()


def _placed(
    words: str, body: bytes, media: Sequence[Image | Document], tools: Mapping[str, ToolSpec]
) -> list[ToolSpec | Image | Document]:
    """Return the parts at the places in the body that an error names."""
    located = (*_PATH.findall(words.replace(" -> ", ".")), *_LOCATION.findall(words))
    paths = [steps for path in located if (steps := re.findall(r"\w+", path))]
    if not paths:
        return []
    whole = as_object(json_load(body.decode("utf-8", "replace")))
    found: list[ToolSpec | Image | Document] = []
    for path in paths:
        element, name = _element(whole, path)
        if name in tools:
            found.append(tools[name])
            continue
        held = {*_data(element)}
        found += [part for part in media if held and b2a_base64(part.data, newline=False).decode() in held]
    return found


def _element(whole: Mapping[str, object], path: Sequence[str]) -> tuple[object, str]:
    """Return the innermost list item of a path, and the name of the tool that contains it or is it. Unknown steps are
    skipped, because providers also name types of blocks. Bedrock counts members from 1."""
    at: object = whole
    item: object = None
    tool, first = "", int("member" in path)
    if path[0].lower() not in {*map(str.lower, whole)}:
        at = next(iter(as_array(whole.get("tools"))), whole)
    for step in path:
        items = as_array(at)
        if step.isdecimal() and items:
            place = int(step) - first
            if not 0 <= place < len(items):
                break
            at = item = items[place]
            fields = as_object(item)
            own = (fields, as_object(fields.get("function")), as_object(fields.get("toolSpec")))
            tool = tool or next((as_str(each["name"]) for each in own if "name" in each), "")
        elif fields := as_object(at):
            plain = step.replace("_", "").lower()
            name = next((field for field in fields if field.replace("_", "").lower() == plain), None)
            at = at if name is None else fields[name]
    return item, tool if "tools" in path or "declarations" in path[0].lower() else ""


def _data(value: object) -> Iterator[str]:
    """Yield every long text within a value, without the prefix of data URLs."""
    if isinstance(value, str):
        yield value.partition(",")[2] if value.startswith("data:") else value
    for inner in (*as_array(value), *as_object(value).values()):
        yield from _data(inner)


def _named(words: str, tools: Mapping[str, ToolSpec]) -> list[ToolSpec]:
    """Return the tools that an error names."""
    called = r"(?i:\b(?:function|tool)\b[\w ]{0,12}[:=]? ?)"
    quoted = r"['\"`]"
    return [
        tool
        for name, tool in tools.items()
        if re.search(rf"(?:{called}{quoted}?|{quoted}){re.escape(name)}(?![\w-])", words)
    ]


def _of_kind(words: str, messages: Sequence[Message], media: Sequence[Image | Document]) -> list[Image | Document]:
    """Return the media that an error without a place is about: those since the last reply, or all if there are none."""
    kinds = tuple(start for said, starts in _KINDS.items() if re.search(said, words, re.IGNORECASE) for start in starts)
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    new = [*_media(messages[last + 1 :])]
    if not kinds:
        return new if _NOTHING.search(words) else []
    return [part for part in new if part.media_type.startswith(kinds)] or [
        part for part in media if part.media_type.startswith(kinds)
    ]


def _suspected(words: str, tools: tuple[ToolSpec, ...]) -> list[ToolSpec]:
    """Return the tools that an error about a schema may be about: those of an unusual form; without any, those of MCP
    servers."""
    if not _SCHEMA.search(words):
        return []
    odd = [tool for tool in tools if not are_plain((tool,), ANTHROPIC)]
    return odd or [tool for tool in tools if _server(tool.name)]


def _media(messages: Iterable[Message]) -> Iterator[Image | Document]:
    for part in (part for message in messages for part in message.parts):
        for shown in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(shown, Image | Document) and shown.data and not shown.media_type.startswith("text/"):
                yield shown


def _key(part: ToolSpec | Text | Image | Document) -> str:
    if isinstance(part, ToolSpec):
        return _tool_key(part)
    return "" if isinstance(part, Text) else f"{_MEDIA}{sha256_hex(part.data)}"


def _server(tool: str) -> str:
    """Return the MCP server of a tool, by its name; "" for any other tool."""
    return tool.split("__")[1] if tool.startswith("mcp__") else ""


def _tool_key(tool: ToolSpec) -> str:
    """Return the name and a digest of the definition, because a server may correct a tool or reuse its name."""
    definition = json_dump((tool.description, tool.parameters)).encode("utf-8", "replace")
    return f"tool {tool.name} {sha256_hex(definition)[:16]}"


def _described(part: ToolSpec | Image | Document, messages: Sequence[Message]) -> str:
    """Describe a part for a person: a tool with its server, an image with the call that brought it."""
    if isinstance(part, ToolSpec):
        server = _server(part.name)
        return f"the tool {part.name}" + (f" of the MCP server {server}" if server else "")
    what = "the image" if isinstance(part, Image) else f"the document {part.name}".rstrip()
    calls = {call.id: call for message in messages for call in message.calls}
    results = (result for message in messages for result in message.results)
    for call in (calls.get(result.call_id) for result in results if any(each is part for each in result.content)):
        if call is not None:
            file = as_str(call.arguments.get("file_path")) or as_str(call.arguments.get("path"))
            return f"{what} of {call.name}({file})" if file else f"{what} of a result of {call.name}"
    return f"{what} ({part.media_type}, {len(part.data):,} bytes)"


def kept_out(parameters: Iterable[Mapping[str, object]]) -> Mapping[str, JsonObject]:
    """Return what logged requests left out, by provider."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for logged in parameters:
        for provider, models in as_object(logged.get(LEFT_OUT)).items():
            for model, left in as_object(models).items():
                found.setdefault(provider, {}).setdefault(model, {}).update(as_object(left))
    return {provider: json_freeze_object(models) for provider, models in found.items()}
