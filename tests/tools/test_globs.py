"""Patterns match what they matched when they were plain regular expressions, and none makes a match slow."""

import re
import subprocess
import sys
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import ToolError
from sagent.policy.rules import Rule
from sagent.tools.globs import glob_regex

PATHS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join)
GLOBS = st.lists(st.sampled_from(("a", "b", "/", "*", "?", "**/", "/**", "/**/", "[!a]")), max_size=9).map("".join)
MATCH = """
import re, sys
from sagent.policy.rules import Rule
from sagent.tools.globs import glob_regex
kind, pattern, path = sys.argv[1:]
if kind == "glob":
    print(re.fullmatch(glob_regex(pattern), path, re.DOTALL) is not None)
else:
    print(Rule("Read", pattern).matches_path(path, ["/r"], "/h", anywhere=True))
"""


def plain_glob(glob: str) -> str:
    out = ""
    for match in re.finditer(r"\*{2,}/|\*+|\[!a\]|.", glob):
        piece, start = match[0], match.start()
        is_name = start == 0 or glob[start - 1] == "/"
        if piece.endswith("/") and piece != "/":
            out += "(?:[^/]+/)*" if is_name else "[^/]*/"
        elif piece.startswith("*"):
            out += ".+" if is_name and len(piece) > 1 and match.end() == len(glob) else "[^/]*"
        else:
            out += {"?": "[^/]", "[!a]": "(?!/)[^a]"}.get(piece, piece)
    return out


def plain_rule(pattern: str) -> str:
    pattern = pattern.rstrip("/").removesuffix("/**") or "/**"
    out = ""
    for piece in map(str, re.findall(r"\*\*/|\*\*|\[!a\]|.", pattern)):
        inside = out and not out.endswith(("/", "/)?", ".*"))
        directories = ".*/" if inside else "(?:.*/)?"  # a**/b is not ab
        known = {"**/": directories, "**": ".*", "*": "[^/]*", "?": "[^/]", "[!a]": "(?!/)[^a]"}
        out += known.get(piece, piece)
    return f"{out}(?:/.*)?"


def found(regex: str, path: str) -> bool:
    return re.fullmatch(regex, path, re.DOTALL) is not None


@given(GLOBS, st.lists(PATHS, min_size=1, max_size=20))
def test_glob_equals_plain_glob(glob, paths):
    assert [found(glob_regex(glob), path) for path in paths] == [found(plain_glob(glob), path) for path in paths]


@given(
    st.lists(GLOBS.filter(lambda glob: not glob.endswith("**")), min_size=1, max_size=3),
    GLOBS,
    st.lists(PATHS, min_size=1, max_size=20),
)
def test_braces_mean_each_alternative(choices, after, paths):
    glob = "{" + ",".join(choices) + "}/" + after
    wanted = [any(found(glob_regex(f"{each}/{after}"), path) for each in choices) for path in paths]
    assert [found(glob_regex(glob), path) for path in paths] == wanted


@given(GLOBS, st.lists(PATHS, min_size=1, max_size=20))
def test_rule_equals_plain_rule(pattern, paths):
    rule = Rule("Read", f"/{pattern.lstrip('/')}")
    matches = partial(rule.matches_path, roots=["/r"], home="/h", anywhere=True)
    pattern = re.sub("/+", "/", rule.pattern)
    wanted = [found(plain_rule(pattern), f"/{path}") for path in paths]
    assert [matches(f"/{path}") for path in paths] == wanted


@pytest.mark.parametrize("kind", ["glob", "rule"])
@pytest.mark.parametrize(
    "pattern", ["*a" * 60 + "b", "**/a/" * 30 + "b", "*a/**/" * 25 + "b", "{*a,*}" * 8 + "b", "x**a**" * 30 + "b"]
)
def test_no_pattern_makes_a_match_slow(kind, pattern):
    path = "a" * 200 + "/a" * 200 + "xa" * 100
    child = [sys.executable, "-c", MATCH, kind, pattern if kind == "glob" else f"/{pattern}", f"/{path}"]
    done = subprocess.run(child, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_excessive_braces_are_refused():
    with pytest.raises(ToolError, match="1000 globs"):
        glob_regex("{a,b}" * 30)
    with pytest.raises(ToolError, match="1000 globs"):
        glob_regex("{" * 500 + "}" * 500)


@pytest.mark.parametrize("glob", ["[:--]", "[a&&b]", "[a||b]", "[a~~b]", "[[:a]", "[--0]", "[a-\\]x]"])
def test_classes_hold_no_character_sets(glob: str) -> None:
    """Python warns of what may come to mean sets; a test fails where it warns."""
    assert found(glob_regex(glob), glob)


@pytest.mark.parametrize("glob", ["{a, b}.py", "{ a ,b }.py", "{a.py, [b].py}", "{b.{py, c}, a.{ py}}"])
def test_braces_with_spaces_mean_each_text(glob: str) -> None:
    assert found(glob_regex(glob), "a.py") and found(glob_regex(glob), "b.py")
    assert not found(glob_regex(glob), "c.py")


@pytest.mark.parametrize(
    ("glob", "ok", "no"),
    [
        ("[--0]", "./0", ",1"),
        ("[a-c&&]", "ab&", "d-"),
        ("[!a-c-]", "d", "-a"),
        (r"[a\-c]", "a-c", "b_\\"),
        (r"[\]\!]", "]!", "\\"),
        ("[[:digit:]x-z]", "05y", ":ad"),
        ("[^[:alpha:]_]", "1-", "aZ_"),
        ("[]-a]", "]^a", "b"),
        ("[z-ab]", "b", "mz"),
    ],
)
def test_ranges_of_classes(glob: str, ok: str, no: str) -> None:
    assert all(found(glob_regex(glob), each) for each in ok if each != "/")
    assert not any(found(glob_regex(glob), each) for each in no)
