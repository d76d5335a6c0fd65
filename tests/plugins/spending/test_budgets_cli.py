"""`budget_day` and its like in settings files, and `sagent usage`."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from sagent.testing.server import Turn, Usage
from tests.cli.program import Shell

DEAR = Turn(text="Done.", usage=Usage(input=1_000, output=10_000))  # $0.153 of claude-sonnet-4-6


def config(shell: Shell, text: str) -> None:
    file = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def usage(shell: Shell, *argv: str) -> dict[str, Any]:
    done = shell.run("usage", "--output-format", "json", *argv, model="")
    assert done.code == 0, done.err
    return cast("dict[str, Any]", done.json)


def test_day_is_shared_by_runs(shell: Shell) -> None:
    server = shell.serve([DEAR, Turn(text="Again.", usage=Usage(input=1_000, output=100))] * 9)
    shell.run("before any budget")
    config(shell, "budget_day = 0.20\nbudget_month = 100\n")
    assert shell.run("a short one").code == 0
    assert "max_tokens" in json.dumps(server.requests[1].json)
    bounded = cast("dict[str, int]", server.requests[1].json)["max_tokens"]
    assert bounded <= Decimal("0.047") / Decimal("0.000015")  # what earlier sessions have left
    refused = shell.run("--max-budget-usd", "5", "x" * 60_000)
    assert refused.code != 0 and "budget_day is $0.20" in refused.err and "It renews at" in refused.err
    assert len(server.requests) == 2
    (day, month) = usage(shell)["budgets"]
    assert (day["budget"], month["budget"]) == ("budget_day", "budget_month")
    assert abs(day["spent"] - 0.1575) < 1e-9 and abs(day["left"] - 0.0425) < 1e-9 and day["renews"] > "2026"
    shown = shell.run("usage", model="").out
    assert "budget_day: $0.0425 of $0.20 left, renews at" in shown


def test_project_lowers_a_budget_and_never_raises(shell: Shell) -> None:
    server = shell.serve([DEAR] * 9)
    config(shell, "budget_day = 0.0001\n")
    (shell.cwd / ".sagent").mkdir()
    (shell.cwd / ".sagent/config.toml").write_text("budget_day = 5\nbudget_project = 0.0002\n")
    done = shell.run("hello")
    assert "budget_day" in done.err and "stricter" in done.err and not server.requests
    assert [each["usd"] for each in usage(shell)["budgets"]] == [0.0001, 0.0002]


def test_usage_by_all_and_since(shell: Shell) -> None:
    shell.serve([DEAR])
    shell.run("hello")
    for by in ("day", "week", "project", "model", "person"):
        found = usage(shell, "--by", by)
        assert found["by"] == by and [row["usd"] for row in found["rows"]] == [0.153]
    assert usage(shell, "--since", "1d")["rows"] and not usage(shell, "--since", "2199-01-01")["rows"]
    for wrong in ("yesterday", "", "7", "1m", "2026-02-30", "0001-01-01", "-7d"):
        refused = shell.run("usage", f"--since={wrong}", model="")
        assert refused.code == 2 and "give a day" in refused.err, wrong
    assert "Nothing was spent" in shell.run("usage", "--since", "2199-01-01", model="").out


def test_continued_session_counts_once(shell: Shell) -> None:
    shell.serve([DEAR] * 9)
    config(shell, "budget_day = 50\n")
    shell.run("hello")
    config(shell, "")
    shell.run("--continue", "hello")  # without a budget
    config(shell, "budget_day = 50\n")
    shell.run("--continue", "hello")
    found = usage(shell)
    assert found["budgets"][0]["spent"] == found["usd"] == 0.459


def test_budget_of_nothing_allows_nothing(shell: Shell) -> None:
    server = shell.serve([DEAR])
    assert "budget_day is $0.00" in shell.run("--budget-day", "0", "hello").err
    assert "budget_project is $0.00" in shell.run("--budget-project", "0", "--ephemeral", "hello").err
    assert not server.requests
