"""The settings one by one: how a value is read, what is accepted, and what a project's file may do with it."""

from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

from sagent.model import EFFORTS
from sagent.policy.permissions import MODES

Project: TypeAlias = Literal["no", "yes", "lower"]
"""What a project's file may do: nothing, anything, or only make it stricter."""


class RefusedError(ValueError):
    """A value is not accepted; the message says what is."""


class Place(NamedTuple):
    """What relative paths and `~` in a value start from."""

    directory: Path
    home: Path

    def path(self, text: str) -> Path:
        """An absolute path, symlinks left alone."""
        if not text or "\0" in text:
            raise RefusedError("give a path")
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return self.directory / text


Reader: TypeAlias = Callable[[object, Place], object]


class Field(NamedTuple):
    """One setting. `flag` is its name on the command line where that differs; `adds` joins the layers' values.

    The name of one in a table has the table's before it: "advisor_rules.max_usd" is SAGENT_ADVISOR_MAX_USD.
    """

    name: str
    read: Reader
    project: Project = "no"
    flag: str = ""
    adds: bool = False

    @property
    def member(self) -> str:
        """Its name inside its table."""
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        if self.name == self.member:
            return "SAGENT_" + self.name.upper()
        return "SAGENT_ADVISOR_" + self.member.upper().replace("ADVISOR_", "")

    @property
    def flag_name(self) -> str:
        """Its name on the command line, without dashes."""
        return self.flag or self.name.replace("_", "-")


def _text(value: object, place: Place) -> str:
    del place
    if isinstance(value, str):
        return value
    raise RefusedError("give a text")


def _name(value: object, place: Place) -> str:
    text = _text(value, place).strip()
    if not text:
        raise RefusedError("give a name")
    if not text.isprintable() or " " in text:
        raise RefusedError("give a name without spaces")
    return text


def url(value: object, place: Place) -> str:
    """An address of a server, without a slash at its end."""
    text = _text(value, place).strip()
    scheme, colon, rest = text.partition("://")
    if scheme.lower() not in ("http", "https") or not colon or rest.startswith(("/", ":", "?")) or not rest:
        raise RefusedError("give a URL that starts with http:// or https://")
    if not text.isprintable() or " " in text:
        raise RefusedError("give a URL without spaces")
    return text.rstrip("/")


def choice(*names: str) -> Reader:
    """One of a few words, whatever its case; a wrong one is told the nearest."""

    def read(value: object, place: Place) -> object:
        del place
        if isinstance(value, str) and (word := value.strip().lower()) in names:
            return word
        raise RefusedError(f"give one of {', '.join(names)}{nearest(str(value), names)}")

    return read


def whole(least: int) -> Reader:
    """A whole number of at least so much."""

    def read(value: object, place: Place) -> int:
        del place
        try:
            number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else least - 1
        except ValueError:
            number = least - 1
        if number < least:
            raise RefusedError(f"give a whole number, at least {least}")
        return number

    return read


def decimal(value: object, accepted: str) -> Decimal:
    """A finite number of at least 0, exactly as written."""
    try:
        number = Decimal(str(value)) if isinstance(value, int | float | str | Decimal) else Decimal(-1)
    except InvalidOperation:
        number = Decimal(-1)
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise RefusedError(accepted)
    return number


def usd(value: object, place: Place) -> Decimal:
    """USD, exactly as written."""
    del place
    return decimal(value, "give USD as a number, at least 0")


def _seconds(value: object, place: Place) -> float:
    del place
    seconds = float(decimal(value, "give seconds as a number above 0"))
    if not 0 < seconds < 1e6:
        raise RefusedError("give seconds as a number above 0")
    return seconds


def _part(value: object, place: Place) -> float:
    del place
    part = float(decimal(value, "give a number from 0 to 1"))
    if part > 1:
        raise RefusedError("give a number from 0 to 1")
    return part


def _switch(value: object, place: Place) -> bool:
    del place
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise RefusedError("give true or false")


def texts(value: object, what: str) -> list[str]:
    """A list, or one text with commas between (those inside parentheses belong to a rule)."""
    if isinstance(value, str):
        import re

        return [item for part in re.findall(r"(?:[^,(\n]|\([^)]*\)|\()+", value) if (item := part.strip())]
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        texts = [item for item in items if isinstance(item, str) and item.strip()]
        if len(texts) == len(items):
            return texts
    raise RefusedError(f"give a list of {what}")


def _names(value: object, place: Place) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(item, place) for each in _each(value, "names") for item in texts(each, "names")))


