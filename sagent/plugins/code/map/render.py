"""A map for a model: files by rank, each with its most used definitions, in order of lines."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import sha256_hex
from sagent.plugins.code.map.languages import language_of
from sagent.plugins.code.map.parsing import MAX_PARSED_BYTES, Definition, Source, Tags, parse
from sagent.plugins.code.map.ranking import Weights, link, rank, rank_near
from sagent.plugins.code.map.store import Store
from sagent.tool import ToolOutput

BYTES = 3  # of a token, about
OWN = 0.3  # share of the rank without a focus in one with it
LISTED = 0.15  # of the room is for files that are listed by name
MAX_EXACT_FILES = 2_000  # with fewer files, ranks are always up to date
MAX_STALE_SHARE = 0.01  # of the files beyond those may have changed before all are ranked anew
_EMPTY = 20  # factor of files to consider per shown one: many may define nothing
_MIN_WEIGHT = 1e-9  # for unused definitions, which are in order of lines


@dataclass(frozen=True, slots=True)
class MapRequest:
    """A request for a map: the prefix of each path, the focus (names, and paths that begin with "./"), and the room."""

    label: str
    focus: tuple[str, ...]
    tokens: int


async def outline(real: Path, name: str, tokens: int) -> ToolOutput:
    """Render all definitions of a file. Raises ToolError if it cannot be read."""
    from sagent.lib.regular import open_regular
    from sagent.tools.paths import as_tool_errors

    language = language_of(real.name)
    if language is None:
        raise ToolError(f"{name}: there is no grammar for such files. Use Read.")
    with as_tool_errors(real), open_regular(real) as file:
        data = file.read(MAX_PARSED_BYTES + 1)
    if len(data) > MAX_PARSED_BYTES:
        raise ToolError(f"{name} has more than {MAX_PARSED_BYTES:,} bytes. Use Grep.")
    try:
        (dumped,) = await parse([Source(language, data)])
    except (TimeoutError, OSError) as error:
        raise ToolError(f"{name} could not be parsed: {error or 'it took too long'}. Use Read.") from None
    if dumped is None:
        raise ToolError(f"{name} could not be parsed: it takes too long, or has no grammar. Use Read.")
    lines = _lines(Tags.load(*dumped).defined)
    kept = _fitting(lines, tokens * BYTES)
    rest = [f"(And {len(lines) - len(kept)} more.)"] if len(kept) < len(lines) else []
    text = "\n".join([*kept, *rest]) or f"{name} defines nothing."
    return ToolOutput.of(text, summary=f"{len(lines)} definitions")


def render(store: Store, wish: MapRequest, others: Sequence[str], notes: Sequence[str]) -> ToolOutput:
    """Return the map of the store's files, and names of unsupported ones."""
    fingerprint = _prepare(store)
    with store.held():
        paths = store.paths()
        focus = _focus(store, wish.focus, paths)
        scores = _scores(store, fingerprint, paths, focus)
        room = wish.tokens * BYTES - sum(map(len, notes))
        listed = _listed(wish, others, int(room * LISTED))
        lines, shown = _mapped(store, wish.label, paths, scores, focus, room - len(listed))
        left = store.mappable() - shown
    more = f"(And {left} more files. Give more tokens, a focus or a path.)" if left else ""
    missing = f"(Nothing here is called {', '.join(focus.unknown)}.)" if focus.unknown else ""
    text = "\n".join(filter(None, [*lines, listed, more, missing, *notes])) or "There is no code here."
    return ToolOutput.of(text, summary=f"{shown} of {len(paths)} files")


@dataclass(frozen=True, slots=True)
class _Focus:
    """Names of definitions, their files, files meant by path, and unknown items."""

    names: AbstractSet[str]
    homes: Sequence[str]
    files: Sequence[str]
    unknown: Sequence[str]


def _focus(store: Store, wanted: Sequence[str], paths: Sequence[str]) -> _Focus:
    names, homes, files, unknown = dict[str, None](), dict[str, None](), dict[str, None](), list[str]()
    for each in wanted:
        if inside := _within(each, paths):
            files |= dict.fromkeys(inside)
        elif found := store.homes(each):
            names[each] = None
            homes |= dict.fromkeys(found)
        elif inside := [path for path in paths if f"/{each.strip('/')}/" in f"/{path}/"]:
            files |= dict.fromkeys(inside)
        else:
            unknown.append(each.removeprefix("./"))
    return _Focus(names.keys(), list(homes), list(files), unknown)


