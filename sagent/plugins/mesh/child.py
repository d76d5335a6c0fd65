"""An agent on another node, as a tool: its own session, with a budget that is an allowance of the caller.

The caller's log records the allowance as reserved before the session begins, until its result reports the spending: if
caller or child dies, it counts as spent. The child's id derives from the call, so a call repeated after a crash finds
its existing child.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from decimal import Decimal
from hashlib import sha256
from typing import TypeAlias

from sagent.agent import Agent
from sagent.agent.tree import allowance
from sagent.errors import SagentError, ToolError
from sagent.events import Result
from sagent.lib.json import JsonObject, as_str
from sagent.lib.money import EXACT, ZERO, as_usd
from sagent.messages import Text
from sagent.plugins.mesh.records import check_label
from sagent.plugins.mesh.remote import RemotePeer
from sagent.session.contents import ChargeEntry, MessageEntry, Reserved
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema
from sagent.usage import Charge, Cost, Usage

_DEEPEST = 5  # dashes in a session's id: two of its own, and one for each session above it
ROLE = "node"
"""Role to which the allowance of an agent on another node is billed, until its spending is known."""

Begin: TypeAlias = Callable[[str, str, str, Decimal | None], AbstractAsyncContextManager[RemotePeer]]
"""Begins a session, or follows an existing one: id, prompt, label and budget in USD."""


class NodeAgent(Harmless):
    """Runs a task with an agent on another node; its answer is the call's result. A call that was open when its node
    stopped is made again, and finds the existing session."""

    name = "NodeAgent"
    description = (
        "Have an agent on another machine do a task: one with this label, as in gpu, or any. It knows only what the "
        "prompt says, and has its machine's files, tools and permissions. Returns its answer."
    )
    parameters = arguments_schema(
        "prompt", prompt={"type": "string"}, label={"type": "string"}, budget_usd={"type": "number"}
    )

    def __init__(
        self, session: str, begin: Begin, agent: Callable[[], Agent], logged: Callable[[], Awaitable[None]]
    ) -> None:
        """`agent` is the root of the session, and `logged` returns when the bus has all entries so far."""
        self._session, self._begin, self._agent, self._logged = session, begin, agent, logged

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Run the task on another node. Raises ToolError if its budget is refused, or the bus cannot be reached."""
        if self._session.count("-") >= _DEEPEST:
            raise ToolError("Agents on other nodes are nested as deep as allowed. Do the work yourself.")
        said = f"{run.agent} {run.call_id} {self._reply(run)}"
        name = sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        session, path = f"{self._session}-{name}", f"{run.agent}/node-{name}"
        lent = Lent(self._agent(), path, as_usd(arguments.get("budget_usd")))
        try:
            prompt, label = as_str(arguments.get("prompt")), as_str(arguments.get("label"))
            if label:
                check_label(label)  # before there is an allowance, which would count as spent
            lent.set_aside()
            await self._logged()
            async with self._begin(session, prompt, label, lent.usd) as peer:
                result = await self._wait(peer)
                lent.settle(result.cost if lent.usd is None else await self._end(peer))
        except SagentError as error:
            raise ToolError(f"No answer came from another node: {error}") from error
        why = f"\n(It ended early: {result.error.message})" if result.error is not None else ""
        return ToolOutput(
            (Text(f"{result.content}{why}" or "It gave no answer."),), result.is_error, f"session {session}"
        )

    def _reply(self, run: RunContext) -> str:
        """Return the entry of the reply that makes the call: servers give calls of different replies the same id."""
        agent = self._agent().tree.get(run.agent)
        for entry in () if agent is None else agent.state.log.contents().latest("message"):
            if isinstance(entry.content, MessageEntry) and entry.content.message.role == "assistant":
                return entry.id
        return ""

    async def _end(self, peer: RemotePeer) -> Cost | None:
        """End the child and return its cost; None if it cannot be known now, so that all of its allowance may be
        spent."""
        try:
            return await peer.close_budget()
        except SagentError:
            return None

    async def _wait(self, peer: RemotePeer) -> Result:
        """Wait for the result. The agent is interrupted with its caller, but continues if only the caller's node
        dies."""
        try:
            return await peer.wait()
        except asyncio.CancelledError:
            if self._agent().state.run.interrupted:
                with suppress(SagentError):
                    await peer.ask(op="interrupt")
            raise


class Lent:
    """Money lent to a child, and its return. `usd` is the child's budget; None if the caller has none."""

    def __init__(self, agent: Agent, path: str, requested: Decimal | None) -> None:
        self._state, self._ledger, self._path = agent.state, agent.ledger, path
        room = self._ledger.room(path)
        self.usd = requested if requested is not None or room is None else EXACT.divide(room, 2)
        self._entry = ""

    def set_aside(self) -> None:
        """Reserve the budget once, in the ledger and the log. Raises BudgetExceeded."""
        if self.usd is None:
            return
        self._entry, before = self._reserved_before()
        if self._entry:
            self.usd = before
            return
        with allowance(self._ledger, self._path, self.usd):
            self._entry = self._state.journal.record(Reserved(self._charge(self.usd)))
            self._ledger.lend(self._path)

    def settle(self, cost: Cost | None) -> None:
        """Count the spending and give back the rest; nothing if it is unknown."""
        if cost is None or self._is_settled():
            return
        spent = self._charge(cost.total)
        if cost.unbilled:
            spent = self._charge(cost.total, cost.total + cost.unbilled)
        if cost.unpriced and self.usd is None:
            spent = self._charge(None)
        self._state.journal.record(ChargeEntry(spent, self._entry))
        if self._path not in self._ledger.totals().by_agent:  # else all of it counts, as an earlier process reserved
            self._ledger.restore((spent,))
        self._ledger.take_back(self._path)

    def _charge(self, usd: Decimal | None, at_most: Decimal | None = None) -> Charge:
        return Charge("session", Usage(), usd=usd, role=ROLE, provider=ROLE, agent=self._path, at_most=at_most)

    def _is_settled(self) -> bool:
        """Return True if an earlier process has counted it, before it had the call's result in the log."""
        found = (entry.content for entry in self._state.log.contents().of("spent")) if self._entry else ()
        return any(isinstance(content, ChargeEntry) and content.reserved == self._entry for content in found)

    def _reserved_before(self) -> tuple[str, Decimal]:
        """Return the entry by which an earlier process reserved the allowance, "" for none, and its amount."""
        for entry in self._state.log.contents().of("reserved"):
            content = entry.content
            if isinstance(content, Reserved) and content.charge.agent == self._path:
                return entry.id, content.charge.usd or ZERO
        return "", ZERO
