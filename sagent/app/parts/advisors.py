"""Advisors from the settings, made only if there are any or one is switched to."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from sagent.agent import Agent
from sagent.agent.resources import ExtensionFactory
from sagent.app.builder import AgentBuilder
from sagent.app.models import Choice
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.raised import reason
from sagent.model import Model, is_same_model
from sagent.peer import Switch
from sagent.plugin import Trigger, resolve
from sagent.session.contents import SwitchedEntry

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor
    from sagent.advisor.signals import Spotter, Watch

_GONE = (
    "Advisor {one} was at {place}, and is off now, because addresses are not taken from a session's log. Give it "
    "again (--advisor and --advisor-api-base, or in a file), or --advisor none."
)


async def add(builder: AgentBuilder) -> None:
    """Add the advisors in the settings, or else those the session had. Raises UsageError."""
    settings, off, changed = remember_advisors(builder.settings, builder.past.advisors, builder.notices)
    advisory = builder.resources.advisory
    if settings.advisors:
        advisory = advisors_of(settings, builder.choice, builder.notices, builder.warn)
    builder.resources = replace(builder.resources, advisory=advisory, advised=bool(settings.advisors))

    def settle(agent: Agent) -> None:
        if changed:
            agent.state.journal.record(SwitchedEntry(advisor=changed))
        for name in off:
            agent.apply(Switch(advisor=f"{name}=off"))

    builder.started.append(settle)


def advisors_of(
    settings: Settings, choice: Choice, notices: list[str], warn: Callable[[str], object]
) -> ExtensionFactory:
    """Build the extension that gives agents their advisors. An unavailable advisor is left out with a notice; if it was
    given on the command line, that is a UsageError. `warn` reports later failures."""
    from sagent.advisor.advisory import Setup
    from sagent.advisor.extension import advise
    from sagent.advisor.rules import Rules

    chosen = tuple(advisor for advisor in settings.advisors if _is_there(settings, choice, advisor, notices))
    setup = Setup(
        rules=settings.advisor_rules or Rules(),
        mode=settings.advisor_mode,
        on_stop=settings.advisor_stop,
        panel=settings.panel,
        base=settings.cwd,
        resolve=lambda advisor: _model(settings, choice, advisor),
        spotters=tuple(_spotters(settings, warn)),
    )
    return advise(chosen, setup)


def _spotters(settings: Settings, warn: Callable[[str], object]) -> Iterator["Spotter"]:
    """Yield the triggers of plugins. One that fails says so once, and does not fire."""
    from sagent.advisor.signals import Spotter

    failed: set[str] = set()

    def spotter(trigger: Trigger) -> Spotter:
        def look(watch: "Watch") -> str:
            try:
                return str(cast("Callable[[Watch], object]", resolve(trigger.fires))(watch) or "")
            except Exception as error:
                if trigger.name not in failed:
                    failed.add(trigger.name)
                    owner = settings.plugins.owner(Trigger, trigger.name)
                    warn(f"The trigger {trigger.name} of the plugin {owner} failed: {reason(error)}.")
                return ""

        return Spotter(trigger.name, look, trigger.at_end)

    yield from (spotter(trigger) for trigger in settings.plugins.every(Trigger) if trigger.fires)


def remember_advisors(
    settings: Settings, past: Sequence[str], notices: list[str]
) -> tuple[Settings, Sequence[str], str]:
    """Return settings with the advisors that the session had, by its log, unless a flag or variable names others; the
    names of muted ones; and a log text if the advisors are new, else ""."""
    before: Mapping[Advisor, str] = {}
    off: Sequence[str] = ()
    if past:
        from sagent.advisor.roster import recall

        try:
            before, off = recall(past)
        except UsageError as error:
            notices.append(f"The session's advisors could not be restored: {error}")
        if not settings.origins.get("advisors", "").startswith(("--", "SAGENT_")):
            gone = {one: place for one, place in before.items() if place and place != _address(settings, one)}
            notices += (_GONE.format(one=one, place=place) for one, place in gone.items())
            return replace(settings, advisors=tuple(one for one in before if one not in gone)), off, ""
        named = settings.origins["advisors"].startswith("--")  # naming an advisor on the command line unmutes it
        kept = [name for name in off if any(advisor.name == name for advisor in settings.advisors)]
        before, off = ({}, ()) if named and kept else (before, kept)
    has = {one: _address(settings, one) if one.name in settings.advisor_addresses else "" for one in settings.advisors}
    listed = "; ".join(f"{one} at {place}" if place else str(one) for one, place in has.items())
    return settings, off, "" if [*has.items()] == [*before.items()] else f"advisors {listed or 'none'}"


def _address(settings: Settings, advisor: "Advisor") -> str:
    """Return an advisor's URL from the settings, without a password in it."""
    from sagent.config.servers import own_address, provider_of

    given = settings.advisor_addresses.get(advisor.name)
    address = given if given and given.base_url else None
    provider = provider_of(advisor.model, settings.providers)
    return re.sub("//[^/@]*@", "//", (address or own_address(provider, settings.providers, os.environ)).base_url)


def _model(settings: Settings, choice: Choice, advisor: "Advisor") -> Model:
    """Return an advisor's model at the address in the settings."""
    address = settings.advisor_addresses.get(advisor.name)
    if address is None:
        return choice.resolve(advisor.model)
    return choice.resolve_at(advisor.model, address.base_url or None, address.api_key or None)


def _is_there(settings: Settings, choice: Choice, advisor: "Advisor", notices: list[str]) -> bool:
    try:
        model = _model(settings, choice, advisor)
    except UsageError as error:
        if settings.origins.get("advisors", "").startswith("--"):
            raise UsageError(f"--advisor {advisor}: {error}") from error
        notices.append(
            f"Advisor {advisor.name} ({advisor.model}) is not available: {error} The run continues without it."
        )
        return False
    if is_same_model(model, choice.model):
        notices.append(f"Advisor {advisor.name} is the executor's own model, {model.provider}/{model.id}.")
    return True
