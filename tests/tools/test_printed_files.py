"""A file that a command has printed whole counts as read; one of which a part was printed does not."""

from pathlib import Path

import pytest

from sagent.errors import ToolError
from sagent.tools import Bash, Edit, Write

TEXT = "one\ntwo\n"


@pytest.fixture
def file(root: Path) -> Path:
    (root / "sub").mkdir()
    path = root / "sub" / "a b.txt"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    "command",
    [
        "cat 'sub/a b.txt'",
        'echo before; cat "sub/a b.txt"; echo after',
        "cd sub && cat a\\ b.txt",
        "head -n 50 sub/a\\ b.txt | cat",
        "sed -n 1,100p <'sub/a b.txt'",
        "cat 'sub/a b.txt' missing",
    ],
)
async def test_printed_file_may_be_written(call, file: Path, command: str) -> None:
    await call(Bash(), command=command)
    await call(Write(), file_path=str(file), content="three\n")
    assert file.read_text() == "three\n"
    await call(Edit(), file_path=str(file), old_string="three", new_string="four")
    assert file.read_text() == "four\n"


@pytest.mark.parametrize(
    "command",
    [
        "ls sub",
        "head -n 1 'sub/a b.txt'",
        "wc 'sub/a b.txt'",
        "cat -n 'sub/a b.txt'",
        "sed 's/^/x/' 'sub/a b.txt'",
        "cat 'sub/a b.txt' >copy",
        "echo one two # sub/a b.txt",
        "cat sub/*.txt",
    ],
)
async def test_partly_printed_file_may_not(call, file: Path, command: str) -> None:
    await call(Bash(), command=command)
    with pytest.raises(ToolError, match="was not read"):
        await call(Write(), file_path=str(file), content="three\n")
    assert file.read_text() == TEXT


async def test_file_changed_after_printing_is_safe(call, file: Path) -> None:
    await call(Bash(), command="cat 'sub/a b.txt'; echo more >>'sub/a b.txt'")
    with pytest.raises(ToolError, match="was not read"):
        await call(Write(), file_path=str(file), content="three\n")
    await call(Bash(), command="cat 'sub/a b.txt'")
    file.write_text("theirs\n")
    with pytest.raises(ToolError, match="has changed"):
        await call(Write(), file_path=str(file), content="three\n")


async def test_printed_line_ends_and_non_text(call, root: Path) -> None:
    (root / "dos.txt").write_bytes(b"one\r\ntwo")
    (root / "latin.txt").write_bytes(b"gr\xfc\xdfe\n")
    (root / "empty.txt").write_bytes(b"")
    await call(Bash(), command="cat dos.txt; echo; cat latin.txt empty.txt /dev/null")
    await call(Write(), file_path="dos.txt", content="three\n")
    assert (root / "dos.txt").read_bytes() == b"three\r\n"
    for name in ("latin.txt", "empty.txt"):
        with pytest.raises(ToolError, match="was not read"):
            await call(Write(), file_path=name, content="three\n")
