"""An agent that chooses another agent to handle a request."""

import re
from collections.abc import Mapping, Sequence

from sagent.agent.agent_tool import Runnable, Stage
from sagent.errors import UsageError
from sagent.events import Result
from sagent.messages import Message, Text, user

TRIES = 2


async def choose(
    chooser: Runnable, agents: Mapping[str, Runnable], prompt: Message, stage: Stage, default: str | None = None
) -> Result:
    """Ask which agent should answer, run that one on the stage, and return its result, or that of a failed chooser.

    Raises UsageError if none is named, even after a second try, and there is no default.
    """
    names = ", ".join(agents)
    ask = f"Which of these should answer the request below: {names}? Answer with that one name and nothing else."
    media = [part for part in prompt.parts if not isinstance(part, Text)]
    for _ in range(TRIES):
        result = await stage.run(chooser, user(f"{ask}\n\nThe request:\n{prompt.content}", *media))
        if result.is_error:
            return result
        if (name := named(result.content, tuple(agents))) is not None:
            return await stage.run(agents[name], prompt)
        ask = f"{result.content[:200]!r} is not one of {names}. Answer with exactly one of these names."
    if default is None:
        raise UsageError(f"no agent was chosen: the chooser named none of {names}; give triage a default")
    return await stage.run(agents[default], prompt)


def named(answer: str, names: Sequence[str]) -> str | None:
    """Return the one name that an answer mentions, with any text around it; None if it mentions none or several."""
    if (bare := answer.strip().strip("\"'`*_.")) in names:
        return bare
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = re.findall(rf"(?<![\w-])(?:{longest_first})(?![\w-])", answer, re.IGNORECASE)
    by_lower = {name.lower(): name for name in names}
    mentioned = {by_lower[each.lower()] for each in found}
    return mentioned.pop() if len(mentioned) == 1 else None
