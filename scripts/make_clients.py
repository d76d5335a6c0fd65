"""Write the clients of `sagent serve` from its OpenAPI document: `make clients`.

Types and methods come from the document. What is the same for every API (requests, errors, server-sent events that go
on where they broke off) stands in `clients/base.py.in` and `clients/base.ts.in`.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "sagent" / "plugins" / "serve" / "openapi.json"
BASES = Path(__file__).parent / "clients"
PYTHON, TYPESCRIPT = ROOT / "sagent" / "plugins" / "serve" / "client.py", ROOT / "examples" / "serve" / "client.ts"
PY = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_WIDTH = 120


def main() -> None:
    document = json.loads(DOCUMENT.read_text("utf-8"))
    PYTHON.write_text("\n".join(python(document)) + "\n", "utf-8")
    TYPESCRIPT.write_text("\n".join(typescript(document)) + "\n", "utf-8")


class Operation:
    """One of the document's, as both languages need it."""

    def __init__(self, path: str, method: str, item: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        self.path, self.method, self.summary = path, method.upper(), found["summary"]
        self.name: str = found["operationId"]
        given = [*item.get("parameters", ()), *found.get("parameters", ())]
        self.inside = [each["name"] for each in given if each["in"] == "path"]
        self.query = {each["name"]: (each["schema"], each["required"]) for each in given if each["in"] == "query"}
        self.once = any(each["name"] == "Idempotency-Key" for each in given)
        self.body = _schema_of(found.get("requestBody", {}))
        answer = next(each for status, each in found["responses"].items() if status.startswith("2"))
        self.streams = "text/event-stream" in answer.get("content", {})
        self.answer = None if self.streams else _schema_of(answer)


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        for method, found in item.items():
            if method != "parameters":
                yield Operation(path, method, item, found)


def _schema_of(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return part.get("content", {}).get("application/json", {}).get("schema")


def python(document: Mapping[str, Any]) -> Iterator[str]:
    before, mark, after = (BASES / "base.py.in").read_text("utf-8").partition("# TYPES\n")
    assert mark
    yield before.rstrip()
    for name, schema in document["components"]["schemas"].items():
        yield from ("", "", f"class {name}(TypedDict):")
        if text := schema.get("description"):
            yield f'    """{_wrapped(text)}"""'
            yield ""
        for member, kind in schema["properties"].items():
            shown = py_type(kind)
            yield f"    {member}: {shown if member in schema.get('required', ()) else f'NotRequired[{shown}]'}"
    yield from ("", "", *after.strip("\n").split("\n"))
    for each in operations(document):
        yield from ("", *_py_method(each))


def _py_method(each: Operation) -> Iterator[str]:
    words = [f"{name}: str" for name in each.inside]
    words += [f"body: {py_type(each.body)}"] if each.body else []
    optional = [f"{_py_name(name)}: {py_type(schema)}{'' if must else ' | None = None'}"
                for name, (schema, must) in each.query.items()]  # fmt: skip
    optional += ["key: str | None = None"] if each.once else []
    optional = ['after: str = ""' if each.streams and name.startswith("after:") else name for name in optional]
    answer = "Iterator[ServerEvent]" if each.streams else py_type(each.answer) if each.answer else "None"
    head = ", ".join(["self", *words, *(["*", *optional] if optional else [])])
    yield f"    def {each.name}({head}) -> {answer}:"
    yield f'        """{each.summary}"""'
    path = re.sub(r"\{(\w+)\}", r"{quote(\1)}", each.path)
    path = f'f"{path}"' if each.inside else f'"{path}"'
    query = ", ".join(f'"{name}": {_py_name(name)}' for name in each.query if not (each.streams and name == "after"))
    if each.streams:
        yield f"        return self._stream({path}, {{{query}}}, after)"
        return
    given = [f'"{each.method}"', path, *([f"query={{{query}}}"] if query else []),
             *(["body=body"] if each.body else []), *(["key=key"] if each.once else [])]  # fmt: skip
    call = f"self._ask({', '.join(given)})"
    yield f"        {'return ' if each.answer else ''}{call}"


def typescript(document: Mapping[str, Any]) -> Iterator[str]:
    before, mark, after = (BASES / "base.ts.in").read_text("utf-8").partition("// TYPES\n")
    assert mark
    yield before.rstrip()
    for name, schema in document["components"]["schemas"].items():
        yield ""
        if text := schema.get("description"):
            yield f"/** {text} */"
        yield f"export interface {name} {{"
        for member, kind in schema["properties"].items():
            yield f"  {member}{'' if member in schema.get('required', ()) else '?'}: {ts_type(kind)};"
        yield "}"
    yield from ("", *after.strip("\n").removesuffix("}").rstrip().split("\n"))
    for each in operations(document):
        yield from ("", *_ts_method(each))
    yield "}"


def _ts_method(each: Operation) -> Iterator[str]:
    words = [f"{name}: string" for name in each.inside]
    words += [f"body: {ts_type(each.body)}{'' if each.body.get('required') else ' = {}'}"] if each.body else []
    options = [f"{name}{'' if must else '?'}: {ts_type(schema)}" for name, (schema, must) in each.query.items()]
    options += ["key?: string"] if each.once else []
    if options:
        needed = any(must for _, must in each.query.values())
        words.append(f"options: {{ {'; '.join(options)} }}{'' if needed else ' = {}'}")
    path = re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", each.path)
    yield f"  /** {each.summary} */"
    if each.streams:
        yield f"  {_camel(each.name)}({', '.join(words)}): AsyncGenerator<ServerEvent> {{"
        yield f"    return this.stream(`{path}`, options);"
    else:
        answer = ts_type(each.answer) if each.answer else "void"
        yield f"  {_camel(each.name)}({', '.join(words)}): Promise<{answer}> {{"
        given = ["body" if each.body else "undefined", *(["options"] if options else [])]
        yield f'    return this.ask("{each.method}", `{path}`, {", ".join(given)});'
    yield "  }"


def py_type(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "None"
    if "$ref" in schema:
        return f'"{schema["$ref"].rpartition("/")[2]}"'
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(each) for each in schema['enum'])}]"
    match schema["type"]:
        case list() as several:
            return " | ".join(PY[each] for each in several)
        case "array":
            return f"list[{py_type(schema['items'])}]"
        case "object":
            inside = schema.get("additionalProperties")
            return f"dict[str, {py_type(inside)}]" if isinstance(inside, dict) else "dict[str, Any]"
        case kind:
            return PY[kind]


def ts_type(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "void"
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    match schema["type"]:
        case list() as several:
            return " | ".join(TS[each] for each in several)
        case "array":
            inside = ts_type(schema["items"])
            return f"Array<{inside}>"
        case "object":
            inside = schema.get("additionalProperties")
            return f"Record<string, {ts_type(inside)}>" if isinstance(inside, dict) else "Record<string, any>"
        case kind:
            return TS[kind]


def _py_name(name: str) -> str:
    return {"format": "format_"}.get(name, name)


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _wrapped(text: str) -> str:
    return textwrap.fill(text.replace('"', "'"), _WIDTH - 12, subsequent_indent="    ")


if __name__ == "__main__":
    main()
