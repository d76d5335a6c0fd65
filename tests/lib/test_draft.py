"""Files that are there whole or not at all."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sagent.lib.atomic import atomic_output, atomic_write


def test_written_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    path.chmod(0o644)
    with atomic_write(path) as file:
        file.write(b"after")
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_failed_write_keeps_old_content(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"before", [path])


def test_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/file")
    for text in (b"made", b"replaced"):
        with atomic_write(link) as file:
            file.write(text)
        assert link.is_symlink()
        assert (tmp_path / "there" / "file").read_bytes() == text


def test_command_made_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for name, target in (("link", "mine"), ("nowhere", "new"), ("device", os.devnull)):
        (tmp_path / name).symlink_to(target)
        with atomic_output(tmp_path / name) as file:
            file.write(b"theirs")
    assert (tmp_path / "mine").read_text() == "mine"
    assert [(tmp_path / name).read_text() for name in ("link", "nowhere")] == ["theirs", "theirs"]
    assert (tmp_path / "device").is_symlink()
    assert not (tmp_path / "new").exists()


def test_shared_file_has_default_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    reader = threading.Thread(target=pipe.read_bytes, daemon=True)
    reader.start()
    before = os.umask(0o027)
    try:
        for path in (pipe, tmp_path / "file"):
            with atomic_output(path, 0o666) as file:
                file.write(b"for all")
    finally:
        os.umask(before)
    reader.join(30)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("pipe", "file")] == [0o600, 0o640]


def test_device_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device"), atomic_write(pipe):  # nobody reads it
        pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(pipe) as file:
        file.write(b"told")
    assert os.read(reader, 9) == b"told"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError), atomic_write(tmp_path):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
from sagent.lib.atomic import atomic_write
from sagent.tools.textfile import write_atomic

kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "atomic_write":
    with atomic_write(Path(sys.argv[1])) as file:
        file.write(b"half")
        file.flush()
        kill()
os.fchmod = kill
write_atomic(Path(sys.argv[1]), b"half")
"""


@pytest.mark.needs("linux")
@pytest.mark.parametrize("how", ["atomic_write", "write_atomic"])
def test_killed_process_leaves_no_draft(tmp_path: Path, how: str) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), how], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"before", [path])


def test_named_draft_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "out"
    for text in (b"made", b"replaced"):
        with atomic_write(path) as file:
            file.write(text)
        assert (path.read_bytes(), list(tmp_path.iterdir())) == (text, [path])
    test_failed_write_keeps_old_content(tmp_path)
