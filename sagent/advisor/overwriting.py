"""The files that a command overwrites: lost permanently if no rewind can restore their contents."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sagent.lib.git import git_call
from sagent.policy.shell import Part, Word, program
from sagent.policy.wrappers import runs

_Target: TypeAlias = tuple[str, Sequence[str]]
"""A file, or a directory and the files put into it."""
_COPIES = frozenset({"cp", "mv", "install", "rsync", "scp", "ln"})
_THROUGH = frozenset({"tee", "sponge", "ed", "ex", "vi", "vim", "nvim"})
_EDITORS = frozenset({"sed", "perl", "ruby", "yq"})
_SPARES = re.compile(r"-[a-zA-Z]*[nb][a-zA-Z]*|--(?:no-clobber|backup|suffix|ignore-existing|dry-run)\b.*")
_INTO = re.compile(r"-\w*t$|--target-directory=")
_IN_PLACE = re.compile(r"-[a-zA-Z]*i|--in-?place")  # with a suffix a copy is kept
_OUTPUT = re.compile(r"(?:-[a-zA-Z]*[oO]|--output(?:-document)?)(?:=?(.+))?")
_ARCHIVE = re.compile(r"-?[a-zA-Z]*c[a-zA-Z]*f|-\w*f|--file(?:=(.+))?|-fprint(?:f|0)?")
"""Options by which tar and find name the file that they write."""
_PRINTS = re.compile(r">\s*\"([^\"]+)\"")
_CODE = re.compile(
    r"['\"]w[b+t]*['\"]|write_(?:text|bytes)|[wW]riteFile|File\.write|file_put_contents|os\.(?:replace|rename)"
    r"|shutil\.(?:move|copy)|(?:rename|copyFile)(?:Sync)?\("
)
_QUOTE = re.compile(r"\\?['\"`]")
_MAX_NAME_CHARS = 300
_GIT_SECONDS = 5.0


def overwrites(parts: Sequence[Part], command: str, folder: Path) -> bool:
    """Return True if a script, in a directory, overwrites a non-empty file that is not saved elsewhere."""
    places, found = [folder], list[_Target]()
    for part in parts:
        found += ((redirect.target.text, ()) for redirect in part.redirects if redirect.writes and not redirect.appends)
        for words, _ in runs(part):
            if words and words[0].text == "cd" and len(words) > 1:
                places.append(places[-1] / words[1].text)
            found += _targets(words)
    if _CODE.search(command):
        found += ((text, ()) for text in _QUOTE.split(command) if len(text) < _MAX_NAME_CHARS)
    return any(
        _is_lost(place / os.path.expanduser(target), sources, folder)  # noqa: PTH111 -- it raises for no home
        for place in places
        for target, sources in found
        if target
    )


def _targets(words: Sequence[Word]) -> Iterator[_Target]:
    """Yield the files that a command line would overwrite, by its words."""
    name, texts = program(words[0]) if words else "", [word.text for word in words[1:]]
    options, named = [text for text in texts if text[:1] == "-"], [text for text in texts if text[:1] != "-"]
    if name in _COPIES:
        forced = any(re.match(r"-\w*f|--force", text) for text in options)
        spared = not forced if name == "ln" else any(map(_SPARES.fullmatch, options))
        into = [text for text in options if name not in ("rsync", "scp") and _INTO.match(text)]
        if into:
            named = [*named[1:], named[0]] if "=" not in into[0] else [*named, into[0].partition("=")[2]]
        if len(named) > 1 and not spared:
            yield named[-1], named[:-1]
    elif (name in _THROUGH and not {"-a", "--append"} & {*options}) or (
        name in _EDITORS and any(map(_IN_PLACE.fullmatch, options))
    ):
        yield from ((text, ()) for text in named)
    elif name in ("sort", "curl", "wget"):
        for at, text in enumerate(texts):
            if output := _OUTPUT.fullmatch(text):
                yield output[1] or "".join(texts[at + 1 : at + 2]), ()
    elif name == "find" or (name == "tar" and re.match(r"-?[a-zA-Z]*c|--create", " ".join(texts[:1]))):
        for at, text in enumerate(texts):
            if archive := _ARCHIVE.fullmatch(text):
                yield archive[1] or "".join(texts[at + 1 : at + 2]), ()
    elif name.endswith("awk"):
        yield from ((found, ()) for text in texts for found in _PRINTS.findall(text))


def _is_lost(path: Path, sources: Sequence[str], folder: Path) -> bool:
    try:
        if path.is_dir():
            return any(_is_lost(path / Path(source).name, (), folder) for source in sources if Path(source).name)
        if not path.is_file() or not (size := path.stat().st_size):
            return False
        path, folder = path.resolve(), folder.resolve()
    except (OSError, ValueError):
        return False
    if not path.is_relative_to(folder):
        return not any(map(path.is_relative_to, (tempfile.gettempdir(), "/tmp", "/dev", "/proc")))  # noqa: S108 -- where nothing is to last
    from sagent.rewind.snapshot import MAX_FILE_BYTES, PASSED_OVER

    apart = not PASSED_OVER.isdisjoint(map(str.encode, path.relative_to(folder).parts))
    return apart or size > MAX_FILE_BYTES or _is_ignored(path, folder)


def _is_ignored(path: Path, folder: Path) -> bool:
    """Return True if git, and so rewinding, ignores a file."""
    call = git_call(folder, "check-ignore", "-q", "--", str(path))
    if call is None:
        return True
    try:
        done = subprocess.run(call.argv, env=call.environment, capture_output=True, timeout=_GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return True
    return done.returncode == 0
