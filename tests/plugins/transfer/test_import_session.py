"""`/import-session` and `sagent resume` on a terminal: the conversation is shown, and goes on."""

from pathlib import Path

import pytest
from told_transcripts import IDS, TELL

from sagent.errors import UsageError
from sagent.plugins.audit.verify import verify
from sagent.testing.script import Turn
from tests.depth import later
from tests.repl.console import Console
from tests.repl.recorded import RecordingContext


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


class TestSlashCommand:
    async def test_transcript_is_opened_as_a_session(self, context: RecordingContext, home: Path) -> None:
        TELL["claude"](home)
        said = await context.do(f"/import-session {IDS['claude'][:8]} claude")
        assert "Taken over from Claude Code" in said
        assert "left out: 1 × a signature of thinking" in said
        assert context.reopened is not None
        settings, _ = context.reopened
        assert settings.session is not None
        assert verify(settings.session).problems == ()

    async def test_newest_are_offered(self, context: RecordingContext, home: Path) -> None:
        for tell in TELL.values():
            tell(home)
        context.picks = [IDS["pi"]]
        assert "Taken over from pi" in await context.do("/import-session")
        assert {option.value for option in context.offered} == set(IDS.values())

    async def test_nothing_chosen_changes_nothing(self, context: RecordingContext, home: Path) -> None:
        TELL["pi"](home)
        context.picks = [None]
        assert await context.do("/import-session") == ""
        assert context.reopened is None

    @pytest.mark.parametrize("words", ["", " nothing-here", f" {IDS['pi']} emacs", f" {IDS['pi']} codex"])
    async def test_wrong_names_are_refused(self, context: RecordingContext, home: Path, words: str) -> None:
        if words:
            TELL["pi"](home)
        with pytest.raises(UsageError):
            await context.do(f"/import-session{words}")
        assert context.reopened is None

    async def test_prompt_cannot_take_over(self, context: RecordingContext, home: Path) -> None:
        TELL["pi"](home)
        context.has_person = False
        with pytest.raises(UsageError, match="sagent resume"):
            await context.do(f"/import-session {IDS['pi']}")


class TestTerminal:
    def test_conversation_is_shown_and_goes_on(self, console: Console) -> None:
        TELL["pi"](Path(console.environment["HOME"]))
        server = console.serve([Turn("Gone on.")])
        console.start()
        console.type(f"/import-session {IDS['pi']}")
        console.keys("Enter")
        console.until("All done.")
        console.type("go on")
        console.keys("Enter")
        console.until("Gone on.")
        assert b"and now?" in server.requests[-1].body

    @later
    def test_command_opens_it(self, console: Console) -> None:
        TELL["codex"](Path(console.environment["HOME"]))
        server = console.serve([Turn("Gone on.")])
        console.start("resume", IDS["codex"], ready="All done.")
        console.type("go on")
        console.keys("Enter")
        console.until("Gone on.")
        assert b"and now?" in server.requests[-1].body
