"""Rules for sed cover what shows and changes text, and not what runs commands or opens files."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.policy.sed import edits_text
from sagent.policy.shell import split
from sagent.policy.wrappers import brings_code
from sagent.tool import Effect, Workspace
from tests.depth import deep

COVERED = [
    "-n 1,5p f", "-n '/foo/p' f", "-n '/a/,/b/p;$=' f", "-n -e 5p -e '$p' f", "-n 's/a b/c/gp' f", "-n '/[0-9]/p' f g",
    "-n -E 's|a(b)|\\1|p' f", "-n '2~3!d;p' f", "-n --expression=5p f", "-n -- p -x",
    "-n 's,\\(.*\\)/,\\1,p;y#ab#cd#' f",
]  # fmt: skip
NOT_COVERED = [
    "-n '1e id' f", "-n 1e f", "-n '$!{e id\n}' f", "-n 's/x/id/e' f", "-n 's/x/id/pe' f", "-n -i p f", "-n -ni p f",
    "-n --in-place p f", "-n --in-pl=.b p f", "-n 'w out' f", "-n 's/a/b/w out' f", "-n -f script f", "-n p -i f",
    "-n --file=script f", "-n p f -i", "-n 'r .env' f", "-n '1,3R .env' f", "-n -e p -e '1e id' f", "-n p f -e '1e id'",
    "-n 's/a/b/;1e id;s/x/y/' f", "-n 's/a/b/;e' f", "-n \"$X\" f", "-n p *", "-n 'p\n1e id' f", "-n 's|a|b|e' f",
    "-n '/[/]p;1e id;/]/p' f", "-n 's/[/1e id/;p' f", "-n 's/a\\\n/b/e' f", "-n -ep -s -nf script f",
    "-n -E -s 1ed f", "-n -e 'a\\' -e '1e id' f", "-n '\\,x,e id' f", "-n 's|a|b|;w out' f", "-n 'y/a/b/;e id' f",
]  # fmt: skip


async def judged(tree: Path, command: str, rule: str) -> Verdict:
    policy = PermissionPolicy("ask", Rules.parse([rule]), home=tree / "home")
    return await policy.before_tool(ToolCall("1", "Bash"), Effect("execute", command=command), Workspace(tree))


@pytest.mark.parametrize("command", COVERED)
async def test_covered(tmp_path: Path, command: str) -> None:
    assert isinstance(await judged(tmp_path, f"sed {command}", "Bash(sed -n:*)"), Allow)
    assert isinstance(await judged(tmp_path, f"cat x | sed {command}", "Bash(sed:*)"), Allow)


@pytest.mark.parametrize("command", NOT_COVERED)
async def test_not_covered(tmp_path: Path, command: str) -> None:
    for rule in ("Bash(sed -n:*)", "Bash(sed:*)"):
        assert isinstance(await judged(tmp_path, f"sed {command}", rule), Ask)
        assert isinstance(await judged(tmp_path, f"timeout 5 sed {command}", rule), Ask)


async def test_exact_rule_covers_sed(tmp_path: Path) -> None:
    assert isinstance(await judged(tmp_path, "sed -i s/a/b/ f", "Bash(sed -i:*)"), Allow)
    assert isinstance(await judged(tmp_path, "sed -n '1e id' f", "Bash(sed -n '1e id':*)"), Allow)
    assert isinstance(await judged(tmp_path, "sed -i '1e id' f", "Bash(sed -i:*)"), Ask)


PIECES = [
    *"s/|,#[]^\\;\n p$!1ewrgi{}",
    "e touch made",
    "w made",
    "s/x/",
    "/;",
    "[/]",
    "s/[",
    "]/y/",
    "/x/p;",
    ";p;",
    "/w made",
]


@settings(max_examples=deep(50, 500), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
def test_accepted_scripts_are_safe_in_real_sed(script: str, tmp_path: Path) -> None:
    if edits_text(script):
        line = ["sed", "-n", script]
        subprocess.run(line, cwd=tmp_path, input=b"x/1\ns\n", capture_output=True, check=False, timeout=60)
    made = list(tmp_path.iterdir())
    for file in made:
        file.unlink()
    assert made == []


@pytest.mark.parametrize("brings", ["-ie '1e id' f", "-i 's/a/b/e' f", "-i -f x f", "-ni '1w k' f", "'-i/k/*' p f", ""])
def test_changes_in_place_bring_no_code(brings: str) -> None:
    harmless = ["sed -i s/a/b/ f", "sed -i.bak -e 1d f", "gsed --in-place=.old -E 's/(a)/b/' f"]
    for command in [f"sed {brings}"] if brings else harmless:
        (part,) = split(command).parts
        assert brings_code(part.words) == bool(brings), command
