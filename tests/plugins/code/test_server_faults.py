"""Servers that are late, wrong, silent or gone: what is said of a change is of the change, or nothing is said."""

import asyncio
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.messages import Message
from sagent.peer import Inject
from sagent.plugins.code.lsp.checked import with_checks
from sagent.plugins.code.lsp.policy import CodePolicy
from sagent.policy import AllowAll, Turn
from sagent.tool import RunContext, ToolOutput
from sagent.tools.decorator import tool
from sagent.tools.write import Write
from tests.depth import later
from tests.plugins.code.conftest import Bench
from tests.tools.conftest import Folder
from tests.waiting import until

GOOD, BAD, WORSE = "one\n", "one\nBAD two\n", "one\nBAD two\nBAD three\n"


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["versioned", "unversioned", "stale", "old-version", "late", "asks"])
async def test_new_error_reported_once(bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "unversioned":
        monkeypatch.setattr("sagent.plugins.code.lsp.documents.UNSURE_SETTLED_SECONDS", 0.1)
    bench.use_fake(kind)
    assert await bench.changed("a.fake", GOOD) == ""
    assert await bench.changed("a.fake", BAD) == f"New error in a.fake:\n2:1 bad: BAD two ({kind})"
    assert await bench.changed("a.fake", WORSE) == f"New error in a.fake:\n3:1 bad: BAD three ({kind})"
    assert await bench.changed("a.fake", GOOD) == ""
    assert bench.warned == []


@later
async def test_earlier_errors_not_new(bench: Bench) -> None:
    bench.use_fake("versioned")
    (bench.root / "a.fake").write_text(BAD)
    assert await bench.changed("a.fake", "BAD zero\n" + BAD) == "New error in a.fake:\n1:1 bad: BAD zero (versioned)"


async def test_starting_server_reports_later(bench: Bench) -> None:
    bench.use_fake("versioned")
    assert await bench.change("a.fake", BAD) == ""
    assert "BAD two" in await bench.later()


async def test_silent_server_blocks_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("silent")
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.CALL_TIMEOUT_SECONDS", 0.05)
    for text in (BAD, WORSE, GOOD):
        async with asyncio.timeout(60):
            assert await bench.changed("a.fake", text) == ""


@later
async def test_silent_server_tried_three_times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("silent")
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 0.05)
    for number in range(4):
        await bench.changed("a.fake", f"BAD {number}\n")
        monkeypatch.setattr("sagent.plugins.code.lsp.checks.CALL_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.CALL_TIMEOUT_SECONDS", 600.0)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 600.0)
    async with asyncio.timeout(60):
        assert await bench.changed("a.fake", GOOD) == ""


@later
async def test_parallel_checks_share_restart(bench: Bench) -> None:
    bench.use_fake("crash")
    names = [f"{number}.fake" for number in range(5)]
    for text in (GOOD, BAD, GOOD, BAD):
        await asyncio.gather(*(bench.change(name, text) for name in names))
        await bench.later()
    assert len(bench.launcher.started) <= 3


@later
async def test_superseded_change_not_reported(bench: Bench) -> None:
    bench.use_fake("versioned")
    await bench.change("a.fake", BAD)
    await bench.change("a.fake", GOOD)
    assert await bench.later() == ""
    await bench.change("a.fake", BAD)
    (bench.root / "a.fake").write_text(GOOD)  # by the person, say
    assert await bench.later() == ""


@later
async def test_crashing_server_restarted_twice(bench: Bench) -> None:
    bench.use_fake("crash")
    for number in range(5):
        assert await bench.changed("a.fake", GOOD + f"{number}\n") == ""
        assert await bench.changed("a.fake", BAD + f"{number}\n") == ""
    assert len(bench.launcher.started) == 3
    assert bench.warned == ["The language server crash is not used in this session: it ended with exit code 7."]


@later
async def test_next_server_replaces_failed_one(bench: Bench) -> None:
    bench.use_fake("no-start", "versioned")
    assert await bench.changed("a.fake", BAD) == "New error in a.fake:\n2:1 bad: BAD two (versioned)"
    assert bench.warned == []


@later
async def test_wrong_length_ends_server(bench: Bench) -> None:
    bench.use_fake("wrong-length")
    for number in range(4):
        assert await bench.changed("a.fake", f"{number}\n") == ""
    [warned] = bench.warned
    assert "it wrote something that is not a message" in warned


async def test_ten_errors_shown_and_rest_counted(bench: Bench) -> None:
    bench.use_fake("huge")
    said = await bench.changed("a.fake", BAD)
    assert said.count("xxx") > 10
    assert len(said) < 5_000
    assert said.endswith("and 1990 more errors")


