"""The fields of an MCP server's form: flat, of strings, numbers, booleans, and choices."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from urllib.parse import urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, Json, JsonObject, as_array, as_object, as_str, json_freeze, json_thaw
from sagent.lib.schema import coerce, violations
from sagent.lib.text import one_line, printable

MAX_FIELDS = 30
MAX_CHOICES = 200
LEAVE_OUT = "(leave it out)"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. `choices` maps displayed texts to values; `default` is None without one."""

    name: str
    title: str
    about: str
    schema: JsonObject
    required: bool
    multiple: bool = False
    choices: Mapping[str, Json] = EMPTY
    default: object = None

    def text(self) -> str:
        """Return the question, in Markdown."""
        about = f": {self.about}" if self.about else ""
        return f"**{self.title}**{about} [{', '.join(self._kind())}]"

    def _kind(self) -> list[str]:
        words = "one of these" if self.choices else _KINDS.get(as_str(self.schema.get("type")), "text")
        words = "any of these" if self.multiple else words
        limits = [said.format(self.schema[key]) for key, said in _LIMITS if key in self.schema]
        form = [f"as {self.schema['format']}"] if "format" in self.schema else []
        return [printable(word) for word in (words, *limits, *form, "required" if self.required else "optional")]

    def options(self) -> tuple[str, ...]:
        """Return the options: the default first, if it is not among the choices."""
        first = () if self.choices or self.default is None else (self.shown(self.default),)
        return (*first, *self.choices, *(() if self.required else (LEAVE_OUT,)))

    def shown(self, value: object) -> str:
        """Return the displayed text of a value."""
        values = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType] -- JSON
        words = {_key(each): word for word, each in self.choices.items()}
        return one_line(printable(", ".join(words.get(_key(each), str(each)) for each in values)), 200)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- JSON

    def read(self, text: str) -> tuple[object, str]:
        """Parse an answer into a value, None if the field is left out; and return its error, if any."""
        if LEAVE_OUT in text.split("\n") and not self.required:
            return None, ""
        if self.default is not None and text == self.shown(self.default) and not self.multiple:
            return self.default, ""
        if self.multiple:
            return self.judge(tuple(self._choice(word) for word in text.split("\n") if word))
        return self.judge(self._choice(text) if self.choices else text)

    def _choice(self, word: str) -> Json:
        alike = [value for words, value in self.choices.items() if words.casefold() == word.strip().casefold()]
        return alike[0] if alike else word

    def judge(self, value: Json) -> tuple[object, str]:
        """Return the value in the schema's form; and its error, if any."""
        value = coerce(self.schema, value)
        if wrong := violations(self.schema, value):
            return None, wrong[0]
        test = _FORMATS.get(as_str(self.schema.get("format")))
        if isinstance(value, str) and test is not None and not test(value):
            return None, f"{value!r} is not a valid {self.schema['format']}"
        return json_thaw(value), ""


def read_fields(schema: Mapping[str, object]) -> tuple[Field, ...] | None:
    """Return the fields of a form in order; None if it is not flat, or too long for a person."""
    properties = as_object(schema.get("properties"))
    if len(properties) > MAX_FIELDS:
        return None
    required = {name for name in as_array(schema.get("required")) if isinstance(name, str)}
    try:
        return tuple(_field(name, as_object(said), name in required) for name, said in properties.items())
    except (TypeError, ValueError):
        return None


def _field(name: str, described: Mapping[str, object], required: bool) -> Field:  # noqa: FBT001 -- a fact of the field
    multiple = described.get("type") == "array"
    choices = _choices(as_object(described.get("items")) if multiple else described)
    if described.get("type") == "boolean":
        choices = {"Yes": True, "No": False}
    elif described.get("type") == "object" or (multiple and not choices) or len(choices) > MAX_CHOICES:
        raise ValueError(name)
    kept = ("type", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "format")
    # No pattern: a stranger's could take for ever to match.
    schema = {key: described[key] for key in kept if key in described}
    if multiple:
        schema["items"] = {"enum": list(choices.values())}
    elif choices:
        schema["enum"] = list(choices.values())
    title = one_line(printable(as_str(described.get("title")) or name), 100)
    about = one_line(printable(as_str(described.get("description"))), 500)
    field = Field(name, title, about, json_freeze(schema), required, multiple, choices)
    default = json_freeze(described.get("default"))
    value, fault = field.judge(default)
    return field if default is None or fault else replace(field, default=value)


def _choices(schema: Mapping[str, object]) -> dict[str, Json]:
    """Return the values of a choice by their titles, in the three ways that revisions have had for them."""
    titled = as_array(schema.get("oneOf")) or as_array(schema.get("anyOf"))
    if titled:
        pairs = [(as_object(one).get("const"), as_str(as_object(one).get("title"))) for one in titled]
    else:
        values = as_array(schema.get("enum"))
        names: Sequence[object] = as_array(schema.get("enumNames"))
        pairs = [(value, as_str(names[at]) if at < len(names) else "") for at, value in enumerate(values)]
    found: dict[str, Json] = {}
    for value, title in pairs:
        words = one_line(printable(title or str(value)), 100)
        found[f"{words} ({one_line(printable(str(value)), 60)})" if words in found else words] = json_freeze(value)
    return found


def _key(value: object) -> str:
    return f"{type(value).__name__}:{value}"


def _is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and _parses(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return "T" in text.upper() and _parses(datetime.fromisoformat, re.sub("[zZ]$", "+00:00", text))


def _parses(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme) and not re.search(r"\s", text)
    except ValueError:
        return False


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_time,
}
_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}
_LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {}"),
    ("maxItems", "at most {}"),
)
