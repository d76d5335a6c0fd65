"""`sagent slack`: threads of Slack as sessions, until a signal ends it."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.errors import UsageError
from sagent.lib.signals import on_first_signal
from sagent.plugins.hosting.listening import require
from sagent.plugins.slack import PACKAGES

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent
    from sagent.plugins.slack.conversation import Opening, OpenThread
    from sagent.plugins.slack.rules import ChatRules

EPILOG = """RULES is a TOML file that says who may write in which channel, and its mode, directory and budget. The
tokens are SLACK_APP_TOKEN (xapp-...) and SLACK_BOT_TOKEN (xoxb-...)."""
_RULED = ("permission_mode", "plan", "max_budget_usd")


def run_slack(argv: Sequence[str]) -> int:
    parser = Parser("slack", "Run each Slack thread as a session.", epilog=EPILOG)
    parser.add_argument("rules", metavar="RULES", help="a TOML file")
    parser.add_config()
    given, flags = parser.parse_apart(argv, _RULED, "RULES say that, for each channel; leave it out")
    require("sagent slack", "slack", PACKAGES, "slack_sdk", "aiohttp")
    from sagent.plugins.slack.rules import read_rules

    tokens = [os.environ.get(name, "") for name in ("SLACK_APP_TOKEN", "SLACK_BOT_TOKEN")]
    if not all(tokens):
        raise UsageError("Set SLACK_APP_TOKEN and SLACK_BOT_TOKEN to the app's token and the bot's.")
    return asyncio.run(_serve(read_rules(Path(given.rules)), tokens, {**flags, "config": given.config}))


async def _serve(rules: "ChatRules", tokens: Sequence[str], flags: Mapping[str, object]) -> int:
    from sagent.cli.settings import load_settings
    from sagent.plugins.slack.host import ChatHost
    from sagent.plugins.slack.socket_mode import API, open_slack

    received = 0
    folder = load_settings(flags).state_dir / "chat" / "slack"
    async with open_slack(tokens[0], tokens[1], os.environ.get("SLACK_API_URL") or API) as surface:
        serving = asyncio.create_task(ChatHost(surface, rules, folder, opener(flags)).run())

        def on_signal(number: int) -> None:
            nonlocal received
            received = number
            serving.cancel()

        on_first_signal(on_signal)
        report(f"serving Slack in {', '.join(rules.places)}")
        await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()
    return 128 + received


def opener(flags: Mapping[str, object]) -> "OpenThread":
    """Return a function that opens the agents of threads: by the flags and settings, within the rules of their
    channel."""

    def opened(opening: "Opening") -> "AbstractAsyncContextManager[Agent]":
        from sagent.app import open_agent
        from sagent.cli.settings import load_settings
        from sagent.plugins.hosting.opening import session_settings
        from sagent.tools.ask import AskUser

        rules = opening.rules
        given = {
            **flags,
            "cwd": str(rules.cwd),
            "session": str(opening.session),
            "permission_mode": rules.mode,
            "max_budget_usd": str(rules.usd_per_thread),
            **({"model": rules.model} if rules.model else {}),
        }
        more = (*opening.tools, AskUser(opening.answer))
        return open_agent(session_settings(load_settings(given)), opening.listener, opening.ask, more=more)

    return opened
