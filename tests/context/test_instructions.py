"""AGENTS.md: what is found, in which order, and what is left out with a notice."""

import os
from pathlib import Path

import pytest

from sagent.context.instructions import MAX_FILE_BYTES, MAX_TOTAL_BYTES, gather, repository_root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "tree"
    (root / ".git").mkdir(parents=True)
    (root / "a" / "b").mkdir(parents=True)
    (tmp_path / "user").mkdir()
    return root


@pytest.fixture
def user(tree: Path) -> Path:
    return tree.parent / "user"


def test_nothing_there_is_nothing_said(tree, user):
    found = gather(tree / "a" / "b", user / "missing")
    assert (found.text, found.files, found.notices) == ("", (), ())


def test_general_before_particular_by_name(tree, user):
    (tree.parent / "AGENTS.md").write_text("outside the repository")
    (user / "AGENTS.md").write_text("mine")
    (tree / "AGENTS.md").write_text("of the root")
    (tree / "CLAUDE.md").write_text("not read beside AGENTS.md")
    (tree / "a" / "CLAUDE.md").write_text("of a\r\nsecond line")
    extra = tree.parent / "extra"
    extra.mkdir()
    (extra / "AGENTS.md").write_text("of the further directory")
    found = gather(tree / "a" / "b", user, [extra])
    expected = [user / "AGENTS.md", extra / "AGENTS.md", tree / "AGENTS.md", tree / "a" / "CLAUDE.md"]
    assert list(found.files) == expected
    texts = ["mine", "of the further directory", "of the root", "of a\nsecond line"]
    assert found.text == "\n\n".join(
        f"# Instructions from {path}\n\n{text}" for path, text in zip(expected, texts, strict=True)
    )
    assert found.notices == (
        f"{tree / 'CLAUDE.md'} is not used: {tree / 'AGENTS.md'} counts. Write @CLAUDE.md there to add it.",
    )


def test_without_repository_directory_counts(tmp_path, user):
    place = tmp_path / "loose" / "deep"
    place.mkdir(parents=True)
    (place.parent / "AGENTS.md").write_text("above")
    (place / "AGENTS.md").write_text("here")
    if repository_root(place) is not None:
        pytest.skip("the temporary directory is inside a repository")
    assert gather(place, user).files == (place.resolve() / "AGENTS.md",)


def test_worktree_git_file_marks_a_root(tree):
    (tree / "a" / ".git").write_text("gitdir: elsewhere")
    assert repository_root(tree / "a" / "b") == tree / "a"


def test_includes_follow_their_file_once(tree, user):
    (tree / "docs").mkdir()
    (tree / "AGENTS.md").write_text("See @docs/style.md, (@docs/more.md) and @docs/style.md.\nAsk @alice or a@b.md.")
    (tree / "docs" / "style.md").write_text("style; back to @../AGENTS.md and @more.md")
    (tree / "docs" / "more.md").write_text("more")
    (tree / "docs" / "with space.md").write_text("spaced")
    (tree / "a" / "AGENTS.md").write_text("@../docs/with\\ space.md")
    found = gather(tree / "a", user)
    names = ["AGENTS.md", "docs/style.md", "docs/more.md", "a/AGENTS.md", "a/../docs/with space.md"]
    assert [str(path.relative_to(tree)) for path in found.files] == names
    assert found.notices == ()


def test_mentions_in_code_are_no_includes(tree, user):
    (tree / "x.md").write_text("must not be read")
    (tree / "AGENTS.md").write_text(
        "`@x.md` and ``a ` @x.md``\n```\n@x.md\n````\n~~~\n@x.md\n```\n@x.md\n~~~\n@dataclass @scope/package me@x.md"
    )
    found = gather(tree, user)
    assert len(found.files) == 1
    assert found.notices == ()


def test_unclosed_code_is_read_at_once(tree, user):
    (tree / "x.md").write_text("read")
    (tree / "AGENTS.md").write_text("@x.md " + "`" * 30_000)
    (tree / "CLAUDE.local.md").write_text("<!-- gone -->\n" + "<!--\n" * 6_000)
    found = gather(tree, user)
    assert len(found.files) == 3
    assert "gone" not in found.text
    assert found.text.count("<!--") == 6_000


