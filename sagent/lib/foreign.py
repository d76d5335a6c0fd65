"""Names of other libraries, with ours for them: read only when an error mentions one."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_RENAMED = {"trace": "Telemetry"}


@cache
def foreign_names(kind: str) -> Mapping[str, str]:
    """Return our equivalents for other libraries' names: arguments, members of Agent and Result, imports; or as "homes"
    the modules of names that people look for in `sagent` itself."""
    rows = json.loads(Path(__file__).with_name("foreign.json").read_text("utf-8")).get(kind, {})
    return {name: here for names, here in rows.items() for name in names.split()}


def unknown_keyword(owner: str, keywords: Mapping[str, object]) -> TypeError:
    """Return the error for keywords that a function does not have."""
    name = next(iter(keywords))
    here = foreign_names("arguments").get(name)
    return TypeError(f"{owner}() has no argument {name!r}{f'. Here: {here}' if here else ''}")


def missing_attribute(owner: str, name: str) -> str:
    """Return the message for an attribute that an object does not have."""
    here = foreign_names(owner).get(name)
    return f"{owner!r} object has no attribute {name!r}{f'. Here: {here}' if here else ''}"


def import_hint(name: str) -> str:
    """Return the import or code to use for a name that `sagent` lacks; "" if none is known."""
    name = _RENAMED.get(name, name)
    home = foreign_names("homes").get(name) or plugin_with(name)
    return f"from {home} import {name}" if home else foreign_names("imports").get(name, "")


def plugin_with(name: str) -> str:
    """Return the module of the plugin of ours that declares a name, "" if none does."""
    for path in sorted((Path(__file__).parents[1] / "plugins").glob("*/__init__.py")):
        names = re.search(r"^__all__ = \[([^]]*)\]", path.read_text("utf-8"), re.MULTILINE)
        if names is not None and f'"{name}"' in names[1]:
            return f"{__name__.partition('.')[0]}.plugins.{path.parent.name}"
    return ""
