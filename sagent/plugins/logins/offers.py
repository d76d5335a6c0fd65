"""The logins of other programs on this machine, for `/setup`. Nothing is started or sent to find them."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sagent.errors import UsageError
from sagent.lib.process import system_path

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
