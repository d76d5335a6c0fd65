"""Tool calls as models write them in text: read names and arguments from the text between two marks."""

import re
from collections.abc import Iterable, Iterator, Mapping

from sagent.lib.json import EMPTY, JsonObject, as_array, as_object, as_str, json_dump, json_freeze, valid_text
from sagent.lib.nearjson import read_at
from sagent.lib.schema import parse_arguments
from sagent.plugins.textcalls.marks import (
    ARGUMENTS,
    BEGUN_CALL,
    CHATML_CALL,
    GEMMA,
    INVOKING,
    NAMES,
    SOLAR_ARGUMENTS,
    SOLAR_CALL,
    SOLAR_NAME,
    STEP,
)
from sagent.plugins.textcalls.pythonic import read_calls

_INVOKE = re.compile(r"<(?:｜DSML｜|[a-z]+:)?invoke\b")
_INVOKE_END = re.compile(r"</(?:｜DSML｜|[a-z]+:)?invoke>")
_NAMING = ("<tool_call>", "[TOOL_REQUEST]", "[TOOL_CALL]", "[tool_call]", "<function_call>")
_PYTHONIC = re.compile(r"\[?\s*[A-Za-z_][\w.]*\s*\(")
_GEMMA_STRING, _GEMMA_KEY = re.compile(r'<escape>|<\|"\|>'), re.compile(r"([{,]\s*)([A-Za-z_][\w-]*)\s*:")
_PARAMETER = re.compile(
    r"<(?:｜DSML｜|[a-z]+:)?parameter name=[\"']?([^\"'>\n]+)[\"']?[^>\n]*>(.*?)"
    r"(?:</(?:｜DSML｜|[a-z]+:)?parameter>|(?=<(?:｜DSML｜|[a-z]+:)?parameter )|\Z)",
    re.DOTALL,
)
_TAGGED_PARAMETER = re.compile(
    r"<param(?:eter)?=([^>\n]+)>(.*?)(?:</param(?:eter)?>|(?=<param(?:eter)?=)|\Z)", re.DOTALL
)

Call = tuple[str, JsonObject, str | None]
"""A name, its arguments, and the source of arguments that are no JSON object."""


def calls_in(mark: str, body: str, tools: Mapping[str, JsonObject], *, whole: bool) -> Iterator[Call]:
    """Yield the calls in the text between two marks; none if it is no call at all.

    `whole`: the closing mark was seen.
    """
    text = body.strip().removeprefix("```json").removesuffix("```").strip()
    text = text.removesuffix("[TOOL_REQUEST_END]").rstrip()
    if mark in STEP:
        yield from _invoked(text, tools, whole=whole) if _INVOKE.search(text) else _dashed(mark, text, whole=whole)
    elif mark == "<function=":
        yield _tagged(text, tools, whole=whole)
    elif mark == "<tool_call>" and text.startswith("<function="):
        for each in text.split("<function=")[1:]:
            ended = "</function>" in each
            yield _tagged(each.partition("</function>")[0].strip(), tools, whole=whole or ended)
    elif mark in _NAMING and (named := re.match(r"([\w.-]+)\s*(?:```json)?\s*(?=\{)", text)):
        yield (named[1], *_parse(text[named.end() :].strip()))
    elif mark == "<tool_call>" and text[:1] not in ("{", "["):
        yield _keyed(text, tools, whole=whole)
    elif mark == SOLAR_CALL or SOLAR_NAME in text:
        yield from _solar(text)
    elif mark == CHATML_CALL:
        yield from calls_in("<tool_call>", text.removesuffix("</tool_call>"), tools, whole=True)
    elif mark in ("<｜tool▁calls▁begin｜>", BEGUN_CALL):
        for each in (text if BEGUN_CALL in text else BEGUN_CALL + text).split(BEGUN_CALL)[1:]:
            inside, ended, _ = each.partition("<｜tool▁call▁end｜>")
            yield _fenced(inside, whole=bool(ended))
    elif mark == "[TOOL_CALLS]":
        yield from _named(text)
    else:
        yield from _newer(mark, text, tools, whole=whole)


