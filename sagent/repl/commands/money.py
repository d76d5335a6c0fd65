"""Commands about money."""

import asyncio
from collections.abc import Iterable, Mapping

from sagent.repl.commands.command import command
from sagent.repl.commands.context import CommandContext
from sagent.repl.view.lines import Line
from sagent.usage import Sum, Totals, Usage


@command()
async def cost(context: CommandContext) -> None:
    """What this session has cost: by role, model and agent, with the cache's share."""
    from sagent.repl.view.transcript import count, money

    agent = context.opened.agent
    ledger = agent.ledger
    await asyncio.to_thread(ledger.prices.warm)
    totals, spent = ledger.totals(), ledger.cost()
    whole = totals.whole.usage
    rate = whole.cache_read / whole.total_input if whole.total_input else 0.0
    least = "≥ " if spent.unpriced else ""
    cap = f" of {money(ledger.cap)}" if ledger.cap is not None else ""
    read = f"{count(whole.total_input)} tokens read, {rate:.0%} of them from the cache; {count(whole.output)} written"
    lines: list[Line] = [
        (("class:heading", f"{least}{money(spent.total)}{cap}"), ("class:dim", f"  {read}")),
        *_table("role", totals.by_role),
        *_table("model", totals.by_model),
        *_table("agent", totals.by_agent),
    ]
    if spent.unpriced:
        lines.append((("class:warning", f"No known price: {', '.join(spent.unpriced)}"),))
    lines += _on_the_advisor_alone(context, totals)
    context.write(lines)


def _table(head: str, sums: Mapping[str, Sum]) -> Iterable[Line]:
    from sagent.repl.view.transcript import count, money

    if not sums:
        return
    yield ()
    tokens = f"{'read':>9} {'cached':>7} {'written':>9} "
    width = max(len(name) for name in (head, *sums))
    yield (("class:dim", f"  {head:{width}} {tokens}{'USD':>10}"),)
    for name, each in sorted(sums.items(), key=lambda item: -item[1].usd):
        used = each.usage
        share = f"{used.cache_read / used.total_input:.0%}" if used.total_input else "-"
        told = f"{count(used.total_input):>9} {share:>7} {count(used.output):>9} "
        yield (("", f"  {name:{width}} "), ("class:dim", told), ("", f"{money(each.usd):>10}"))


def _on_the_advisor_alone(context: CommandContext, totals: Totals) -> Iterable[Line]:
    """What the executors' tokens would have cost by the advisor's prices."""
    from sagent.repl.view.transcript import money

    done = totals.by_role.get("executor", Sum()).usage
    for advisor in context.settings.advisors:
        name, _, model = advisor.model.partition("/")
        usd = context.opened.agent.ledger.prices.price(name, model, done)
        if usd is not None and done != Usage():
            yield ()
            yield (("class:dim", f"  The executor's work on {advisor.model} alone: {money(usd)}"),)
