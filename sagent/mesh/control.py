"""Requests to a session at work, and the questions that it asks: by a request that any of several people may answer."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from os import urandom

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_object, as_str
from sagent.mesh import names
from sagent.mesh.errors import MeshError, NobodyThere, Unavailable
from sagent.mesh.jetstream import JetStream
from sagent.messages import ToolCall
from sagent.peer import Background, Cancel, Compact, Consult, Stop, Switch
from sagent.policy import Ask
from sagent.policy.asking import call_text

ACTIONS = {kind.__name__: kind for kind in (Background, Cancel, Compact, Consult, Stop, Switch)}
_AGAIN = 10.0  # seconds after which a question is put again, to whoever has come since


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: may `agent` make this call? `id` is the same each time it is put. Once it is `over`, no
    answer to it is waited for any more."""

    id: str
    agent: str
    tool: str
    what: str
    reason: str
    wants: tuple[str, ...] = ()
    over: bool = False


Reply = Callable[[Question], Awaitable[str | None]]
"""What a person says to a question: None allows, a text denies and says why."""


class Approvals:
    """Puts what a policy leaves to a person to those who are attached to a session; the first one to answer decides."""

    def __init__(self, bus: JetStream, session: str) -> None:
        self._bus, self._session = bus, session

    async def ask(self, call: ToolCall, ask: Ask) -> str | None:
        """None allows, a text denies and says why. Nobody there is a denial."""
        question = {
            "version": names.VERSION,
            "id": urandom(8).hex(),
            "agent": ask.agent or "root",
            "tool": call.name,
            "what": call_text(call),
            "reason": ask.reason,
            "wants": list(map(str, ask.wants)),
        }
        try:
            return await self._decided(ask, question)
        finally:
            with suppress(MeshError):
                await self._bus.publish(names.asking_subject(self._session), _encode({**question, "over": True}))

    async def _decided(self, ask: Ask, question: Mapping[str, object]) -> str | None:
        while True:
            try:
                data = await self._bus.request(names.asking_subject(self._session), _encode(question), timeout=_AGAIN)
            except NobodyThere:
                return f"{ask.reason} Nobody is attached to this session who could be asked. {ask.remedy}".rstrip()
            except Unavailable:
                continue  # nobody has decided yet, or the bus is away
            answer = as_object(json.loads(data))
            if answer.get("id") == question["id"]:
                return None if answer.get("allow") is True else as_str(answer.get("reason")) or "The person said no."


def _encode(question: Mapping[str, object]) -> bytes:
    return json.dumps(question).encode()


def read_question(data: bytes) -> Question:
    """Raises ValueError."""
    found = as_object(json.loads(data))
    wants = found.get("wants")
    texts = (as_str(found.get(name)) for name in ("id", "agent", "tool", "what", "reason"))
    listed = tuple(map(str, wants)) if isinstance(wants, list) else ()  # pyright: ignore[reportUnknownArgumentType] -- each is made a text
    return Question(*texts, wants=listed, over=found.get("over") is True)


def answer_request(agent: Agent, node: str, data: bytes) -> dict[str, object]:
    """Carry out a request for a session: {"op": "status" | "interrupt" | "apply", ...}. What is wrong with it is the
    answer."""
    try:
        asked = as_object(json.loads(data))
        match asked.get("op"):
            case "status":
                status = agent.status()
                usd = float(status.usd_tree)
                return {"node": node, "state": status.state, "model": status.model, "turns": status.turns, "usd": usd}
            case "interrupt":
                agent.interrupt()
                return {"node": node}
            case "apply":
                from sagent.mesh.records import adapter

                action = adapter(ACTIONS[as_str(asked.get("action"))]).validate_python(asked.get("of"))
                agent.apply(action)  # pyright: ignore[reportArgumentType] -- one of ACTIONS
                return {"node": node}
            case other:
                return {"error": f"There is no request {other!r} here; there are status, interrupt and apply."}
    except (UsageError, ValueError, KeyError) as error:
        return {"error": str(error)}
