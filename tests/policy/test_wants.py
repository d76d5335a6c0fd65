"""What a command asks for beyond its sandbox, and the rules that are offered for it: as narrow as that, or none."""

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


async def test_each_want_is_told_with_the_rule_that_is_just_that(tmp_path: Path) -> None:
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
async def test_a_denied_host_is_denied_however_it_is_spelled_and_never_reached_by_what_is_allowed(
    tmp_path: Path, rule: str, host: str, denied: bool
) -> None:
    rules = Rules.parse(["Network"], [rule])
    verdict = await judged(tmp_path, "make", f"network:{host}", rules=rules)
    assert isinstance(verdict, Deny if denied else Allow)
    profile = PermissionPolicy("full", rules, home=tmp_path, domains=[host]).profile(Workspace(tmp_path))
    assert (host in profile.domains) is not denied


async def test_where_hosts_cannot_be_told_apart_one_that_is_denied_denies_them_all(tmp_path: Path) -> None:
    effect = Effect("execute", command="make", confined=True, needs=(Need("network", "*"),), reason="so I say")
    policy = PermissionPolicy("full", Rules.parse((), ["Network(example.com)"]), home=tmp_path)
    verdict = await policy.before_tool(ToolCall("c", "Bash", JsonObject({})), effect, Workspace(tmp_path))
    assert isinstance(verdict, Deny)


@pytest.mark.parametrize(
    "command", ["rm *", "rm -r $X", "make > /opt/log", "a='1'; make \"$a\"", "*", "make $(cat x)", "ls | sh"]
)
async def test_what_another_time_may_be_something_else_has_no_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, "all", confined=False)) == []


async def test_a_rule_of_the_persons_may_be_as_wide_as_they_like(tmp_path: Path) -> None:
    wide = Rules.parse(["Unsandboxed(rm:*)"])
    assert isinstance(await judged(tmp_path, "rm $(touch y)", "all", rules=wide, confined=False), Ask)
    assert isinstance(await judged(tmp_path, "rm $X", "all", rules=wide, confined=False), Allow)


async def test_a_rule_for_a_command_outside_is_none_for_the_input_that_another_call_brings(tmp_path: Path) -> None:
    rules = Rules.parse(["Unsandboxed(psql prod)"])
    assert isinstance(await judged(tmp_path, "psql prod", "all", rules=rules, confined=False), Allow)
    for brought in ("psql prod <<< '\\! id'", "psql prod <<E\n\\! id\nE"):
        assert isinstance(await judged(tmp_path, brought, "all", rules=rules, confined=False), Ask)


@pytest.mark.parametrize("need", ["read:/usr", "write:/tmp/x", "network:example.org"])
async def test_a_want_that_is_granted_lets_no_command_run_that_is_not_held(need: str, tmp_path: Path) -> None:
    rules = Rules.parse(["Edit(/tmp/x)", "Network(example.org)"])
    assert isinstance(await judged(tmp_path, "make", need, rules=rules), Allow)
    asked = await judged(tmp_path, "make", need, rules=rules, confined=False)
    assert rules_in(asked) == ["Bash(make)"]


@pytest.mark.parametrize("command", ["rm *", "touch a*", "npm *"])
async def test_a_wildcard_is_not_offered_as_a_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, confined=False)) == []
