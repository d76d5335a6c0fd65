"""Devices, pipes and files of the kernel, by every tool that opens files: none is read, written or waited for."""

import asyncio
import os
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sagent.config import load
from sagent.errors import ToolError
from sagent.lib.regular import is_regular, read_regular
from sagent.tool import Tool, ToolOutput
from sagent.tools import Edit, Glob, Grep, Read, Write

Call = Callable[..., Awaitable[ToolOutput]]
CALLS: list[tuple[Tool, dict[str, object]]] = [
    (Read(), {"file_path": ...}),
    (Edit(), {"file_path": ..., "old_string": "a", "new_string": "b"}),
    (Grep(), {"pattern": "x", "path": ...}),
    (Glob(), {"pattern": "*", "path": ...}),
    (Write(), {"file_path": ..., "content": "x"}),
]
DEVICES = ["/dev/zero", "/dev/null", "/dev/full", "/dev/random", "/dev/tty", "/dev/kmsg", "/dev/mem", "/dev/stdin"]
KERNELS = ["/proc/kmsg", "/proc/kcore", "/proc/self/mem", "/proc/self/pagemap", "/proc/self/root/proc/kmsg"]
KERNELS += ["/proc/self/clear_refs", "/sys/kernel/tracing/trace_pipe", "/sys/kernel/debug/x"]


@pytest.fixture
def places(root: Path) -> Iterator[list[str]]:
    """What is no file: in the workspace, by links to what is elsewhere, and elsewhere."""
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
        for number, target in enumerate([*DEVICES, *KERNELS, "fifo", "sock"]):
            (root / f"link{number}").symlink_to(target)
        (root / "chain").symlink_to("link0")
        found = [*DEVICES, *KERNELS, *(str(path) for path in sorted(root.iterdir()) if path.name != ".git")]
        yield [path for path in found if os.path.exists(path)]


@pytest.mark.parametrize("tool", range(len(CALLS)), ids=lambda number: CALLS[number][0].name)
async def test_non_regular_file_is_refused(places: list[str], call: Call, tool: int) -> None:
    for path in places:
        made, arguments = CALLS[tool]
        given = {name: path if value is ... else value for name, value in arguments.items()}
        with pytest.raises(
            ToolError, match=r"not a file|no ordinary file|not a directory|neither a file|leads nowhere|like a device"
        ):
            await asyncio.wait_for(call(made, **given), 60)


@pytest.mark.parametrize("path", KERNELS)
def test_kernel_files_are_not_regular(path: str) -> None:
    if not os.path.exists(path):
        pytest.skip("this kernel has none")
    assert not is_regular(os.path.realpath(path))
    with pytest.raises(OSError, match="kernel"):
        read_regular(path, cut=True)


async def test_kernel_text_files_are_read(call: Call, root: Path) -> None:
    for path in ("/proc/cpuinfo", "/proc/self/status", "/proc/version", "/proc/sys/kernel/ostype"):
        if os.path.exists(path):
            shown = await call(Read(), file_path=path)
            assert len("".join(getattr(part, "text", "") for part in shown.content)) > 5
    (root / "kmsg").write_text("mine")
    (root / "mem").touch()
    assert read_regular(root / "kmsg") == b"mine"
    assert read_regular(root / "mem") == b""


async def test_memory_file_with_kernel_name_is_own(call: Call) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no file system in memory")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        file = Path(place, "mem")
        file.touch()
        assert is_regular(str(file))
        file.unlink()
        await call(Write(), file_path=str(file), content="mine\n")
        assert file.read_text() == "mine\n"


def test_settings_are_not_read_from_fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".sagent").mkdir()
    os.mkfifo(tmp_path / ".sagent/config.toml")
    done = threading.Event()

    def read() -> None:
        with pytest.raises(Exception, match="FIFO"):
            load({"cwd": str(tmp_path), "model": "anthropic/x"})
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(60)
