"""`/setup`: the first question to a person without a provider: a login, a server of this machine, a key, or a demo."""

import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

from sagent.config.plugins import named_errors
from sagent.errors import SagentError, UsageError
from sagent.plugin import Extra, resolve
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.opening import NoSession
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.config import Settings

OFFERS = "setup"  # where plugins add the logins that they find
PORT_TIMEOUT_SECONDS = 0.3
LISTING_TIMEOUT_SECONDS = 20.0  # a program that is started first included


class Offer(NamedTuple):
    """A login that is on this machine already: a provider that needs no key, and where its login was found."""

    provider: str
    label: str
    hint: str


@command(here=True)
async def setup(context: CommandContext) -> None:
    """Choose what answers you, from the list of the first start.

    A login of another program on this machine, a server on it, or a key. The demo needs none of them.
    """
    offers = {f"login {each.provider}": each for each in await asyncio.to_thread(find_offers, context.settings)}
    while True:
        options = [
            *(Option(way, each.label, each.hint) for way, each in offers.items()),
            Option("key", "Enter an API key", "it is tested, then saved; or set the provider's variable"),
            Option("local", "Use a server on this machine", await _answering()),
            Option("demo", "See the demo", "sagent at work, offline and without a key"),
        ]
        way = await context.pick(_question, options)
        before = context.settings
        try:
            if way is None:
                _say_how_to_return(context)
                return
            await (_use_login(context, offers[way]) if way in offers else _WAYS[way](context))
        except SagentError as error:
            context.say(str(error))
        if context.settings is not before:
            return  # a session is being opened


def _say_how_to_return(context: CommandContext) -> None:
    """Say how to see the list again, while nothing answers the person."""
    try:
        _ = context.opened
    except NoSession:
        context.say("/setup brings this list back.")


def _question(_: int) -> Sequence[Line]:
    return [(("class:ask", "? What should answer you?"),)]


def find_offers(settings: "Settings") -> list[Offer]:
    """Return the logins that plugins find, of providers that may be used. A plugin that fails offers nothing."""
    allowed, found = settings.allow_providers, list[Offer]()
    for plugin, extra in settings.plugins.owned(Extra):
        if extra.to == OFFERS:
            with suppress(UsageError), named_errors("The offer of logins", plugin):
                find = cast("Callable[[Settings], Iterable[tuple[str, str, str]]]", resolve(extra.add))
                found += [Offer(*each) for each in find(settings)]
    return [each for each in found if allowed is None or each.provider in allowed]


async def _answering() -> str:
    """Name the local servers that accept connections."""
    from sagent.app.models import LOCAL_SERVERS

    async def open_at(url: str) -> bool:
        place = urlsplit(url)
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(PORT_TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.close()
            return True
        return False

    there = await asyncio.gather(*map(open_at, LOCAL_SERVERS.values()))
    found = [name for name, answers in zip(LOCAL_SERVERS, there, strict=True) if answers]
    return f"{' and '.join(found)} answers" if found else f"start {' or '.join(LOCAL_SERVERS)} first"


async def _use_login(context: CommandContext, offer: Offer) -> None:
    """Continue with a login's provider, now and later, if it lists its models. Raises SagentError."""
    from sagent.plugins.setup.stored import store_value
    from sagent.providers.registry import provider_named

    settings = context.settings
    context.say(f"Asking {offer.provider} which models it has …")
    provider = provider_named(offer.provider, rows=settings.rows)
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_SECONDS):
            if not await provider.models():
                raise UsageError(f"{offer.provider} lists no models.")
    except TimeoutError as error:
        raise UsageError(f"{offer.provider} did not answer within {LISTING_TIMEOUT_SECONDS:.0f} s.") from error
    finally:
        await provider.aclose()
    try:
        await asyncio.to_thread(store_value, settings.user_file, "provider", offer.provider)
        context.say(f"{offer.provider} is used from now on: provider in {settings.user_file}")
    except (SagentError, OSError) as error:
        context.say(f"{offer.provider} is used for this session only: {error}")
    origins = {**settings.origins, "provider": "/model"}
    context.reopen(replace(settings, model=None, provider=offer.provider, base_url=None, origins=origins))


async def _enter_key(context: CommandContext) -> None:
    from sagent.plugins.setup.key import login

    await login.run(context, {})


async def _use_local(context: CommandContext) -> None:
    from sagent.plugins.setup.key import login

    await login.run(context, {"provider": "local"})


async def _show_demo(context: CommandContext) -> None:
    """Run the demo and show its paragraphs as they come."""
    from sagent.plugins.setup.demo import import_path

    command, own = (sys.executable, "-m", "sagent", "demo"), {**os.environ, "PYTHONPATH": import_path()}
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, cwd=context.settings.cwd, env=own, stdin=null, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        paragraph = list[str]()
        async for line in process.stdout:
            if text := line.decode(errors="replace").rstrip():
                paragraph.append(text)
            else:
                _show_paragraph(context, paragraph)
        _show_paragraph(context, paragraph)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _show_paragraph(context: CommandContext, lines: list[str]) -> None:
    """Show lines as one block, if there are any, and remove them: blocks are set apart by an empty line."""
    if lines:
        context.write([(("", line),) for line in lines])
        lines.clear()


_WAYS = {"key": _enter_key, "local": _use_local, "demo": _show_demo}
