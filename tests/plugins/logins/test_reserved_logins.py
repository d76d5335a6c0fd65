"""Logins that a vendor keeps to its own program: named with what may be used, and never offered."""

from pathlib import Path

import pytest

from sagent.config import load
from sagent.plugins.setup.first import find_offers
from tests.cli.program import Shell

pytestmark = pytest.mark.plugin("setup")


@pytest.mark.parametrize(
    ("file", "instead"),
    [
        (".gemini/oauth_creds.json", "sagent login google"),
        (".grok/auth.json", "sagent login xai"),
        (".kimi/credentials/kimi-code.json", "sagent login moonshot"),
        (".kimi-code/credentials/kimi-code.json", "sagent login moonshot"),
    ],
)
def test_reserved_login_is_named_and_not_offered(
    file: str, instead: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(shell.environment["HOME"])
    assert file not in shell.run("doctor", model="").out
    place = home / file
    place.parent.mkdir(parents=True)
    place.write_text('{"access_token": "hidden-token", "refresh_token": "hidden-too"}')
    out = shell.run("doctor", model="").out
    (line,) = [line for line in out.splitlines() if file in line]
    assert "that program alone" in line and instead in out and "hidden" not in out
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", "")
    assert [offer for offer in find_offers(load({}, {"HOME": str(home)}, shell.cwd)) if file in offer.hint] == []
