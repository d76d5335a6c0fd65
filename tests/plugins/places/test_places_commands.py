"""`/cd` and `/add-dir`: the session goes on in another directory, or with one more."""

from dataclasses import replace
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.policy.rules import Rule, Rules
from tests.repl.recorded import RecordingContext


@pytest.fixture
def kept(context: RecordingContext, monkeypatch: pytest.MonkeyPatch) -> RecordingContext:
    """A session that has a file, and a rule of the person's."""
    monkeypatch.setattr(context.opened.agent.log, "path", "/session")
    context.opened.policy.rules = Rules(allow=(Rule.parse("Edit(src/**)"),))
    return context


async def test_cd_keeps_settings_and_drops_allowed_rules(kept: RecordingContext, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    await kept.do("/cd other")
    assert kept.reopened is not None
    settings, choices = kept.reopened
    assert settings == replace(kept.settings, cwd=tmp_path / "other", session=Path("/session"))
    assert choices is not None and choices.rules is None


@pytest.mark.parametrize("line", ["/cd a b", "/cd 'a b'", '/cd "a b"', "/cd a b/"])
async def test_directory_may_be_quoted(kept: RecordingContext, tmp_path: Path, line: str) -> None:
    (tmp_path / "a b").mkdir()
    await kept.do(line)
    assert kept.reopened is not None and kept.reopened[0].cwd == tmp_path / "a b"


async def test_session_without_messages_moves(kept: RecordingContext, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    await kept.do("/cd other")
    assert kept.reopened is not None
    settings, choices = kept.reopened
    assert choices is not None and choices.mark(settings).session is None  # nothing of it was kept
    there = replace(settings, session=tmp_path)
    assert choices.mark(there).session == tmp_path


async def test_added_directory_keeps_rules(kept: RecordingContext, tmp_path: Path) -> None:
    other = tmp_path.with_name("beside")
    other.mkdir()
    await kept.do(f"/add-dir {other}")
    assert kept.reopened is not None
    settings, choices = kept.reopened
    assert settings.add_dirs == (other,) and settings.cwd == tmp_path
    assert choices is not None and choices.rules == kept.opened.policy.rules


@pytest.mark.parametrize("line", ["/cd nowhere", "/cd .", "/cd ~nobody-here", "/add-dir .", "/add-dir nowhere"])
async def test_wrong_directories_are_refused(kept: RecordingContext, line: str) -> None:
    with pytest.raises(UsageError):
        await kept.do(line)
    assert kept.reopened is None


async def test_prompt_cannot_widen_directories(kept: RecordingContext, tmp_path: Path) -> None:
    kept.has_person = False
    for line in (f"/add-dir {tmp_path.parent}", f"/cd {tmp_path.parent}"):
        with pytest.raises(UsageError, match="on the command line"):
            await kept.do(line)


async def test_cd_goes_back(kept: RecordingContext, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        await kept.do("/cd -")
    (tmp_path / "other").mkdir()
    for line, there in (("/cd other", tmp_path / "other"), ("/cd -", tmp_path), ("/cd -", tmp_path / "other")):
        await kept.do(line)
        assert kept.reopened is not None and kept.reopened[0].cwd == there
        kept.use(kept.reopened[0])
