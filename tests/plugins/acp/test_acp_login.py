"""`sagent acp --login` on a terminal, which an editor opens."""

import pytest

from tests.repl.console import Console

pytestmark = pytest.mark.needs("tmux")


def test_editor_login_saves_working_key(console: Console) -> None:
    console.serve([])
    console.program = [*console.program, "acp", "--login"]
    console.start(ready="number:")
    number = next(line.split()[0] for line in console.screen.splitlines() if line.split()[1:2] == ["anthropic"])
    console.type(number)
    console.until("Key for anthropic (not shown):")
    console.type("secret-key")
    screen = console.until("so the key could not be tested", "ended 0")
    assert "secret-key" not in screen
    config = console.cwd.parent / "home" / ".config" / "sagent" / "config.toml"
    assert "secret-key" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
