"""A listener: `--spend-log FILE` has each finished run written to a SQLite table, for a chart of what agents cost."""

import sqlite3
from pathlib import Path

from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.config.values import path_of
from sagent.events import Event, Finished
from sagent.plugin import Part, Plugin, Setting

LOG = Setting(
    "spend_log", path_of, None, "Path | None", metavar="FILE", help="write what each run costs to this database"
)


async def add(builder: AgentBuilder) -> None:
    """Follow the agent until it is closed."""
    database = sqlite3.connect(str(builder.settings.of(LOG)), check_same_thread=False)
    builder.stack.callback(database.close)
    database.execute("CREATE TABLE IF NOT EXISTS runs (directory TEXT, agent TEXT, stop TEXT, usd TEXT)")
    directory = str(Path(builder.settings.cwd))

    def on_event(event: Event) -> None:
        if isinstance(event, Finished):
            row = (directory, event.agent, event.result.stop_reason, str(event.result.cost.total))
            with database:
                database.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", row)

    def follow(agent: Agent) -> None:
        agent.listen(on_event)

    builder.started.append(follow)


plugin = Plugin("listener", "writes what runs cost to SQLite", parts=(Part(":add", ("spend_log",)),), settings=(LOG,))
