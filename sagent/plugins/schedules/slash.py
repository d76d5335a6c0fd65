"""`/schedule`: the schedules of this machine, which a session can carry out while it is open."""

import asyncio
import subprocess
from typing import TYPE_CHECKING

from sagent.errors import SagentError, UsageError
from sagent.repl.commands.command import CommandContext, command

if TYPE_CHECKING:
    from sagent.plugins.schedules.store import ScheduleStore

INTERVAL_SECONDS = 20.0  # between two looks at the clock, which may be set


class Carrier:
    """Carries out what is due while its session is open."""

    def __init__(self, context: CommandContext, store: "ScheduleStore") -> None:
        self._context, self._opened, self._store = context, context.opened, store
        self._task = asyncio.create_task(self._run())

    @property
    def done(self) -> bool:
        """True once its session is closed, or it was ended."""
        return self._task.done() or self._task.cancelling() > 0

    def end(self) -> None:
        """Start no more runs; those that were started end by themselves."""
        self._task.cancel()

    async def _run(self) -> None:
        from sagent.plugins.schedules.command import start_due

        running: dict[str, subprocess.Popen[bytes]] = {}
        while True:
            try:
                if self._context.opened is not self._opened:
                    return
            except UsageError:  # the session is closed
                return
            try:
                started, ended = await asyncio.to_thread(start_due, self._store, running, subprocess.DEVNULL)
            except (SagentError, OSError) as error:
                self._context.say(f"Schedules are no longer carried out: {error}")
                return
            for name in started:
                self._context.say(f"The scheduled run {name} began.")
            for name, code in ended.items():
                self._context.say(f"The scheduled run {name} ended with code {code}. {self._store.output(name)}")
            await asyncio.sleep(INTERVAL_SECONDS)


@command(here=True)
async def schedule(context: CommandContext, text: str = "") -> None:
    """Show the scheduled runs, and carry them out while this session is open.

    `sagent schedule add` makes one. `/schedule off` leaves runs to `sagent schedule serve` again; those that the
    system's timers start need neither.
    """
    from sagent.plugins.schedules.command import facts
    from sagent.plugins.schedules.cron import local_now
    from sagent.plugins.schedules.store import ScheduleStore

    shared = context.opened.surface.shared
    known = shared.get(Carrier)
    carrier = known if isinstance(known, Carrier) and not known.done else None
    store = ScheduleStore(context.settings.state_dir)
    if text.strip() in ("off", "stop", "end"):
        if carrier is not None:
            carrier.end()
        context.say("Schedules are not carried out by this session.")
        return
    rows = [facts(store, each, local_now()) for each in store.all()]
    if not rows:
        context.say('There are no schedules. `sagent schedule add NAME "0 9 * * 1-5" PROMPT` makes one.')
        return
    for row in rows:
        missed = "" if row["missed"] == "0" else f", {row['missed']} missed"
        context.say(f"{row['name']}: {row['cron']}, next {row['next']}{missed}: {row['prompt']}")
    if carrier is None and context.has_person and not all(row["timer"] for row in rows):
        shared[Carrier] = Carrier(context, store)
        context.say("They are carried out while this session is open; /schedule off ends that.")
