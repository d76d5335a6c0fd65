"""Commands about money."""

import asyncio
from collections.abc import Iterable, Mapping
from decimal import Decimal

from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext
from sagent.repl.view.lines import Line
from sagent.usage import Usage


@command()
async def cost(context: CommandContext) -> None:
    """What this session has cost: by role, model and agent, with the cache's share."""
    from sagent.repl.view.transcript import count, money

    agent = context.opened.agent
    ledger = agent.ledger
    await asyncio.to_thread(ledger.prices.warm)
    spent, usage = ledger.totals(), ledger.usage()
    whole = sum(usage.values(), Usage())
    rate = whole.cache_read / whole.total_input if whole.total_input else 0.0
    least = "≥ " if spent.unpriced else ""
    cap = f" of {money(ledger.cap)}" if ledger.cap is not None else ""
    read = f"{count(whole.total_input)} tokens read, {rate:.0%} of them from the cache; {count(whole.output)} written"
    lines: list[Line] = [
        (("class:heading", f"{least}{money(spent.total)}{cap}"), ("class:dim", f"  {read}")),
        *_table("role", _by_role(usage), spent.by_role),
        *_table("model", ledger.usage_by_model(), spent.by_model),
        *_table("agent", _by_agent(usage), spent.by_agent),
    ]
    if spent.unpriced:
        lines.append((("class:warning", f"No known price: {', '.join(spent.unpriced)}"),))
    lines += _on_the_advisor_alone(context, usage)
    context.write(lines)


def _by_role(usage: Mapping[tuple[str, str], Usage]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for (_, role), one in usage.items():
        found[role] = found.get(role, Usage()) + one
    return found


def _by_agent(usage: Mapping[tuple[str, str], Usage]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for (agent, _), one in usage.items():
        found[agent] = found.get(agent, Usage()) + one
    return found


def _table(head: str, usage: Mapping[str, Usage], usd: Mapping[str, Decimal]) -> Iterable[Line]:
    from sagent.repl.view.transcript import count, money

    names = list(dict.fromkeys((*usd, *usage)))
    if not names:
        return
    yield ()
    tokens = f"{'read':>9} {'cached':>7} {'written':>9} "
    width = max(len(name) for name in (head, *names))
    yield (("class:dim", f"  {head:{width}} {tokens}{'USD':>10}"),)
    for name in sorted(names, key=lambda name: -usd.get(name, Decimal(0))):
        one = usage.get(name, Usage())
        share = f"{one.cache_read / one.total_input:.0%}" if one.total_input else "-"
        told = f"{count(one.total_input):>9} {share:>7} {count(one.output):>9} "
        yield (("", f"  {name:{width}} "), ("class:dim", told), ("", f"{money(usd.get(name, Decimal(0))):>10}"))


def _on_the_advisor_alone(context: CommandContext, usage: Mapping[tuple[str, str], Usage]) -> Iterable[Line]:
    """What the executors' tokens would have cost by the advisor's prices."""
    from sagent.repl.view.transcript import money

    done = sum((one for (_, role), one in usage.items() if role == "executor"), Usage())
    for advisor in context.settings.advisors:
        name, _, model = advisor.model.partition("/")
        usd = context.opened.agent.ledger.prices.price(name, model, done)
        if usd is not None and done != Usage():
            yield ()
            yield (("class:dim", f"  The executor's work on {advisor.model} alone: {money(usd)}"),)
