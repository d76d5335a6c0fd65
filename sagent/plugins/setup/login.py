"""`sagent login`: enter, test and keep a provider's key, or log in at the provider. It needs only a terminal, because
editors start it if they find no key."""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser
from sagent.cli.settings import load_settings
from sagent.errors import UsageError
from sagent.repl.commands.command import CommandContext

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import SessionChoices


def run_login(argv: Sequence[str]) -> int:
    """Enter, test and keep a provider's key. A provider with its own login uses that one, in any browser."""
    parser = Parser("login", run_login.__doc__)
    parser.add_argument("provider", nargs="?", default="", help="whose; without it there is a list to choose from")
    parser.add_argument("--host", default="", help="of a login of its own: your company's host, as in company.ghe.com")
    parser.add_config()
    given = parser.parse_args(argv)
    return log_in({"config": given.config}, provider=given.provider, host=given.host)


def log_in(flags: Mapping[str, object], *, provider: str = "", host: str = "") -> int:
    """Ask for a provider and its key, test the key and keep it. Returns 0 if it is kept. Raises UsageError."""
    from sagent.plugins.setup.key import login

    settings = load_settings(flags)
    row = settings.row(provider) if provider not in ("", "local") else None
    if not sys.stdin.isatty() and not (row and row.login):
        raise UsageError("A login needs a terminal to enter the key on, and there is none.")
    context = _LoginContext(settings)
    given = {name: value for name, value in (("provider", provider), ("host", host)) if value}

    async def once() -> None:
        await login.run(context, given)

    asyncio.run(once())
    return 0 if context.kept else 1


class _LoginContext(CommandContext):
    """Lists and lines on a terminal, without a session."""

    def __init__(self, settings: "Settings") -> None:
        super().__init__()
        self.has_person, self.kept, self._settings = True, False, settings

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        return self._typed(label, secret=secret)

    def _typed(self, label: str, *, secret: bool) -> str | None:
        """Ask for a line while nothing else runs. Ctrl-C ends it at once, while asyncio would wait for a line."""
        from getpass import getpass

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return getpass(label) if secret else input(label)
        except EOFError:
            self._write("")
            return None
        finally:
            signal.signal(signal.SIGINT, before)

    def reopen(self, settings: "Settings", choices: "SessionChoices | None" = None, shown_instead: str = "") -> None:
        self.kept = True