def test_project_includes_no_outside_or_keys(tree, user):
    outside = tree.parent / "outside.md"
    outside.write_text("secret")
    (tree / ".env").write_text("KEY=secret")
    (tree / ".git" / "config").write_text("secret")
    (tree / "link.md").symlink_to(outside)
    (tree / "inner.md").write_text("inner")
    (tree / "good.md").symlink_to("inner.md")
    mentions = ["@../outside.md", f"@{outside}", "@link.md", "@~/x.md", "@./.env", "@./.git/config", "@good.md"]
    (tree / "AGENTS.md").write_text("\n".join(mentions))
    (tree / "a" / "AGENTS.md").symlink_to(outside)
    found = gather(tree / "a", user)
    assert "secret" not in found.text
    assert found.files == (tree / "AGENTS.md", tree / "good.md")
    assert len(found.notices) == 7
    assert all("is not used" in notice for notice in found.notices)


def test_persons_file_may_include_anything(tree, user, monkeypatch):
    monkeypatch.setenv("HOME", str(tree.parent))
    (tree.parent / "anywhere.md").write_text("anything")
    (user / "AGENTS.md").write_text("@~/anywhere.md @./gone.md")
    found = gather(tree, user)
    assert "anything" in found.text
    assert found.notices == (f"{user}/gone.md (included by {user}/AGENTS.md) is not used: No such file or directory.",)


def test_includes_nest_five_deep(tree, user):
    (tree / "AGENTS.md").write_text("@1.md")
    for number in range(1, 8):
        (tree / f"{number}.md").write_text(f"text {number}\n@{number + 1}.md\n@AGENTS.md")
    found = gather(tree, user)
    assert [path.name for path in found.files] == ["AGENTS.md", "1.md", "2.md", "3.md", "4.md", "5.md"]
    (notice,) = found.notices
    assert "6.md" in notice
    assert "5 deep" in notice


def test_irregular_text_file_is_told(tree, user):
    os.mkfifo(tree / "pipe.md")
    (tree / "binary.md").write_bytes(b"\x7fELF\0\0")
    (tree / "loop.md").symlink_to("loop.md")
    (tree / "AGENTS.md").write_text("@./pipe.md @binary.md @./loop.md @./a")
    found = gather(tree, user)
    assert found.files == (tree / "AGENTS.md",)
    assert sorted(Path(notice.split(" ")[0]).name for notice in found.notices) == [
        "a",
        "binary.md",
        "loop.md",
        "pipe.md",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_told_apart(encoding, tree, user):
    (tree / "AGENTS.md").write_bytes("Größe prüfen\nja".encode(encoding))
    found = gather(tree, user)
    assert found.text.endswith("\n\nGröße prüfen\nja")


def test_long_file_is_cut_at_a_line(tree, user):
    (tree / "AGENTS.md").write_text("é" * 50 + "\n" + ("ü" * 99 + "\n") * 1000)
    found = gather(tree, user)
    assert MAX_FILE_BYTES - 300 < len(found.text.encode()) < MAX_FILE_BYTES + 300
    kept, _, said = found.text.rpartition("\n\n")
    assert kept.endswith("ü" * 99)
    assert "rest of this file" in said
    assert str(tree / "AGENTS.md") in said
    assert "�" not in found.text
    assert f"{MAX_FILE_BYTES:,} bytes" in found.notices[0]


def test_own_and_nearest_stay_when_too_long(tree, user):
    text = "x" * 98 + "\n"
    for place in (user, tree, tree / "a", tree / "a" / "b"):
        (place / "AGENTS.md").write_text(f"BEGIN {place.name}\n" + text * 250)
    found = gather(tree / "a" / "b", user)
    assert len(found.text.encode()) <= MAX_TOTAL_BYTES + 10
    assert "BEGIN user" in found.text
    assert "BEGIN b" in found.text
    assert f"left out; read {tree}/a/AGENTS.md" in found.text
    assert found.files == (user / "AGENTS.md", tree / "a/AGENTS.md", tree / "a/b/AGENTS.md")
    assert [notice.split(":")[0] for notice in found.notices] == [f"{tree}/a/AGENTS.md", f"{tree}/AGENTS.md"]


def test_instructions_are_no_key_file(tree, user):
    (tree / ".env").write_text("KEY=secret")
    (tree / "AGENTS.md").symlink_to(".env")
    found = gather(tree, user)
    assert (found.text, found.notices) == ("", (f"{tree / 'AGENTS.md'} is not used: it may hold keys.",))
