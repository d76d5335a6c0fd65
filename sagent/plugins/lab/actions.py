"""The actions of agents without their wording: tools, paths or commands, and their order."""

import os.path
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sagent.lib.dataclass import dataclass
from sagent.lib.json import canonical_bytes
from sagent.messages import ToolCall

HOW = "actions: the tool and its path, pattern or command, in the same order; what is written or said is not compared"
_PATHS = ("file_path", "path")
_TARGETS = (*_PATHS, "command", "pattern", "url", "query", "name", "to", "operation", "id")


class Action(NamedTuple):
    """A call by its tool and its subject."""

    tool: str
    target: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two sides: the number of actions of each, and of a longest common subsequence, agent by
    agent."""

    left: int = 0
    right: int = 0
    same: int = 0

    @property
    def share(self) -> float | None:
        """The share of equal actions, 0 to 1; None if neither side has any."""
        every = self.left + self.right
        return round(2 * self.same / every, 4) if every else None

    def __add__(self, other: "Agreement") -> "Agreement":
        return Agreement(self.left + other.left, self.right + other.right, self.same + other.same)


def action_of(call: ToolCall, cwd: str) -> Action:
    """Return the action of a call: a path relative to `cwd`, so that a copied directory makes no difference, or a
    command with normalized blanks; for other calls, all of its arguments."""
    named: Mapping[str, object] = {name: call.arguments[name] for name in _TARGETS if name in call.arguments}
    if not named:
        return Action(call.name, canonical_bytes(call.arguments).decode("utf-8", "replace"))
    return Action(call.name, " ".join(_target(name, value, cwd) for name, value in named.items()))


def _target(name: str, value: object, cwd: str) -> str:
    text = str(value)
    if name not in _PATHS:
        return " ".join(text.replace(cwd, ".").split() if len(cwd) > 1 else text.split())
    path = os.path.normpath(os.path.join(cwd, text))  # noqa: PTH118 -- a name, of a machine that may be another
    return path[len(cwd) + 1 :] or "." if path == cwd or path.startswith(f"{cwd}/") else path


def agree(left: Sequence[Action], right: Sequence[Action]) -> Agreement:
    """Compare two sequences of actions. The longest common subsequence is counted bit by bit (Hyyrö 2004), so that
    thousands of actions take no time."""
    places: dict[Action, int] = {}
    for place, action in enumerate(left):
        places[action] = places.get(action, 0) | 1 << place
    full = row = (1 << len(left)) - 1
    for action in right:
        met = row & places.get(action, 0)
        row = ((row + met) | (row - met)) & full
    return Agreement(len(left), len(right), len(left) - row.bit_count())
