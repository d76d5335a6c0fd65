"""The possible meanings of a deny rule's pattern.

A person who denies `app/[admin]/**` may mean the directory of that name, or one letter of five. A denial applies to
every reading; an allowance only to the documented one.
"""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product

from sagent.lib.gaps import CLASS, class_regex
from sagent.lib.names import unquote_path

MAX_WAYS = 256  # readings of one pattern; beyond that, groups become wildcards, which deny more
_MAX_GROUPS = 4  # brackets read both ways, if there are few readings
_DOUBTFUL = re.compile(r"\[[!^]?(?:\\.|\[[:.=].*?[:.=]\]|[^\]])*\]", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*)\}|[@?*+!]?\(([^()]+)\)")  # also bash's `@(a|b)`
_LISTED = re.compile(r"(?:\{[^{}]*\}|\([^()]*\)|[^,;|\n])+")
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")


def escape(path: str) -> str:
    """Return the pattern that matches only this path."""
    return re.sub(r"([*?\[]|^\s|\s\Z)", r"[\1]", path)


def unescape(pattern: str) -> str | None:
    """Return the path that a pattern names, or None if it has wildcards."""
    out: list[str] = []
    for at, piece in enumerate(split_classes(pattern)):
        if at % 2 == 0 and re.search(r"[*?]", piece):
            return None
        if at % 2:
            if len(piece) != 3:
                return None
            piece = piece[1]  # noqa: PLW2901 -- the letter of `[x]`
        out.append(piece)
    return "".join(out)


def split_classes(pattern: str) -> list[str]:
    """Split a pattern so that each second piece is a class of letters in brackets."""
    return re.split(f"({CLASS})", pattern, flags=re.DOTALL)


def doubtful(pattern: str) -> str:
    """Return a pattern with `?` for each class that programs read differently: with a backslash, a class of POSIX in
    it, or a range that runs backwards."""
    return _DOUBTFUL.sub(lambda match: "?" if _is_doubtful(match[0]) else match[0], pattern)


def _is_doubtful(piece: str) -> bool:
    return re.search(r"\\|.\[[:.=]", piece, re.DOTALL) is not None or class_regex(piece) == "(?!)"


_WINDOWS = re.compile(r"\\[\w.*]")


