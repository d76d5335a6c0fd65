"""Commands about models: provider, model, effort, advisor."""

import asyncio
from dataclasses import replace
from typing import Literal

from sagent.errors import UsageError
from sagent.model import EFFORTS, Effort
from sagent.peer import Consult, Switch
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option

_TOGGLES = (("off", "ask no advisor"), ("on", "as before"))


def _rows(context: CommandContext) -> list[tuple[str, str]]:
    """The models that can be used, each with window and price; those of which both are known come first."""
    lines = (line.partition(": ") for line in context.opened.agent.catalog().splitlines())
    found = [(name, about) for name, colon, about in lines if colon and "/" in name]
    providers = list(dict.fromkeys(name.partition("/")[0] for name, _ in found))
    found.sort(key=lambda row: row[0], reverse=True)  # later versions come first
    return sorted(found, key=lambda row: (providers.index(row[0].partition("/")[0]), "unknown" in row[1]))


async def _pick_model(context: CommandContext, title: str, *more: tuple[str, str]) -> str | None:
    rows = await asyncio.to_thread(_rows, context)
    options = [Option(name, name, about) for name, about in (*more, *rows)]
    if not options:
        raise UsageError("No other model is known here; name one: /model provider/model")
    return await context.pick(title, options)


@command(complete=_rows)
async def model(context: CommandContext, name: str = "") -> None:
    """Switch to another model.

    It is used from the next call on. Without a name, choose from a list.
    """
    chosen = name or await _pick_model(context, "Which model?")
    if chosen:
        _take(context, chosen)


def _take(context: CommandContext, name: str) -> None:
    """Switch to a model; where no session could be opened, begin one with it."""
    try:
        agent = context.opened.agent
    except UsageError:
        from sagent.config.servers import provider_of

        settings = context.settings
        named = provider_of(name, settings.providers)
        if named and named != (settings.provider or "openai-compatible"):  # these settings are meant for another
            settings = replace(settings, provider=None, base_url=None)
        context.reopen(replace(settings, model=name))
        return
    agent.apply(Switch(model=name))


def _providers(context: CommandContext) -> list[tuple[str, str]]:
    names = dict.fromkeys(name.partition("/")[0] for name, _ in _rows(context))
    return [(name, "") for name in names]


@command(complete=_providers)
async def provider(context: CommandContext, name: str = "") -> None:
    """Switch to a provider's default model.

    Without a name, choose from a list.
    """
    from sagent.providers.registry import row_named

    rows = {key: own.row for key, own in context.settings.providers.items()}
    if not name:
        known = await asyncio.to_thread(_providers, context)
        options = [Option(one, one, row_named(one, rows).default) for one, _ in known]
        name = await context.pick("Which provider?", options) or ""
    if name:
        row = row_named(name, rows)
        if not row.default:
            raise UsageError(f"{row.name} has no default model; name one: /model {row.name}/MODEL")
        _take(context, f"{row.name}/{row.default}")


@command()
async def effort(context: CommandContext, level: Effort | Literal[""] = "") -> None:
    """Set how hard the model thinks.

    Without a level, choose from a list.
    """
    chosen = level or await context.pick("Which effort?", [Option(one, one) for one in EFFORTS])
    if chosen:
        context.opened.agent.apply(Switch(effort=chosen))


def _advisors(context: CommandContext) -> list[tuple[str, str]]:
    return [*_TOGGLES, ("rate good", "its last advice helped"), ("rate bad", "it did not"), *_rows(context)]


def _rate(context: CommandContext, word: str = "", name: str = "") -> None:
    """Record the person's rating of the last advice."""
    from sagent.advisor.extension import AdvisorExtension

    advisory = context.opened.agent.advisory
    if word not in ("good", "bad") or not isinstance(advisory, AdvisorExtension):
        raise UsageError("Say /advisor rate good or /advisor rate bad, with a name where there are several advisors.")
    context.say(f"{advisory.rate(1 if word == 'good' else -1, name)}: {word}")


@command(complete=_advisors)
async def advisor(context: CommandContext, text: str = "") -> None:
    """Set, mute or rate the advisor.

    Say [name=]provider/model[,effort=...], off, on, rate good or rate bad; or choose from a list.
    """
    word, _, rest = text.partition(" ")
    if word == "rate":
        _rate(context, *rest.split())
        return
    chosen = text or await _pick_model(context, "Which advisor?", *_TOGGLES)
    if chosen:
        context.opened.agent.apply(Switch(advisor=chosen))


@command()
async def ask_advisor(context: CommandContext, text: str = "") -> None:
    """Ask the advisor about the conversation now.

    A question is optional.
    """
    context.opened.agent.apply(Consult(question=text))
