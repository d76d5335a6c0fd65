"""Rewrites tools whose names or schemas a provider would refuse. Inexpressible parts are described in text.

A tool checks its arguments by its own schema, so the model's may be wider.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sagent.lib.json import EMPTY, Json, JsonObject, as_array, as_object, as_str, json_dump
from sagent.model import ToolSpec
from sagent.providers.toolforms import MAX_NUMBER, NAME, Fitted, Naming, ToolForm, are_plain, is_plain

MAX_DEPTH = 30  # nested schemas
MAX_INLINED = 6  # nested references that are expanded
MAX_NODES = 5_000  # of one tool; further ones accept anything
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_UNIONS = ("anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLE = ("additionalProperties", "contains", "propertyNames", "not", "if", "then", "else", "unevaluatedItems")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", *_COUNTS)


def fit_tools(tools: tuple[ToolSpec, ...], form: ToolForm) -> Fitted:
    """Return the tools in a form that the provider accepts. Equal tools are fitted equally."""
    if are_plain(tools, form):
        return Fitted(tools)
    key, wire = re.compile(form.keys), wire_names([tool.name for tool in tools])
    fitted, keys = list[ToolSpec](), dict[str, Mapping[str, str]]()
    for tool, name in zip(tools, wire, strict=True):
        if name == tool.name and is_plain(tool, form, key.fullmatch):
            fitted.append(tool)
            continue
        spec, renamed = fit_tool(tool, name, form)
        fitted.append(spec)
        if renamed:
            keys[tool.name] = renamed
    changed = {tool.name: name for tool, name in zip(tools, wire, strict=True) if tool.name != name}
    return Fitted(tuple(fitted), Naming(changed, keys) if changed or keys else None)


def wire_names(names: Sequence[str]) -> list[str]:
    """Return a unique, accepted name for each tool. Accepted names are kept."""
    taken: dict[str, int] = {name: place for place, name in reversed([*enumerate(names)]) if NAME.fullmatch(name)}
    found: list[str] = []
    for place, name in enumerate(names):
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
        plain = plain if NAME.fullmatch(plain) else f"_{plain}"[:64]
        found.append(_free(plain, taken, place, 64))
    return found


def _free(name: str, owners: dict[str, int], place: int, max_length: int) -> str:
    new, number = name, 1
    while owners.setdefault(new, place) != place:
        number += 1
        ending = f"_{number}"
        new = name[: max_length - len(ending)] + ending
    return new


def fit_tool(tool: ToolSpec, name: str, form: ToolForm) -> tuple[ToolSpec, Mapping[str, str]]:
    """Return a tool in a provider's form, and its renamed properties."""
    writer = _Writer(tool.parameters, form)
    root, words = writer.top()
    described = (tool.description.strip() and tool.description) or tool.name
    description = " ".join((described, *words))
    return replace(tool, name=name, description=description, parameters=root), writer.renamed


