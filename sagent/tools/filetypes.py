"""File types by name, as globs of file names: the list is filetypes.toml."""

from pathlib import Path

from sagent.errors import ToolError


def globs_of(name: str) -> list[str]:
    """Return the globs of a type. Raises ToolError with the known types."""
    import tomllib

    lists: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("filetypes.toml").read_text("utf-8"))
    types, aliases = lists["types"], lists["aliases"]
    known = types.get(aliases.get(name.lower(), name.lower()))
    if known is None:
        raise ToolError(f"There is no file type {name!r}. Use glob, or one of: {', '.join(types)}.")
    return known.split()