def _prepare(store: Store) -> str:
    """Prepare the graph of the store's files; return its key. In a large project a recent one is used if few files have
    changed: making it takes seconds, and an edit changes ranks only slightly."""
    kept, changed, older = store.ranked()
    if kept and changed <= max(0, len(store.paths()) - MAX_EXACT_FILES) * MAX_STALE_SHARE:
        store.follow(older)
        return kept
    files = sorted((path, key) for path, (_, key) in store.files().items())
    fingerprint = sha256_hex(repr(files).encode("utf-8", "surrogatepass"))
    if store.graph(fingerprint) is None:
        words = list(store.words())
        graph, weights = link([defined for _, defined, _ in words], [named for _, _, named in words])
        by_path = {file: found for (file, _, _), found in zip(words, weights, strict=True)}
        store.keep_graph(fingerprint, graph, rank(graph), by_path)
    return fingerprint


def _scores(store: Store, fingerprint: str, paths: Sequence[str], focus: _Focus) -> Sequence[float]:
    """Return the score of each file."""
    if (found := store.graph(fingerprint)) is None:
        raise ToolError("Another process has just rebuilt this map. Call it again.")
    graph, ranks = found
    near = [bisect_left(paths, path) for path in (*focus.files, *focus.homes)]
    if not near:
        return ranks
    closeness = rank_near(graph, near)
    return [OWN * value + closeness.get(number, 0.0) for number, value in enumerate(ranks)]


def _within(path: str, paths: Sequence[str]) -> Sequence[str]:
    """Return the files of a path in the focus: itself, or all below it."""
    if not path.startswith("./"):
        return ()
    wanted = path.removeprefix("./").rstrip("/")
    if wanted in ("", "."):
        return paths
    first = bisect_left(paths, wanted)
    if first < len(paths) and paths[first] == wanted:
        return paths[first : first + 1]
    return paths[bisect_left(paths, f"{wanted}/") : bisect_right(paths, f"{wanted}/\U0010ffff")]


def _mapped(
    store: Store, label: str, paths: Sequence[str], scores: Sequence[float], focus: _Focus, room: int
) -> tuple[list[str], int]:
    """Return lines for as many definitions as fit, the most important ones, and the number of their files."""
    order = sorted(range(len(paths)), key=lambda number: (-scores[number], paths[number]))
    meant, ranked = set(focus.files), list[tuple[int, float, str, Definition]]()
    most = max(20, room // 40)
    able = (number for number in order[: most * _EMPTY] if store.tags(paths[number]).defined)
    looked = {*islice(able, most), *(bisect_left(paths, path) for path in focus.homes)}
    for number in looked:
        path = paths[number]
        for each, share in _shares(store.tags(path), store.weights(path)):
            tier = 0 if each.name in focus.names else 1 if path in meant else 2
            ranked.append((tier, -scores[number] * share, path, each))
    ranked.sort(key=lambda row: (*row[:3], row[3].first))
    chosen: dict[str, list[Definition]] = {}
    part = [room * 2 // 5, room * 2 // 5, room]  # the last one is for nearby files
    for tier, _, path, each in ranked:
        cost = len(each.text.encode()) + 10 + (0 if path in chosen else len(f"{label}{path}".encode()) + 2)
        if cost > room:
            break
        if cost > part[tier]:
            continue
        room -= cost
        part[tier] -= cost
        chosen.setdefault(path, []).append(each)
    lines: list[str] = []
    for number in order:
        if found := chosen.get(paths[number]):
            found.sort(key=lambda each: (each.first, -each.last))
            lines += [f"{label}{paths[number]}:", *_lines(found)]
    return lines, len(chosen)


def _shares(tags: Tags, weights: Weights) -> Sequence[tuple[Definition, float]]:
    """Share a file's rank among its definitions, by their uses in others."""
    counts = [weights.get(each.name, 0.0) + _MIN_WEIGHT for each in tags.defined]
    whole = sum(counts)
    return [(each, count / whole) for each, count in zip(tags.defined, counts, strict=True)]


def _lines(defined: Sequence[Definition]) -> list[str]:
    """Return definitions with their line numbers, nested ones indented."""
    lines: list[str] = []
    open_ends: list[int] = []
    for each in defined:
        while open_ends and open_ends[-1] < each.first:
            open_ends.pop()
        lines.append(f"{each.first:>5} {'  ' * len(open_ends)}{each.text}")
        if each.last > each.first:
            open_ends.append(each.last)
    return lines


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _listed(wish: MapRequest, others: Sequence[str], room: int) -> str:
    """Files of languages that are not read, by name."""
    if not others:
        return ""
    kept = _fitting([f"{wish.label}{path}" for path in others], room)
    more = f" and {len(others) - len(kept)} more" if len(kept) < len(others) else ""
    return f"(By name only: {', '.join(kept) or 'none'}{more}.)"
