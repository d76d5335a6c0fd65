"""A deny rule for a program covers it under its other names, and wherever another program starts it."""

from pathlib import Path

import pytest

from sagent.messages import ToolCall
from sagent.policy import Allow, Deny, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.programs import names_program
from sagent.policy.rules import Rules
from sagent.tool import Effect, Workspace

SAME = {
    "Bash(sed:*)": (
        "gsed x f",
        "ssed x f",
        "/bin/sed x f",
        "command gsed x f",
        "busybox sed x f",
        "SED x f",
        "sed.exe x f",
    ),
    "Bash(gsed:*)": ("sed x f",),
    "Bash(/usr/bin/sed:*)": ("sed x f", "/bin/gsed x f"),
    "Bash(awk:*)": ("gawk x f", "mawk x f", "nawk x f", "busybox awk x f"),
    "Bash(tar:*)": ("gtar x", "bsdtar x"),
    "Bash(find:*)": ("gfind . -delete", "env gfind ."),
    "Bash(grep:*)": ("egrep x f", "fgrep x f", "rgrep x", "ggrep x f"),
    "Bash(rm:*)": ("grm x", "gtimeout 5 rm x", "genv rm x", "gxargs rm", "gnice grm x"),
    "Bash(python:*)": ("python3 x", "python3.12 x", "pypy3 x", "/usr/bin/python3.11 x"),
    "Bash(python3:*)": ("python3.12 x", "python x"),
    "Bash(pip install:*)": (
        "pip3 install x",
        "python3 -m pip install x",
        "python3.11 -Im pip install x",
        "python -mpip install x",
        "uv pip install x",
    ),
    "Bash(vi:*)": ("vim x", "nvim x", "ex x"),
    "Bash(gcc:*)": ("gcc-12 x.c",),
    "Bash(node:*)": ("nodejs x",),
}
STARTED = (
    "env -S'sed x f'",
    "env --split-string='sed x f'",
    "bfs . -exec sed x {} ;",
    "linux64 sed x f",
    "gosu a sed x f",
    "tini -- sed x f",
    "torsocks sed x f",
    "hyperfine 'sed x f'",
    "fzf --preview 'sed x f'",
    "sort --compress-program=sed f",
    "less '+!sed x' f",
    "PAGER=sed git log",
    "GIT_PAGER='sed x' git log",
    "export EDITOR=gsed",
    "alias x=sed",
    "mise exec -- sed x f",
    "poetry run sed x f",
    "coreutils --coreutils-prog=sed x f",
    "some-tool gsed x f",
)


@pytest.fixture
def tree(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def judge(tree: Workspace, command: str, rule: str) -> Verdict:
    policy = PermissionPolicy("full", Rules.parse((), (rule,)), home=tree.roots[0])
    judging = policy.before_tool(ToolCall("1", "Bash"), Effect("execute", command=command), tree)
    try:
        judging.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("the policy waits for something")


@pytest.mark.parametrize(("rule", "command"), [(rule, each) for rule, names in SAME.items() for each in names])
def test_denial_covers_other_program_names(tree: Workspace, rule: str, command: str) -> None:
    assert isinstance(judge(tree, command, rule), Deny)


@pytest.mark.parametrize("command", STARTED)
def test_denied_program_is_not_started_by_another(tree: Workspace, command: str) -> None:
    assert judge(tree, command, "Bash(sed:*)") != Allow()


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(docker:*)", "make docker"),
        ("Bash(docker:*)", "cp -r docker x"),
        ("Bash(docker:*)", "git checkout docker"),
        ("Bash(zip:*)", "gzip x"),
        ("Bash(python2:*)", "python3 x.py"),
        ("Bash(rm:*)", "git rm x"),
        ("Bash(sed:*)", "npm install sed"),
        ("Bash(sed:*)", "git commit -m 'use sed here'"),
        ("Bash(npm publish:*)", "NODE_ENV=production npm run build"),
        ("Bash(sh:*)", "pytest -q tests/x.py"),
        ("Bash(base64:*)", "base32 x"),
    ],
)
def test_denial_leaves_other_programs_alone(tree: Workspace, rule: str, command: str) -> None:
    assert judge(tree, command, rule) == Allow()


def test_rule_naming_a_version_is_exact() -> None:
    assert names_program("python3", "python3.12")
    assert not names_program("python3.11", "python3.12")
    assert not names_program("zip", "gzip")
