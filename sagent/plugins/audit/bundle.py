"""A bundle: exported files in one archive in which every byte is checked.

It is an uncompressed tar of `manifest.json` and the files that the manifest lists by name, size and sha256. The
manifest carries the sha256 of its own canonical JSON. Headers, padding and order follow from the files alone, so one
set of files has exactly one archive. Compress it to send it.
"""

import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.atomic import atomic_output
from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed, as_array, as_int, as_object, as_str, canonical_bytes, json_load, sha256_hex
from sagent.session.place import Place

FORMAT = "sagent-bundle"
VERSION = 1
NAME = "manifest.json"
PROOF = "proof.json"  # in archives of the plugin `proofs`, which are no bundles of a session
SESSION = "session/"  # folder of the session's files in a bundle


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a bundle."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a bundle. Secrets were removed from the entries in `redacted`, by log and id, and from `blobs`."""

    id: str
    session: str
    files: tuple[Listed, ...]
    redacted: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    blobs: frozenset[str] = frozenset()
    secrets: int = 0


def manifest_bytes(members: Mapping[str, object]) -> bytes:
    """Return the manifest file: canonical JSON that starts with its own sha256 as `id`, like a log entry."""
    content = canonical_bytes(members)
    return b'{"id":"%b",%b\n' % (sha256_hex(content).encode(), content[1:])


def read_manifest(data: bytes) -> Manifest:
    """Parse a manifest file. Raises ValueError if it was changed or is of a later version."""
    head, rest = data[:73], data[73:]
    if head != b'{"id":"%b",' % sha256_hex(b"{" + rest[:-1]).encode() or not rest.endswith(b"\n"):
        raise ValueError("its content does not match its id")
    members = as_object(json_load(b"{" + rest[:-1]))
    if canonical_bytes(members) != b"{" + rest[:-1]:
        raise ValueError("it is not canonical JSON")
    if members.get("format") != FORMAT:
        raise ValueError("it is not the manifest of a bundle")
    if as_int(members.get("version")) > VERSION:
        raise ValueError(f"it was written by a newer sagent (version {members.get('version')}): update sagent")
    redacted = as_object(members.get("redacted"))
    entries = as_object(redacted.get("entries"))
    listed = map(as_object, as_array(members.get("files")))
    return Manifest(
        data[7:71].decode(),
        as_str(members.get("session")),
        tuple(
            Listed(as_str(each.get("name")), as_int(each.get("size")), as_str(each.get("sha256"))) for each in listed
        ),
        {log: frozenset(as_object(ids)) for log, ids in entries.items()},
        frozenset(as_object(redacted.get("blobs"))),
        as_int(redacted.get("secrets")),
    )


def write_bundle(out: Path, members: Mapping[str, object], files: Mapping[str, Place | bytes]) -> str:
    """Write a bundle of these files and return its manifest's id. The same files always make the same bytes.

    Raises OSError and then leaves no new file at `out`.
    """
    rows: list[Thawed] = []
    for name, content in sorted(files.items()):
        size = len(content) if isinstance(content, bytes) else content.size
        digest = sha256_hex(content) if isinstance(content, bytes) else content.sha256()
        rows.append({"name": name, "size": size, "sha256": digest})
    manifest = manifest_bytes({**members, "format": FORMAT, "version": VERSION, "files": rows})
    with atomic_output(out) as file:
        file.writelines(_archive({NAME: manifest, **dict(sorted(files.items()))}))
    return manifest[7:71].decode()


def is_bundle(path: Path) -> bool:
    """Return True if a file looks like a tar. Raises OSError."""
    with path.open("rb") as file:
        return file.read(262)[257:] == b"ustar"


def open_bundle(path: Path, max_files: int | None = None) -> tuple[Mapping[str, Place], list[str]]:
    """Return the files of a bundle by name, and the problems of the archive; more than `max_files` are one.

    Raises OSError, and UsageError for a file that is no archive.
    """
    problems: list[str] = []
    places: dict[str, Place] = {}
    size = path.stat().st_size
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if len(places) == max_files:
                    return places, [f"{path} has more than {max_files:,} files"]
                if not member.isreg() or member.name in places:
                    problems.append(f"{path}: {member.name!r} is not a plain file, or is there twice")
                    continue
                places[member.name] = Place(path, member.offset_data, min(member.size, size - member.offset_data))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        if not places:
            raise UsageError(f"{path} is not an exported bundle: {error}") from error
        problems.append(f"{path}: the archive is damaged: {error}")
    in_order = list(places) == [NAME, *sorted(places.keys() - {NAME})]
    if not problems and not (in_order and _same(path, _archive(places))):
        problems.append(f"{path}: the archive was truncated or changed: its bytes differ from those its files produce")
    return places, problems


def _archive(files: Mapping[str, Place | bytes]) -> Iterator[bytes]:
    written = 0
    for name, content in files.items():
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content) if isinstance(content, bytes) else content.size, 0o600
        header = entry.tobuf(tarfile.PAX_FORMAT)
        yield header
        yield from (content,) if isinstance(content, bytes) else content.pieces()
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
        written += len(header) + entry.size + -entry.size % tarfile.BLOCKSIZE
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(written + end) % tarfile.RECORDSIZE)


def _same(path: Path, pieces: Iterable[bytes]) -> bool:
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in pieces) and not file.read(1)


def unpacked(directory: Path) -> bool:
    """Return True if a directory is an unpacked bundle."""
    return (directory / NAME).is_file() and not (directory / "root.jsonl").exists()
