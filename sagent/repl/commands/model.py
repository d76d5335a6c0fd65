"""Commands about models: provider and its key, model, effort, advisor."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from sagent.app.models import LOCAL
from sagent.config.servers import provider_of
from sagent.errors import UsageError
from sagent.lib.figures import count
from sagent.model import EFFORTS, Effort
from sagent.peer import Consult, Switch
from sagent.providers.abilities import accepts_images, can_reason
from sagent.providers.registry import row_called, row_named
from sagent.providers.rows import Row
from sagent.repl.commands.command import CommandContext, command, run_command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import table

_TOGGLES = (("off", "ask no advisor"), ("on", "as before"))
_RATINGS = (("rate good", "its last advice helped"), ("rate bad", "it did not"))


def _models(context: CommandContext) -> dict[str, Sequence[str]]:
    """Return the usable models, each with window, price, and whether it reads images and reasons; those with known
    window and price come first."""
    own = context.settings.rows
    lines = (line.partition(": ") for line in context.opened.agent.catalog().splitlines())
    found = [(name, _cells(name, about, own)) for name, colon, about in lines if colon and "/" in name]
    providers = list(dict.fromkeys(name.partition("/")[0] for name, _ in found))
    found.sort(key=lambda row: row[0], reverse=True)  # later versions come first
    return dict(sorted(found, key=lambda row: (providers.index(row[0].partition("/")[0]), "?" in row[1][:2])))


def _cells(name: str, sentence: str, custom: Mapping[str, Row]) -> Sequence[str]:
    provider, _, model = name.partition("/")
    window = re.search(r"window (\d+)", sentence)
    price = re.search(r"\$?([\d.e+-]+) in and \$?([\d.e+-]+) out", sentence)
    row = row_called(provider, custom)
    sight, thought = (accepts_images(row, model), can_reason(row, model)) if row else (None, False)
    return (
        count(int(window[1])) if window else "?",
        f"${price[1]} in ${price[2]} out" if price else "?",
        "sees" if sight else "-" if sight is False else "sees?",
        "reasons" if thought else "-",
    )


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the cells of each row in columns."""
    lines = table([("", cell) for cell in row] for row in rows)
    return ["".join(text for _, text in line)[2:] for line in lines]


def _rows(context: CommandContext) -> list[tuple[str, str]]:
    """Return the usable models and their known properties."""
    models = _models(context)
    return list(zip(models, _aligned(models.values()), strict=True))


async def _pick_model(context: CommandContext, title: str, now: Sequence[str], *more: tuple[str, str]) -> str | None:
    """Let the person choose a model; the current ones are marked."""
    models = await asyncio.to_thread(_models, context)
    if not models:
        raise UsageError("No other model is known here; name one: /model provider/model")
    options = [Option(name, name, about) for name, about in more]
    about = _aligned((name.partition("/")[0], *cells) for name, cells in models.items())
    for name, detail in zip(models, about, strict=True):
        options.append(Option(name, name.partition("/")[2], detail, also=name, current=name in now))
    return await context.pick(f"{title} ($ per M tokens)", options)


@command(complete=_rows)
async def model(context: CommandContext, name: str = "") -> None:
    """Switch to another model.

    It is used from the next model call on. Without a name, choose from a list.
    """
    chosen = name or await _pick_model(context, "Which model?", (context.opened.agent.status().model,))
    if chosen:
        _take(context, chosen)


executor = replace(model, name="executor", help="Another name for /model.")


def _take(context: CommandContext, name: str) -> None:
    """Switch to a model; if no session could be opened, begin one with it."""
    try:
        agent = context.opened.agent
    except UsageError:
        settings = context.settings
        named = provider_of(name, settings.providers)
        if named and named != (settings.provider or "openai-compatible"):  # these settings are for another provider
            settings = replace(settings, provider=None, base_url=None)
        context.reopen(replace(settings, model=name, origins={**settings.origins, "model": "/model"}))
        return
    agent.apply(Switch(model=name))


def _providers(context: CommandContext) -> list[tuple[str, str]]:
    return [(name, "") for name in dict.fromkeys(name.partition("/")[0] for name, _ in _rows(context))]


@command(complete=_providers)
async def provider(context: CommandContext, name: str = "") -> None:
    """Switch to a provider's default model.

    Without a name, choose from a list.
    """
    rows = context.settings.rows
    if not name:
        known = await asyncio.to_thread(_providers, context)
        now = context.opened.agent.status().model.partition("/")[0]
        options = [Option(one, one, row_named(one, rows).default, current=one == now) for one, _ in known]
        name = await context.pick("Which provider?", options) or ""
    if name == LOCAL and LOCAL not in rows:
        await run_command(context, "login", LOCAL)
    elif name:
        row = context.settings.row(name)
        if not row.default:
            raise UsageError(f"{row.name} has no default model; name one: /model {row.name}/MODEL")
        _take(context, f"{row.name}/{row.default}")


@command()
async def effort(context: CommandContext, level: Effort | Literal[""] = "") -> None:
    """Set how hard the model thinks.

    Without a level, choose from a list.
    """
    agent = context.opened.agent
    now = agent.status().effort
    options = [Option(one, one, current=one == now) for one in EFFORTS]
    if chosen := level or await context.pick("Which effort?", options):
        agent.apply(Switch(effort=chosen))


def _advisors(context: CommandContext) -> Sequence[str]:
    """Return the models of the advisors that are asked."""
    from sagent.advisor.extension import AdvisorExtension

    advisory = context.opened.agent.advisory
    return [one.model for one in advisory.roster.active] if isinstance(advisory, AdvisorExtension) else ()


def _rate(context: CommandContext, word: str, name: str) -> None:
    """Record the person's rating of the last advice."""
    from sagent.advisor.extension import AdvisorExtension

    advisory = context.opened.agent.advisory
    if word not in ("good", "bad") or not isinstance(advisory, AdvisorExtension):
        raise UsageError("Give /advisor rate good or /advisor rate bad, with a name if there are several advisors.")
    context.say(f"{advisory.rate(1 if word == 'good' else -1, name)}: {word}")


@command(complete=lambda context: [*_TOGGLES, *_RATINGS, *_rows(context)])
async def advisor(context: CommandContext, text: str = "") -> None:
    """Set, mute or rate the advisor.

    Give [name=]provider/model[,effort=...], off, on, rate good or rate bad, or choose from a list.
    """
    word, _, rest = text.partition(" ")
    if word == "rate":
        word, _, name = rest.strip().partition(" ")
        _rate(context, word, name.strip())
        return
    chosen = text or await _pick_model(context, "Which advisor?", _advisors(context), *_TOGGLES)
    if chosen:
        context.opened.agent.apply(Switch(advisor=chosen))


@command()
async def ask_advisor(context: CommandContext, text: Annotated[str, "question"] = "") -> None:
    """Ask the advisor about the conversation now.

    A question is optional.
    """
    context.opened.agent.apply(Consult(question=text))
