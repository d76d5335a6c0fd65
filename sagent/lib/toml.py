"""TOML (toml.io, version 1.0): the files of data beside modules, and values as TOML writes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast


def toml_beside(module: str, name: str) -> dict[str, Any]:
    """Return the table in a TOML file that is beside a module, given by its `__file__`."""
    import tomllib

    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


def toml_value(value: object) -> str:
    """Return a string, number, truth value, list or table on one line. Raises ValueError for anything else."""
    match value:
        case str():
            whole = value.encode("utf-8", "replace").decode()  # half of a surrogate pair becomes a question mark
            return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(toml_value, cast('list[object]', value)))}]"
        case Mapping():
            pairs = cast("Mapping[str, object]", value).items()
            inside = ", ".join(f"{toml_value(name)} = {toml_value(item)}" for name, item in pairs)
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            raise ValueError(f"{value!r:.40} cannot be written as TOML")


def toml_members(table: Mapping[str, object]) -> str:
    """Return the members of a table, one a line. Raises ValueError."""
    return "\n".join(f"{name} = {toml_value(value)}" for name, value in table.items())