class _Writer:
    """Writes the schema of one tool. `renamed` are names of properties by their new names."""

    def __init__(self, schema: JsonObject, form: ToolForm) -> None:
        self._root, self._form, self._key = schema, form, re.compile(form.keys)
        self._left = MAX_NODES
        self.renamed = self._names(schema)

    def _names(self, schema: JsonObject) -> Mapping[str, str]:
        """Return new names for properties with refused names, unused by other properties of the tool."""
        known = dict.fromkeys(_property_names(schema))
        taken = {name: -1 for name in known if self._key.fullmatch(name)}
        new: dict[str, str] = {}
        for place, name in enumerate(known):
            if taken.get(name) == -1:
                continue
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:60].lstrip(".-")
            plain = plain if self._key.fullmatch(plain) else f"_{plain}"
            new[name] = _free(plain, taken, place, 64)
        return new

    def top(self) -> tuple[JsonObject, list[str]]:
        """Return the whole schema, as an object without alternatives, and a text for the parts it lost."""
        flat, words = self._flat(self._root, 0)
        for name in ("enum", "const", "not"):
            if name in flat:
                words.append(f"({name} of the arguments: {_short(flat[name])})")
        gone = ("enum", "const", "not", "$schema", "$id", "type")
        keep = {name: value for name, value in flat.items() if name not in gone}
        if not self._form.refs:
            keep = {name: value for name, value in keep.items() if name in ("properties", "required")}
        node = self._object({"type": "object", **keep}, 0)
        if not node.get("properties") and not self._form.listed:
            del node["properties"]
        return JsonObject(node), words

    def _flat(self, schema: JsonObject, depth: int) -> tuple[dict[str, Json], list[str]]:
        """Return a schema of arguments with its branches merged: each property of any, and what all of them need."""
        self._left -= 1
        if "$ref" in schema and depth < MAX_INLINED:
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            target = self._resolved(schema["$ref"])
            schema = JsonObject({**(target if isinstance(target, JsonObject) else EMPTY), **rest})
        merged = {name: value for name, value in schema.items() if name not in _LISTS and name != "$ref"}
        properties = _properties(schema)
        required = _required(schema)
        words: list[str] = []
        for name in ("allOf", *_UNIONS):
            branches = [
                self._flat(each, depth + 1) for each in as_array(schema.get(name)) if isinstance(each, JsonObject)
            ]
            if not branches or depth >= MAX_INLINED:
                continue
            for branch, said in branches:
                words += said
                for key, value in _properties(JsonObject(branch)).items():
                    properties[key] = _either(properties[key], value) if key in properties else value
            needs = [_required(JsonObject(branch)) for branch, _ in branches]
            if name == "allOf":
                required += [key for need in needs for key in need]
            else:
                required += [key for key in needs[0] if all(key in need for need in needs)]
                ways = [", ".join(need) or "nothing" for need in needs]
                if len({*ways}) > 1:
                    words.append(f"Of the arguments give one of these sets: ({'), or ('.join(ways)}).")
            merged.pop("additionalProperties", None)  # each branch has names that the others lack
        merged["properties"] = JsonObject(properties)
        merged["required"] = tuple(dict.fromkeys(required))
        return merged, words

    def _node(self, schema: Json, depth: int, inlined: int = 0) -> JsonObject:
        """Return a nested schema in an accepted form."""
        self._left -= 1
        if isinstance(schema, bool) or not isinstance(schema, JsonObject):
            return EMPTY
        if depth > MAX_DEPTH or self._left < 0:
            return JsonObject({"description": f"(more of it: {_short(schema)})"})
        if "$ref" in schema:
            return self._reference(schema, depth, inlined)
        return JsonObject(self._object(schema, depth, inlined))

    def _reference(self, schema: JsonObject, depth: int, inlined: int) -> JsonObject:
        """Keep a reference to a definition if the provider follows it; expand any other."""
        target, name = schema["$ref"], as_str(schema["$ref"]).rpartition("/")[2]
        found = self._resolved(target)
        if self._form.refs and target in (f"#/$defs/{name}", f"#/definitions/{name}") and found is not None:
            return schema if "description" in schema or len(schema) == 1 else JsonObject({"$ref": target})
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        if not isinstance(found, JsonObject) or inlined >= MAX_INLINED:
            words = f"(as {name or 'the whole'} above)" if found is not None else f"(of {_short(target)})"
            return JsonObject({"description": " ".join(filter(None, (as_str(rest.get("description")), words)))})
        return self._node(JsonObject({**found, **rest}), depth + 1, inlined + 1)

    def _resolved(self, target: Json) -> Json:
        """Return the target of a pointer into this schema; None for any other."""
        path = as_str(target)
        if path != "#" and not path.startswith("#/"):
            return None
        at: Json = self._root
        for part in path.split("/")[1:]:
            step = part.replace("~1", "/").replace("~0", "~")
            if isinstance(at, JsonObject) and step in at:
                at = at[step]
            elif isinstance(at, tuple) and step.isdecimal() and int(step) < len(at):
                at = at[int(step)]
            else:
                return None
        return at

    def _object(self, schema: Mapping[str, Json], depth: int, inlined: int = 0) -> dict[str, Json]:
        """Return a schema with each of its members in an accepted form."""
        empty = [name for name in _LISTS if all(each is False for each in as_array(schema.get(name)))]
        held = {name: value for name, value in schema.items() if name not in empty}  # no branch: it constrains nothing
        words: list[str] = []
        self._limit(held, words)
        self._choose(held, words)
        for name in _NAMED:
            if name in held:
                self._name(held, name, depth, inlined)
        for name in _SINGLE:
            if name in held and not isinstance(held[name], bool):
                held[name] = self._node(held[name], depth + 1, inlined)
        for name in _LISTS:
            if name in held:
                listed = held[name]
                listed = listed if isinstance(listed, tuple) else ()
                held[name] = tuple(self._node(each, depth + 1, inlined) for each in listed if each is not False)
        self._items(held, depth, inlined)
        own = schema.get("properties")
        flagged = own.items() if isinstance(own, JsonObject) else ()  # as in draft 3
        self._need(held, [name for name, each in flagged if as_object(each).get("required") is True])
        if any(name in held for name in _UNIONS) and not self._form.unions and "type" in held:
            held.pop("type")  # the alternatives have theirs
        if words:
            held["description"] = " ".join(filter(None, (as_str(held.get("description")), f"({', '.join(words)})")))
        return held

    def _limit(self, node: dict[str, Json], words: list[str]) -> None:
        """Keep the known limits: those of drafts before 6 in their later form, no number beyond 64 bits."""
        for end, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(node.get(end), bool) and node.pop(end) is True and bound in node:
                node[end] = node.pop(bound)
        for name in _NUMBERS:
            value = node.get(name)
            if name in node and (
                isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_NUMBER
            ):
                del node[name]
                words.append(f"{name}: {_short(value)}")
        pattern = node.get("pattern")
        if "pattern" in node and not self._takes_pattern(pattern):
            words.append(f"pattern: {_short(node.pop('pattern'))}")
        kind = node.get("format")
        if "format" in node and self._form.formats is not None and kind not in self._form.formats:
            words.append(f"format: {_short(node.pop('format'))}")
        for name in ("description", "title"):
            if name in node and not isinstance(node[name], str):
                node[name] = _short(node[name])

    def _takes_pattern(self, pattern: Json) -> bool:
        if not isinstance(pattern, str):
            return False
        try:
            re.compile(pattern)
        except (re.error, RecursionError):
            return False
        return self._form.patterns or (pattern.startswith("^") and pattern.endswith("$") and "(?" not in pattern)

    def _choose(self, node: dict[str, Json], words: list[str]) -> None:
        """Give each schema one existing type if alternatives of types are not supported, and accepted values."""
        kinds = node.get("type")
        known = [kind for kind in (kinds if isinstance(kinds, tuple) else (kinds,)) if kind in _TYPES]
        if "type" in node and not known:
            words.append(f"type: {_short(node.pop('type'))}")
        elif isinstance(kinds, tuple):
            node["type"] = tuple(dict.fromkeys(known)) if len({*known}) > 1 else known[0]
        if "enum" in node and not (isinstance(node["enum"], tuple) and node["enum"]):
            words.append(f"enum: {_short(node.pop('enum'))}")
        if "type" not in node and not any(name in node for name in (*_LISTS, "$ref")):
            if "properties" in node:
                node["type"] = "object"
            elif "items" in node:
                node["type"] = "array"
        if not self._form.unions:
            self._unite(node, words)

    def _unite(self, node: dict[str, Json], words: list[str]) -> None:
        """Write lists of types, constants and mixed values in ways that every provider supports."""
        if "const" in node:
            node["enum"] = (node.pop("const"),)
        values = node.get("enum")
        if isinstance(values, tuple) and not all(isinstance(value, str) for value in values):
            words.append(f"one of {_short(node.pop('enum'))}")
            kinds = {_TYPE_OF.get(type(value), "") for value in values}
            if "type" not in node and len(kinds) == 1 and "" not in kinds:
                node["type"] = kinds.pop()
        elif values:
            node["type"] = "string"
        if "oneOf" in node and "anyOf" not in node:
            node["anyOf"] = node.pop("oneOf")
        kinds = node.get("type")
        if isinstance(kinds, tuple) and "anyOf" not in node:
            own = {name: node.pop(name) for name in [*node] if name not in ("description", "title", "default", "type")}
            node["anyOf"] = tuple(JsonObject({"type": kind, **(own if kind != "null" else {})}) for kind in kinds)
            del node["type"]

    def _name(self, keywords: dict[str, Json], member: str, depth: int, inlined: int) -> None:
        """Write the schemas with names; those of properties under an accepted name."""
        named = keywords[member]
        if not isinstance(named, JsonObject):
            del keywords[member]
            return
        written: dict[str, Json] = {}
        for name, each in named.items():
            if each is False and member == "properties":
                continue  # nobody may give it
            node = self._node(each, depth + 1, inlined)
            new = self.renamed.get(name, name) if member == "properties" else name
            if new != name:
                node = JsonObject({**node, "description": f"({name}) {as_str(node.get('description'))}".strip()})
            written[new] = node
        keywords[member] = JsonObject(written)

    def _items(self, node: dict[str, Json], depth: int, inlined: int) -> None:
        items = node.get("items")
        if isinstance(items, tuple):  # of drafts before 2020-12
            rest = node.pop("additionalItems", True)
            node["prefixItems"] = tuple(self._node(item, depth + 1, inlined) for item in items)
            node["items"] = self._node(rest, depth + 1, inlined)
        elif "items" in node:
            node["items"] = self._node(items, depth + 1, inlined)
        elif node.get("type") == "array":
            node["items"] = EMPTY

    def _need(self, node: dict[str, Json], flagged: Sequence[str]) -> None:
        """List the required properties, which must all be known."""
        names = [name for name in as_array(node.pop("required", ())) if isinstance(name, str)]
        needed = [self.renamed.get(name, name) for name in dict.fromkeys((*names, *flagged))]
        if node.get("type") == "object":
            properties = node.get("properties")
            known = properties if isinstance(properties, JsonObject) else EMPTY
            if lacking := [name for name in needed if name not in known]:
                node["properties"] = JsonObject({**known, **dict.fromkeys(lacking, EMPTY)})
        if needed:
            node["required"] = tuple(needed)


