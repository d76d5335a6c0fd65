"""A tree of three levels in a process, in which a call hangs and the next one waits for the money that it holds."""

import re
from pathlib import Path

import pytest
from program import Shell

from sagent.testing.server import Stall, Turn
from tests.cli.test_agents_cli import FULL, cast, spawn

SETTINGS = """
reasoning_stall_seconds = 5
stall_seconds = 5
max_retries = 0
[prices."anthropic/claude-sonnet-4-6"]
input = 0.5
output = 100
"""
WAIT = re.compile(
    r"root/a/c: waiting for money \(3 s so far\): the next call needs \$[\d.]+, and \$[\d.]+ of \$0.75 is free\. "
    r"In flight: root/a/b holds \$[\d.]+ \(for \d s, silent \d s, given up after \d s more\)\. "
)


@pytest.mark.costly
@pytest.mark.parametrize("flags", [(), ("--output-format", "json")])
def test_wait_behind_hung_call_is_told(shell: Shell, tmp_path: Path, flags: tuple[str, ...]) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(SETTINGS)
    shell.serve(
        cast(
            root=[Turn(calls=(spawn("a"),)), Turn(text="end")],
            root__a=[Turn(calls=(spawn("b"), spawn("c"))), Turn(text="answer of a")],
            root__a__b=[Stall(Turn("never " * 50), after_events=4)],
            root__a__c=[Turn("answer of c")],
        )
    )
    done = shell.run(*FULL, "--config", str(settings), "--max-budget-usd", "0.75", *flags, "go")
    assert (done.code, "end" in done.out) == (0, True)
    assert len(WAIT.findall(done.err)) == 1
    assert "--max-budget-usd" in done.err
