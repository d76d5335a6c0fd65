"""Commands about money."""

from collections.abc import Iterator, Mapping, Sequence

from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.figures import count, money
from sagent.repl.view.lines import Line, Span
from sagent.repl.view.table import table
from sagent.usage import Sum, Totals, Usage


@command()
async def cost(context: CommandContext) -> None:
    """Show what this session has cost.

    By role, model and agent, with the cache's share.
    """
    ledger = context.opened.agent.ledger
    totals, spent = ledger.totals(), ledger.cost()
    whole = totals.whole.usage
    least = "≥ " if spent.unpriced else ""
    cap = f" of {money(ledger.cap)}" if ledger.cap is not None else ""
    read = f"{count(whole.total_input)} tokens read, {_cached(whole, '0%')} of them from the cache"
    tokens = f"  {read}; {count(whole.output)} written"
    rows = [
        *_rows("role", totals.by_role),
        *_rows("model", totals.by_model),
        *_rows("agent", totals.by_agent),
    ]
    lines: list[Line] = [
        (("class:heading", f"{least}{money(spent.total)}{cap}"), ("class:dim", tokens)),
        *table(rows, right=(1, 2, 3, 4)),
    ]
    if spent.unpriced:
        lines.append((("class:warning", f"No known price: {', '.join(spent.unpriced)}"),))
    context.write([*lines, *_on_the_advisor_alone(context, totals)])


def _cached(usage: Usage, nothing: str) -> str:
    return f"{usage.cache_read / usage.total_input:.0%}" if usage.total_input else nothing


def _rows(head: str, sums: Mapping[str, Sum]) -> Iterator[Sequence[Span]]:
    if sums:
        yield ()
        yield [("class:dim", word) for word in (head, "read", "cached", "written", "USD")]
    for name, each in sorted(sums.items(), key=lambda item: -item[1].usd):
        figures = (count(each.usage.total_input), _cached(each.usage, "-"), count(each.usage.output))
        yield [("", name), *(("class:dim", figure) for figure in figures), ("", money(each.usd))]


def _on_the_advisor_alone(context: CommandContext, totals: Totals) -> Iterator[Line]:
    """What the executors' tokens would have cost by the advisor's prices."""
    done = totals.by_role.get("executor", Sum()).usage
    for advisor in context.settings.advisors:
        name, _, model = advisor.model.partition("/")
        usd = context.opened.agent.ledger.prices.price(name, model, done)
        if usd is not None and done != Usage():
            yield ()
            yield (("class:dim", f"  The executor's work on {advisor.model} alone: {money(usd)}"),)
