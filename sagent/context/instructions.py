"""AGENTS.md and similar files: instructions of a person and a project for every agent, read when a session starts."""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from sagent.lib.dataclass import dataclass
from sagent.lib.regular import read_regular
from sagent.lib.text import why_unread

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md")
"""The first of these in a directory counts; OVERRIDE comes before all of them."""
OVERRIDE = "AGENTS.override.md"
LOCAL = "CLAUDE.local.md"
"""Read in addition, after the other: a person's own notes in a project."""
RULES = ".claude/rules"
"""Also read: the files in this directory, except those for certain paths."""
MAX_FILE_BYTES = 32_000
MAX_TOTAL_BYTES = 64_000  # of all texts together
DEPTH = 5  # of includes inside includes
MAX_RULES = 64  # directories, and files in one
MAX_NAMES = 1_000  # in a directory, to look for misnamed files
_MISNAMED = re.compile(r"(?i:agents?|claude|gemini)(?i:\.md|\.txt|\.markdown|\.mdx)")


@dataclass(frozen=True, slots=True)
class Instructions:
    """The texts, each under a line that names its file; the files read; and notices of what was left out."""

    text: str = ""
    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


def repository_root(directory: Path) -> Path | None:
    """Return the nearest directory at or above a path with a `.git` (a directory, or a worktree's file), or None."""
    directory = directory.resolve()
    return next((place for place in (directory, *directory.parents) if os.path.lexists(place / ".git")), None)


def gather(cwd: Path, user_dir: Path, add_dirs: Sequence[Path] = ()) -> Instructions:
    """Return the person's own file, those of further directories, and those from the repository's root down to `cwd`.

    In each directory AGENTS.md counts, or else CLAUDE.md. `@path` in a text adds that file after it; a project's file
    can only add files of that project. If the texts are too long, the person's own file and those nearest to `cwd` are
    kept. Problems with a file become notices and are never raised.
    """
    cwd = cwd.resolve()
    root = repository_root(cwd) or cwd
    below = [cwd, *cwd.parents][: len(cwd.relative_to(root).parts) + 1]
    reader = _Reader()
    # Ordered by priority for room; a reader should see the most general text first.
    starts: list[tuple[Path, Path | None]] = [(user_dir, None), *((place, root) for place in below)]
    for extra in add_dirs:
        extra = extra.resolve()  # noqa: PLW2901 -- the same directory by its real name
        starts.append((extra, repository_root(extra) or extra))
    groups = [list(reader.read_directory(place, border)) for place, border in starts]
    own, nearest_first, extras = groups[:1], groups[1 : 1 + len(below)], groups[1 + len(below) :]
    order = [*own, *extras, *reversed(nearest_first)]
    chosen = reader.fit([found for group in groups for found in group])
    files = tuple(path for group in order for path, _ in group if path in chosen)
    return Instructions("\n\n".join(chosen[path] for path in files), files, tuple(reader.notices))


