"""The files below a directory, listed by ripgrep if it is installed: faster than Python, and already filtered."""

import asyncio
import os
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from sagent.lib.pace import offload
from sagent.lib.process import run, system_path
from sagent.tools.walk import walk

_ALIKE = (
    *("--no-config", "--no-messages", "--color=never", "--null", "--hidden", "--glob=!.git"),
    *("--no-require-git", "--no-ignore-global", "--no-ignore-dot"),
)
"""Options that make it list the same files as `walk`."""

_NOT_UTF8 = (
    r"(?-u:\x00|\x1b\$|[\xc0\xc1\xf5-\xff]|(?:^|[\x00-\x7f])[\x80-\xbf]|[\xc2-\xf4](?:[\x00-\x7f\xc0-\xff]|$)"
    r"|[\xe0-\xf4][\x80-\xbf](?:[\x00-\x7f\xc0-\xff]|$)|[\xf0-\xf4][\x80-\xbf]{2}(?:[\x00-\x7f\xc0-\xff]|$)"
    r"|[\xc2-\xdf][\x80-\xbf]{2}|[\xe0-\xef][\x80-\xbf]{3}|[\xf0-\xf4][\x80-\xbf]{4}"
    r"|\xe0[\x80-\x9f]|\xed[\xa0-\xbf]|\xf0[\x80-\x8f]|\xf4[\x90-\xbf])"
)
"""Patterns of files that may have another encoding: ripgrep, which assumes UTF-8, cannot search them."""

_RIPGREP_SECONDS = 2  # to name the files: it opens any ignore file, and would wait for ever at a FIFO
_MAX_SECONDS = 20
_MAX_MEMORY_KB = 1_000_000  # an ignore file may be endless
_MAX_FILE_BYTES = 64_000_000  # of a larger file it may hold the whole


class Listing(NamedTuple):
    """The files below a directory. `cut`: time ran out. `closed`: unreadable directories."""

    files: list[str]
    by_ripgrep: bool
    cut: bool = False
    closed: Sequence[str] = ()


async def list_files(root: str) -> Listing:
    """List the files that `walk` yields."""
    listed = await _ripgrep(("--files",), root, _RIPGREP_SECONDS)
    if listed is not None:
        return Listing(listed, by_ripgrep=True)
    end = monotonic() + _MAX_SECONDS
    closed: list[str] = []
    walked = await offload(lambda stop: list(walk(root, lambda: stop.is_set() or monotonic() > end, closed=closed)))
    return Listing(walked, by_ripgrep=False, cut=monotonic() > end, closed=closed)


async def list_ignored(root: str, listing: Listing) -> list[str]:
    """Return files that git ignores and that a listing therefore has not, as many as are found in a short time."""
    end, known = monotonic() + _RIPGREP_SECONDS, set(listing.files)
    return await offload(
        lambda stop: [
            path for path in walk(root, lambda: stop.is_set() or monotonic() > end, ignored=True) if path not in known
        ]
    )


async def files_matching(
    rust: Sequence[str], options: Sequence[str], names: Sequence[str], root: str, listing: Listing
) -> list[str]:
    """Return files that may match one of some patterns, among those whose name matches one of `names`, if any."""
    if not listing.by_ripgrep:
        return listing.files
    kinds = [*(f"--type-add=asked:{name}" for name in names), *(["--type=asked"] if names else [])]
    smaller, wanted = f"--max-filesize={_MAX_FILE_BYTES}", [f"--regexp={each}" for each in rust]
    matching, other, small = await asyncio.gather(
        _ripgrep(("--files-with-matches", "--text", smaller, *options, *kinds, *wanted), root, _MAX_SECONDS),
        _ripgrep(("--files-with-matches", "--text", smaller, *kinds, f"--regexp={_NOT_UTF8}"), root, _MAX_SECONDS),
        _ripgrep(("--files", smaller), root, _RIPGREP_SECONDS),
    )
    if matching is None or other is None or small is None:
        return listing.files
    return [*{*matching, *other}, *set(listing.files).difference(small)]


async def _ripgrep(arguments: Sequence[str], root: str, seconds: float) -> list[str] | None:
    """Return the files that it lists; None if it is missing, unsure, or too slow."""
    limited = ("/bin/sh", "-c", 'ulimit -S -d "$0"; exec rg "$@"', str(_MAX_MEMORY_KB))
    try:
        async with asyncio.timeout(seconds):
            done = await run([*limited, *_ALIKE, *arguments, "./"], cwd=root, env={"PATH": system_path()})
    except (TimeoutError, ValueError):  # or invalid arguments: a NUL, half a character
        return None
    if done is None or done.code not in (0, 1):  # 2: something was unreadable, or is not supported by this version
        return None
    return [os.fsdecode(path.removeprefix(b"./")) for path in done.output.split(b"\0") if path]