def _dashed(mark: str, text: str, *, whole: bool) -> Iterator[Call]:
    """Read DeepSeek's calls with the marks of Step."""
    source = f"{mark}{text}" if mark == "<｜tool_call_begin｜>" else text
    changed = re.sub(r"<｜tool_(calls?)_(begin|end)｜>|<｜tool_(sep)｜>", _with_dashes, source)
    yield from calls_in("<｜tool▁calls▁begin｜>", changed, {}, whole=whole)


def _with_dashes(mark: re.Match[str]) -> str:
    return mark[0].replace("_", "▁")


def _solar(text: str) -> Iterator[Call]:
    """Read Solar's calls: an id, a mark, the name, a mark and JSON."""
    for each in filter(str.strip, text.split(SOLAR_CALL)):
        head, _, raw = each.partition(SOLAR_ARGUMENTS)
        name = head.partition(SOLAR_NAME)[2].strip()
        inside, ended, _ = raw.partition("<|tool_call:end|>")
        yield (name, *_parse(inside.strip())) if ended or inside.strip() else (name, EMPTY, valid_text(raw))


def _newer(mark: str, text: str, tools: Mapping[str, JsonObject], *, whole: bool) -> Iterator[Call]:
    """Read the forms that are an object, a list of them, elements, or Python."""
    if _INVOKE.match(text) or (mark in INVOKING and text[:1] not in ("{", "[") and not _PYTHONIC.match(text)):
        yield from _invoked(text, tools, whole=whole)
    elif mark in GEMMA and text.startswith("call:"):
        yield _gemma(text)
    elif mark == "<|tool_calls_section_begin|>":
        for each in text.split("<|tool_call_begin|>")[1:]:
            head, _, tail = each.partition("<|tool_call_argument_begin|>")
            raw, ended, _ = tail.partition("<|tool_call_end|>")
            name = head.strip().rpartition(":")[0] or head.strip()
            yield (name, *_parse(raw.strip())) if ended or raw.strip() else (name, EMPTY, "")
    elif (mark == "<|tool_call_start|>" and text[:2] not in ("[{", "{")) or (
        mark in (*INVOKING, "<|python_start|>") and _PYTHONIC.match(text)
    ):
        yield from python_calls(text, tools)
    elif mark == "<seed:tool_call>" and text.startswith("<function="):
        yield from calls_in("<tool_call>", text, tools, whole=whole)
    elif mark != "<|python_tag|>" or text[:1] in ("{", "["):  # else it is code for an interpreter
        yield from listed(text.removeprefix("<|plugin|>").strip())


def _gemma(text: str) -> Call:
    """Read `call:NAME{key:<escape>text<escape>,…}`."""
    name, brace, rest = text.removeprefix("call:").partition("{")
    parts = _GEMMA_STRING.split(brace + rest)
    if len(parts) % 2 == 0 or not rest.rstrip().endswith("}"):  # its last string, or it, has no end
        return name.strip(), EMPTY, valid_text(text)
    raw = "".join(json_dump(part) if at % 2 else _GEMMA_KEY.sub(r'\1"\2":', part) for at, part in enumerate(parts))
    return (name.strip(), *_parse(raw))


def listed(text: str) -> Iterator[Call]:
    """JSON objects, in a list or one after the other."""
    end = 0
    for value, source in json_values(text):
        end = text.index(source, end) + len(source)
        items = as_array(value)
        for item in items:
            yield call_of(item, json_dump(item))
        if not items:
            yield call_of(value, source)
    if text[end:].strip(" \t\r\n;,}]"):  # a bracket too many does no harm
        yield broken_call(text[end:].strip())


