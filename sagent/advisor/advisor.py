"""The specification of an advisor: `[NAME=]PROVIDER/MODEL[,effort=E][,temperature=T][,max_calls=N][,max_usd=N]...`"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.money import as_usd
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import why_unread
from sagent.model import EFFORTS

DEFAULT_NAME = "advisor"
READ_ONLY_TOOLS = ("Read", "Grep", "Glob", "List")
"""Tools that an advisor may be given: it advises, others act."""


@dataclass(frozen=True, slots=True)
class Advisor:
    """An advisor's specification. `name` identifies it, whatever its model; `role` names a file with its system prompt.

    `max_calls` and `max_usd` limit one session. With `tools` it works as an agent below the one that asks.
    """

    name: str
    model: str  # "provider/model"
    effort: str = ""
    max_calls: int | None = None
    max_usd: Decimal | None = None
    role: str = ""
    tools: tuple[str, ...] = ()
    temperature: float | None = None

    def __str__(self) -> str:
        shown = {name: getattr(self, name) for name in _OPTIONS} | {"tools": ",".join(self.tools)}
        options = "".join(f",{name}={value}" for name, value in shown.items() if value not in ("", None))
        return f"{self.name}={self.model}{options}"


def parse_advisor(text: str) -> Advisor:
    """Parse the specification of an advisor. Raises UsageError."""
    head, *rest = (part.strip() for part in text.split(","))
    left, equals, right = head.partition("=")
    name, model = (left.strip(), right.strip()) if equals else (DEFAULT_NAME, head)
    if not model:
        raise UsageError(f"{text!r} does not name the advisor's model: give [NAME=]PROVIDER/MODEL")
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        raise UsageError(f"{name!r} is not a valid advisor name: use at most 64 letters, digits, - and _")
    options: dict[str, str] = {}
    last_option = ""
    for part in rest:
        option, equals, value = part.partition("=")
        if equals and option in _OPTIONS:
            last_option = option
            options[last_option] = value.strip()
        elif last_option == "tools" and not equals:
            options[last_option] += f",{part}"
        else:
            raise UsageError(
                f"{part!r} is not an option of the advisor {text!r}; the options are {', '.join(_OPTIONS)}"
            )
    return replace(Advisor(name, model), **{option: _OPTIONS[option](value) for option, value in options.items()})


def role_text(advisor: Advisor, base: Path) -> str:
    """Read the system prompt in an advisor's role file, relative to `base`; "" if it has none. Raises UsageError."""
    if not advisor.role:
        return ""
    path = base / path_of(advisor.role)
    from sagent.lib.encoding import text_in

    try:
        if (text := text_in(read_given(path))) is not None:
            return text
        why = "it is not text"
    except (OSError, ValueError) as error:
        why = why_unread(error)
    raise UsageError(f"the role of advisor {advisor.name} cannot be read: {path}: {why}")


def _effort(text: str) -> str:
    if text and text not in EFFORTS:
        raise UsageError(f"effort={text}: give one of {', '.join(EFFORTS)}")
    return text


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"temperature={text}: give a number, at least 0")
    return value


def _max_calls(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"max_calls={text}: give a whole number")
    return int(text)


def _max_usd(text: str) -> Decimal:
    usd = as_usd(text)
    if usd is None or usd < 0:
        raise UsageError(f"max_usd={text}: give USD as a number, at least 0")
    return usd


def _tools(text: str) -> tuple[str, ...]:
    names = text.split(",")
    by_lower_name = {name.lower(): name for name in READ_ONLY_TOOLS}
    if unknown := [name for name in names if name and name.lower() not in by_lower_name]:
        raise UsageError(
            f"an advisor cannot have {unknown[0]}; the tools that it can have are {', '.join(READ_ONLY_TOOLS)}"
        )
    return tuple(dict.fromkeys(by_lower_name[name.lower()] for name in names if name))


_OPTIONS: Mapping[str, Callable[[str], object]] = {
    "effort": _effort, "temperature": _temperature, "max_calls": _max_calls, "max_usd": _max_usd, "role": str,
    "tools": _tools,
}  # fmt: skip
