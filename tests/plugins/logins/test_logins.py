"""Subscriptions as the program tells them apart."""

from pathlib import Path
from typing import Any

import pytest

from sagent.errors import UsageError
from sagent.model import is_same_model
from sagent.plugins.logins import AnthropicCLI
from sagent.providers import provider_named


def test_same_model_needs_same_login(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    one, again = (AnthropicCLI.from_credentials(environ=environ) for _ in "ab")
    other_login = AnthropicCLI.from_credentials(environ=environ, variables={"CLAUDE_CONFIG_DIR": "/elsewhere"})
    assert is_same_model(one.model("opus"), again.model("opus"))
    assert not is_same_model(one.model("opus"), other_login.model("opus"))


@pytest.mark.parametrize("name", ["anthropic-cli", "copilot", "openai-subscription"])
def test_login_has_no_sdk(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} uses a login, not an SDK"):
        provider_named(name, transport="sdk")


def test_copilot_rejects_non_text() -> None:
    wrong: Any = 3_141
    with pytest.raises(UsageError, match=r"^key is int: give a string$"):
        provider_named("copilot", key=wrong)
    with pytest.raises(UsageError, match=r"^base_url is int: give a string$"):
        provider_named("copilot", key="k" * 8, base_url=wrong)
    with pytest.raises(UsageError, match=r"^model_id is int: give a string$"):
        provider_named("copilot", key="k" * 8).model(wrong)
