"""Text files as they lie on disk: decoded and encoded without loss, replaced atomically."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from sagent.errors import ToolError
from sagent.lib.atomic import replacing
from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text
from sagent.lib.regular import open_regular, real_directory, stat_regular

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_KINDS = (
    (b"\x7fELF", "an ELF program or library"), (b"MZ", "a Windows program"), (b"\xfe\xed\xfa", "a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"), (b"\xca\xfe\xba\xbe", "a Java class or Mach-O program"),
    (b"\0asm", "WebAssembly"), (b"PK\x03\x04", "a ZIP archive (or an office document, a wheel, a jar)"),
    (b"\x1f\x8b", "gzip data"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"), (b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"Rar!", "a RAR archive"),
    (b"SQLite format 3\0", "an SQLite database"), (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"OggS", "Ogg media"), (b"ID3", "MP3 audio"), (b"RIFF", "RIFF media"), (b"BM", "a BMP image"),
    (b"II*\0", "a TIFF image"), (b"MM\0*", "a TIFF image"), (b"\0\0\x01\0", "an icon"), (b"wOF", "a font"),
    (b"\0\x01\0\0", "a font"), (b"\x80\x04", "a Python pickle"), (b"\x93NUMPY", "a NumPy array"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's bytes stand for text: a codec that loses nothing, and the byte order mark in front."""

    codec: str = "utf-8"
    bom: bytes = b""
    mixed: bool = False  # UTF-8 with bytes that are not: they travel as lone surrogates

    @property
    def name(self) -> str:
        """For people: "utf-8", "utf-16-le with BOM"."""
        return self.codec + (" with BOM" if self.bom else "") + (" with invalid bytes" if self.mixed else "")

    def encode(self, text: str) -> bytes:
        """The bytes of a text. Raises ToolError naming the character that this encoding has no bytes for."""
        lenient = "surrogateescape" if self.mixed else _errors(self.codec)
        try:
            return self.bom + (valid_text(text) if lenient == "strict" else text).encode(self.codec, lenient)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise ToolError(
                f"The file is {self.codec}, which cannot hold {character!r} (U+{ord(character):04X}). "
                "Leave the character out, or convert the file to UTF-8 with a command first."
            ) from None


UTF8 = Encoding()


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes that are not text; `kind` completes "it is ..."."""

    kind: str


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded text: `encoding.encode(text)` is the bytes it came from."""

    text: str
    encoding: Encoding


def decode(data: bytes) -> Text | Binary:
    """Text when the bytes are text in an encoding that can be recognised, else what they seem to be."""
    for bom, codec in _BOMS:
        if data.startswith(bom):
            text = _try(data[len(bom) :], codec)
            return Text(text, Encoding(codec, bom)) if text is not None else Binary(f"broken {codec} text")
    head = data[:8192]
    if b"\0" in head:
        codec = _utf16_order(head)
        text = _try(data, codec) if codec else None
        if text is not None and not _is_noise(text[:4096]):
            return Text(text, Encoding(codec))
        return Binary(_kind(data))
    text = _try(data, "utf-8")
    return Text(text, UTF8) if text is not None else _decode_legacy(data)


def read_whole(path: Path, most: int) -> str | None:
    """The text of a file, with line feeds; None for what is no text, or has more than so many characters. Raises
    OSError and ValueError."""
    with open_regular(os.path.realpath(path)) as file:
        data = file.read(4 * most + 1)
    decoded = decode(data) if len(data) <= 4 * most else None
    if not isinstance(decoded, Text) or len(decoded.text) > most:
        return None
    return valid_text(decoded.text.replace("\r\n", "\n"))


def line_end(text: str) -> str:
    """The line end a text uses most: "\\n", "\\r\\n", or "\\r" where there is no other."""
    crlf = text.count("\r\n")
    if not crlf:
        return "\r" if "\r" in text and "\n" not in text else "\n"
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"


def write_atomic(real: Path, data: bytes) -> os.stat_result:
    """Replace a file's content in one step, or create it and its directories, at a path without links. Its mode stays.

    Readers see the old bytes or the new ones, never a part. Returns what the file is then; raises OSError.
    """
    with real_directory(real, make=True) as (directory, name):
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


def _try(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec, _errors(codec))
    except UnicodeDecodeError:
        return None


def _errors(codec: str) -> str:
    """UTF-16 on Windows holds lone surrogates now and then; they must come back as they were."""
    return "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "strict"


def _decode_legacy(data: bytes) -> Text | Binary:
    """Not UTF-8: mostly UTF-8 with a few broken bytes, or one of the one-byte encodings, or no text at all."""
    escaped = data.decode("utf-8", "surrogateescape")
    broken = sum(1 for character in escaped if "\udc80" <= character <= "\udcff")
    whole = sum(1 for character in escaped if character > "\x7f") - broken
    if _is_noise(escaped[:4096]) or any(data.startswith(magic) for magic, _ in _KINDS if len(magic) > 2):
        return Binary(_kind(data))
    if whole > broken:
        return Text(escaped, Encoding("utf-8", mixed=True))
    try:
        return Text(data.decode("cp1252"), Encoding("cp1252"))
    except UnicodeDecodeError:
        return Text(data.decode("latin-1"), Encoding("latin-1"))


def _is_noise(text: str) -> bool:
    control = sum(1 for character in text if character < " " and character not in "\t\n\r\f\x1b")
    return control * 20 > len(text)


def _utf16_order(head: bytes) -> str:
    """UTF-16 without a mark shows as NULs on one side of the pairs."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd * 3 > len(head) // 2 and even * 20 < odd:
        return "utf-16-le"
    if even * 3 > len(head) // 2 and odd * 20 < even:
        return "utf-16-be"
    return ""


def _kind(data: bytes) -> str:
    if data[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    if data[257:262] == b"ustar":
        return "a tar archive"
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data of an unknown kind")
