"""A project: the branch that is checked out, its notes, and its files for `@path`, listed and attached by kind."""

import asyncio
import os
import re
import shlex
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sagent.context.instructions import NAMES, repository_root
from sagent.errors import UsageError
from sagent.lib.encoding import Binary, decode
from sagent.lib.git import git_call
from sagent.lib.image import image_type
from sagent.lib.json import valid_text
from sagent.lib.names import path_of
from sagent.lib.process import run
from sagent.lib.regular import read_regular
from sagent.lib.text import why_unread
from sagent.messages import Image, Part, Text
from sagent.tools.textfile import encode

HEADING = "## Notes"
MAX_FILES = 200_000
_GIT_TIMEOUT_SECONDS = 5.0
MAX_TEXT_CHARS = 400_000  # of a file that is attached
_MAX_IMAGE_BYTES = 30_000_000  # of an image dropped into a message
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_DATA = re.compile(r"data:image/[\w.+-]+;base64,([A-Za-z0-9+/=\s]+)")
MENTION = re.compile(r"""(?:^|(?<=[\s(]))@(?:"([^"\n]+)"|([^\s"@][^\s"]*))""")


def branch_of(directory: Path) -> str:
    """Return the checked-out branch, the start of a commit's id if detached, "" outside a repository."""
    root = repository_root(directory)
    if root is None:
        return ""
    try:
        git = root / ".git"
        if git.is_file():  # a worktree
            git = root / os.fsdecode(read_regular(git)).removeprefix("gitdir:").strip()
        head = os.fsdecode(read_regular(git / "HEAD")).strip()
    except (OSError, ValueError):
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]


async def changed_files(directory: Path) -> int:
    """Count the files of the repository that differ from the last commit, including new ones."""
    call = git_call(directory, "status", "--porcelain", "--untracked-files=normal", "--no-renames")
    with suppress(TimeoutError):
        async with asyncio.timeout(_GIT_TIMEOUT_SECONDS):
            if call is not None and (done := await run(call.argv, env=call.environment)) is not None and not done.code:
                return done.output.count(b"\n")
    return 0


def instructions_file(directory: Path) -> Path:
    """Return the project's AGENTS.md, or CLAUDE.md if it only has that."""
    root = repository_root(directory) or directory
    return next((root / name for name in NAMES if (root / name).is_file()), root / NAMES[0])


def add_note(directory: Path, text: str) -> Path:
    """Write a note into the project's instructions, under their last heading "Notes". Raises OSError, ToolError for
    what their encoding lacks, and UsageError if the file is no text or a link out of the project."""
    path = instructions_file(directory)
    if not path.resolve().is_relative_to(path.parent.resolve()):
        raise UsageError(f"{path} is a link that leads out of the project, so the note was not saved. Make it a file.")
    decoded = decode(read_regular(path) if path.exists() else b"")
    if isinstance(decoded, Binary):
        raise UsageError(f"{path} is {decoded.kind}, not text, so the note was not saved.")
    crlf = decoded.text.count("\r\n") == decoded.text.count("\n") > 0
    before = decoded.text.replace("\r\n", "\n") if crlf else decoded.text
    note = "- " + " ".join(text.split()) + "\n"
    place = before.rfind(f"{HEADING}\n")
    if place < 0:
        gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
        after = f"{before}{gap}{HEADING}\n\n{note}"
    else:
        next_heading = before.find("\n#", place + len(HEADING))
        end = len(before) if next_heading < 0 else next_heading + 1
        section = before[:end].rstrip("\n") + "\n"
        gap = "\n" if section.endswith(f"{HEADING}\n") else ""
        rest = before[end:]
        after = f"{section}{gap}{note}" + (f"\n{rest}" if rest else "")
    after = after.replace("\n", "\r\n") if crlf else after
    path.write_bytes(encode(after, decoded.encoding))  # it may have other names
    return path


async def list_files(directory: Path) -> list[str]:
    """Return the relative paths of the files below a directory, by git (including new ones) or else by walking."""
    call = git_call(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    git = None
    with suppress(TimeoutError):  # git waits for a .gitignore that is a pipe
        async with asyncio.timeout(_GIT_TIMEOUT_SECONDS):
            git = await run(call.argv, env=call.environment) if call else None
    if git is None or git.code:
        return await asyncio.to_thread(lambda: list(_walk(directory)))
    return [os.fsdecode(name) for name in git.output.split(b"\0")[:MAX_FILES] if name]


def _walk(directory: Path) -> Iterator[str]:
    """Yield files outside hidden directories; 20,000 at most, because this may be a home directory."""
    left = 20_000
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(files):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), directory)  # noqa: PTH118 -- a Path each is slow
                left -= 1
                if not left:
                    return


