"""Models that write their calls as text, at every door of the program and with what else a session has."""

import json
from collections.abc import Mapping
from typing import Any

from sagent.testing.script import Listed, Turn
from sagent.testing.server import FakeProviderServer
from tests.cli.program import Shell
from tests.depth import later

SMALL = [Listed("tiny-q4", window=16_384, owner="llamacpp", weights=1_777_088_000)]
LOOK = Turn(text="I look.\n\n```bash\nls\n```\n")
DONE = Turn(text="Done.")


def _bodies(server: FakeProviderServer) -> list[Mapping[str, Any]]:
    return [request.json for request in server.requests if request.method == "POST"]


@later
def test_native_advisor_asked_by_block(shell: Shell) -> None:
    asks, advises = Turn(text="```advisor\nWhat first?\n```"), Turn(text="VERDICT: proceed\nNEXT: look")
    server = shell.serve([asks, advises, LOOK, DONE])
    flags = ("--tool-calls", "text", "--advisor", "anthropic/claude-opus-4-6", "--permission-mode", "full")
    done = shell.run(*flags, "Begin")
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    assert not any("tools" in body or "betas" in body for body in _bodies(server))
    assert "- advisor (text: question)" in json.dumps(_bodies(server)[0])
    assert "VERDICT" in json.dumps(_bodies(server)[2])
