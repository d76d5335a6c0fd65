"""/memory: notes shown, edited and forgotten, with and without a person."""

import re

import pytest

from sagent.errors import UsageError
from sagent.plugins.memory.notes import find_note, folders
from sagent.repl.headless_command import run_headless_command
from tests.repl.recorded import RecordingContext


async def test_headless_lists_and_explains(context: RecordingContext) -> None:
    written: list[str] = []
    said = await run_headless_command("/memory\nGo on.", context.settings, context.opened, written.append)
    assert said.endswith("Go on.") and "#note writes to" in "".join(written) and "AGENTS.md" in "".join(written)
    with pytest.raises(UsageError, match="The memory has no files"):
        await run_headless_command("/memory forget", context.settings, context.opened, written.append)
    with pytest.raises(UsageError):
        await context.do("/memory x")


async def test_init_asks_for_instructions(context: RecordingContext) -> None:
    await context.do("/init")
    assert "Write AGENTS.md" in context.prompts[0]
    (context.settings.cwd / "AGENTS.md").write_text("Run make.\n")
    await context.do("/init")
    assert "Improve AGENTS.md" in context.prompts[1]


async def test_note_shown_edited_and_forgotten(context: RecordingContext) -> None:
    settings = context.settings
    path = folders(settings)["person"] / "style guide.md"
    path.parent.mkdir(parents=True)
    path.write_text("Use tabs\n")
    assert re.search("Memory .off: set memory = true.*\n.*person/style guide.md +Use tabs", await context.do("/memory"))
    assert await context.do('/memory show "style guide"') == "Use tabs\n"
    context.edits = ["Use tabs", "Use blanks"]
    context.picks = [note := find_note(settings, "person/style guide.md")]
    assert "is unchanged" in await context.do("/memory edit")
    assert [one.also for one in context.offered] == ["person/style guide.md"]
    assert "Saved person/style guide.md" in await context.do('/memory edit "style guide"')
    assert path.read_text() == "Use blanks\n"
    with pytest.raises(UsageError, match=r"no note 'style guid'\. Did you mean person/style guide\.md"):
        await context.do('/memory forget "style guid"')
    context.picks = [None, note]
    assert await context.do("/memory forget") == "" and path.exists()
    assert "Deleted person/style guide.md" in await context.do("/memory forget") and not path.exists()


async def test_concurrently_changed_note_kept(context: RecordingContext, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders(context.settings)["project"] / "a.md"
    path.parent.mkdir(parents=True)
    path.write_text("One\n")

    async def edit(text: str) -> str:
        path.write_text("Of an agent\n")
        return "Mine"

    monkeypatch.setattr(context, "edit", edit)
    with pytest.raises(UsageError, match="changed by someone else meanwhile"):
        await context.do("/memory edit a")
    assert path.read_text() == "Of an agent\n"
