"""The change under review: a diff by git, with the lines that it shows of each file's new side."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from pathlib import Path

from sagent.context.instructions import repository_root
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.encoding import decode_output, readable, text_in
from sagent.lib.git import git_call
from sagent.lib.regular import read_regular

_SHOWN = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--unified=5", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--submodule=short", "--ignore-submodules=dirty"),
    "--text",  # or an attribute of the repository could keep a file out of the review
)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_NAMING = ("--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to ")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
MAX_NEW_FILE_BYTES = 400_000  # of a file that git does not know yet
_HEADS = (b"diff --git ", b"--- ", b"+++ ", b"rename ", b"copy ", b"Binary files ")
GIT_TIMEOUT_SECONDS = 120.0  # that git may take


@dataclass(slots=True)
class FileDiff:
    """A file's part of a diff. `lines` are the shown lines of the new side, and `added` are the new ones among them.
    `old` maps the numbers of the others to their numbers before the change. A file that is not text, or too large to be
    read, has no lines and is `unread`."""

    path: str
    text: str = ""
    lines: dict[int, str] = field(default_factory=dict[int, str])
    added: set[int] = field(default_factory=set[int])
    old_path: str = ""
    old: dict[int, int] = field(default_factory=dict[int, int])
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes from `base` to `head`, given as ids of commits. `head` is "" for the working tree."""

    base: str
    head: str
    files: Mapping[str, FileDiff]

    @property
    def title(self) -> str:
        return f"{self.base[:12]}..{self.head[:12] or 'working tree'}"


def read_changes(cwd: Path, named: str = "") -> Changes:
    """Return the changes of a range, as `git diff` reads `A..B` and `A...B`. One name means the changes since the
    current branch left it. Without a name they are the uncommitted changes. Raises UsageError."""
    if (root := repository_root(cwd)) is None:
        raise UsageError(f"{cwd} is not in a git repository. A review needs one to know what has changed.")
    cwd = root
    if named.startswith("-"):
        raise UsageError(f"{named!r} does not name any commits: give a branch, or a range such as main..HEAD.")
    if not named:
        base = _commit(cwd, "HEAD")
        return Changes(base, "", parse_diff(_git(cwd, "diff", *_SHOWN, base, "--") + "".join(_untracked(cwd))))
    first, dots, last = re.fullmatch(r"(.*?)(\.{2,3}|\Z)(.*)", named, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess] -- anything fits
    base, head = _commit(cwd, first or "HEAD"), _commit(cwd, last or "HEAD")
    if dots != "..":
        base = _git(cwd, "merge-base", base, head).strip() if base != head else base
    return Changes(base, head, parse_diff(_git(cwd, "diff", *_SHOWN, base, head, "--")))


def file_at(cwd: Path, commit: str, path: str) -> str:
    """Return a file's text in a commit; "" if it is not there."""
    try:
        return _git(cwd, "show", f"{commit}:{path}")
    except UsageError:
        return ""


