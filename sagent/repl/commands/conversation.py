"""Commands about the conversation itself."""

from dataclasses import replace
from decimal import Decimal

from sagent.errors import UsageError
from sagent.lib.figures import count, money
from sagent.peer import Compact
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.view.lines import Line


@command(name="quit")
async def leave(context: CommandContext) -> None:
    """Quit; the session can be resumed."""
    context.leave()


leave_too = replace(leave, name="exit", help="Another name for /quit.")


@command()
async def compact(context: CommandContext, text: str = "") -> None:
    """Shrink the context; optionally, say what to keep."""
    agent = context.opened.agent
    if agent.running:
        agent.apply(Compact(hints=text))
        context.say("The context will be made smaller before the next model call.")
        return
    before = agent.status().context_tokens
    async with context.turn:
        await agent.compact(text)
    now = agent.status().context_tokens
    if now == before:
        context.say(f"There is nothing to compact yet: the context has about {count(now)} tokens.")
    elif not context.has_person:  # a person has read that in a notice
        context.say(f"The context has {count(now)} tokens now; it had {count(before)}.")


@command()
async def clear(context: CommandContext) -> None:
    """Start over with an empty conversation; the log keeps the old one."""
    if not context.opened.agent.messages:
        raise UsageError("The conversation is empty already.")
    context.opened.agent.apply(Compact(clear=True))
    context.say("The conversation is empty now; the log keeps the old one.")


async def saved(context: CommandContext) -> list[Line]:
    """Describe the savings of compactions up to the last turn; nothing during a turn."""
    agent = context.opened.agent
    try:
        saving = None if agent.running else (await agent.wait()).saving
    except UsageError:
        return []  # it has not run yet
    if saving is None or not saving.compactions:
        return []
    times = f"{saving.compactions} compaction{'s' if saving.compactions > 1 else ''}"
    tokens, usd = saving.tokens, saving.usd
    saved = f"{count(abs(tokens))} tokens"
    if usd is not None:
        saved += f"{f' {_than(tokens)}' if (tokens < 0) != (usd < 0) else ''} and {money(abs(usd))}"
    return [(), (("class:dim", f"  {times}: {saved} {_than(tokens if usd is None else usd)} than without"),)]


def _than(saved: Decimal | int) -> str:
    return "less" if saved >= 0 else "more"
