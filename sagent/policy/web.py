"""The judgement of calls that reach hosts from this process: pages, searches."""

from collections.abc import Sequence

from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.policy.needs import rules_out_host
from sagent.policy.paths import PathJudge, quoted
from sagent.sandbox.hosts import Endpoint, Entry
from sagent.tool import Effect


def judge_hosts(tool: str, effect: Effect, judge: PathJudge, domains: Sequence[str]) -> Verdict:
    """Judge the hosts of a call. A `Network` rule or one of `domains` lets a host be reached without a question; full
    mode, or a rule that allows all calls of the tool, does so for public hosts. Local hosts must be named."""
    if judge.mode == "plan" and effect.kind == "execute":
        return Deny(f"{effect.reason}: in plan mode nothing is sent.")
    rules = judge.rules
    lacking: list[str] = []
    for host in dict.fromkeys(need.target for need in effect.needs):
        if denied := next((rule for rule in rules.deny if rules_out_host(rule, host)), None):
            return Deny(f"The rule {denied} denies reaching {host}.")
        endpoint = Endpoint.parse(host, 443)
        named = (*domains, *(rule.pattern for rule in rules.allow if rule.tool == "Network" and rule.pattern))
        if any(Entry.parse(entry).covers(endpoint) for entry in named):
            continue
        every = any(not rule.pattern and (rule.tool == "Network" or rule.covers(tool, effect)) for rule in rules.allow)
        if endpoint.must_be_named or not (every or judge.mode == "full"):
            lacking.append(host)
    if not lacking:
        return Allow()
    remedy = " ".join(f"--allow {quoted(f'Network({host})')}" for host in lacking)
    reason = f"{tool} would reach {', '.join(lacking)}: {effect.reason}."
    if judge.mode == "full":
        return Deny(f"{reason} This machine, private addresses and unusual ports must be allowed by name: {remedy}.")
    return Ask(reason, f"Allowed with {remedy}.")
