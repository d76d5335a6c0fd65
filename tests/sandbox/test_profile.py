"""Profiles, needs, and the text that macOS gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.sandbox.profile import Need, Profile, is_below
from sagent.sandbox.seatbelt import profile_text, wrap

PATHS = st.lists(st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/c", "/c/d"]), max_size=4).map(tuple)
PROFILES = st.builds(Profile, PATHS, PATHS, PATHS, PATHS, st.lists(st.sampled_from(["x.org", "y.org"])).map(tuple))
PLACES = st.sampled_from(["/a/x", "/a/b/x", "/a/b/c/x", "/ab/x", "/c/x", "/c/d/x", "/x"])


@given(PROFILES, PROFILES, PLACES)
def test_joined_profile_allows_the_common(one: Profile, two: Profile, path: str) -> None:
    both = one.within(two)
    assert both.can_write(path) == (one.can_write(path) and two.can_write(path))
    assert both.can_read(path) == (one.can_read(path) and two.can_read(path))
    assert set(both.domains) == set(one.domains) & set(two.domains)


@given(PROFILES, PLACES, PLACES)
def test_granted_need_widens_by_just_that(profile: Profile, path: str, other: str) -> None:
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
def test_needs_are_read_as_written(text: str) -> None:
    assert str(Need.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "net:x", "network:", "network:a b", "network:http://x", "network:x/y", "all:x", "write:", "write:/", "x"],
)
def test_unknown_need_says_valid_ones(text: str) -> None:
    with pytest.raises(ValueError, match="network:HOST"):
        Need.parse(text)


def test_macos_profile() -> None:
    profile = Profile(("/w",), ("/w/.git/hooks",), ('/h/.s"sh',), ("/h/.ssh/known",), ("pypi.org",))
    text = profile_text(profile, "/private/tmp/own", 3128)
    assert text.startswith("(version 1)\n")
    assert text.splitlines()[-7:] == [
        '(allow network-outbound (remote ip "localhost:3128"))',
        '(allow file-write* (subpath "/private/tmp/own"))',
        '(allow file-write* (subpath "/w"))',
        '(deny file-write* (subpath "/w/.git/hooks"))',
        '(deny file-read* file-write* (subpath "/h/.s\\"sh"))',
        '(allow file-read* (subpath "/h/.ssh/known"))',
        "(deny file-write-setugid)",
    ]
    assert text.count("(") == text.count(")")
    assert "(deny network*)" in text
    assert "localhost" not in profile_text(profile, "/own")
    assert wrap(["ls", "-l"], profile, "/own")[-2:] == ["ls", "-l"]
