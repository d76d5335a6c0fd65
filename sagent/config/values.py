"""Parsing and validation of the values of settings."""

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import cast

from sagent.lib.money import TOO_MUCH
from sagent.lib.names import find_path
from sagent.lib.text import cut, nearest
from sagent.plugin import PathBase, RefusedError

KEY_ACTIONS = (
    *("send", "newline", "queue", "edit", "paste-image", "search", "interrupt", "background", "expand", "mode"),
    *("clear", "clear-screen", "suspend", "quit"),
)


def text_of(value: object, _: object = None) -> str:
    if isinstance(value, str):
        return value
    raise RefusedError("give a string")


def name_of(value: object, _: object = None) -> str:
    text = text_of(value).strip()
    if not text:
        raise RefusedError("give a name")
    if not text.isprintable() or " " in text:
        raise RefusedError("give a name without spaces")
    return text


def domains(value: object, _: object = None) -> tuple[str, ...]:
    """Hosts, each with an optional port."""
    from sagent.sandbox.profile import Need

    found: list[str] = []
    for name in names_of(value):
        try:
            found.append(Need.parse(f"network:{name}").target)
        except ValueError:
            raise RefusedError(f'{name!r} is not a host: give "example.org" or "*.example.org:8443"') from None
    return tuple(found)


def status_parts(value: object, _: object = None) -> str:
    """Read the setting of the status line: names of its parts in their order, or a command after !."""
    return text_of(value).strip()


def keys_of(value: object, _: object = None) -> tuple[str, ...]:
    """Parse keys, as a table or as "action=key, action=key"; return each as "action=key"."""
    given = (
        cast("Mapping[object, object]", value).items()
        if isinstance(value, Mapping)
        else [each.partition("=")[::2] for each in text_of(value).split(",") if each.strip()]
    )
    found: list[str] = []
    for name, key in given:
        action = str(name).strip()
        if action not in KEY_ACTIONS and not (action.startswith("/") and action.isprintable()):
            known = f"{', '.join(KEY_ACTIONS)} or a command, as in /bg"
            raise RefusedError(f"{action!r} is not one of {known}{nearest(action, KEY_ACTIONS)}")
        if not isinstance(key, str) or not key.strip():
            raise RefusedError(f'{action} needs a key, as in "ctrl-t"')
        found.append(f"{action}={key.strip()}")
    return tuple(found)


def options_of(value: object, _: object = None) -> tuple[str, ...]:
    """Members of requests, as a table, as "name=value" or as a list of those; each as "name=JSON"."""
    import json

    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        try:
            return tuple(f"{name}={json.dumps(item, allow_nan=False, default=float)}" for name, item in table.items())
        except (TypeError, ValueError) as error:
            raise RefusedError(f"give a value that JSON can represent: {error}") from None
    found: list[str] = []
    for text in [value] if isinstance(value, str) else texts(value, "options"):
        name, equals, said = text.partition("=")
        if not equals or not name.strip():
            raise RefusedError("give NAME=VALUE, as in temperature=0.2")
        try:
            json.dumps(json.loads(said), allow_nan=False)
        except ValueError:  # a string, as NaN is, which JSON lacks
            said = json.dumps(said)
        found.append(f"{name.strip()}={said.strip()}")
    return tuple(found)


def option(pair: str) -> tuple[str, object]:
    """One of `options_of`, as name and value."""
    import json

    name, _, value = pair.partition("=")
    return name, json.loads(value)


def temperature(value: object, _: object = None) -> float:
    accepted = "give a number, at least 0"
    if (degree := float(decimal(value, accepted))) == float("inf"):
        raise RefusedError(accepted)
    return degree


def url(value: object, _: object = None) -> str:
    """Return an address of a server, without a slash at its end."""
    text = text_of(value).strip()
    scheme, colon, rest = text.partition("://")
    if scheme.lower() not in ("http", "https") or not colon or rest.startswith(("/", ":", "?")) or not rest:
        raise RefusedError("give a URL that starts with http:// or https://")
    if not text.isprintable() or " " in text:
        raise RefusedError("give a URL without spaces")
    return text.rstrip("/")


def whole(minimum: int) -> Callable[..., int]:
    """Return the parser of a whole number with a minimum."""

    def read(value: object, _: object = None) -> int:
        try:
            number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else minimum - 1
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise RefusedError(f"give a whole number, at least {minimum}")
        return number

    return read


