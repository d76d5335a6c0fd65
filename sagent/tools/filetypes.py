"""File types by name, as globs of file names: the list is filetypes.toml."""

from sagent.errors import ToolError
from sagent.lib.toml import toml_beside


def globs_of(name: str) -> list[str]:
    """Return the globs of a type. Raises ToolError with the known types."""
    lists: dict[str, dict[str, str]] = toml_beside(__file__, "filetypes.toml")
    types, aliases = lists["types"], lists["aliases"]
    known = types.get(aliases.get(name.lower(), name.lower()))
    if known is None:
        raise ToolError(f"There is no file type {name!r}. Use glob, or one of: {', '.join(types)}.")
    return known.split()
