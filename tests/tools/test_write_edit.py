"""Writing and editing: exact, atomic, and with everything nobody asked to change as it was."""

import itertools
import os
import resource
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.errors import ToolError
from sagent.lib.encoding import Text, decode
from sagent.lib.json import json_freeze_object
from sagent.session.blobs import BlobDirectory
from sagent.tool import RunContext, conflict
from sagent.tools import Edit, Glob, Grep, List, Read, Write
from sagent.tools.change import unified_diff
from sagent.tools.replacement import Replacement, replace
from sagent.tools.textfile import write_atomic
from tests.depth import deep


def text_of(output):
    return "".join(getattr(part, "text", "") for part in output.content)


async def test_new_file_is_made_with_directories(call, root) -> None:
    output = await call(Write(), file_path="a/b/c.txt", content="one\ntwo\n")
    assert (root / "a/b/c.txt").read_bytes() == b"one\ntwo\n"
    assert "Created a/b/c.txt (2 lines)" in text_of(output)
    assert "+one" in output.diff
    assert stat.S_IMODE((root / "a/b/c.txt").stat().st_mode) == 0o666 & ~_umask()


async def test_unchanged_write_is_said(call, root) -> None:
    (root / "f.txt").write_text("same\n")
    await call(Read(), file_path="f.txt")
    assert "nothing was changed" in text_of(await call(Write(), file_path="f.txt", content="same\n"))
    assert "nothing was changed" not in text_of(await call(Write(), file_path="f.txt", content="other\n"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
@pytest.mark.parametrize(
    "change", [(Write(), {"content": "mine\n"}), (Edit(), {"old_string": "theirs", "new_string": "mine"})]
)
async def test_read_only_file_is_not_replaced(call, root, change, mode: int) -> None:
    """A rename in its place needs no right to write the file itself."""
    tool, arguments = change
    file = root / "f.txt"
    file.write_text("theirs\n")
    file.chmod(mode)
    await call(Read(), file_path="f.txt")
    with pytest.raises(ToolError, match=f"read-only .*{mode:04o}.*chmod"):
        await call(tool, file_path="f.txt", **arguments)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("theirs\n", mode)
    file.chmod(mode | 0o200)
    await call(tool, file_path="f.txt", **arguments)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("mine\n", mode | 0o200)


def test_read_only_file_survives_write_paths(root) -> None:
    file = root / "f.txt"
    file.write_text("theirs\n")
    file.chmod(0o444)
    with pytest.raises(PermissionError):
        write_atomic(file, b"mine\n")
    assert file.read_text() == "theirs\n"


async def test_unread_or_changed_file_is_kept(call, root) -> None:
    file = root / "f.txt"
    file.write_text("theirs\n")
    with pytest.raises(ToolError, match="was not read"):
        await call(Write(), file_path="f.txt", content="mine\n")
    with pytest.raises(ToolError, match="was not read"):
        await call(Edit(), file_path="f.txt", old_string="theirs", new_string="mine")
    await call(Read(), file_path="f.txt")
    file.write_text("changed by someone\n")
    with pytest.raises(ToolError, match="has changed since"):
        await call(Write(), file_path="f.txt", content="mine\n")
    with pytest.raises(ToolError, match="has changed since"):
        await call(Edit(), file_path="f.txt", old_string="changed", new_string="mine")
    assert file.read_text() == "changed by someone\n"
    await call(Read(), file_path="f.txt")
    await call(Write(), file_path="f.txt", content="mine\n")
    await call(Write(), file_path="f.txt", content="mine again\n")
    await call(Edit(), file_path="f.txt", old_string="again", new_string="still")
    assert file.read_text() == "mine still\n"


async def test_mode_and_symlink_stay(call, root) -> None:
    target = root / "real.sh"
    target.write_text("#!/bin/sh\n")
    target.chmod(0o750)
    (root / "link.sh").symlink_to("real.sh")
    await call(Read(), file_path="link.sh")
    await call(Write(), file_path="link.sh", content="#!/bin/sh\necho hi\n")
    await call(Edit(), file_path="link.sh", old_string="hi", new_string="ho")
    assert (root / "link.sh").is_symlink()
    assert target.read_text() == "#!/bin/sh\necho ho\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
    assert sorted(path.name for path in root.iterdir()) == [".git", "link.sh", "real.sh"]


async def test_failed_write_keeps_the_old_file(call, root) -> None:
    file = root / "f.txt"
    file.write_text("old\n")
    await call(Read(), file_path="f.txt")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ToolError, match="File too large"):
            await call(Write(), file_path="f.txt", content="new\n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_text() == "old\n"
    assert sorted(path.name for path in root.iterdir()) == [".git", "f.txt"]


async def test_only_regular_files_are_written(call, root) -> None:
    (root / "d").mkdir()
    (root / "f").write_text("x")
    os.mkfifo(root / "pipe")
    for path, said in (("d", "is a directory"), ("pipe", "is a FIFO"), ("f/below", "Not a directory")):
        with pytest.raises(ToolError, match=said):
            await call(Write(), file_path=path, content="x")
        with pytest.raises(ToolError, match=said):
            await call(Edit(), file_path=path, old_string="x", new_string="y")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\ny\n"),
        ("a\r\n".encode("utf-16"), "x\r\ny\r\n".encode("utf-16")),
        (b"\xfe\xff" + "a\n".encode("utf-16-be"), b"\xfe\xff" + "x\ny\n".encode("utf-16-be")),
        ("caf\xe9\n".encode("latin-1"), b"x\ny\n"),
        (b"a\r\nb\n", b"x\ny\n"),
    ],
)
async def test_write_keeps_encoding_and_line_ends(call, root, before, after) -> None:
    (root / "f").write_bytes(before)
    await call(Read(), file_path="f")
    await call(Write(), file_path="f", content="x\ny\n")
    assert (root / "f").read_bytes() == after


