"""A team's budget on a real bus: machines together stay within it, whatever ends, restarts or has another clock."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from buses import Broker, options

from sagent.errors import BudgetExceeded, UsageError
from sagent.plugins.mesh import names, team_money
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.team_money import GONE_SECONDS, KEY, TeamMoney, TeamShort
from sagent.plugins.spending.limits import Limit
from sagent.plugins.spending.team import Team, open_team
from sagent.testing.server import Turn, Usage
from tests.cli.program import Shell
from tests.depth import deep
from tests.waiting import SECONDS

pytestmark = pytest.mark.plugin("spending")
SPENDER = [sys.executable, str(Path(__file__).with_name("team_spender.py"))]
NANO = 10**9
DAY = 86_400.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(options(tmp_path_factory.mktemp("bus"))) as found:
        yield found


@pytest.fixture
async def empty(server: Broker) -> str:
    """The URL of the bus, on which nothing was spent yet."""
    async with connected(server.url) as bus:
        await bus.ensure()
        await bus.bucket(names.BUDGETS).delete(KEY)
    return server.url


class Clock:
    """The time of this process, which can be set forward."""

    def __init__(self) -> None:
        self.ahead, self._real = 0.0, team_money.clock

    def __call__(self) -> float:
        return self._real() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(team_money, "clock", found)
    return found


@asynccontextmanager
async def quiet(url: str) -> AsyncIterator[TeamMoney]:
    """The money without its work in the background, as of a process that is stopped or cut off."""
    async with connected(url) as bus:
        money = TeamMoney(bus)
        await money.begin()
        yield money


async def spend(money: TeamMoney, nano: int, **caps: int) -> bool:
    """Hold and settle; False if a budget does not allow it."""
    hold = await money.reserve(cast("Any", caps or {"day": 100}), nano)
    if isinstance(hold, TeamShort):
        return False
    money.settle(hold, nano)
    await money.flush()
    return True


def spenders(tmp_path: Path, url: str, cap: str, *zones: str) -> list["subprocess.Popen[bytes]"]:
    """Start a process for each time zone, each with a state directory of its own, as on another machine."""
    started = []
    for number, zone in enumerate(zones):
        (state := tmp_path / f"machine{number}").mkdir()
        words, pipe = [*SPENDER, str(state), cap, url], subprocess.PIPE
        started.append(subprocess.Popen(words, stdout=pipe, stderr=pipe, env=os.environ | {"TZ": zone}))
    return started


def bills(running: "list[subprocess.Popen[bytes]]", cap: int) -> None:
    """Check that processes have stayed within a budget, and have used it."""
    said = [process.communicate(timeout=SECONDS) for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said
    bill = sum(int(line) for out, _ in said for line in out.split())
    assert cap - 1_000 * 1_000 - 256 * 10_000 <= bill <= cap  # less is left than the least call may cost
    assert all(b"budget_team_day is $" in told and b"00:00 UTC" in told for _, told in said), said


async def test_machines_stay_within_a_day(tmp_path: Path, empty: str) -> None:
    zones = ("Asia/Tokyo", "America/New_York", "Pacific/Kiritimati")
    await asyncio.to_thread(bills, spenders(tmp_path, empty, "0.10", *zones), NANO // 10)


async def test_server_killed_meanwhile(tmp_path: Path, empty: str, server: Broker) -> None:
    running = spenders(tmp_path, empty, "0.30", "UTC", "UTC")
    for process in running:
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)
    await asyncio.to_thread(server.restart)
    said = [await asyncio.to_thread(process.communicate, timeout=SECONDS) for process in running]
    async with quiet(server.url) as money:
        spent, held = await money.left("day")
    billed = sum(int(line) for out, _ in said for line in out.split())
    assert [process.returncode for process in running] == [0, 0], said
    assert billed <= spent + held <= NANO * 3 // 10


async def test_killed_process_counts_as_spent(tmp_path: Path, empty: str, clock: Clock) -> None:
    words = [*SPENDER, str(tmp_path), "1", empty, "HANG"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"held\n"
        process.send_signal(signal.SIGKILL)
    async with quiet(empty) as money:
        assert await money.left("day") == (0, 6_000_000)
        clock.ahead = GONE_SECONDS + 60
        assert await money.left("day") == (6_000_000, 0)


async def test_lost_process_returns_with_its_bill(empty: str, clock: Clock) -> None:
    async with quiet(empty) as cut, quiet(empty) as other:
        hold = await cut.reserve({"day": 100}, 60)
        assert isinstance(hold, str)
        clock.ahead = GONE_SECONDS + 60
        assert await other.left("day") == (60, 0)
        cut.settle(hold, 7)
        cut.settle(hold, 7)  # as after an answer that was lost
        await cut.flush()
        await cut.flush()
        assert await other.left("day") == (7, 0)


async def test_days_and_months_of_utc(empty: str, clock: Clock) -> None:
    async with quiet(empty) as money:
        begin, spent = datetime.now(UTC), dict[str, int]()
        for number in range(deep(40, 400)):
            clock.ahead = number * DAY
            month = f"{begin + timedelta(days=number):%Y-%m}"
            assert await spend(money, 10, day=10, month=10_000)
            assert not await spend(money, 1, day=10, month=10_000)
            spent[month] = spent.get(month, 0) + 10
            assert await money.left("month") == (spent[month], 0), month
            assert not await spend(money, 1, month=spent[month])
        clock.ahead = 0.0  # a clock that is set back frees nothing
        assert not await spend(money, 1, day=10)


async def test_unreachable_bus_refuses_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.mesh.connection.CALL_TIMEOUT_SECONDS", 0.2)
    with Broker(options(tmp_path)) as broker:
        bus = connected(broker.url)
        found = await bus.__aenter__()
        await found.ensure()
        money = TeamMoney(found)
        await money.begin()
    team = Team(cast("Any", money), (Limit("budget_team_day", Decimal(1), "day", zone=UTC),))
    with pytest.raises(BudgetExceeded, match="budget_team_day cannot be kept"):
        await team.reserve(Decimal("0.1"))
    await bus.__aexit__(None, None, None)


def settings(url: str, *extras: object) -> Any:
    values = {"budget_team_day": Decimal(1), "budget_team_bus": url}
    plugins = SimpleNamespace(extras=lambda _: iter(extras))
    return SimpleNamespace(of=lambda setting: values.get(setting.name), plugins=plugins)


@pytest.mark.parametrize(("url", "words"), [("", "budget_team_bus"), ("nats://127.0.0.1:1", "plugin mesh")])
async def test_team_budget_needs_bus_and_mesh(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        async with open_team(settings(url)):
            pass


async def test_runs_share_a_teams_day(shell: Shell, empty: str) -> None:
    shell.serve([Turn(text="Done.", usage=Usage(input=1_000, output=10_000))] * 9)  # $0.153
    team = ("--budget-team-day", "0.16", "--budget-team-bus", empty)
    first = await asyncio.to_thread(shell.run, *team, "hello")
    assert first.code == 0, first.err
    second = await asyncio.to_thread(shell.run, *team, "x" * 60_000)
    assert second.code != 0 and "budget_team_day is $0.16" in second.err and "00:00 UTC" in second.err
    file = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'budget_team_day = 0.16\nbudget_team_bus = "{empty}"\n')
    shown = await asyncio.to_thread(shell.run, "usage", "--output-format", "json", model="")
    (row,) = cast("Any", shown.json)["budgets"]
    assert row["budget"] == "budget_team_day" and abs(row["left"] - 0.007) < 1e-9, json.dumps(row)
    file.write_text('budget_team_day = 0.16\nbudget_team_bus = "nats://127.0.0.1:1"\n')
    assert "what is left is unknown" in (await asyncio.to_thread(shell.run, "usage", model="")).out
    stopped = await asyncio.to_thread(shell.run, "hello")
    assert stopped.code != 0 and "budget_team_day cannot be kept, so nothing is run" in stopped.err
