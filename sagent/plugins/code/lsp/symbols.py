"""Places and symbols in code, as a model reads them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.lib.names import quote_path
from sagent.lib.text import one_line, printable
from sagent.plugins.code.lsp.checks import read_text
from sagent.plugins.code.lsp.server import path_of
from sagent.plugins.code.lsp.text import Lines
from sagent.tool import Workspace
from sagent.tools.paths import short_path

MAX_PLACES = 100  # places
MAX_SYMBOLS = 400
_WIDTH = 200  # characters of a line
_KINDS = (
    *("", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum"),
    *("interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null"),
    *("enum member", "struct", "event", "operator", "type parameter"),
)  # SymbolKind of the protocol, from 1
_LOCAL = ("variable", "string", "number", "boolean", "array", "object", "key", "null")


def show_places(answer: object, tool: str, workspace: Workspace) -> list[str]:
    """Return locations as lines "path:line: text", sorted; hidden files are shown without text."""
    items = as_array(answer) or ([answer] if as_object(answer) else [])
    places = sorted({place for place in map(_place, map(as_object, items)) if place is not None})
    texts: dict[Path, Callable[[int], str]] = {}
    shown: list[str] = []
    for path, line in places[:MAX_PLACES]:
        if path not in texts:
            text = None if is_hidden(path, tool, workspace) else read_text(path)
            texts[path] = Lines(text or "").line
        said = one_line(printable(texts[path](line)), _WIDTH)
        shown.append(f"{quote_path(short_path(path, workspace))}:{line + 1}{f': {said}' if said else ''}")
    return [*shown, f"and {len(places) - MAX_PLACES} more"] if len(places) > MAX_PLACES else shown


def is_hidden(path: Path, tool: str, workspace: Workspace) -> bool:
    """Return True if the policy hides a file."""
    return workspace.hidden is not None and workspace.hidden(tool, path.parent)(path.name)


def show_outline(answer: object) -> list[str]:
    """Return the symbols of a file, nested ones indented: "12-40 class Name"; variables within functions are left
    out."""
    symbols = list(_outline(as_array(answer), 0))
    more = len(symbols) - MAX_SYMBOLS
    return [*symbols[:MAX_SYMBOLS], f"and {more} more"] if more > 0 else symbols


def _outline(items: Sequence[object], depth: int, above: str = "") -> Iterator[str]:
    for item in map(as_object, items):
        kind = kind_of(item)
        if depth and kind in _LOCAL and above in ("function", "method", "constructor"):
            continue
        between = as_object(item.get("range") or as_object(item.get("location")).get("range"))
        first, last = (as_int(as_object(between.get(end)).get("line")) + 1 for end in ("start", "end"))
        span = f"{first}-{last}" if last > first else f"{first}"
        name = one_line(printable(as_str(item.get("name"))), _WIDTH)
        yield f"{'  ' * depth}{span} {kind} {name}"
        if depth < 8:
            yield from _outline(as_array(item.get("children")), depth + 1, kind)


def show_found(answer: object, workspace: Workspace) -> list[str]:
    """Symbols of a project: "path:line kind Name in Container"."""
    shown: dict[str, None] = {}
    for item in map(as_object, as_array(answer)):
        if (place := _place(as_object(item.get("location")))) is not None:
            inside = one_line(printable(as_str(item.get("containerName"))), 80)
            name = one_line(printable(as_str(item.get("name"))), _WIDTH)
            where = f"{quote_path(short_path(place[0], workspace))}:{place[1] + 1}"
            shown[f"{where} {kind_of(item)} {name}{f' in {inside}' if inside else ''}"] = None
    lines = list(shown)
    return [*lines[:MAX_PLACES], f"and {len(lines) - MAX_PLACES} more"] if len(lines) > MAX_PLACES else lines


def kind_of(item: Mapping[str, object]) -> str:
    number = as_int(item.get("kind"))
    return _KINDS[number] if 0 < number < len(_KINDS) else "symbol"


def _place(location: Mapping[str, object]) -> tuple[Path, int] | None:
    """Return a file and a line (from 0) of a Location or a LocationLink."""
    uri = as_str(location.get("uri") or location.get("targetUri"))
    between = as_object(location.get("targetSelectionRange") or location.get("range"))
    if not uri.startswith("file:"):
        return None
    return path_of(uri), as_int(as_object(between.get("start")).get("line"))
