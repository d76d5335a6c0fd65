"""What a command asks for beyond its sandbox, and the rules that are offered for it: as narrow as that, or none."""

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from sagent.lib.json import JsonObject
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Verdict
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


@pytest.mark.parametrize("command", ["rm *", "rm -r $X", "make > /opt/log", "a='1'; make \"$a\"", "*", "make $(cat x)"])
async def test_what_another_time_may_be_something_else_has_no_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, "all", confined=False)) == []


async def test_a_rule_of_the_persons_may_be_as_wide_as_they_like(tmp_path: Path) -> None:
    wide = Rules.parse(["Unsandboxed(rm:*)"])
    assert isinstance(await judged(tmp_path, "rm $(touch y)", "all", rules=wide, confined=False), Ask)
    assert isinstance(await judged(tmp_path, "rm $X", "all", rules=wide, confined=False), Allow)


@pytest.mark.parametrize("command", ["rm *", "touch a*", "npm *"])
async def test_a_wildcard_is_not_offered_as_a_rule(command: str, tmp_path: Path) -> None:
    assert rules_in(await judged(tmp_path, command, confined=False)) == []