class _Reader:
    """Reads each file once, however often it is named, and records what it left out."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self._seen: set[Path] = set()

    def read_directory(self, place: Path, border: Path | None) -> Iterator[tuple[Path, str]]:
        """Yield the paths and texts of a directory's instructions and their includes."""
        names = [name for name in (OVERRIDE, *NAMES) if os.path.lexists(place / name)]
        for name in (*names[:1], LOCAL):
            if os.path.lexists(place / name):
                yield from self._read(place / name, border, 0, "")
        for name in names[1:]:
            self._pass_over(place / name, place / names[0])
        if not names:
            self._look_for_misnamed(place)
        rules = Path(os.path.realpath(place / RULES))
        if border is None or rules.is_relative_to(border):
            for at, _, found in islice(os.walk(rules), MAX_RULES):
                for name in sorted(each for each in found if each.endswith(".md"))[:MAX_RULES]:
                    yield from self._read(Path(at, name), border, 0, "")
        else:
            self.notices.append(f"{place / RULES} is not read: it leads out of {border}.")

    def _pass_over(self, path: Path, first: Path) -> None:
        """Report that a file is ignored, unless its text was included or is the same as another's."""
        try:
            if Path(os.path.realpath(path)) in self._seen:
                return
            texts = [_own_words(read_regular(each, max_bytes=MAX_FILE_BYTES, cut=True)) for each in (path, first)]
        except OSError:
            return  # it would not be read in any case
        if texts[0] and texts[0] != texts[1]:
            self.notices.append(f"{path} is not used: {first} counts. Write @{path.name} there to add it.")

    def _look_for_misnamed(self, place: Path) -> None:
        try:
            found = sorted(each.name for each in islice(place.iterdir(), MAX_NAMES))
        except OSError:
            return
        for name in found:
            if _MISNAMED.fullmatch(name):
                right = "CLAUDE.md" if name.lower().startswith("claude") else "AGENTS.md"
                self.notices.append(f"{place / name} is not used: name it {right}.")

    def _read(self, path: Path, border: Path | None, depth: int, source: str) -> Iterator[tuple[Path, str]]:
        """Yield a file and its includes. Nothing may lead out of `border`; `source` says who included it."""
        try:
            real = Path(os.path.realpath(path))
            if real in self._seen:
                return
            own = real.relative_to(border) if border is not None and real.is_relative_to(border) else Path()
            if own.name.startswith(".env") or ".git" in own.parts:  # files that may hold keys are not instructions
                raise PermissionError(errno.EACCES, "it may hold keys")
            data = read_regular(path, border, max_bytes=MAX_FILE_BYTES + 1, cut=True)
        except (OSError, ValueError) as error:
            self.notices.append(f"{path}{source} is not used: {why_unread(error)}.")
            return
        self._seen.add(real)
        text = self._text(path, data)
        if not text:
            return
        yield path, text
        for name in _includes(text):
            if (target := _target(name, path.parent)) is None:
                continue
            if depth == DEPTH and Path(os.path.realpath(target)) not in self._seen:
                self.notices.append(f"{target} (included by {path}) is not used: includes nest at most {DEPTH} deep.")
                continue
            yield from self._read(target, border, depth + 1, f" (included by {path})")

    def _text(self, path: Path, data: bytes) -> str:
        """Return the file's text in whatever encoding; empty, with a notice, for binary data."""
        cut = len(data) > MAX_FILE_BYTES
        data = data[:MAX_FILE_BYTES]
        text = _decode(data)
        if text is None:
            self.notices.append(f"{path} is not used: it is not text.")
            return ""
        if cut:
            text = text[: text.rfind("\n") + 1] or text
            self.notices.append(f"{path} is longer than {MAX_FILE_BYTES:,} bytes; only its beginning is used.")
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        end = text.rfind("-->") + len("-->\n")  # no comment that begins in the rest has an end
        text = (re.sub(r"(?ms)^<!--.*?-->\n?", "", text[:end]) + text[end:]).strip()
        if not text:
            self.notices.append(f"{path} is empty.")
        elif RULES in path.as_posix() and text.startswith("---\n"):
            head, _, rest = text[4:].partition("\n---")
            text = "" if re.search(r"(?m)^paths\s*:", head) else rest.strip()
            if not text:
                self.notices.append(f"{path} is not used: rules for some paths only are not read here.")
        return f"{text}\n\n{_cut_mark(path)}" if cut else text

    def fit(self, sections: Sequence[tuple[Path, str]]) -> dict[Path, str]:
        """Return the sections that fit, in the order of `sections`; the last one is cut to fit."""
        chosen: dict[Path, str] = {}
        room = MAX_TOTAL_BYTES
        for path, text in sections:
            section = f"# Instructions from {path}\n\n{text}"
            size = len(section.encode(errors="replace"))
            if size > room:
                mark = _cut_mark(path)
                space = max(0, room - len(mark.encode(errors="replace")) - 2)
                kept = section.encode(errors="replace")[:space].decode(errors="ignore")
                kept = kept[: kept.rfind("\n") + 1].rstrip()
                whole = "the rest of it" if len(kept) > len(str(path)) + 40 else "it"
                why = f"for all instructions together exceed {MAX_TOTAL_BYTES:,} bytes"
                self.notices.append(f"{path}: {whole} was left out, {why}.")
                room = size = 0
                if whole == "it":
                    continue
                section = f"{kept}\n\n{mark}"
            chosen[path] = section
            room -= size
        return chosen


def _own_words(data: bytes) -> bytes:
    """Return a file's own text without includes, comments and blanks."""
    text = re.sub(rb"(?s)<!--.*?-->|(?m:^\s*[-*]?\s*@\S+\s*$)|\xef\xbb\xbf", b"", data)
    return b" ".join(text.split())


def _cut_mark(path: Path) -> str:
    """Return the note that tells the model that a file was cut, because it may need the rest."""
    return f"(The rest of this file was left out; read {path} for it.)"


def _decode(data: bytes) -> str | None:
    """Decode a file's text in its own encoding; None if it is not text. The end may be cut inside a character."""
    try:
        if b"\0" in data:
            raise UnicodeDecodeError("utf-8", data, 0, 1, "a zero byte")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3 and len(data) == MAX_FILE_BYTES:
            return data[: error.start].decode("utf-8-sig")
        from sagent.lib.encoding import text_in

        return text_in(data[: len(data) // 4 * 4] if b"\0" in data and len(data) == MAX_FILE_BYTES else data)


def _includes(text: str) -> Iterator[str]:
    """Yield the `@path` mentions of a text, those in code left out."""
    if "@" not in text:
        return
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if mark and not fence:
            fence = mark.group(1)
        elif fence:
            if mark and mark.group(1).startswith(fence) and not line.strip(" `~"):
                fence = ""
        else:
            plain = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", " ", line)
            for match in re.finditer(r"(?:^|(?<=[\s(]))@((?:\\ |[^\s()`])+)", plain):
                yield match.group(1).replace("\\ ", " ").rstrip(".,;:!?\"'")


def _target(name: str, directory: Path) -> Path | None:
    """Return the file that a mention includes; None for a person's name, a decorator or a package
    (`@scope/package`)."""
    if name.startswith("~") and name != "~" and not name.startswith("~/"):
        return None
    try:
        target = Path(name).expanduser() if name.startswith("~") else directory / name
        is_meant = bool(name) and (target.is_file() or name.startswith(("./", "../", "~/", "/")) or bool(target.suffix))
    except (OSError, ValueError, RuntimeError):  # RuntimeError: the home directory is unknown
        return None
    return target if is_meant else None