def _commit(cwd: Path, name: str) -> str:
    return _git(cwd, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", commit=name).strip()


def _untracked(cwd: Path) -> Iterator[str]:
    """Yield the files that git does not know yet, as diffs. Large and unreadable files appear as binary."""
    for name in filter(None, _git(cwd, "ls-files", "--others", "--exclude-standard", "-z").split("\0")):
        try:
            text = text_in(read_regular(cwd / name, cwd, max_bytes=MAX_NEW_FILE_BYTES))
        except (OSError, ValueError):
            text = None
        text = "\0" if text is None else text
        lines = text.removesuffix("\n").split("\n") if text else []
        quoted = '"b/' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        hunk = f"@@ -0,0 +1,{len(lines)} @@\n" if lines else ""
        yield f"diff --git new\n--- /dev/null\n+++ {quoted}\n{hunk}{''.join(f'+{line}' + chr(10) for line in lines)}"


def _git(cwd: Path, *arguments: str, commit: str = "") -> str:
    """Run git and return its output. Raises UsageError if git fails."""
    call = git_call(cwd, "-c", "core.quotePath=false", *arguments)
    if call is None:
        raise UsageError(
            f"git is not run in {cwd}, because its configuration includes other files or names filters. In CI, check "
            "out without credentials (persist-credentials: false)."
        )
    try:
        done = subprocess.run(
            call.argv, env=call.environment, capture_output=True, timeout=GIT_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {arguments[0]} failed: {error}") from error
    if done.returncode:
        said = decode_output(done.stderr).text.strip().splitlines()
        if said and "dubious ownership" in said[0]:  # as in a container
            root = said[0].partition("'")[2].rpartition("'")[0] or str(cwd)
            trust = f"git config --global --add safe.directory {shlex.quote(root)}"
            raise UsageError(
                f"{cwd}: git does not read it, because it belongs to another user. If you trust it: {trust}"
            )
        if arguments[0] == "merge-base":
            raise UsageError("The commits have no common ancestor here. In CI, fetch the history (fetch-depth: 0).")
        what = f"there is no commit {commit!r}" if commit else said[0] if said else f"git {arguments[0]} failed"
        raise UsageError(f"{cwd}: {what}.")
    if arguments[0] == "show":
        return readable(done.stdout)
    return _shown(done.stdout) if arguments[0] == "diff" else done.stdout.decode("utf-8", "replace")


def _shown(diff: bytes) -> str:
    """Return the text of a diff: lines of files in the encoding that they have, names as UTF-8."""
    lines = diff.split(b"\n")
    texts = decode_output(b"\n".join(b"" if line.startswith(_HEADS) else line for line in lines)).text.split("\n")
    if len(texts) != len(lines):
        return diff.decode("utf-8", "replace")
    return "\n".join(
        line.decode("utf-8", "replace") if line.startswith(_HEADS) else text
        for line, text in zip(lines, texts, strict=True)
    )


# -- the diff ----------------------------------------------------------------------------------------------------------


def parse_diff(text: str) -> dict[str, FileDiff]:
    """Return a unified diff by files, under their new names. A deleted file has no lines. Parts with the same name are
    combined: a file that became a link has two parts, and names that are not UTF-8 may look alike."""
    found: dict[str, FileDiff] = {}
    for part in re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)[1:] if text else ():
        file = _parse_file(part.removesuffix("\n").split("\n"))
        if (other := found.get(file.path)) is not None:
            file.text, file.unread = f"{other.text}\n{file.text}", file.unread or other.unread
        found[file.path] = file
    return found


def _parse_file(rows: Sequence[str]) -> FileDiff:
    old_path, path = _names(rows)
    file = FileDiff(path, old_path=old_path)
    shown: list[str] = []
    old = new = before = number = 0  # lines of the hunk that are still to come, and the next numbers of both sides
    for row in rows:
        if old <= 0 and new <= 0:
            shown.append(row)
            if head := _HUNK.match(row):
                before, old, number, new = int(head[1]), int(head[2] or 1), int(head[3]), int(head[4] or 1)
            continue
        row = row or " "  # noqa: PLW2901 -- an empty line may be without its sign
        sign, text = row[:1], row[1:]
        if sign == "\\":
            shown.append(row)
            continue
        old, new = old - (sign != "+"), new - (sign != "-")
        shown.append(f"{'' if sign == '-' else number:>6} {row}")
        if sign != "-":
            file.lines[number] = text
            if sign == "+":
                file.added.add(number)
            else:
                file.old[number] = before
            number += 1
        before += sign != "+"
    file.text = "\n".join(shown)
    return FileDiff(path, f"{rows[0]}\n(binary)", unread=True) if "\0" in file.text else file


def _names(rows: Sequence[str]) -> tuple[str, str]:
    """Return a file's names before and after, from the lines before its first hunk. Later lines are the file's own."""
    head = list(takewhile(lambda row: not row.startswith("@@ "), rows))
    said = {sign: _unquoted(row.removeprefix(sign)) for row in head for sign in _NAMING if row.startswith(sign)}
    said |= {sign: _name(said[sign]) for sign in _NAMING[:2] if sign in said}
    whole = rows[0].removeprefix("diff --git ")
    same = _name(_unquoted(whole[: len(whole) // 2]))  # without a hunk and a rename: the line has the name twice
    old = said.get("--- ") or said.get("rename from ") or said.get("copy from ")
    path = said.get("+++ ") or said.get("rename to ") or said.get("copy to ") or old or same
    return old or path, path


def _name(text: str) -> str:
    """Return a path as a hunk's head names it, "" for /dev/null."""
    return "" if text == "/dev/null" else re.sub(r"^[ab]/", "", text)


def _unquoted(text: str) -> str:
    """Return a path from a diff, where unusual characters are quoted as in C."""
    text = text.rstrip("\t\r")
    if text.startswith('"') and text.endswith('"'):
        raw = _ESCAPED.sub(_letter, text[1:-1]).encode("latin-1", "surrogateescape") if text.isascii() else b""
        text = raw.decode("utf-8", "replace") if raw else _ESCAPED.sub(_letter, text[1:-1])
    return text


def _letter(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() else _LETTERS.get(code, code)
