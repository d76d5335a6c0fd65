"""Text as bytes hold it: decoded without loss, in the encoding that is marked, named, or likely."""

import re
from collections.abc import Sequence
from contextlib import suppress

from sagent.lib.dataclass import dataclass
from sagent.lib.json import valid_text

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
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
SHIFT = b"\x1b$"  # never sent to a terminal
_MAX_SAMPLE_CHARS = 4_096  # characters of a text to tell it from noise
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_ESCAPED = re.compile("[\udc80-\udcff]+")
_HIGH = bytes(range(128, 256))
_NEAR_LINES = 3
_MIN_SURE = 3  # characters beyond ASCII in lines of UTF-8 for which a file counts as that, with foreign lines
_MAX_FOREIGN = 4  # foreign bytes for each of these
_MAX_RUNS = 20
_MAX_CONTROLS = 0.05  # of the characters of a text


@dataclass(frozen=True, slots=True)
class Encoding:
    """A way to decode bytes: a codec, and the byte order mark in front. `mixed`: some bytes are undefined in it, or
    would be written differently; they become lone surrogates. `guess` describes a guessed one."""

    codec: str = "utf-8"
    bom: bytes = b""
    mixed: bool = False
    guess: str = ""

    @property
    def name(self) -> str:
        """The encoding for people: "utf-8", "utf-16-le with BOM", "probably koi8-r"."""
        named = self.guess or self.codec
        return named + (" with BOM" if self.bom else "") + (" with invalid bytes" if self.mixed else "")

    def encode(self, text: str) -> bytes:
        """Return the bytes of a text. Raises UnicodeEncodeError."""
        errors = "surrogateescape" if self.mixed else _errors(self.codec)
        return self.bom + (valid_text(text) if errors == "strict" else text).encode(self.codec, errors)


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
    """Decode bytes in a recognizable encoding of text; otherwise return their apparent kind."""
    for bom, codec in _BOMS:
        if data.startswith(bom):
            text = _try(data[len(bom) :], codec)
            return Text(text, Encoding(codec, bom)) if text is not None else Binary(f"broken {codec} text")
    if b"\0" in data[:8192]:
        return _decode_wide(data) or Binary(_kind(data))
    if SHIFT in data and (shifted := _decode_shifted(data)):
        return shifted
    text = _try(data, "utf-8")
    if text is not None:
        return Text(text, UTF8)
    return _decode_older(data)


def text_in(data: bytes) -> str | None:
    """Return the text of bytes, as valid Unicode; None if they are not text."""
    decoded = decode(data)
    return valid_text(decoded.text) if isinstance(decoded, Text) else None


def readable(data: bytes) -> str:
    """Return the text of bytes from a person or a program; U+FFFD replaces undecodable ones."""
    text = text_in(data)
    return data.decode("utf-8", "replace") if text is None else text


@dataclass(frozen=True, slots=True)
class Output:
    """The text that programs have written, perhaps in several encodings; `guesses` are those other than UTF-8. If
    `sure` is False, some lines are text in no encoding."""

    text: str
    guesses: tuple[str, ...] = ()
    sure: bool = True


def decode_output(data: bytes, *, cut: bool = False) -> Output:
    """Decode each line separately: as UTF-8 if valid, else in the encoding that it shares with nearby lines. With `cut`
    the data may be cut within a character at both ends."""
    head = data[:_MAX_SAMPLE_CHARS]
    if (marked := any(data.startswith(bom) for bom, _ in _BOMS)) or b"\0" in head or SHIFT in head:
        for part in range(4 if marked or len(data) > 16 else 1):  # bytes of a character that was cut at the end
            decoded = decode(data[: len(data) - part])
            if isinstance(decoded, Text) and not (
                decoded.encoding.guess or (part and decoded.encoding.codec == "utf-8")
            ):
                said = () if decoded.encoding.codec == "utf-8" else (decoded.encoding.name,)
                return Output(valid_text(decoded.text) + "�" * bool(part), said)
    with suppress(UnicodeDecodeError):
        return Output(data.decode())
    lines = (_trim(data) if cut else data).split(b"\n")
    places = [place for place, line in enumerate(lines) if not line.isascii() and _is_broken(line)]
    codecs = _codecs_of(lines, places)
    texts = [line.decode("utf-8", "replace") if line.isascii() or place not in codecs else
             line.decode(codecs[place][0], "replace") for place, line in enumerate(lines)]  # fmt: skip
    guesses = dict.fromkeys(words for _, words in codecs.values())
    return Output("\n".join(texts), tuple(guesses), sure=len(codecs) == len(places))


