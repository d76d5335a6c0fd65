"""Profiles, needs, the guard, and the text that macOS gets."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.sandbox.guard import Guard, can_guard
from sagent.sandbox.profile import Need, Profile, is_below
from sagent.sandbox.seatbelt import profile_text, wrap

PATHS = st.lists(st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/c", "/c/d"]), max_size=4).map(tuple)
PROFILES = st.builds(Profile, PATHS, PATHS, PATHS, PATHS, st.lists(st.sampled_from(["x.org", "y.org"])).map(tuple))
PLACES = st.sampled_from(["/a/x", "/a/b/x", "/a/b/c/x", "/ab/x", "/c/x", "/c/d/x", "/x"])


@given(PROFILES, PROFILES, PLACES)
def test_what_two_profiles_allow_together_each_allows(one: Profile, two: Profile, path: str) -> None:
    both = one.within(two)
    assert both.can_write(path) == (one.can_write(path) and two.can_write(path))
    assert both.can_read(path) == (one.can_read(path) and two.can_read(path))
    assert set(both.domains) == set(one.domains) & set(two.domains)


@given(PROFILES, PLACES, PLACES)
def test_a_need_that_is_granted_widens_by_just_that(profile: Profile, path: str, other: str) -> None:
    written = profile.widened([Need("write", path)])
    assert written.can_write(path)
    assert written.can_read(path)
    read = profile.widened([Need("read", path)])
    assert read.can_read(path)
    if not is_below(other, [path]):
        for after in (written, read):
            assert after.can_write(other) == profile.can_write(other)
            assert after.can_read(other) == profile.can_read(other)


@pytest.mark.parametrize(
    "text", ["network:pypi.org", "network:*.example.org:8443", "network:[::1]:80", "write:/opt/x", "read:~/.aws", "all"]
)
def test_needs_are_read_as_they_are_written(text: str) -> None:
    assert str(Need.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "net:x", "network:", "network:a b", "network:http://x", "network:x/y", "all:x", "write:", "write:/", "x"],
)
def test_what_is_no_need_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(ValueError, match="network:HOST"):
        Need.parse(text)


def test_protected_paths_are_put_back_and_what_was_made_is_kept(tmp_path: Path) -> None:
    tree, aside = tmp_path / "tree", tmp_path / "aside"
    (tree / "hooks").mkdir(parents=True)
    (tree / "hooks/a").write_text("a")
    (tree / "config").write_text("old")
    (tree / "link").symlink_to("config")
    names = ["hooks", "config", "link", "missing", "none/missing"]
    guard = Guard([str(tree / name) for name in names], aside, mounted=False)
    assert guard.put_back() == []
    (tree / "hooks/b").write_text("planted")
    (tree / "config").write_text("planted")
    (tree / "link").unlink()
    (tree / "link").write_text("planted")
    (tree / "missing").mkdir()
    assert guard.put_back() == [str(tree / name) for name in names[:4]]
    assert sorted(os.listdir(tree / "hooks")) == ["a"]
    assert (tree / "config").read_text() == "old"
    assert (tree / "link").is_symlink()
    assert not (tree / "missing").exists()
    assert sum(1 for file in aside.rglob("*") if file.is_file() and file.read_text() == "planted") == 3
    guard.close()


@pytest.mark.parametrize("mounted", [True, False])
def test_what_is_put_back_is_put_nowhere_else(tmp_path: Path, *, mounted: bool) -> None:
    other, own = tmp_path / "other/.git", tmp_path / "tree/.git"
    (other / "hooks").mkdir(parents=True)
    (other / "config").write_text("other")
    own.mkdir(parents=True)
    (own / "hooks").symlink_to(tmp_path / "tree/evil")
    guard = Guard([f"{own}/hooks", f"{own}/config"], tmp_path / "aside", mounted=mounted)
    own.rename(tmp_path / "tree/renamed")
    own.symlink_to(other)
    assert guard.put_back()
    assert (other / "hooks").is_dir()
    assert not (other / "hooks").is_symlink()
    assert (other / "config").read_text() == "other"
    assert not own.exists()


def test_a_link_on_the_way_to_what_is_protected_is_put_back(tmp_path: Path) -> None:
    for name in ("real", "evil"):
        (tmp_path / name / "hooks").mkdir(parents=True)
    (tmp_path / ".git").symlink_to("real")
    guard = Guard([f"{tmp_path}/.git/hooks"], tmp_path / "aside", mounted=True)
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").symlink_to("evil")
    assert guard.put_back() == [f"{tmp_path}/.git"]
    assert os.readlink(tmp_path / ".git") == "real"


def test_what_cannot_be_copied_does_not_stay_where_it_runs(tmp_path: Path) -> None:
    guard = Guard([f"{tmp_path}/.vscode"], tmp_path / "aside", mounted=True)
    (tmp_path / ".vscode").mkdir(0o000)
    os.mkfifo(tmp_path / ".vscode/pipe") if os.geteuid() == 0 else None
    assert guard.put_back() == [f"{tmp_path}/.vscode"]
    assert not (tmp_path / ".vscode").exists()
    os.mkfifo(tmp_path / "pipe")
    assert not can_guard(str(tmp_path / "pipe"))


def test_what_mounts_hold_is_left_to_them_and_what_is_large_is_not_guarded(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("old")
    (tmp_path / "large").write_bytes(bytes(5 << 20))
    guard = Guard([str(tmp_path / "config")], tmp_path / "aside", mounted=True)
    (tmp_path / "config").write_text("new")
    assert guard.put_back() == []
    assert can_guard(str(tmp_path / "config"))
    assert not can_guard(str(tmp_path / "large"))


def test_the_profile_of_macos() -> None:
    profile = Profile(("/w",), ("/w/.git/hooks",), ('/h/.s"sh',), ("/h/.ssh/known",), ("pypi.org",))
    text = profile_text(profile, "/private/tmp/own", 3128)
    assert text.startswith("(version 1)\n")
    assert text.splitlines()[-6:] == [
        '(allow network-outbound (remote ip "localhost:3128"))',
        '(allow file-write* (subpath "/private/tmp/own"))',
        '(allow file-write* (subpath "/w"))',
        '(deny file-write* (subpath "/w/.git/hooks"))',
        '(deny file-read* file-write* (subpath "/h/.s\\"sh"))',
        '(allow file-read* (subpath "/h/.ssh/known"))',
    ]
    assert text.count("(") == text.count(")")
    assert "(deny network*)" in text
    assert "localhost" not in profile_text(profile, "/own")
    assert wrap(["ls", "-l"], profile, "/own")[-2:] == ["ls", "-l"]