def _named(text: str) -> Iterator[Call]:
    """Mistral's calls: a list of objects, or names followed by arguments."""
    while text := text.removeprefix("[TOOL_CALLS]").strip(" \t\r\n,"):
        match = re.match(r"([\w.-]+)\s*(?:\[CALL_ID\]\w+\s*)?(?:\[ARGS\])?\s*(?=\{)", text)
        if match is None:
            first = next(json_values(text), None)
            source = first[1] if first else text
            yield from listed(source)
        else:
            text = text[match.end() :]
            first = next(json_values(text), None)
            source = first[1] if first else text.partition("[TOOL_CALLS]")[0]
            yield (match[1], *_arguments(first[0] if first else None, source))
        text = text[len(source) :]


def _fenced(text: str, *, whole: bool) -> Call:
    """DeepSeek's calls: `function`, a mark, the name and fenced JSON; or the name, a mark and JSON."""
    head, _, tail = text.partition("<｜tool▁sep｜>")
    name, fence, rest = tail.partition("```json")
    raw = rest.rpartition("```")[0] or rest if fence else tail
    name = (name if fence else head).strip()
    return (name, *_parse(raw.strip())) if whole or raw.strip() else (name, EMPTY, "")


def _tagged(text: str, tools: Mapping[str, JsonObject], *, whole: bool) -> Call:
    """Qwen3-Coder's calls: NAME> and a <parameter=KEY> for each argument; or NAME> and JSON."""
    name, _, rest = text.partition(">")
    name = name.strip().strip("\"'")
    rest = rest.removesuffix("</function>").strip()
    if rest.startswith("{"):
        return (name, *_parse(rest))
    found = list(
        re.finditer(r"<param(?:eter)?=([^>\n]+)>(.*?)(?:</param(?:eter)?>|(?=<param(?:eter)?=)|\Z)", rest, re.DOTALL)
    )
    if not whole or (rest and not found):
        return name, EMPTY, valid_text(rest)
    return name, cast_arguments(((each[1].strip(), each[2]) for each in found), tools.get(name, EMPTY)), None


def _invoked(text: str, tools: Mapping[str, JsonObject], *, whole: bool) -> Iterator[Call]:
    """Read calls whose arguments are elements, as Anthropic, MiniMax and DeepSeek 3.2 write them."""
    for each in _INVOKE.split(text)[1:]:
        inside, *after = _INVOKE_END.split(each, maxsplit=1)
        head, _, rest = inside.partition(">")
        name = head.replace("name=", "").strip().strip("\"'")
        found = list(_PARAMETER.finditer(rest))
        cut = any("parameter>" not in one[0][-20:] for one in found)
        if rest.strip().startswith("{"):
            yield (name, *_parse(rest.strip()))
        elif not (whole or after) or cut or (rest.strip() and not found):
            yield name, EMPTY, valid_text(rest)
        else:
            yield name, cast_arguments(((one[1].strip(), one[2]) for one in found), tools.get(name, EMPTY)), None


def python_calls(text: str, tools: Mapping[str, JsonObject]) -> Iterator[Call]:
    """Read calls written in Python. Arguments without a name follow the order of the schema."""
    try:
        found = read_calls(text)
    except (ValueError, TypeError):
        name = re.search(r"([A-Za-z_][\w.]*)\s*\(", text)
        yield name[1] if name else "", EMPTY, valid_text(text)
        return
    for call in found:
        keys = [*as_object(tools.get(call.name, EMPTY).get("properties"))]
        if len(call.unnamed) > len(keys):
            yield call.name, EMPTY, valid_text(text)
        else:
            yield call.name, json_freeze({**dict(zip(keys, call.unnamed, strict=False)), **call.named}), None


