"""Text files as they lie on disk: decoded and encoded without loss, replaced atomically."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.atomic import replacing
from sagent.lib.encoding import Encoding, text_in
from sagent.lib.regular import open_regular, real_directory, stat_regular


def encode(text: str, encoding: Encoding) -> bytes:
    """Encode a file's text. Raises ToolError naming the character that the encoding lacks."""
    try:
        return encoding.encode(text)
    except UnicodeEncodeError as error:
        character = text[error.start]
        guessed = " (that is guessed from its bytes)" if encoding.guess else ""
        raise ToolError(
            f"The file is {encoding.name}{guessed}, which cannot hold {character!r} (U+{ord(character):04X}). Leave it "
            "out, or write it as an escape of the file's language. Whether the file may become UTF-8 is for the user "
            "to say: other programs may read it in the encoding that it has."
        ) from None


def read_whole(path: Path, max_chars: int) -> str | None:
    """Return the text of a file, with line feeds; None if it is not text, or too long. Raises OSError and
    ValueError."""
    with open_regular(os.path.realpath(path)) as file:
        data = file.read(4 * max_chars + 1)
    text = text_in(data) if len(data) <= 4 * max_chars else None
    return None if text is None or len(text) > max_chars else text.replace("\r\n", "\n")


def line_end(text: str) -> str:
    """Return the most frequent line end of a text: "\\n", "\\r\\n", or "\\r" if there is no other."""
    crlf = text.count("\r\n")
    if not crlf:
        return "\r" if "\r" in text and "\n" not in text else "\n"
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"


def broken_link(real: Path) -> str:
    """Return a warning about a file with further hard links, which a replacement breaks; and about a new one whose name
    looks like another's beside it."""
    try:
        links = os.lstat(real).st_nlink
    except FileNotFoundError:
        return _twin(real)
    except OSError:
        return ""
    if links < 2:
        return ""
    others = "another name" if links == 2 else f"{links - 1} other names"
    return f" It was a hard link: the file has {others}, under which the old content stays."


def _twin(real: Path) -> str:
    from sagent.lib.lookalike import look_alike
    from sagent.lib.names import quote_exactly

    with suppress(OSError):
        if twin := next((each.name for each in real.parent.iterdir() if look_alike(each.name, real.name)), ""):
            return f" Beside it is {quote_exactly(twin)}, another file: {quote_exactly(real.name)} looks like it."
    return ""


def check_writable(real: Path) -> None:
    """Raise PermissionError for a file that could not be opened to write, even though it can be replaced."""
    with suppress(FileNotFoundError), real_directory(real) as (directory, name):
        _check_writable(name, directory)


def _check_writable(name: bytes, directory: int) -> None:
    found = stat_regular(name, directory)
    if found is not None and not (found.st_mode & 0o222 and os.access(name, os.W_OK, dir_fd=directory)):  # root, too
        shown = f"{stat.S_IMODE(found.st_mode):04o}"
        raise PermissionError(
            errno.EACCES, f"it is read-only (mode {shown}) and was not changed. If the user wants that, chmod it first"
        )


def write_atomic(real: Path, data: bytes) -> os.stat_result:
    """Replace a file's content in one step, or create it and its directories, at a path without links. Its mode stays.
    Readers see the old bytes or the new ones, never a part. Return the file's new state; raises OSError."""
    with real_directory(real, make=True) as (directory, name):
        _check_writable(name, directory)
        existing = stat_regular(name, directory)
        with replacing(name, directory, 0o666) as file:
            if existing is not None:
                if (existing.st_uid, existing.st_gid) != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):  # only root may give files away: the content matters more
                        os.fchown(file.fileno(), existing.st_uid, existing.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(existing.st_mode))
            file.write(data)
            file.flush()
            written = os.fstat(file.fileno())
    return written
