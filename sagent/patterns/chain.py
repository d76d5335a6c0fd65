"""One after the other."""

from dataclasses import replace

from sagent.agent.agent_tool import Runnable, Stage
from sagent.events import Failure, Result
from sagent.messages import Message
from sagent.patterns.pattern import Pattern


def sequential(*steps: Runnable) -> Pattern:
    """Each step is asked what the one before it has answered; the last answer is the answer.

    A step that fails, or is stopped by a limit, ends it: what follows is not run. Raises UsageError without steps.
    """
    return _Sequential(steps)


class _Sequential(Pattern):
    name = "sequential"

    async def perform(self, prompt: Message, stage: Stage) -> Result:
        result = await stage.run(self.members[0], prompt)
        for number, step in enumerate(self.members[1:], 1):
            if result.is_error:
                break
            if not result.content:
                empty = f"step {number} of {len(self.members)} answered nothing, so the next had nothing to be asked"
                return replace(result, error=Failure("empty", empty))
            result = await stage.run(step, result.content)
        return result