def _keyed(text: str, tools: Mapping[str, JsonObject], *, whole: bool) -> Call:
    """GLM's calls: a name, then <arg_key> and <arg_value> in turn."""
    name, key, _ = text.partition("<arg_key>")
    found = _pairs(text)
    if not re.fullmatch(r"[\w.-]+\s*", name) or not whole or found is None or (key and not found):
        return broken_call(text)
    return name.strip(), cast_arguments(found, tools.get(name.strip(), EMPTY)), None


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """Return keys and values in turn; None if one has no end. Each mark is searched for once, however often a model
    repeats it."""
    pairs: list[tuple[str, str]] = []
    while "<arg_key>" in text:
        key, _, text = text.partition("<arg_key>")[2].partition("</arg_key>")
        value, closed, text = text.lstrip().removeprefix("<arg_value>").partition("</arg_value>")
        if not closed:
            return None
        pairs.append((key.strip(), value))
    return pairs


def cast_arguments(pairs: Iterable[tuple[str, str]], schema: JsonObject) -> JsonObject:
    """Arguments that came as plain text, as the tool's schema has them."""
    properties = as_object(schema.get("properties"))
    arguments: dict[str, object] = {}
    for key, raw in pairs:
        text = raw.removeprefix("\n").removesuffix("\n")
        value = next((value for value, source in json_values(text) if source == text.strip()), None)
        declared = as_object(properties.get(key)).get("type")
        types = as_array(declared) or (declared,)
        if declared is None or "string" in types:
            arguments[key] = valid_text(text)
        elif "boolean" in types and text.strip() in ("True", "False"):
            arguments[key] = text.strip() == "True"
        elif text.strip() in ("null", "None") or value is not None:
            arguments[key] = value
        else:
            arguments[key] = valid_text(text)
    return json_freeze(arguments)


def call_of(value: object, source: str) -> Call:
    """Return the call that a JSON object describes."""
    fields = as_object(value)
    inner = as_object(fields.get("function"))
    if inner:
        return call_of(inner, source)
    name = next((name for key in NAMES if (name := as_str(fields.get(key)))), "")
    if not name:
        return broken_call(source)
    given = next((fields[key] for key in ARGUMENTS if key in fields), None)
    if given is None or isinstance(given, JsonObject):
        return name, given or EMPTY, None
    return (name, *_parse(given)) if isinstance(given, str) else broken_call(source)


def broken_call(text: str) -> Call:
    """Recover a call from invalid JSON: its name, and its arguments as they came."""
    name = re.search(rf'"(?:{"|".join(NAMES)})"\s*:\s*"([^"\\]*)"', text)
    start = re.search(rf'"(?:{"|".join(ARGUMENTS)})"\s*:\s*', text)
    if name is None or start is None:
        return name[1] if name else "", EMPTY, valid_text(text)
    raw = text[start.end() :].strip()
    if not raw:
        return name[1], EMPTY, valid_text(text)
    arguments, malformed = _parse(raw)
    if malformed is not None and raw.endswith("}"):
        arguments, malformed = _parse(raw[:-1].strip())
    return name[1], arguments, malformed


def _parse(raw: str) -> tuple[JsonObject, str | None]:
    """Arguments from their JSON text; line breaks inside strings are let pass."""
    if not raw.strip():
        return EMPTY, None
    first = next(json_values(raw), None)
    if first and isinstance(first[0], JsonObject) and first[1] == raw.strip():
        return first[0], None
    return parse_arguments(raw)


def _arguments(value: object, source: str) -> tuple[JsonObject, str | None]:
    return (value, None) if isinstance(value, JsonObject) else _parse(source.strip())


def json_values(text: str) -> Iterator[tuple[object, str]]:
    """Yield the JSON values at the beginning of a text, frozen, each with its source. Stops at other text."""
    at = 0
    while True:
        while at < len(text) and text[at] in " \t\r\n;,":
            at += 1
        try:
            value, end = read_at(text, at)
            yield json_freeze(value), text[at:end]
        except (ValueError, RecursionError):
            return
        at = end
