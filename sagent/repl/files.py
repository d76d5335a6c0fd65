"""The project's files for `@path`: listed by git, matched by their letters, attached by kind."""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagent.lib.process import run
from sagent.messages import Part, Text
from sagent.repl.matching import matches

MOST_FILES = 200_000
MOST_TEXT = 400_000  # characters of a file that is attached
MENTION = re.compile(r"""(?:^|(?<=[\s(]))@(?:"([^"\n]+)"|([^\s"@][^\s"]*))""")


async def list_files(directory: Path) -> list[str]:
    """Relative paths of the files below a directory, as git knows them (new ones too); without git by walking."""
    command = ["git", "-C", str(directory), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    git = await run(command)
    if git is None or git.code:
        return await asyncio.to_thread(lambda: list(_walk(directory)))
    return [os.fsdecode(name) for name in git.output.split(b"\0")[:MOST_FILES] if name]


def _walk(directory: Path) -> Iterator[str]:
    """Files that are not hidden, nor in a directory that is; 20,000 at most: this is a home, perhaps."""
    left = 20_000
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(files):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), directory)  # noqa: PTH118 -- a Path each is slow
                left -= 1
                if not left:
                    return


def nearest(query: str, files: Sequence[str], most: int = 50) -> list[str]:
    """The files whose paths fit what was typed, best first."""
    import heapq

    letters = query.lower()
    scored: list[tuple[int, int, str]] = []
    for path in files:
        score = matches(letters, path)
        if score is None:
            continue
        name = path.rpartition("/")[2].lower()
        score -= 20 if name.startswith(letters) else 10 if letters in name else 0
        scored.append((score, len(path), path))
    return [path for _, _, path in heapq.nsmallest(most, scored)]


def mentioned(text: str) -> list[str]:
    """The paths that a message mentions with @, each once."""
    found = (match[1] or match[2].rstrip(".,;:!?)") for match in MENTION.finditer(text))
    return list(dict.fromkeys(found))


def attach(text: str, directory: Path) -> tuple[tuple[Part, ...], list[str]]:
    """The parts for the files that a message mentions, and sentences about those that cannot be attached."""
    parts: list[Part] = []
    wrong: list[str] = []
    for name in mentioned(text):
        path = directory / Path(name).expanduser()
        try:
            if path.is_dir():
                listing = "\n".join(sorted(f"{one.name}{'/' * one.is_dir()}" for one in path.iterdir())[:500])
                parts.append(Text(f'\n<directory path="{name}">\n{listing}\n</directory>'))
            elif path.is_file():
                parts.append(_attached(path, name))
        except (OSError, ValueError) as error:
            wrong.append(f"@{name} is not attached: {getattr(error, 'strerror', None) or error}")
    return tuple(parts), wrong


def _attached(path: Path, name: str) -> Part:
    from sagent.tools.media import MOST_DOCUMENT, media_in

    if path.stat().st_size > MOST_DOCUMENT:
        raise ValueError(f"it has more than {MOST_DOCUMENT // 1_000_000} MB")
    data = path.read_bytes()
    if (shown := media_in(data, path.name)) is not None:
        return shown
    if b"\0" in data[:8192]:
        raise ValueError("it is neither text, nor an image or a PDF that models can read")
    content = data.decode("utf-8", "replace")
    cut = f"\n[{len(content) - MOST_TEXT} more characters: read the file]" if len(content) > MOST_TEXT else ""
    return Text(f'\n<file path="{name}">\n{content[:MOST_TEXT]}{cut}\n</file>')