async def test_write_turns_unencodable_text_to_utf8(call, root) -> None:
    (root / "f").write_bytes("café\n".encode("cp1252"))
    await call(Read(), file_path="f")
    output = await call(Write(), file_path="f", content="→ é\n")
    assert (root / "f").read_text("utf-8") == "→ é\n"
    assert "cp1252 and is UTF-8 now" in text_of(output)


async def test_unencodable_edit_changes_nothing(call, root) -> None:
    (root / "f").write_bytes("café\n".encode("cp1252"))
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match="cannot hold '→'"):
        await call(Edit(), file_path="f", old_string="caf", new_string="→")
    await call(Edit(), file_path="f", old_string="é", new_string="è")
    assert (root / "f").read_bytes() == "cafè\n".encode("cp1252")


async def test_edits_are_applied_all_or_none(call, root) -> None:
    (root / "f").write_text("one\ntwo\nthree\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match=r"Edit 2 of 2.*not found.*f was not changed"):
        await call(
            Edit(),
            file_path="f",
            edits=[{"old_string": "one", "new_string": "1"}, {"old_string": "none", "new_string": "x"}],
        )
    assert (root / "f").read_text() == "one\ntwo\nthree\n"
    output = await call(
        Edit(),
        file_path="f",
        edits=[
            {"old_string": "one", "new_string": "two"},
            {"old_string": "two", "new_string": "2", "replace_all": True},
        ],
    )
    assert (root / "f").read_text() == "2\n2\nthree\n"
    assert "3 replacements" in text_of(output)
    assert "1\t2\n2\t2\n3\tthree" in text_of(output)
    assert "-one\n" in output.diff


async def test_ambiguous_edit_names_the_lines(call, root) -> None:
    (root / "f").write_text("x = 1\ny = 2\nx = 1\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match=r"occurs 2 times \(at lines 1, 3\)"):
        await call(Edit(), file_path="f", old_string="x = 1", new_string="x = 3")
    await call(Edit(), file_path="f", old_string="x = 1", new_string="x = 3", replace_all=True)
    assert (root / "f").read_text() == "x = 3\ny = 2\nx = 3\n"


async def test_overlapping_matches_are_ambiguous(call, root) -> None:
    (root / "f").write_text("a\nb\na\nb\na\n")
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match="occurs 2 times"):
        await call(Edit(), file_path="f", old_string="a\nb\na", new_string="c")


@pytest.mark.parametrize(
    ("text", "old", "hint"),
    [
        (2 * "def f():\n    return 1\n", "def f():\n\treturn 1", "indentation"),
        (2 * "def f():   \n    return 1\n", "def f():\n    return 1", "white space at line ends"),
        (2 * "say('x')\n", "say(‘x’)", "quotes"),
        ("Hello\n", "hello", "letter case"),
        ("total = compute(alpha, beta)\n", "total = compute(alpha, gamma)", "nearest lines are:\n1\ttotal"),
        (2 * "a\nb\n", "1\ta\n2\tb", "line numbers"),
        ("a\nb\n", "completely different", "nor anything like it"),
        ('x = "a"\n', 'x = \\"a\\"', "escaped"),
    ],
)
async def test_missing_text_is_explained(call, root, text, old, hint) -> None:
    (root / "f").write_text(text)
    await call(Read(), file_path="f")
    with pytest.raises(ToolError) as caught:
        await call(Edit(), file_path="f", old_string=old, new_string="z")
    assert hint in str(caught.value)
    assert (root / "f").read_text() == text


async def test_odd_arguments_are_told(call, root) -> None:
    (root / "f").write_text("a\n")
    await call(Read(), file_path="f")
    edit = Edit()
    for arguments, said in (
        ({"old_string": "a", "new_string": "a"}, "are the same"),
        ({"old_string": "", "new_string": "b"}, "exists"),
        ({"old_string": "a"}, "Give both"),
        ({}, "Give either"),
        ({"old_string": "a", "new_string": "b", "edits": [{"old_string": "a", "new_string": "b"}]}, "Give either"),
    ):
        with pytest.raises(ToolError, match=said):
            await call(edit, file_path="f", **arguments)
    await call(edit, file_path="f", old_string="", new_string="", edits=[{"old_string": "a", "new_string": "b"}])
    await call(edit, file_path="f", old_string="b", new_string="a", edits=[])
    with pytest.raises(ToolError, match="Did you mean f"):
        await call(edit, file_path="F", old_string="a", new_string="b")
    await call(edit, file_path="new.txt", old_string="", new_string="fresh\n")
    assert (root / "new.txt").read_text() == "fresh\n"


async def test_quoted_lf_matches_crlf(call, root) -> None:
    (root / "f").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await call(Read(), file_path="f")
    await call(Edit(), file_path="f", old_string="one\ntwo\n", new_string="1\n1.5\n2\n")
    assert (root / "f").read_bytes() == b"1\r\n1.5\r\n2\r\nthree\r\n"
    await call(Edit(), file_path="f", old_string="\n1.5", new_string="")
    assert (root / "f").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_edit_of_cr_lines_is_shown_by_lines(call, root) -> None:
    (root / "f").write_bytes(b"one\rtwo\rthree\r")
    await call(Read(), file_path="f")
    output = await call(Edit(), file_path="f", old_string="one\ntwo", new_string="1\n2")
    assert (root / "f").read_bytes() == b"1\r2\rthree\r"
    assert output.content[0].text.endswith("1\t1\n2\t2\n3\tthree")
    assert "-two\n+1\n+2\n three" in output.diff


CODECS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
LINE = st.text("abcé \t", max_size=6).filter(lambda line: "éé" not in line)  # no language writes them


@settings(max_examples=deep(15, 60), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(
    before=st.lists(LINE, max_size=5),
    after=st.lists(LINE, max_size=5),
    end=st.sampled_from(["\n", "\r\n"]),
    codec=CODECS,
)
async def test_edit_touches_nothing_else(call, root, workspace, before, after, end, codec) -> None:
    old, new = "MARK\nmark", "Ça\nalors\n!"
    pieces = ["".join(line + end for line in before), "".join(line + end for line in after)]
    pieces[0] = "Ça va déjà, garçon" + end + pieces[0]  # else nothing tells cp1252 from UTF-8 and from Greek
    text = pieces[0] + old.replace("\n", end) + pieces[1]
    file = root / "f.txt"
    file.write_bytes(text.encode(codec))
    await call(Read(), file_path="f.txt")
    await call(Edit(), file_path="f.txt", old_string=old, new_string=new)
    assert file.read_bytes() == (pieces[0] + new.replace("\n", end) + pieces[1]).encode(codec)


@settings(max_examples=deep(32, 80), deadline=None)
@given(st.binary(max_size=60))
def test_decoded_bytes_encode_the_same(data: bytes) -> None:
    decoded = decode(data)
    if isinstance(decoded, Text):
        assert decoded.encoding.encode(decoded.text) == data


@settings(max_examples=deep(15, 60), deadline=None)
@given(st.text("ab\r\n", max_size=20), st.text("ab\n", min_size=1, max_size=4))
def test_replace_all_leaves_none(text: str, old: str) -> None:
    try:
        new, count = replace(text, Replacement(old, "Z", everywhere=True))
    except ToolError:
        assert old not in text
        return
    assert new.count("Z") == count > 0
    assert len(new) <= len(text) - count * (len(old) - 1)
    for piece in new.split("Z"):
        assert piece in text


async def test_directory_made_link_leads_nowhere(workspace, root, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "x").mkdir()
    write: dict[str, object] = {"file_path": "x/f", "content": "new"}
    edit: dict[str, object] = {"file_path": "x/f", "old_string": "", "new_string": "new"}
    calls = [(tool, json_freeze_object(said)) for tool, said in ((Write(), write), (Edit(), edit))]
    judged = [tool.effect(asked, workspace) for tool, asked in calls]
    (root / "x").rmdir()
    (root / "x").symlink_to(outside)
    for (tool, asked), effect in zip(calls, judged, strict=True):
        run = RunContext("root", "call-1", workspace, BlobDirectory(tmp_path / "b"), lambda text: None, effect=effect)
        with pytest.raises(ToolError, match="elsewhere"):
            await tool(asked, run)
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    ("reads", "written", "ordered"),
    [
        (Grep().effect, "new.txt", True),
        (Glob().effect, "sub/deep/new.txt", True),
        (List().effect, "new.txt", True),
        (Grep().effect, "../elsewhere.txt", False),
    ],
)
def test_search_of_tree_and_write_in_it_have_order(workspace, reads, written: str, ordered: bool) -> None:
    search = reads(json_freeze_object({"pattern": "x", "path": "."}), workspace)
    write = Write().effect(json_freeze_object({"file_path": written, "content": ""}), workspace)
    assert conflict(search, write) == conflict(write, search) == ordered
    assert not conflict(search, search)


def test_calls_in_link_circle_have_order(workspace, root) -> None:
    (root / "one").symlink_to("other")
    (root / "other").symlink_to("one")
    one, other = (
        Write().effect(json_freeze_object({"file_path": name, "content": ""}), workspace) for name in ("one", "other")
    )
    assert conflict(one, one)
    assert not conflict(one, other)


def test_distant_changes_are_shown_apart() -> None:
    before = [line for number in range(1_000) for line in ("  {", f'    "n": {number}', "  },")]
    after = list(before)
    after[10], after[2_998] = "first", "last"
    rows = unified_diff("\n".join(before), "\n".join(after), "f").split("\n")
    assert [row for row in rows if row[:1] in "+-"][2:-1] == [f"-{before[10]}", "+first", f"-{before[2_998]}", "+last"]


LINES = st.lists(st.sampled_from(["", "a", "b", "-", "+", "@@ -1 +1 @@"]), max_size=14)


@given(LINES, LINES, LINES, LINES)
def test_diff_is_exact_with_context(head, one, two, tail) -> None:
    before, after = ["x", *head, *one, *tail], ["x", *head, *two, *tail]
    rows = unified_diff("\n".join([*before, ""]), "\n".join([*after, ""]), "f", max_lines=None).split("\n")[2:-1]
    made, at = list[str](), 0
    hunks = [place for place, row in enumerate(rows) if row.startswith("@@")] + [len(rows)]
    for start, stop in itertools.pairwise(hunks):
        first, size = map(int, rows[start].split(" ")[1][1:].split(","))
        body = rows[start + 1 : stop]
        first -= 1 if size else 0
        made += before[at:first]
        at = first + size
        assert [row[1:] for row in body if row[0] != "+"] == before[first:at]
        made += [row[1:] for row in body if row[0] != "-"]
        changed = [place for place, row in enumerate(body) if row[0] != " "]
        assert changed[0] == 3 or first == 0
        assert len(body) - 1 - changed[-1] == 3 or at == len(before)
    assert made + before[at:] == after


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("gbk", "# 中文注释，测试\nx = 1\n"),
        ("koi8-r", "# настройки\nx = 1\n"),
        ("shift_jis", "# 日本語のテスト\nx = 1\n"),
    ],
)
async def test_edit_keeps_old_encoding_and_says_so(call, root, codec, text) -> None:
    (root / "f").write_bytes(text.encode(codec))
    await call(Read(), file_path="f")
    word = text.split()[1]
    said = text_of(await call(Edit(), file_path="f", old_string="x = 1", new_string=f"x = 1  # {word}"))
    assert (root / "f").read_bytes() == f"{text[:-1]}  # {word}\n".encode(codec)
    assert "guessed from its bytes" in said