def _each(value: object, what: str) -> list[str]:
    """The items of a list, each of which may hold several; or the one text."""
    return [value] if isinstance(value, str) else texts(value, what)


def _tools(value: object, place: Place) -> tuple[str, ...]:
    names = _names(value, place)
    if "none" in names and len(names) > 1:
        raise RefusedError("give names of tools, or none alone")
    return () if names == ("none",) else names


def _rules(value: object, place: Place) -> tuple[str, ...]:
    from sagent.errors import ConfigError
    from sagent.policy.rules import Rule

    del place
    try:
        return tuple(str(Rule.parse(text)) for text in texts(value, "rules, as in Bash(git status:*)"))
    except ConfigError as error:
        raise RefusedError(str(error)) from None


def _path(value: object, place: Place) -> Path:
    return place.path(_text(value, place))


def _directory(value: object, place: Place) -> Path:
    path = _path(value, place)
    if not path.is_dir():
        raise RefusedError(
            f"give a directory that exists; {path} does not" if not path.exists() else "give a directory"
        )
    return path.resolve()


def _directories(value: object, place: Place) -> tuple[Path, ...]:
    return tuple(_directory(item, place) for item in texts(value, "directories"))


def _advisors(value: object, place: Place) -> object:
    from sagent.config.advisors import read_advisors

    return read_advisors(value, place)


FIELDS: tuple[Field, ...] = (
    Field("model", _name, "yes"),
    Field("provider", _name),
    Field("base_url", url),
    Field("auth", choice("key", "bearer", "credentials")),
    Field("transport", choice("direct", "sdk")),
    Field("fallback", _names, "yes"),
    Field("effort", choice(*EFFORTS), "yes"),
    Field("advisors", _advisors, flag="advisor"),
    Field("advisor_mode", choice("auto", "client", "native")),
    Field("advisor_stop", choice("pass", "end")),
    Field("panel", choice("first", "all"), flag="advisor-panel"),
    Field("allow_providers", _names, "lower"),
    Field("max_response_tokens", whole(1), "lower"),
    Field("max_request_tokens", whole(1), "lower"),
    Field("stall_seconds", _seconds),
    Field("reasoning_stall_seconds", _seconds),
    Field("max_retries", whole(0), "lower"),
    Field("system", _text),
    Field("append_system", _text),
    Field("tools", _tools),
    Field("max_turns", whole(1), "lower"),
    Field("max_agent_depth", whole(0), "lower"),
    Field("max_live_agents", whole(0), "lower"),
    Field("max_spawns", whole(0), "lower"),
    Field("background_after", _seconds),
    Field("wait_for_jobs", _switch),
    Field("compact_at", _part),
    Field("compactor", _name),
    Field("max_tool_call_rounds", whole(1), "lower"),
    Field("max_budget_usd", usd, "lower"),
    Field("permission_mode", choice(*MODES), "lower"),
    Field("allow", _rules, adds=True),
    Field("deny", _rules, "yes", adds=True),
    Field("cwd", _directory),
    Field("add_dirs", _directories, flag="add-dir", adds=True),
    Field("state_dir", _path),
    Field("continue_session", _switch, flag="continue"),
    Field("session", _path),
    Field("fork", _name),
    Field("ephemeral", _switch),
    Field("output_format", choice("text", "json", "stream-json")),
    Field("input_format", choice("text", "stream-json")),
    Field("theme", choice("auto", "dark", "light", "plain")),
    Field("editing_mode", choice("emacs", "vi")),
    Field("notify", choice("bell", "osc9", "off")),
    Field("log_level", choice("debug", "info", "warning", "error"), "yes"),
    Field("trace", _path),
)
TABLES = ("providers", "prices", "mcp")


def is_stricter(name: str, new: object, old: object) -> bool:
    """Whether a project's value takes nothing away from what the person set: lower limits, fewer providers."""
    if name == "permission_mode":
        modes: tuple[object, ...] = MODES
        return modes.index(new) <= modes.index(old)
    if isinstance(new, tuple):
        fewer = set(cast("tuple[str, ...]", new))
        return old is None or (isinstance(old, tuple) and fewer <= set(cast("tuple[str, ...]", old)))
    if isinstance(new, int | float | Decimal):
        return old is None or (isinstance(old, int | float | Decimal) and new <= old)
    return False


def nearest(word: str, names: Iterable[str]) -> str:
    """` Did you mean ...?`, or nothing."""
    import difflib

    near = difflib.get_close_matches(word, list(names), 1, 0.6)
    return f". Did you mean {near[0]}?" if near else ""