@later
async def test_one_time_server_not_awaited_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("once")
    assert "BAD two" in await bench.changed("a.fake", BAD)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.TURN_END_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("sagent.plugins.code.lsp.checks.CALL_TIMEOUT_SECONDS", 0.05)
    assert await bench.changed("a.fake", WORSE) == ""


@later
async def test_few_servers_one_per_marked_folder(bench: Bench) -> None:
    bench.use_fake("versioned")
    for number in range(6):
        (bench.root / f"p{number}").mkdir()
        (bench.root / f"p{number}" / "marker").touch()
        assert "BAD two" in await bench.changed(f"p{number}/deep/a.fake", BAD)
        assert "BAD three" in await bench.changed(f"p{number}/b.fake", WORSE)
    assert len(bench.launcher.started) == 6
    await until(lambda: len(bench.checks.servers.running()) == 4, "the end of the oldest")
    assert await bench.changed("../outside.fake", BAD) == ""
    assert len(bench.launcher.started) == 6


async def test_late_errors_read_at_end_of_turn(bench: Bench) -> None:
    bench.use_fake("versioned")
    assert bench.access.checks is bench.checks
    policy = CodePolicy(AllowAll(), bench.access, None)
    assert await bench.change("a.fake", BAD) == ""
    cut, ended = (Turn("root", Message("assistant", stop=stop), None) for stop in ("max_tokens", "end"))
    assert list(await policy.after_turn(cut)) == []
    [action] = await policy.after_turn(ended)
    assert isinstance(action, Inject)
    assert action.message.content == "New error in a.fake:\n2:1 bad: BAD two (versioned)"
    assert list(await policy.after_turn(ended)) == []


async def test_interrupt_still_reports_change(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench.use_fake("silent")
    (bench.root / "a.fake").write_text(GOOD)
    run = RunContext("root", "1", bench.workspace, Folder(tmp_path / "blobs"), lambda _: None)
    [write] = with_checks([Write()], bench.access)
    (slot,) = [await bench.checks.servers.get("types", bench.root / "a.fake", (bench.root,))]
    assert slot is not None
    bench.workspace.saw(bench.root / "a.fake", GOOD.encode())
    call = asyncio.ensure_future(write(json_freeze_object({"file_path": "a.fake", "content": BAD}), run))
    await until(lambda: (bench.root / "a.fake").read_text() == BAD, "the change")
    call.cancel()
    output = await call
    assert isinstance(output, ToolOutput)
    assert output.summary == "Wrote a.fake (2 lines, before 1)."


@pytest.mark.parametrize("name", ["Bash", "Notebook"])
async def test_command_may_change_any_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    @tool(name=name)
    def run_code() -> str:
        """Run code."""
        return "ran"

    looks: list[str] = []
    monkeypatch.setattr(bench.access.checks, "command_ran", lambda: looks.append(name))
    run = RunContext("root", "1", bench.workspace, Folder(tmp_path / "blobs"), lambda _: None)
    [runs] = with_checks([run_code], bench.access)
    await runs(json_freeze_object({}), run)
    assert looks == [name]


@later
async def test_idle_server_stopped_and_restarted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("versioned")
    monkeypatch.setattr("sagent.plugins.code.lsp.servers.MAX_IDLE_SECONDS", 0.0)
    for text in (GOOD, BAD, WORSE, BAD, WORSE):
        await bench.changed("a.fake", text)
        await until(lambda: not bench.checks.servers.running(), "its end")
    monkeypatch.setattr("sagent.plugins.code.lsp.servers.MAX_IDLE_SECONDS", 600.0)
    assert "BAD four" in await bench.changed("a.fake", WORSE + "BAD four\n")
    assert bench.warned == []


@later
@pytest.mark.needs("linux")
async def test_server_memory_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("hungry")
    assert "BAD two" in await bench.changed("a.fake", BAD)
    await bench.checks.aclose()
    bench.use_fake("hungry")
    monkeypatch.setattr("sagent.plugins.code.lsp.servers.MAX_MEMORY_BYTES", 200 << 20)
    assert await bench.changed("a.fake", WORSE) == ""


@later
async def test_whole_home_is_not_project(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use_fake("versioned")
    for home in (bench.root, bench.root / "me"):
        monkeypatch.setenv("HOME", str(home))
        assert await bench.changed("a.fake", BAD) == ""
        (bench.root / "a.fake").unlink()
    (bench.root / "project").mkdir()
    (bench.root / "project" / "marker").touch()
    assert "BAD two" in await bench.changed("project/a.fake", BAD)


async def test_project_programs_need_sandbox(bench: Bench) -> None:
    bench.use_fake("versioned")
    bench.launcher.rule = "none"
    assert await bench.changed("a.fake", BAD) == ""
    assert bench.launcher.started == []
