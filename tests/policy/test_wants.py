"""What a command asks for beyond its sandbox, and the rules that are offered for it: as narrow as that, or none."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox.profile import Need
from sagent.tool import Effect, Workspace


async def judged(
    tmp_path: Path, command: str, *needs: str, rules: Rules | None = None, confined: bool = True
) -> Verdict:
    wanted = tuple(map(Need.parse, needs))
    effect = Effect("execute", command=command, confined=confined, needs=wanted, reason="so I say")
    policy = PermissionPolicy("edit", rules, home=tmp_path / "home")
    return await policy.before_tool(ToolCall("c", "Bash", JsonObject({})), effect, Workspace(tmp_path))


def rules_in(verdict: Verdict) -> list[str]:
    assert isinstance(verdict, Ask)
    words = shlex.split(verdict.remedy.removesuffix("."))
    return [following for word, following in pairwise(words) if word == "--allow"]


async def test_each_want_has_its_exact_rule(tmp_path: Path) -> None:
    verdict = await judged(tmp_path, "make", "network:pypi.org", "write:/opt/a\nb", "all")
    assert isinstance(verdict, Ask)
    assert verdict.wants == ("to reach pypi.org", "to write $'/opt/a\\nb'", "to run without the sandbox")
    assert rules_in(verdict) == ["Network(pypi.org)", "Edit(/opt/a\nb)", "Unsandboxed(make)"]
    granted = await judged(tmp_path, "make", "network:pypi.org", rules=Rules.parse(["Network(pypi.org)"]))
    assert isinstance(granted, Allow)
    rest = await judged(tmp_path, "make", "network:pypi.org", "all", rules=Rules.parse(["Network(pypi.org)"]))
    assert isinstance(rest, Ask)
    assert rest.wants == ("to run without the sandbox",)


@pytest.mark.parametrize(
    ("rule", "host", "denied"),
    [
        ("Network(example.com)", "example.com", True),
        ("Network(example.com)", "example.com:443", True),
        ("Network(example.com)", "example.com:22", True),
        ("Network(example.com)", "*.com", True),
        ("Network(example.com)", "\N{FULLWIDTH LATIN SMALL LETTER E}xample.com", True),
        ("Network(*.example.com)", "*.example.com", True),
        ("Network(*.a.example.com)", "*.example.com", True),
        ("Network(*.com)", "*.example.com", True),
        ("Network([::1])", "[::1]:8080", True),
        ("Network([::1])", "[0:0::1]", True),
        ("Network(example.com:443)", "example.com", True),
        ("Network", "example.com", True),
        ("Network(example.com:22)", "example.com", False),
        ("Network(example.com)", "www.example.com", False),
        ("Network(*.example.com)", "example.com", False),
        ("Network(example.com)", "*.example.com", False),
        ("Network(example.com)", "notexample.com", False),
    ],
)
async def test_denied_host_in_any_spelling(tmp_path: Path, rule: str, host: str, denied: bool) -> None:
    rules = Rules.parse(["Network"], [rule])
    verdict = await judged(tmp_path, "make", f"network:{host}", rules=rules)
    assert isinstance(verdict, Deny if denied else Allow)
    profile = PermissionPolicy("full", rules, home=tmp_path, domains=[host]).profile(Workspace(tmp_path))
    assert (host in profile.domains) is not denied


async def test_indistinct_hosts_are_denied_together(tmp_path: Path) -> None:
    effect = Effect("execute", command="make", confined=True, needs=(Need("network", "*"),), reason="so I say")
    policy = PermissionPolicy("full", Rules.parse((), ["Network(example.com)"]), home=tmp_path)
    verdict = await policy.before_tool(ToolCall("c", "Bash", JsonObject({})), effect, Workspace(tmp_path))
    assert isinstance(verdict, Deny)


@pytest.mark.parametrize(
    "command", ["rm *", "rm -r $X", "make > /opt/log", "a='1'; make \"$a\"", "*", "make $(cat x)", "ls | sh"]
)
async def test_changing_command_has_no_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, "all", confined=False)) == []


async def test_persons_rule_may_be_wide(tmp_path: Path) -> None:
    wide = Rules.parse(["Unsandboxed(rm:*)"])
    assert isinstance(await judged(tmp_path, "rm $(touch y)", "all", rules=wide, confined=False), Ask)
    assert isinstance(await judged(tmp_path, "rm $X", "all", rules=wide, confined=False), Allow)


async def test_rule_covers_no_piped_input(tmp_path: Path) -> None:
    rules = Rules.parse(["Unsandboxed(psql prod)"])
    assert isinstance(await judged(tmp_path, "psql prod", "all", rules=rules, confined=False), Allow)
    for brought in ("psql prod <<< '\\! id'", "psql prod <<E\n\\! id\nE"):
        assert isinstance(await judged(tmp_path, brought, "all", rules=rules, confined=False), Ask)


@pytest.mark.parametrize("need", ["read:/usr", "write:/tmp/x", "network:example.org"])
async def test_granted_want_runs_no_other_command(need: str, tmp_path: Path) -> None:
    rules = Rules.parse(["Edit(/tmp/x)", "Network(example.org)"])
    assert isinstance(await judged(tmp_path, "make", need, rules=rules), Allow)
    asked = await judged(tmp_path, "make", need, rules=rules, confined=False)
    assert rules_in(asked) == ["Bash(make)"]


@pytest.mark.parametrize("command", ["rm *", "touch a*", "npm *"])
async def test_wildcard_is_not_offered_as_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, confined=False)) == []


PLANTED = "[core]\n\tfsmonitor = /x/evil\n"
WIDE = Rules.parse(["Unsandboxed(git:*)"])


def repository(place: Path, config: str = "", head: str = ".git") -> None:
    (place / head / "objects").mkdir(parents=True)
    (place / head / "refs").mkdir()
    (place / head / "HEAD").write_text("ref: refs/heads/main\n")
    (place / head / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n{config}")


@pytest.mark.parametrize(
    "command",
    [
        "git status", "cd sub && git status", "git -C sub status", "git --git-dir=bare.d status", "git -C ~/w status",
        "timeout 5 git -C sub diff", "cd bare.d && git log", "git --git-dir bare.d log", "cd linked && git status",
        "cd sub/deeper/yet; git status", "gh pr list", "git -C $X status", "cd hooked && git status",
        "git -C reached status", "git -C home -C w status", "git -C home --git-dir w/.git status",
        "sudo git -C sub status", "stdbuf -o0 git -C sub status", "bash -c 'git -C sub status'",
    ],
)  # fmt: skip
async def test_git_naming_programs_is_asked_outside(command: str, tmp_path: Path) -> None:
    if not command.startswith(("cd", "timeout")) and "-C" not in command and "git-dir" not in command:
        repository(tmp_path, PLANTED)
    for name in ("sub", "home/w", "store"):
        repository(tmp_path / name, PLANTED)
    repository(tmp_path / "hooked")
    (tmp_path / "hooked/.git/hooks").mkdir()
    (tmp_path / "hooked/.git/hooks/post-index-change").write_text("")
    repository(tmp_path, PLANTED, "bare.d")
    (tmp_path / "sub/deeper/yet").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").write_text("gitdir: ../store/.git\n")
    (tmp_path / "reached").symlink_to("store")
    rules = Rules.parse(
        [f"Unsandboxed({each}:*)" for each in ("git", "timeout 5 git", "gh", "cd", "sudo", "stdbuf", "bash")]
    )
    verdict = await judged(tmp_path, command, "all", rules=rules)
    assert isinstance(verdict, Ask)
    assert re.search("fsmonitor = /x/evil|post-index-change|not certain", verdict.reason)
    assert rules_in(verdict) == []  # none that would not hold


@pytest.mark.parametrize("command", ["make deploy", "sudo npm publish", "cd src && cargo publish", "python x.py"])
async def test_question_says_files_are_followed(tmp_path: Path, command: str) -> None:
    verdict = await judged(tmp_path, command, "all", confined=False)
    assert isinstance(verdict, Ask)
    assert "files here" in verdict.reason
    plain = await judged(tmp_path, "docker ps", "all", confined=False)
    assert isinstance(plain, Ask)
    assert "files here" not in plain.reason


async def test_plain_git_runs_outside_by_rule(tmp_path: Path) -> None:
    harmless = '[remote "origin"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
    repository(tmp_path, harmless)
    (tmp_path / ".git/hooks").mkdir()
    (tmp_path / ".git/hooks/pre-push").write_text("")  # the person's own
    (tmp_path / "src").mkdir()
    repository(tmp_path / "sub", '[branch "main"]\n\tremote = origin\n')
    for command in ("git push", "cd src && git status", "git -C sub status", "git -C /nowhere status"):
        rules = Rules.parse(["Unsandboxed(git:*)", "Unsandboxed(cd:*)"])
        assert isinstance(await judged(tmp_path, command, "all", rules=rules), Allow)
    policy = PermissionPolicy("edit", WIDE, home=tmp_path)
    for obeyed, kind in (((), Allow), (("what was there when it was called",), Ask)):
        effect = Effect("execute", command="git push", needs=(Need("all"),), obeyed=obeyed)
        verdict = await policy.before_tool(ToolCall("c", "Bash", JsonObject({})), effect, Workspace(tmp_path))
        assert isinstance(verdict, kind)
    (tmp_path / ".git/config.worktree").write_text("[core]\n\tsshCommand = evil\n")
    assert isinstance(await judged(tmp_path, "git status", "all", rules=WIDE), Ask)


OBEYED = {
    # a command, what lies there, and what the question names; "" where none is asked
    "hg status": (".hg/hgrc", "[hooks]\npre-status = ./evil\n"),
    "hg --cwd sub log": ("sub/.hg/hgrc", "[alias]\nlog = !./evil\n"),
    "hg -R sub pull": ("sub/.hg/hgrc-not-shared", "[extensions]\nx = ./evil.py\n"),
    "cd sub && chg st": (".hg/hgrc", "%include evil\n"),
    "sl pull": (".sl/config", "[hooks]\nx = ./evil\n"),
    "jj git fetch": (".jj/repo/config.toml", "[ui]\neditor = './evil'\n"),
    "env jj log": (".jj/repo/config.toml", "[ui]\npager = './evil'\n"),
    "brz pull": (".bzr/branch/branch.conf", "post_commit = evil\n"),
    "darcs pull": ("_darcs/prefs/defaults", "ALL posthook ./evil\n"),
    "svn commit -m x": (".svn/wc.db", "file:///evil"),
    "svn ci -m x sub": ("sub/.svn/wc.db", "file:///evil"),
    "cvs commit": ("CVS/Root", "/evil"),
    "fossil update": (".fslckout", ""),
    "direnv exec . true": (".envrc", "./evil"),
    "mise install": ("mise.toml", "[hooks]\nenter = './evil'\n"),
    "go build ./...": (".git/config", PLANTED),
}


@pytest.mark.parametrize("command", OBEYED)
async def test_repository_of_others_is_asked(command: str, tmp_path: Path) -> None:
    name, text = OBEYED[command]
    (tmp_path / "sub").mkdir()
    file = tmp_path / name
    first, *more = command.split()
    places = (
        [" ".join((first, *more[:2]))] if "sub" in more[:2] and first == "hg" else []
    )  # an option that a rule names
    named = (first, *places, "cd", "env", "chg")
    rules = Rules.parse([f"Unsandboxed({each}:*)" for each in named])
    assert isinstance(await judged(tmp_path, command, "all", rules=rules), Allow)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    verdict = await judged(tmp_path, command, "all", rules=rules)
    assert isinstance(verdict, Ask), command
    assert name.partition("/")[0] in verdict.reason
    assert rules_in(verdict) == []


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("hg pull", ".hg/hgrc", "[paths]\ndefault = https://example.org/x\n[ui]\nusername = a\n"),
        ("svn update", ".svn/wc.db", "https://example.org/x"),
        ("mise install", ".tool-versions", "python 3.12\n"),
        ("make deploy", "Makefile", "deploy:\n\t./deploy\n"),  # which is what the person has allowed
    ],
)
async def test_plain_repository_of_others(tmp_path: Path, command: str, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    rules = Rules.parse([f"Unsandboxed({command})"])
    assert isinstance(await judged(tmp_path, command, "all", rules=rules), Allow)