def mentioned(text: str) -> list[str]:
    """Return the paths that a message mentions with @, each once."""
    paths = (match[1] or match[2].rstrip(".,;:!?)") for match in MENTION.finditer(text))
    return list(dict.fromkeys(paths))


def attach(text: str, directory: Path, others: Collection[str] = ()) -> tuple[list[Part], list[str]]:
    """Return the parts for files that a message mentions, and sentences about those that cannot be attached; `others`
    handles mentions that are no files."""
    parts: list[Part] = []
    wrong: list[str] = []
    for name in mentioned(text):
        if name in others:
            continue
        try:
            path = directory / path_of(name)
            if path.is_dir():
                listing = "\n".join(sorted(f"{entry.name}{'/' * entry.is_dir()}" for entry in path.iterdir())[:500])
                parts.append(Text(f'\n<directory path="{name}">\n{listing}\n</directory>'))
            elif path.is_file():
                parts.append(_attached(path, name))
            else:
                wrong.append(f"@{name} is not a file here; it was sent as text")
        except (OSError, ValueError) as error:
            wrong.append(f"@{name} is not attached: {why_unread(error)}")
    return parts, wrong


def images_at(text: str, directory: Path) -> tuple[Image, ...]:
    """Return the images whose paths a text consists of, as file managers insert them on drag and drop, or the one of a
    data address; else ()."""
    whole = text.strip()
    if data := _DATA.fullmatch(whole):
        with suppress(ValueError):
            inside = b64decode(data[1])
            return (Image(kind, inside),) if (kind := image_type(inside)) else ()
    if not whole.lower().rstrip("'\"").endswith(IMAGES):
        return ()
    words: list[str] = []
    with suppress(ValueError):  # quotes that are not closed
        words = shlex.split(whole)
    for names in ([whole], words):
        images = [image for name in names if (image := _image_at(name, directory))]
        if len(images) == len(names):
            return tuple(images)
    return ()


def _image_at(name: str, directory: Path) -> Image | None:
    from urllib.parse import unquote

    with suppress(OSError, ValueError):
        path = Path(unquote(name.removeprefix("file://")) if name.startswith("file://") else name)
        path = directory / path_of(str(path))
        if not path.is_file() or path.stat().st_size > _MAX_IMAGE_BYTES:  # or a pipe, which would block
            return None
        data = path.read_bytes()
        return Image(kind, data) if (kind := image_type(data)) else None
    return None


async def fit_images(images: Iterable[Image]) -> tuple[list[Part], list[str]]:
    """Return the images of a message, scaled down if large, and sentences about those that cannot be attached."""
    from sagent.tools.media import read_media

    parts: list[Part] = []
    wrong: list[str] = []
    for number, image in enumerate(images, 1):
        try:
            media = await read_media(image.data, f"image {number}")
        except ValueError as error:
            wrong.append(f"An image is not attached: {error}")
        else:
            parts.append(media or image)
    return parts, wrong


def _attached(path: Path, name: str) -> Part:
    from sagent.tools.media import MAX_DOCUMENT_BYTES, media_in

    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise ValueError(f"it has more than {MAX_DOCUMENT_BYTES // 1_000_000} MB")
    data = path.read_bytes()
    if (shown := media_in(data, path.name)) is not None:
        return shown
    if isinstance(decoded := decode(data), Binary):
        raise ValueError("it is not text, an image, a PDF or a recording (WAV, MP3) that models can read")  # noqa: TRY004 -- its bytes
    content, how = valid_text(decoded.text), decoded.encoding.name
    shown = "" if how == "utf-8" else f' encoding="{how}"'
    cut = f"\n[{len(content) - MAX_TEXT_CHARS} more characters: read the file]" if len(content) > MAX_TEXT_CHARS else ""
    return Text(f'\n<file path="{name}"{shown}>\n{content[:MAX_TEXT_CHARS]}{cut}\n</file>')
