"""The doubles of a replay: a model, tools and a policy that answer from a recording."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import NoReturn

from sagent.engine.dispatch import INTERRUPTED
from sagent.errors import ModelError
from sagent.lab.player import Ended, Player
from sagent.lab.rebuild import Preparing
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject
from sagent.messages import DENIED, ToolCall
from sagent.model import Delta, ModelLimits, Reply, Request, RequestDigest, TextPart
from sagent.peer import Action
from sagent.policy import Allow, Deny, Verdict
from sagent.policy import Turn as Judged
from sagent.tool import Effect, RunContext, ToolOutput, Workspace
from sagent.usage import Charge, Usage

_PATIENCE = 10_000  # rounds of the event loop
_SHOWN = "\nThe end of what it had shown:\n"


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """Answers from a recording. `adapter` builds its requests, or says why there is none."""

    player: Player
    name: str  # "provider/id"
    adapter: Preparing | str

    @property
    def provider(self) -> str:
        return self.name.partition("/")[0]

    @property
    def id(self) -> str:
        return self.name.partition("/")[2]

    @property
    def limits(self) -> ModelLimits:
        return ModelLimits() if isinstance(self.adapter, str) else self.adapter.limits

    def max_input_tokens(self, request: Request) -> int:
        """As its adapter does; nothing is bounded by it where there is none."""
        if isinstance(self.adapter, str):
            return 1
        return self.adapter.max_input_tokens(self.player.rebuilder.sent_as(request))

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """The recorded reply; of one that was cut off, what it had said. Raises Ended and Divergence."""
        try:
            turn = self.player.on_request(self.name, self.adapter, request)
        except Ended as ended:
            if str(ended) == "interrupted":
                await self._be_interrupted()
            raise
        reply = turn.reply
        if turn.sent is not None and reply is not None:
            own = (bill.usage for bill in turn.bills if bill.role.partition(":")[0] not in ("advisor", "compactor"))
            usage = sum(own, Usage())
            yield Reply(
                reply, usage, (Charge(self.id, usage),), RequestDigest(turn.sent.sha256, turn.sent.size, self.id)
            )
            return
        if reply is not None and reply.content:
            yield TextPart(reply.content)
        if turn.failed is not None and turn.failed.kind == "interrupted":
            await self._be_interrupted()
        if reply is None:
            raise Ended("it had failed here")
        reason = turn.failed.message if turn.failed is not None else "it was cut off"
        raise ModelError("overloaded", reason, provider=self.provider, model=self.id)

    async def _be_interrupted(self) -> NoReturn:
        self.player.interrupt()
        await asyncio.Event().wait()
        raise AssertionError("an interrupted call does not go on")


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """A tool that answers from a recording. Its schema is as it was sent, so nothing is added to it."""

    player: Player
    name: str
    description: str
    quick: bool = True

    @property
    def parameters(self) -> JsonObject:
        """Its schema, with what the engine had added to it."""
        return self.player.rebuilder.schema(self.name)

    @property
    def lenient(self) -> bool:
        """Whether arguments pass as they are: unless they did not when this was recorded."""
        return not self.player.refused(self.name)

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        del arguments, workspace
        return Effect("none")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """The recorded result. A call that was interrupted is so again."""
        del arguments
        result = self.player.answer(run.call_id)
        last = self.player.last
        was_stopped = last is not None and last.failed is not None and last.failed.kind == "interrupted"
        text = "" if result is None else result.text
        if result is None or (was_stopped and result.is_error and text.startswith(INTERRUPTED)):
            if shown := text.partition(_SHOWN)[2]:
                run.progress(shown)
            for _ in range(_PATIENCE):  # the others of its turn had ended before
                await asyncio.sleep(0)
                if not self.player.waits:
                    break
            for _ in range(10):  # and their results were known
                await asyncio.sleep(0)
            self.player.interrupt()
            await asyncio.Event().wait()
        assert result is not None
        self.player.returned.add(run.call_id)
        return ToolOutput(result.content, result.is_error)


@dataclass(frozen=True, slots=True)
class RecordedPolicy:
    """Denies what was denied, and has come in what came in."""

    player: Player

    async def before_tool(self, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
        del effect, workspace
        result = self.player.answer(call.id)
        if result is not None and result.denied:
            return Deny(result.text.removeprefix(DENIED))
        return Allow()

    async def after_turn(self, turn: Judged) -> Sequence[Action]:
        del turn
        return self.player.after()
