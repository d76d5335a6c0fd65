"""A bundle: every byte of the archive counts, whatever it belongs to."""

import tarfile
from pathlib import Path

import pytest

from sagent.errors import SessionNotFound, UsageError
from sagent.messages import Image, user
from sagent.plugins.audit.bundle import manifest_bytes, open_bundle, read_manifest, write_bundle
from sagent.plugins.audit.verify import verify
from sagent.session.contents import MessageEntry, Opened, Returned, Spawned, StoredMessage, Unknown
from sagent.session.place import Place
from sagent.session.store import Session
from tests.archives import unpack
from tests.depth import deep


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Place | bytes]:
    """The files of a small session with a child and blobs."""
    with Session.create_at(tmp_path / "session") as made:
        log, child = made.log(), made.log("root/review")
        log.append(Opened(made.id, "root", "/work", {}))
        log.append(Spawned("root/review", child.append(Unknown("opened", {})).id))
        image = Image("image/png", b"pixels")
        log.append(MessageEntry(StoredMessage.of(user("look", image), lambda data: log.blobs.put(data).name)))
        log.append(Returned("root/review", child.head))
    return {
        f"session/{path.relative_to(made.path).as_posix()}": Place(path, 0, path.stat().st_size)
        for path in made.path.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture
def bundle(tmp_path: Path, files: dict[str, Place | bytes]) -> Path:
    out = tmp_path / "b.tar"
    write_bundle(out, {"session": "session", "note": "é"}, {**files, "report.json": b"{}\n"})
    return out


def test_bundle_verifies_packed_and_unpacked(bundle: Path, tmp_path: Path):
    proof = verify(bundle)
    assert proof.problems == ()
    assert [part.name for part in proof.parts][:3] == ["manifest", "log of root", "log of root/review"]
    assert (proof.entries, proof.blobs) == (5, 1)
    assert verify(bundle, proof.heads["root"]).problems == ()
    with tarfile.open(bundle) as archive:
        unpack(archive, tmp_path / "out")
    unpacked = verify(tmp_path / "out")
    assert (unpacked.problems, unpacked.heads) == ((), proof.heads)
    assert bundle.stat().st_mode & 0o777 == 0o600


def test_same_files_same_bytes(bundle: Path, tmp_path: Path, files: dict[str, Place | bytes]):
    again = tmp_path / "again.tar"
    backwards = dict(reversed(files.items()))
    write_bundle(again, {"note": "é", "session": "session"}, {"report.json": b"{}\n", **backwards})
    assert again.read_bytes() == bundle.read_bytes()


def test_every_bundle_byte_counts(bundle: Path):
    whole = bundle.read_bytes()
    step = deep(5, 1)
    for place in range(step - 1, len(whole), step):
        if place > 512 and whole[place] == 0 and place % 61:
            continue  # of the thousands of zeros, some
        bundle.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        assert found(bundle), place
    for end in range(0, len(whole), 101 * step):
        bundle.write_bytes(whole[:end])
        assert found(bundle), end
    bundle.write_bytes(whole + b"\0")
    assert found(bundle)
    bundle.write_bytes(whole)
    assert not found(bundle)


def found(bundle: Path) -> bool:
    """Whether something is found: a file that is no archive any more is none of ours."""
    try:
        return bool(verify(bundle).problems)
    except (UsageError, SessionNotFound):
        return True


def test_changed_files_detected(bundle: Path, tmp_path: Path):
    with tarfile.open(bundle) as archive:
        unpack(archive, tmp_path / "out")
    out = tmp_path / "out"
    (out / "extra.txt").write_text("x")
    assert any("extra.txt is not in the manifest" in problem for problem in verify(out).problems)
    (out / "extra.txt").unlink()
    for path in [path for path in out.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        path.unlink()
        try:
            assert verify(out).problems, path
        except SessionNotFound:
            assert path.name == "manifest.json"  # no bundle any more
        path.write_bytes(whole[:-1])
        assert verify(out).problems, path
        path.write_bytes(whole)
    assert verify(out).problems == ()


def test_reordered_bundle_detected(bundle: Path, tmp_path: Path):
    places, problems = open_bundle(bundle)
    assert problems == []
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, place in reversed(places.items()):  # pyright: ignore[reportArgumentType, reportCallIssue]
            member = tarfile.TarInfo(name)
            member.size, member.mode = place.size, 0o600
            with place.path.open("rb") as file:
                file.seek(place.start)
                archive.addfile(member, file)
    (problem,) = verify(other).problems
    assert "truncated or changed" in problem


def test_non_bundle_refused(tmp_path: Path):
    file = tmp_path / "notes.txt"
    file.write_text("x" * 2000)
    with pytest.raises(SessionNotFound):
        verify(file)
    file.write_bytes(b"x" * 257 + b"ustar" + b"x" * 1000)
    with pytest.raises(UsageError, match="not an exported bundle"):
        verify(file)


def test_full_disk_keeps_old_bundle(tmp_path: Path):
    out = tmp_path / "b.tar"
    out.write_bytes(b"before")
    with pytest.raises(FileNotFoundError):
        write_bundle(out, {}, {"a": Place(tmp_path / "gone", 0, 1)})
    assert out.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar"]


def test_manifest_must_be_canonical():
    data = manifest_bytes({"format": "sagent-bundle", "version": 1, "files": []})
    assert read_manifest(data).files == ()
    for wrong in (data[:-1], data + b"\n", data.replace(b"1", b"2", 1), b"", b"{}\n"):
        with pytest.raises(ValueError, match="does not match"):
            read_manifest(wrong)
    with pytest.raises(ValueError, match="newer sagent"):
        read_manifest(manifest_bytes({"format": "sagent-bundle", "version": 2}))
    with pytest.raises(ValueError, match="not the manifest"):
        read_manifest(manifest_bytes({"version": 1}))


def test_redacted_entry_reported(tmp_path: Path, files: dict[str, Place | bytes]):
    log = files["session/root.jsonl"]
    assert isinstance(log, Place)
    lines = log.read().splitlines(keepends=True)
    changed = lines[2].replace(b"look", b"[redacted: key]")
    name = changed[7:71].decode()
    given = {**files, "session/root.jsonl": b"".join([*lines[:2], changed, *lines[3:]])}
    out = tmp_path / "r.tar"
    write_bundle(out, {"session": "session"}, given)
    assert any("line 3:" in problem and "its id" in problem for problem in verify(out).problems)
    said = {"secrets": 1, "entries": {"root.jsonl": {name: 1}}, "blobs": {}}
    write_bundle(out, {"session": "session", "redacted": said}, given)
    proof = verify(out)
    assert (proof.problems, proof.redacted) == ((), 1)
    assert "1 of them redacted" in proof.parts[1].checked
    assert any("no longer match" in note for note in proof.notes)
    loose = changed.replace(b'"role":', b'"role": ')
    given["session/root.jsonl"] = b"".join([*lines[:2], loose, *lines[3:]])
    write_bundle(out, {"session": "session", "redacted": said}, given)
    assert any("canonical" in problem for problem in verify(out).problems)