async def test_edit_unencodable_in_old_one_fails(call, root) -> None:
    data = "# настройки сервера\nx = 1\n".encode("cp1251")
    (root / "f").write_bytes(data)
    await call(Read(), file_path="f")
    with pytest.raises(ToolError, match=r"probably cp1251 .*cannot hold '→' \(U\+2192\)"):
        await call(Edit(), file_path="f", old_string="x = 1", new_string="x → 1")
    assert (root / "f").read_bytes() == data


async def test_edit_keeps_unknown_bytes(call, root) -> None:
    data = "# 日本語のテスト\nx = 1\n".encode("shift_jis") + b"# \x87\x90 \xff\xfd\n"
    (root / "f").write_bytes(data)
    await call(Read(), file_path="f")
    await call(Edit(), file_path="f", old_string="x = 1", new_string="x = 2")
    assert (root / "f").read_bytes() == data.replace(b"x = 1", b"x = 2")


@pytest.mark.parametrize("tool", ["Write", "Edit", "edits"])
async def test_broken_hard_link_is_said(call, root, tool) -> None:
    (root / "f").write_text("one\n")
    os.link(root / "f", root / "g")
    await call(Read(), file_path="f")
    edit = {"old_string": "one", "new_string": "two"}
    arguments = {"Write": {"content": "two\n"}, "Edit": edit, "edits": {"edits": [edit]}}[tool]
    said = text_of(await call(Write() if tool == "Write" else Edit(), file_path="f", **arguments))
    assert all(part in said for part in ("hard link", "has another name"))
    assert (root / "g").read_text() == "one\n"
    assert "hard link" not in text_of(await call(Write(), file_path="f", content="three\n"))
