"""A trigger: an advisor is asked when a task has changed five files, and again at each further five."""

from typing import cast

from sagent.advisor.signals import Watch
from sagent.plugin import Plugin, Trigger

FILES = 5


def look(watch: Watch) -> str:
    """Return what was seen, for the advisor to read, or "" where nobody is to be asked."""
    changed = cast("set[str]", watch.kept.setdefault("many_files", set[str]()))
    before = len(changed) // FILES
    if watch.last is not None:
        calls = watch.last.reply.whole_calls
        changed |= {str(call.arguments.get("file_path")) for call in calls if call.name in ("Edit", "Write")}
    return f"{len(changed)} files were changed in this task" if len(changed) // FILES > before else ""


plugin = Plugin(
    "trigger",
    "asks an advisor about tasks that change many files",
    triggers=(Trigger("many_files", "five more files were changed in a task", ":look"),),
)