@lru_cache(maxsize=256)
def readings(pattern: str) -> tuple[str, ...]:
    """Return all patterns that a deny rule's pattern may mean, including itself.

    Brackets, braces, a backslash, a dollar, a tilde and spaces at the ends have a meaning or are part of a name. A
    backslash that escapes nothing special may also be Windows's separator.
    """
    from unicodedata import normalize  # few rules need it

    found = dict.fromkeys(form for text in _spellings(pattern) if text for form in _homes(text))
    found |= dict.fromkeys(os.path.expandvars(form) for form in tuple(found))
    found |= dict.fromkeys(form.replace("\\", "/") for form in tuple(found) if _WINDOWS.search(form))
    found |= dict.fromkeys(way for form in tuple(found) for way in _without_braces(form))
    found = dict.fromkeys(way for form in found for way in (_closed(form), _without_backslashes(form)))
    found |= dict.fromkeys(map(doubtful, tuple(found)))
    groups = max(0, min(_MAX_GROUPS, (MAX_WAYS // len(found)).bit_length() - 1))
    found = dict.fromkeys(way for form in tuple(found) for way in _without_classes(form, groups))
    found |= dict.fromkeys(form.rstrip("/") for form in tuple(found) if form.rstrip("/"))  # at any depth
    forms = (normalize(kind, form) for form in tuple(found) for kind in ("NFC", "NFD"))
    return tuple(found | dict.fromkeys(forms))


def _closed(text: str) -> str:
    """Escape brackets that are no class so that they stay literal, whatever follows them."""
    pieces = split_classes(text)
    return "".join(piece if at % 2 else piece.replace("[", "[[]") for at, piece in enumerate(pieces))


def _without_backslashes(text: str) -> str:
    """Take the character after each backslash as it is."""
    kept: list[str] = []
    marked = _closed(re.sub(r"\\(.)", lambda each: kept.append(each[1]) or "\0", text, flags=re.DOTALL))
    return re.sub("\0", lambda _: escape(kept.pop(0)), marked)


def _spellings(pattern: str) -> Iterator[str]:
    """Yield a pattern as written, and translated from the notations of other programs: in quotes, in a list, as a URL,
    with the `:*` of commands."""
    bare = pattern.strip()
    yield from (bare, pattern, unquote_path(bare))
    if not bare.isascii():
        from sagent.lib.lookalike import is_unseen

        yield "".join(letter for letter in bare if not is_unseen(letter))
    if "%" in bare:
        from urllib.parse import unquote

        yield unquote(bare, errors="surrogateescape")
    if len(bare) > 1 and bare[0] + bare[-1] in ("''", '""', "``", "\u2018\u2019", "\u201c\u201d"):
        yield bare[1:-1]
    if bare.endswith(":*"):
        yield from (bare[:-2], f"{bare[:-2]}*")
    if bare in (".", ".."):
        yield f"{bare}/."
    yield from map(str.strip, _LISTED.findall(bare))
    if all(re.search(r"\*|\.\w+$", each) for each in bare.split()):
        yield from bare.split()


def _homes(text: str) -> Iterator[str]:
    yield text
    if re.match("/[^/]", text) and not os.path.lexists(f"/{text.split('/')[1]}"):  # elsewhere that is the workspace's
        yield f".{text}"
    if text.startswith("~"):
        yield f"./{text}"
        if not text.startswith("~/"):
            yield os.path.expanduser(text)  # noqa: PTH111 -- Path's own raises for a user that there is not


def _without_braces(text: str) -> Iterator[str]:
    """Yield a pattern for each alternative in braces. Without a comma or a range they are letters."""
    waiting, count = [text], 0
    while waiting:
        form = waiting.pop()
        found = next(((each, ways) for each in _BRACES.finditer(form) if (ways := _alternatives(each))), None)
        if found is None:
            count += 1
            yield form.replace("\1", "{").replace("\2", "(")
            continue
        (start, end), ways = found[0].span(), found[1]
        waiting += [
            f"{form[:start]}{way}{form[end:]}" for way in (ways if count + len(waiting) <= MAX_WAYS else ["**"])
        ]


def _alternatives(group: re.Match[str]) -> list[str]:
    """Return the alternatives of a group; () if it is no group. Control characters stand for literal brackets."""
    if group[2] is not None and group[0][0] == "(":
        return [*_listed(group[2], "|"), f"\2{group[2]})"] if "|" in group[2] else []
    if group[2] is not None:
        around = (group.string[: group.start()].rpartition("/")[2], group.string[group.end() :].partition("/")[0])
        none = [""] if group[0][0] == "?" and any(around) else []
        return [*group[2].split("|"), *none] if group[0][0] in "@?" else ["*"]
    if several := _listed(group[1], ",") or _listed(group[1], ";|") or _listed(group[1], r"\s"):
        return several if "," in group[1] else [*several, f"\1{group[1]}}}"]
    if (ends := _RANGE.fullmatch(group[1])) is None:
        return [group[1], f"\1{group[1]}}}"] if group[1] else []
    first, last = ends[1], ends[2]
    if first.isalpha() and last.isalpha():
        return [chr(code) for code in range(min(ord(first), ord(last)), max(ord(first), ord(last)) + 1)]
    if first.isalpha() or last.isalpha():
        return []
    least, most = sorted((int(first), int(last)))
    if most - least >= MAX_WAYS:
        return ["*"]
    width = max(len(first), len(last)) if any(re.match("-?0.", end) for end in (first, last)) else 0
    return [f"{number:0{width}d}" for number in range(least, most + 1)]


def _listed(text: str, marks: str) -> list[str]:
    """Return the parts between separators, each also without spaces around it; () if there is no separator."""
    parts = re.split(f"[{marks}]", text)
    return list(dict.fromkeys((*parts, *map(str.strip, parts)))) if parts[1:] else []


def _without_classes(text: str, limit: int) -> Iterator[str]:
    """Yield a pattern for each choice between class of letters and name, for up to `limit` brackets."""
    pieces = split_classes(text)
    groups = sorted((at for at in range(1, len(pieces), 2)), key=lambda at: _is_escape(pieces[at]))
    for choice in product((True, False), repeat=min(len(groups), limit)):
        chosen = dict(zip(groups, choice, strict=False))
        yield "".join(_group(piece, chosen.get(at)) if at % 2 else piece for at, piece in enumerate(pieces))


def by_letter(pattern: str) -> Iterator[str]:
    """Yield a pattern up to each name with a class of letters, with that class taken literally."""
    parts = pattern.split("/")
    for at, part in enumerate(parts):
        if any(not _is_escape(piece) for piece in split_classes(part)[1::2]):
            yield "/".join((*parts[:at], part.replace("[", "[[]")))


def _group(piece: str, is_class: bool | None) -> str:  # noqa: FBT001 -- None is both
    if is_class is None and not _is_escape(piece):
        return "**"
    return piece.replace("[", "[[]") if is_class is False else piece


def _is_escape(piece: str) -> bool:
    """Return True if brackets are written as by `escape`."""
    return len(piece) == 3 and escape(piece[1]) == piece


def names_tool(pattern: str, tool: str) -> bool:
    """Return True if a denied or watched tool name, or wildcard, covers this tool.

    Case does not count. `mcp__server` covers all tools of a server. An MCP tool can also be given by the server's own
    name for it, which may have characters that are not allowed here.
    """
    tool, pattern = tool.lower(), pattern.lower()
    plain = re.sub(r"[^a-z0-9_*?-]", "_", pattern)[:64]
    names = {pattern, plain}
    if pattern.startswith("mcp__") and plain.rstrip("_").count("__") < 2:
        names.add(f"{plain.rstrip('_')}__*")
    elif plain != pattern:
        names.add(f"{plain[:61]}_[0-9]*")  # name of a tool that collides with another's
    return any(fnmatchcase(tool, name) for name in names)
