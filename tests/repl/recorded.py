"""A place where slash commands are carried out and what they do is kept, with an agent on a scripted model."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sagent.agent import Agent, Resources
from sagent.config import Settings, load
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.policy.permissions import PermissionPolicy
from sagent.repl.commands.command import CommandContext, run_command, split_command
from sagent.repl.commands.registry import all_commands
from sagent.repl.opening import OpenedHere, SessionChoices
from sagent.repl.terminal.picker import Lookup, Option
from sagent.sandbox import Sandbox
from sagent.session.log import MemoryLog
from sagent.testing import ScriptedModel
from sagent.tools import Read


class RecordingContext(CommandContext):
    """A context that remembers what was done at it."""

    def __init__(self, settings: Settings, opened: OpenedHere) -> None:
        super().__init__()
        self.has_person = True
        self._settings, self._opened = settings, opened
        self.written: list[str] = []
        self.copied = ""
        self.reopened: tuple[Settings, SessionChoices | None] | None = None
        self.display: list[tuple[str, str]] = []
        self.left = False
        self.picks: list[Any] = []
        self.edits: list[str] = []
        self.offered: Sequence[Option[Any]] = ()
        self.lookup: Lookup[Any] | None = None

    @property
    def opened(self) -> OpenedHere:
        assert isinstance(self._opened, OpenedHere)
        return self._opened

    def _write(self, text: str) -> None:
        self.written.append(text)

    async def pick(self, title: str, options: Sequence[Option[Any]], lookup: Lookup[Any] | None = None) -> Any:
        self.offered, self.lookup = options, lookup
        if not self.picks:
            raise UsageError(f"{title} Nobody can choose here; name it.")
        return self.picks.pop(0)

    async def edit(self, text: str) -> str:
        return self.edits.pop(0)

    def rewound(self, text: str) -> None:
        self.prompts.append(text)

    def copy(self, text: str) -> None:
        self.copied = text

    def reopen(self, settings: Settings, choices: SessionChoices | None = None, shown_instead: str = "") -> None:
        self.reopened, self.said_of_it = (settings, choices), shown_instead

    def set_display(self, what: str, value: str) -> None:
        self.display.append((what, value))

    def leave(self) -> None:
        self.left = True

    async def do(self, line: str) -> str:
        """Carry a line out; what it wrote."""
        found = split_command(line)
        assert found is not None
        self.written.clear()
        self.commands = all_commands(self.settings)
        await run_command(self, *found)
        return "\n".join(self.written)


@pytest.fixture
async def context(tmp_path: Path) -> Any:
    settings = load({"cwd": str(tmp_path)}, {"HOME": str(tmp_path / "home")}, tmp_path)
    async with AsyncExitStack() as stack:
        model = ScriptedModel(*[(0.0, "The answer.")] * 20)  # others have their turn before the answer
        agent = Agent(
            model,
            tools=(Read(),),
            resources=Resources(
                log=MemoryLog(),
                ledger=Ledger(Decimal(5), PriceBook({f"{model.provider}/{model.id}": {"input": 1, "output": 2}})),
                catalog=lambda: (
                    "openai/gpt-5.5: window 400000, $1 in and $2 out per million tokens\nanthropic/opus: window unknown"
                ),
                resolve=lambda name: ScriptedModel("Other."),
            ),
        )
        stack.push_async_callback(agent.aclose)
        policy = PermissionPolicy("edit")

        yield RecordingContext(settings, OpenedHere(agent, policy, Sandbox("off")))