def shown(value: object) -> str:
    """Return a value in a message, as a settings file would have it, and no longer than a line."""
    text = str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, Decimal) else repr(value)
    return cut(text, 80)


def decimal(value: object, accepted: str) -> Decimal:
    """Return a finite number of at least 0, exactly as written."""
    try:
        number = Decimal(str(value)) if isinstance(value, int | float | str | Decimal) else Decimal(-1)
    except InvalidOperation:
        number = Decimal(-1)
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise RefusedError(accepted)
    return number.copy_abs()  # -0 is 0


def usd(value: object, _: object = None) -> Decimal:
    """USD, exactly as written."""
    accepted = "give USD as a number, at least 0"
    if (amount := decimal(value, accepted)) >= TOO_MUCH:
        raise RefusedError(f"{accepted} and below {TOO_MUCH:.0e}")
    return amount


def seconds(value: object, _: object = None) -> float:
    accepted = "give seconds as a number above 0 and below 1000000"
    if not 0 < (found := float(decimal(value, accepted))) < 1e6:
        raise RefusedError(accepted)
    return found


def share(value: object, _: object = None) -> float:
    part = float(decimal(value, "give a number from 0 to 1"))
    if part > 1:
        raise RefusedError("give a number from 0 to 1")
    return part


def switch(value: object, _: object = None) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise RefusedError("give true or false")


def texts(value: object, noun: str) -> list[str]:
    """Return the items of a list, or of a text split at commas outside parentheses (a rule may lack its end)."""
    if isinstance(value, str):
        import re

        return [item for part in re.findall(r"(?:[^,(\n]|\([^)]*(?:\)|\Z))+", value) if (item := part.strip())]
    if isinstance(value, list | tuple):
        items = cast("list[object] | tuple[object, ...]", value)
        texts = [item for item in items if isinstance(item, str) and item.strip()]
        if len(texts) == len(items):
            return texts
    raise RefusedError(f"give a list of {noun}")


def names_of(value: object, _: object = None) -> tuple[str, ...]:
    """One text, or a list; each may hold several."""
    each = [value] if isinstance(value, str) else texts(value, "names")
    return tuple(dict.fromkeys(name_of(item) for several in each for item in texts(several, "names")))


def is_file(tool: str) -> bool:
    """Return True if a value for a tool is the path of a Python file: names of tools have no such characters."""
    return "/" in tool or "\\" in tool or tool.endswith(".py")


def tools(value: object, base: PathBase) -> tuple[str, ...]:
    """Read names of tools, and paths of files with tools."""
    each = [value] if isinstance(value, str) else texts(value, "names")
    given = [text for several in each for text in texts(several, "names")]
    names = tuple(dict.fromkeys(str(path_of(text, base)) if is_file(text) else name_of(text) for text in given))
    if "none" in names and len(names) > 1:
        raise RefusedError("give names of tools, or only none")
    return () if names == ("none",) else names


def rules(value: object, _: object = None) -> tuple[str, ...]:
    from sagent.errors import ConfigError
    from sagent.policy.rules import Rule

    try:
        return tuple(str(Rule.parse(text)) for text in texts(value, "rules, as in Bash(git status:*)"))
    except ConfigError as error:
        raise RefusedError(str(error)) from None


def path_of(value: object, base: PathBase) -> Path:
    return find_path(base.path(str(value) if isinstance(value, PurePath) else text_of(value)))


def directory(value: object, base: PathBase) -> Path:
    path = path_of(value, base)
    if not path.is_dir():
        raise RefusedError(
            f"give a directory that exists; {path} does not" if not path.exists() else "give a directory"
        )
    return path.resolve()


def directories(value: object, base: PathBase) -> tuple[Path, ...]:
    if not isinstance(value, str):
        listed = cast("list[object] | tuple[object, ...]", value if isinstance(value, list | tuple) else (value,))
        value = [str(each) if isinstance(each, PurePath) else each for each in listed]
    return tuple(directory(item, base) for item in texts(value, "directories"))


def triggers(value: object, _: object = None) -> tuple[str, ...]:
    """Parse names of triggers, or "all"; "none" for no triggers."""
    names = [name.strip() for text in texts(value, "triggers") for name in text.split(",") if name.strip()]
    return () if names == ["none"] else tuple(dict.fromkeys(names))


def bound(value: object, _: object = None) -> object:
    return None if value == "none" else whole(0)(value)
