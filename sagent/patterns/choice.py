"""By choice: one agent says which other shall answer."""

import re
from collections.abc import Mapping, Sequence

from sagent.agent.agent_tool import Runnable, Stage
from sagent.errors import UsageError
from sagent.events import Result
from sagent.messages import Message, user
from sagent.patterns.pattern import Pattern, media_of

TRIES = 2


def triage(chooser: Runnable, agents: Mapping[str, Runnable], *, default: str | None = None) -> Pattern:
    """A chooser, which can be cheap, names the agent that the request then goes to, unchanged.

    An answer that does not name exactly one of them is asked for once more; after that `default` answers. Raises
    UsageError where there is no default, or none of that name; and in a run where no agent was named.
    """
    return _Triage(chooser, agents, default)


class _Triage(Pattern):
    name = "triage"

    def __init__(self, chooser: Runnable, agents: Mapping[str, Runnable], default: str | None) -> None:
        super().__init__((chooser, *agents.values()))
        if not agents:
            raise UsageError("triage needs at least one agent to choose")
        if default is not None and default not in agents:
            raise UsageError(f"the default {default!r} is not one of the agents: {', '.join(agents)}")
        self._chooser, self._choices, self._default = chooser, dict(agents), default

    async def perform(self, prompt: Message, stage: Stage) -> Result:
        """Choose, then ask. A chooser that fails is the pattern's failure."""
        names = ", ".join(self._choices)
        ask = f"Which of these should answer the request below: {names}? Answer with that one name and nothing else."
        for _ in range(TRIES):
            asked = user(f"{ask}\n\nThe request:\n{prompt.content}", *media_of(prompt))
            result = await stage.run(self._chooser, asked)
            if result.is_error:
                return result
            if (name := named(result.content, tuple(self._choices))) is not None:
                return await stage.run(self._choices[name], prompt)
            ask = f"{result.content[:200]!r} is not one of {names}. Answer with exactly one of these names."
        if self._default is None:
            raise UsageError(f"no agent was chosen: the chooser named none of {names}; give triage a default")
        return await stage.run(self._choices[self._default], prompt)


def named(answer: str, names: Sequence[str]) -> str | None:
    """The one name that an answer mentions, whatever stands around it; None where it mentions none or several."""
    if (bare := answer.strip().strip("\"'`*_.")) in names:
        return bare
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = re.findall(rf"(?<![\w-])(?:{longest_first})(?![\w-])", answer, re.IGNORECASE)
    by_lower = {name.lower(): name for name in names}
    mentioned = {by_lower[each.lower()] for each in found}
    return mentioned.pop() if len(mentioned) == 1 else None