_TYPE_OF: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _properties(schema: JsonObject) -> dict[str, Json]:
    held = schema.get("properties")
    return {**held} if isinstance(held, JsonObject) else {}


def _required(schema: JsonObject) -> list[str]:
    return [name for name in as_array(schema.get("required")) if isinstance(name, str)]


def _either(schema: Json, other: Json) -> Json:
    """Return a schema that accepts the values of either of two."""
    if schema == other or other in (True, EMPTY):
        return schema
    before = schema.get("anyOf") if isinstance(schema, JsonObject) and {*schema} == {"anyOf"} else None
    known = before if isinstance(before, tuple) else (schema,)
    return schema if other in known else JsonObject({"anyOf": (*known, other)})


def _property_names(schema: Json, depth: int = 0) -> Iterable[str]:
    """Yield the names of all properties in a schema, in their order."""
    if isinstance(schema, tuple):
        for each in schema:
            yield from _property_names(each, depth)
    elif isinstance(schema, JsonObject) and depth <= 2 * MAX_DEPTH:
        for name, each in schema.items():
            if name == "properties" and isinstance(each, JsonObject):
                yield from each
                for inner in each.values():
                    yield from _property_names(inner, depth + 1)
            elif name == "required" and isinstance(each, tuple):
                yield from (one for one in each if isinstance(one, str))
            elif name not in ("default", "enum", "const", "examples"):
                yield from _property_names(each, depth + 1)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json_dump(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
