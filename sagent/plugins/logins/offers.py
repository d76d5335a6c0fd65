"""The logins of other programs on this machine, for `/setup` and `sagent doctor`. Nothing is started or sent to find
them."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sagent.errors import UsageError
from sagent.lib.process import system_path
from sagent.plugin import Finding

if TYPE_CHECKING:
    from sagent.config import Settings


def find_logins(_: "Settings") -> Iterator[tuple[str, str, str]]:
    """Yield provider, label and hint of each login."""
    from sagent.plugins.logins.codex_login import LoginFile
    from sagent.plugins.logins.copilot_login import login_file

    if program := shutil.which("claude", path=system_path(os.environ)):
        yield "anthropic-cli", "Use your Claude plan", f"by the program {program} and its login"
    try:
        codex = LoginFile.find(os.environ)
    except UsageError:
        pass
    else:
        yield "openai-subscription", "Use your ChatGPT plan", f"the login of codex, {codex.path}"
    if (copilot := login_file(os.environ)).is_file():
        yield "copilot", "Use your GitHub Copilot plan", f"its login in {copilot}"


class _Reserved(NamedTuple):
    """A program whose vendor gives its login to no other: its files below the home directory, and what to use."""

    program: str
    files: tuple[str, ...]
    instead: str


_RESERVED = (  # docs/providers.md says where each vendor does
    _Reserved("Gemini CLI", (".gemini/oauth_creds.json",), "a key of Google AI Studio: sagent login google"),
    _Reserved("Grok", (".grok/auth.json",), "a key of xAI's console: sagent login xai"),
    _Reserved(
        "Kimi Code",
        (".kimi-code/credentials/kimi-code.json", ".kimi/credentials/kimi-code.json"),
        "a key of the Kimi Code console, or of Moonshot: sagent login moonshot",
    ),
)


def check_reserved(_: "Settings", __: str) -> Sequence[Finding]:
    """Return the logins on this machine that their vendors keep to their own programs, with what may be used."""
    home = Path(os.environ.get("HOME") or Path.home())
    found = ((each, next(filter(os.path.isfile, map(home.joinpath, each.files)), None)) for each in _RESERVED)
    said = "the login of {} ({}) is for that program alone; use {}"
    return [
        Finding("good", "login", said.format(each.program, file, each.instead))
        for each, file in found
        if file is not None
    ]
