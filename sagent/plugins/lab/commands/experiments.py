"""An experiment run by a command: planned first, then run, saved, shown, and continued later."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from sagent.cli.render import binary_safe
from sagent.errors import UsageError
from sagent.lib.money import in_words
from sagent.lib.names import path_of
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    from sagent.plugins.lab.notebook import Notes
    from sagent.plugins.lab.runner import Experiment, Field, Plan
    from sagent.plugins.lab.trials import Trial
    from sagent.providers.wire.collecting import Collecting


class ExperimentCommand(ABC):
    """The runs of a plan, saved in the directory of a flag, or not at all."""

    flag = "--out"
    talks = True  # whether each ended run is reported

    def __init__(self, plan: "Plan", directory: str | None) -> None:
        self.plan, self.directory = plan, directory
        self.fields: Mapping[str, Field] = {}
        self.out, self.err = binary_safe(sys.stdout), binary_safe(sys.stderr)
        self._runs = self._ended = 0

    @abstractmethod
    async def look(self) -> Mapping[str, object]:
        """Determine the fields before anything is spent, and the setup that all runs must share."""

    @abstractmethod
    def begin(self, experiment: "Experiment") -> None:
        """Say what will be done."""

    @abstractmethod
    def keep(self, experiment: "Experiment") -> None:
        """Save the present results after each run."""

    @abstractmethod
    def show(self, experiment: "Experiment") -> None:
        """Show the results."""

    @property
    @abstractmethod
    def again(self) -> str:
        """The command that continues the experiment."""

    def batched(self) -> "AbstractAsyncContextManager[Collecting | None]":
        """Collect requests while the block lasts, if they go out together."""
        return nullcontext()

    async def carry_out(self) -> int:
        """Make the runs that are missing; an interrupt ends that in order. The exit code."""
        from sagent.cli.headless import EXIT_BUDGET, EXIT_DONE, EXIT_FAILED, Interrupter
        from sagent.plugins.lab.runner import Experiment

        interrupter = Interrupter()
        try:
            notes = self._open_notes(await self.look())
        except asyncio.CancelledError:
            return 128 + (interrupter.received or 2)
        try:

            def on_trial(trial: "Trial") -> None:
                self._report(trial)
                self.keep(experiment)

            budgets = {arm: field.budget for arm, field in self.fields.items()}
            async with self.batched() as batches:
                experiment = Experiment(self.plan, budgets, notes, on_trial, batches)
                self._runs = experiment.missing
                self.begin(experiment)
                try:
                    await experiment.run()
                except asyncio.CancelledError:
                    if interrupter.received is None:
                        raise
                    experiment.stopped = "interrupted"
            self.keep(experiment)
            self.show(experiment)
            self.out.flush()
            if experiment.stopped:
                self.err.write(f"sagent: stopped before the end: {printable(experiment.stopped)}; {self.again}\n")
        finally:
            await asyncio.to_thread(notes.close)
        if interrupter.received is not None:
            return 128 + interrupter.received
        return EXIT_BUDGET if experiment.over_total else EXIT_FAILED if experiment.missing else EXIT_DONE

    def _open_notes(self, setup: Mapping[str, object]) -> "Notes":
        """Open the notes that the runs are saved in. Raises UsageError."""
        from sagent.plugins.lab.notebook import Notebook, Notes

        if self.directory is None:
            return Notes()
        home = path_of(self.directory).resolve()
        for task in self.plan.tasks:
            if task.directory is not None and home.is_relative_to(task.directory):
                raise UsageError(
                    f"{self.flag} {self.directory} lies inside the directory of task {task.name!r}: its runs would "
                    "see earlier ones. Choose a directory elsewhere."
                )
        return Notebook(home, setup, self.plan.tasks, [arm.name for arm in self.plan.arms], flag=self.flag)

    def _report(self, trial: "Trial") -> None:
        """Write a line about an ended run, for a person who watches."""
        self._ended += 1
        if not self.talks:
            return
        asked = f", {trial.consultations} consultations" if trial.arm == "with" or trial.consultations else ""
        why = f" ({one_line(trial.reason, 160)})" if trial.reason and trial.outcome != "solved" else ""
        line = (
            f"run {self._ended} of {self._runs}, {trial.task} {trial.number} {trial.arm}: {trial.outcome}{why}, "
            f"{in_words(trial.usd)}, {trial.turns} turns, {trial.seconds:.1f} s{asked}"
        )
        self.err.write(f"{printable(line)}\n")
        self.err.flush()
