"""A team that answers the tasks of other agents, as one agent would."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sagent.agent import Agent
from sagent.config import Settings
from sagent.events import Result
from sagent.lib.dataclass import dataclass
from sagent.messages import Message
from sagent.plugins.teams.files import TeamFile, read_preset, read_team
from sagent.plugins.teams.opening import make_team, settle_team


@dataclass(frozen=True, slots=True)
class TeamWorker:
    """A team and its settings. `settled` is None until the settings are known."""

    file: TeamFile

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def description(self) -> str:
        return self.file.description or f"A team of {', '.join(self.tags)}."

    @property
    def tags(self) -> Sequence[str]:
        return [role.name for role in self.file.roles]

    def prepare(self, settings: Settings) -> Settings:
        """Return the settings of its lead."""
        return settle_team(settings, self.file)[0]

    async def answer(self, lead: Agent, settings: Settings, prompt: Message) -> Result:
        """Have it answer a prompt."""
        return await make_team(lead, settle_team(settings, self.file)[1]).run(prompt)


def worker_of(flags: Mapping[str, object]) -> TeamWorker | None:
    """Return the team that a flag names, None without one. Raises UsageError and ConfigError."""
    if (name := str(flags.get("team", ""))) == "":
        return None
    return TeamWorker(read_team(Path(name)) if name.endswith(".toml") else read_preset(name))
