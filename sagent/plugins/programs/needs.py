"""Members of tables that describe programs, as files of settings have them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from sagent.plugin import PathBase, RefusedError

if TYPE_CHECKING:
    from sagent.sandbox.profile import Need


def read_need(text: str, base: PathBase) -> "Need":
    """Parse a command's grants. Paths are relative to the file."""
    from sagent.sandbox.profile import Need

    try:
        need = Need.parse(text)
    except ValueError as error:
        raise RefusedError(f"needs: {error}") from None
    if need.kind in ("read", "write"):
        return Need(need.kind, str(base.path(need.target)))
    return need


def list_of_texts(value: object, label: str) -> list[str]:
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return cast("list[str]", value)
    raise RefusedError(f"{label}: give a list of strings")


def table_of_texts(value: object, label: str) -> Mapping[str, str]:
    pairs = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {"": None}
    if all(isinstance(text, str) for text in pairs.values()):
        return cast("Mapping[str, str]", pairs)
    raise RefusedError(f"{label}: give a table of strings")