def _codecs_of(lines: Sequence[bytes], places: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return the codec of each of these lines, and a description: nearby lines share one if it is clear, otherwise the
    codec of all lines is used."""
    from sagent.lib.charset import guess

    whole = guess(b"\n".join(lines[place] for place in places)) if places else None
    found: dict[int, tuple[str, str]] = {}
    runs: list[list[int]] = []
    for place in places:
        if runs and place - runs[-1][-1] <= _NEAR_LINES:
            runs[-1].append(place)
        else:
            runs.append([place])
    for number, run in enumerate(runs):
        own = guess(b"\n".join(lines[place] for place in run)) if len(runs) > 1 and number < _MAX_RUNS else None
        if chosen := own if own is not None and (own.clear or whole is None) else whole:
            found.update((place, (chosen.codec, chosen.words)) for place in run)
    return found


def _is_broken(line: bytes) -> bool:
    """Return True if a line is not even mostly UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        broken, whole = _count(line, line.decode("utf-8", "surrogateescape"))
        return broken >= whole
    return False


def _count(data: bytes, escaped: str) -> tuple[int, int]:
    """Return how many bytes are not UTF-8, and how many characters that are not ASCII are."""
    broken = sum(map(len, _ESCAPED.findall(escaped)))
    return broken, len(escaped) - broken - len(data.translate(None, _HIGH))


def _trim(data: bytes) -> bytes:
    """Remove the parts of characters at both ends, if the rest of the line is UTF-8."""
    first, end, rest = data.partition(b"\n")
    for cut in range(1, 4):
        if not all(0x80 <= byte < 0xC0 for byte in first[:cut]) or len(first) < cut:
            break
        if _try(first[cut:], "utf-8") is not None:
            data = first[cut:] + end + rest
            break
    above, end, last = data.rpartition(b"\n")
    for cut in range(1, min(4, len(last) + 1)):
        if last[-cut] >= 0xC2 and _try(last[:-cut], "utf-8") is not None:
            return above + end + last[:-cut]
    return data


def _try(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec, _errors(codec))
    except UnicodeDecodeError:
        return None


def _errors(codec: str) -> str:
    """Return the error handler of a codec. UTF-16 on Windows sometimes has lone surrogates, which must be preserved."""
    return "surrogatepass" if codec in _WIDE else "strict"


def _decode_wide(data: bytes) -> Text | None:
    """Decode UTF-16 or UTF-32 without a mark, which has NULs in ASCII letters and line ends; None if the result has
    anything but letters."""
    if any(data.startswith(magic) for magic, _ in _KINDS) or _is_list(data[:_MAX_SAMPLE_CHARS]):
        return None
    found = [(text, codec) for codec in _WIDE if (text := _try(data, codec)) and _is_writing(text[:_MAX_SAMPLE_CHARS])]
    found.sort(key=lambda one: -sum(map(str.isascii, one[0][:_MAX_SAMPLE_CHARS])))
    return Text(found[0][0], Encoding(found[0][1])) if found else None


def _decode_shifted(data: bytes) -> Text | None:
    """Decode ISO 2022, which writes Japanese and Korean in ASCII after escape sequences that name character sets."""
    for codec in ("iso2022_jp", "iso2022_jp_ext", "iso2022_kr"):
        if (text := _try(data, codec)) is not None and text.encode(codec, "replace") == data:
            return Text(text, Encoding(codec))
    return None


def _is_list(data: bytes) -> bool:
    """Return True for text with NULs as separators: they are few, and there are no other control characters."""
    text = data.decode("utf-8", "surrogateescape").replace("\0", "")
    is_clean = not _CONTROLS.search(text) and not any("\udc80" <= letter <= "\udcff" for letter in text)
    return data.count(0) * 3 <= len(data) and is_clean


def _is_writing(text: str) -> bool:
    """Return True if a text has only plausible characters, including some ASCII."""
    from unicodedata import category

    kinds = [category(character) for character in text]
    strange = sum(
        kind in ("Cc", "Cn", "Co", "Cs") and letter not in "\t\n\r\f\x1b"
        for kind, letter in zip(kinds, text, strict=True)
    )
    return strange * 50 <= len(text) and any(map(str.isascii, text))


def _decode_older(data: bytes) -> Text | Binary:
    """Decode data that are not UTF-8: UTF-8 with a few broken bytes, or an older encoding, or no text at all."""
    escaped = data.decode("utf-8", "surrogateescape")
    broken, whole = _count(data, escaped)
    seen = escaped[:_MAX_SAMPLE_CHARS]
    is_noise = len(_CONTROLS.findall(seen)) > len(seen) * _MAX_CONTROLS
    if is_noise or any(data.startswith(magic) for magic, _ in _KINDS if len(magic) > 2):
        return Binary(_kind(data))
    if whole > broken:
        return Text(escaped, Encoding("utf-8", mixed=True))
    from sagent.lib.charset import guess

    found = guess(data)
    if found is None:
        return Binary(_kind(data)) if broken * 4 > len(escaped) else Text(escaped, Encoding("utf-8", mixed=True))
    kept = "".join(line for line in escaped.split("\n") if not _ESCAPED.search(line))
    sure = len(kept) - len(kept.encode("ascii", "ignore"))  # in lines of UTF-8, which no other encoding often has
    if sure * _MAX_FOREIGN >= broken and sure >= (1 if found.codec == "cp1252" else _MIN_SURE):
        return Text(escaped, Encoding("utf-8", mixed=True))
    text, mixed = _decode_exactly(data, found.codec)
    if text is None:
        return Text(escaped, Encoding("utf-8", mixed=True))
    return Text(text, Encoding(found.codec, mixed=mixed, guess="" if found.certain else found.words))


def _decode_exactly(data: bytes, codec: str) -> tuple[str | None, bool]:
    """Decode so that encoding gives the same bytes: undefined and non-canonical ones become lone surrogates. Return the
    text, None if that is impossible, and whether it has any of these."""
    text = data.decode(codec, "surrogateescape")
    try:
        exact = text.encode(codec) == data
    except UnicodeEncodeError:
        exact = False
    if exact:
        return text, False
    text = "\n".join(line.decode() if line.isascii() else _line_exactly(line, codec) for line in data.split(b"\n"))
    try:
        return (text if text.encode(codec, "surrogateescape") == data else None), True
    except UnicodeEncodeError:
        return None, True


def _line_exactly(line: bytes, codec: str) -> str:
    import codecs

    decoder = codecs.getincrementaldecoder(codec)("surrogateescape")
    pieces: list[str] = []
    start = 0
    for end in range(1, len(line) + 1):
        if piece := decoder.decode(line[end - 1 : end], final=end == len(line)):
            same = piece.encode(codec, "surrogateescape") == line[start:end]
            pieces.append(piece if same else line[start:end].decode("ascii", "surrogateescape"))
            start = end
    return "".join(pieces)


def _kind(data: bytes) -> str:
    if data[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    if data[257:262] == b"ustar":
        return "a tar archive"
    return next((kind for magic, kind in _KINDS if data.startswith(magic)), "binary data of an unknown kind")
