"""Whatever a path is or leads to, a tool of files works or says in one sentence what is wrong with which path."""

import os
import re
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.errors import ToolError
from sagent.lib.json import json_freeze
from sagent.lib.text import failure
from sagent.tools import Edit, Glob, Grep, List, Read, Write
from sagent.tools.globs import glob_regex
from tests.depth import deep, later

LEVELS = 25
DEEP = "/".join(["d" * 200] * LEVELS)  # longer than the system takes at once
NAMES = [
    "", "a\0b", "\ud800x", "x" * 256, "x" * 300, "é" * 200, "a/" * 2600 + "b", "/" + "x/" * 3000, "loop1", "loop1/x",
    "dangling", "dangling/x", "dir", "dir/", "file/x", "fifo", "fifo/x", "sock", "bad\udcff\udcfe/f\udcff.txt",
    "bad\udcff\udcfe", "$'bad\\xff\\xfe/f\\xff.txt'", "$'a\\x00b'", "~nobodyhere/x", ".", "..", "/dev/null", "\n", "  ",
    "file:///x%00y", "file://%zz", "-", "*", "[", f"{DEEP}/leaf.txt", DEEP, f"{DEEP}/none.txt", "/proc/1/root",
]  # fmt: skip


def calls(name):
    return [
        (Read(), {"file_path": name}),
        (Edit(), {"file_path": name, "old_string": "x", "new_string": "y"}),
        (List(), {"path": name}),
        (Glob(), {"pattern": "*", "path": name}),
        (Grep(), {"pattern": "x", "path": name}),
        (Grep(), {"pattern": "x", "glob": name}),
        *([] if name.startswith("/") or len(name) > 4000 else [(Write(), {"file_path": name, "content": "new\n"})]),
    ]


@pytest.fixture
def hostile(root):
    (root / "file").write_text("x\n")
    (root / "dir").mkdir()
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(root, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/sock")
        os.symlink("loop2", root / "loop1")
        os.symlink("loop1", root / "loop2")
        os.symlink("nowhere", root / "dangling")
        bad = os.fsencode(root) + b"/bad\xff\xfe"
        os.mkdir(bad)
        with open(bad + b"/f\xff.txt", "w") as file:
            file.write("x\n")
        for _ in range(LEVELS):
            os.mkdir("d" * 200, dir_fd=here)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        leaf = os.open("leaf.txt", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.write(leaf, b"deep x\n")
        os.close(leaf)
        os.close(here)
        yield root


async def answer(call, workspace, tool, arguments):
    """The answer, or what a ToolError says; the effect is foreseen first, as dispatch does."""
    try:
        effect = tool.effect(json_freeze(arguments), workspace)
        if effect.check:
            effect.check()
        return (await call(tool, **arguments)).content[0].text
    except ToolError as error:
        text = str(error)
        text.encode()
        assert "Errno" not in text
        assert "Traceback" not in text
        assert len(text) < 6_000
        return f"refused: {text}"


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:40])
async def test_hostile_path_is_answered_in_words(call, workspace, hostile, name) -> None:
    for tool, arguments in calls(name):
        assert await answer(call, workspace, tool, arguments)


async def test_overlong_path_is_read_and_edited(call, workspace, hostile) -> None:
    assert await answer(call, workspace, Read(), {"file_path": f"{DEEP}/leaf.txt"}) == "1\tdeep x"
    edit = {"file_path": f"{DEEP}/leaf.txt", "old_string": "deep", "new_string": "deeper"}
    assert (await answer(call, workspace, Edit(), edit)).startswith("Edited ")
    assert await answer(call, workspace, Read(), {"file_path": f"{DEEP}/leaf.txt"}) == "1\tdeeper x"


NAME = st.text(st.sampled_from("a./~$'\\\0\n\ud800\udcff\u0301é*[]{}-: \u200b"), max_size=12)


@settings(max_examples=deep(15, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NAME)
async def test_any_name_is_answered_in_words(call, workspace, root, name) -> None:
    if "~" in name or name.startswith("/") or ".." in name:
        name = f"x{name.replace('..', '')}"
    for tool, arguments in calls(name):
        assert await answer(call, workspace, tool, arguments)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(24, "Too many open files", "/a/b"),
            "/a/b: Too many open files. Raise the limit of open files, as with ulimit -n 1024.",
        ),
        (OSError(28, "No space left on device"), "No space left on device."),
        (FileNotFoundError(2, "No such file or directory", b"/a\xff"), "$'/a\\xff': No such file or directory."),
        (OSError(18, "Invalid cross-device link", "a", None, "b"), "a: b: Invalid cross-device link."),
        (OSError("odd"), "OSError: odd"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_system_errors_name_the_file(error, said) -> None:
    assert failure(error) == said


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("**/*.txt", "."), ("*.txt", DEEP), ("**/leaf.*", "d" * 200), (f"{DEEP}/*", "."), (f"{DEEP}/leaf.txt", ".")],
    ids=["all", "from there", "below", "pattern", "name"],
)
async def test_overlong_path_is_found(call, workspace, hostile, pattern, path) -> None:
    (hostile / "plain.txt").write_text("deep x\n")
    found = await answer(call, workspace, Glob(), {"pattern": pattern, "path": path})
    assert f"{DEEP}/leaf.txt" in found
    searched = await answer(call, workspace, Grep(), {"pattern": "deep", "path": path})
    assert f"{DEEP}/leaf.txt:1:deep x" in searched
    assert "could not be read" not in found + searched


@later
async def test_many_levels_are_searched(call, workspace, root) -> None:
    """Each directory is opened by a few steps, and not by one for each of those above it."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(2_500):
        os.mkdir("e", dir_fd=here)
        below = os.open("e", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("leaf.txt", os.O_CREAT, dir_fd=here))
    os.close(here)
    assert (await answer(call, workspace, Glob(), {"pattern": "**/*.txt"})).endswith("/e/leaf.txt")


async def test_unreadable_directory_is_said(call, workspace, root, monkeypatch) -> None:
    (root / "plain.txt").write_text("deep x\n")
    (root / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if os.fspath(path).endswith("/closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("sagent.tools.listing._ripgrep", no_ripgrep)
    monkeypatch.setattr(os, "scandir", scandir)
    for tool, arguments in ((Glob(), {"pattern": "**/*.txt"}), (Grep(), {"pattern": "deep"})):
        said = await answer(call, workspace, tool, arguments)
        assert "plain.txt" in said
        assert "because they could not be read: closed/" in said


async def no_ripgrep(arguments, root, seconds):
    return None


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\u202eb", "bad\udcff"])
async def test_changed_name_is_one_line(call, workspace, root, name) -> None:
    said = [
        await answer(call, workspace, Write(), {"file_path": name, "content": "one\n"}),
        await answer(call, workspace, Write(), {"file_path": name, "content": "one\n"}),
        await answer(call, workspace, Edit(), {"file_path": name, "old_string": "one", "new_string": "two"}),
    ]
    for text in said:
        assert "$'" in text.splitlines()[0]
        assert name not in text


def test_overlong_glob_is_refused_at_once() -> None:
    with pytest.raises(ToolError, match="more than 10,000: use a shorter one"):
        glob_regex("x" * 200_000)
    assert re.fullmatch(glob_regex("x" * 9_000 + "{a,b}"), "x" * 9_000 + "b")
