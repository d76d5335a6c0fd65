"""Advisors as the settings name them, made only when there are any or one is switched to."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from sagent.agent.resources import ExtensionFactory
from sagent.app.models import Choice
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.model import Model

if TYPE_CHECKING:
    from sagent.advisor.advisor import Advisor

_GONE = (
    "Advisor {one} was asked at {place}, and is not asked now: a session's log leads to no address. Give it again "
    "(--advisor and --advisor-api-base, or in a file), or --advisor none."
)


def advisors_of(settings: Settings, choice: Choice, notices: list[str]) -> ExtensionFactory:
    """What gives agents their advisors. One that cannot be had is done without, and said so in the notices; where it
    was asked for on the command line that is a UsageError."""
    chosen = tuple(advisor for advisor in settings.advisors if _is_there(settings, choice, advisor, notices))

    @cache
    def factory() -> ExtensionFactory:
        from sagent.advisor.advisory import Setup
        from sagent.advisor.extension import advise
        from sagent.advisor.rules import Rules

        setup = Setup(
            rules=settings.advisor_rules or Rules(),
            mode=settings.advisor_mode,
            on_stop=settings.advisor_stop,
            panel=settings.panel,
            base=settings.cwd,
            resolve=lambda advisor: _model(settings, choice, advisor),
        )
        return advise(chosen, setup)

    if chosen:
        factory()  # says at once what is wrong with one
    return lambda agent, above: factory()(agent, above)  # noqa: PLW0108 -- made when it is first asked for


def remember_advisors(
    settings: Settings, past: Sequence[str], notices: list[str]
) -> tuple[Settings, Sequence[str], str]:
    """The settings with the advisors that the session had, by the changes in its log, unless a flag or a variable names
    others; the names of those that are off; and what is to be logged of who advises, "" where nothing is new."""
    before: Mapping[Advisor, str] = {}
    off: Sequence[str] = ()
    if past:
        from sagent.advisor.roster import recall

        try:
            before, off = recall(past)
        except UsageError as error:
            notices.append(f"The session's advisors are not remembered: {error}")
        if not settings.origins.get("advisors", "").startswith(("--", "SAGENT_")):
            gone = {one: place for one, place in before.items() if place and place != _address(settings, one)}
            notices += (_GONE.format(one=one, place=place) for one, place in gone.items())
            return replace(settings, advisors=tuple(one for one in before if one not in gone)), off, ""
        off = [name for name in off if any(one.name == name for one in settings.advisors)]
    has = {one: _address(settings, one) if one.name in settings.advisor_addresses else "" for one in settings.advisors}
    told = "; ".join(f"{one} at {place}" if place else str(one) for one, place in has.items())
    return settings, off, "" if [*has.items()] == [*before.items()] else f"advisors {told or 'none'}"


def _address(settings: Settings, advisor: "Advisor") -> str:
    """Where an advisor is asked by the settings, without what may be a password in it."""
    from sagent.config.servers import own_address, provider_of

    given = settings.advisor_addresses.get(advisor.name)
    address = given if given and given.base_url else None
    provider = provider_of(advisor.model, settings.providers)
    return re.sub("//[^/@]*@", "//", (address or own_address(provider, settings.providers, os.environ)).base_url)


def _model(settings: Settings, choice: Choice, advisor: "Advisor") -> Model:
    """The model of an advisor, at the address that the settings give for it."""
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
        notices.append(f"Advisor {advisor.name} ({advisor.model}) is not there: {error} The run goes on without.")
        return False
    if (model.provider, model.id) == (choice.model.provider, choice.model.id):
        notices.append(f"Advisor {advisor.name} is the executor's own model, {model.provider}/{model.id}.")
    return True
