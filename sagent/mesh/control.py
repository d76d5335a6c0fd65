"""Requests to a session at work, and the questions that it asks: by a request that any of several people may answer."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from os import urandom
from typing import Literal

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, valid_text
from sagent.mesh import names
from sagent.mesh.errors import MeshError, NobodyThere, Unavailable
from sagent.mesh.jetstream import JetStream
from sagent.messages import ToolCall
from sagent.peer import Background, Cancel, Compact, Consult, Stop, Switch
from sagent.policy import Ask
from sagent.policy.asking import call_text
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import Settled

ACTIONS = {kind.__name__: kind for kind in (Background, Cancel, Compact, Consult, Stop, Switch)}
_AGAIN = 10.0  # seconds after which a question is put again, to whoever has come since


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: may `agent` make this call? Or, where there is an `inquiry`, what an agent wants to know.
    `id` is the same each time it is put. Once it is `over`, no answer to it is waited for any more."""

    id: str
    agent: str
    tool: str
    what: str
    reason: str
    wants: tuple[str, ...] = ()
    over: bool = False
    inquiry: Inquiry | None = None


Reply = Callable[[Question], Awaitable[str | None]]
"""What a person says to a call: None allows, a text denies and says why."""
Answer = Callable[[Inquiry], Awaitable[str | Settled | None]]
"""What a person says to what an agent wants to know, None for nothing. To a plan, what came of it."""


class Asking:
    """Puts what a policy leaves to a person, and what agents want to know, to those who are attached to a session; the
    first one to answer decides."""

    def __init__(self, bus: JetStream, session: str) -> None:
        self._bus, self._session = bus, session

    async def ask(self, call: ToolCall, ask: Ask) -> str | None:
        """None allows, a text denies and says why. Nobody there is a denial."""
        question = {
            "agent": ask.agent or "root",
            "tool": call.name,
            "what": call_text(call),
            "reason": ask.reason,
            "wants": list(map(str, ask.wants)),
        }
        answer = await self._put(names.asking_subject(self._session), "approval", question)
        if answer is None:
            return f"{ask.reason} Nobody is attached to this session who could be asked. {ask.remedy}".rstrip()
        return None if answer.get("allow") is True else _words(answer, "reason") or "The person said no."

    async def answer(self, inquiry: Inquiry) -> str | Settled | None:
        """What a person says; None where nobody is there, or leaves it unanswered."""
        answer = await self._put(names.inquiry_subject(self._session), "inquiry", asdict(inquiry))
        if answer is None:
            return None
        if inquiry.plan and "mode" in answer:
            modes: Mapping[str, Literal["ask", "edit"]] = {"ask": "ask", "edit": "edit"}
            mode = modes.get(as_str(answer["mode"]))
            return Settled(mode, _words(answer, "changed"), _words(answer, "reason"))
        return _words(answer, "said") or None

    async def _put(self, subject: str, kind: str, question: Mapping[str, object]) -> Mapping[str, object] | None:
        """The first answer; None where nobody is there."""
        head = {"version": names.VERSION, "kind": kind, "id": urandom(8).hex()}
        try:
            return await self._answered(subject, {**head, **question})
        finally:
            with suppress(MeshError):
                await self._bus.publish(subject, _encode({**head, "over": True}))

    async def _answered(self, subject: str, question: Mapping[str, object]) -> Mapping[str, object] | None:
        while True:
            try:
                answer = as_object(json.loads(await self._bus.request(subject, _encode(question), timeout=_AGAIN)))
            except NobodyThere:
                return None
            except Unavailable:
                continue  # nobody has decided yet, or the bus is away
            if answer.get("id") == question["id"]:
                return answer


def _words(answer: Mapping[str, object], name: str) -> str:
    return valid_text(as_str(answer.get(name)))  # for it comes from outside


def _encode(question: Mapping[str, object]) -> bytes:
    return json.dumps(question).encode()


def read_question(data: bytes) -> Question:
    """Raises ValueError."""
    found = as_object(json.loads(data))
    name, agent, tool, what, reason = (as_str(found.get(key)) for key in ("id", "agent", "tool", "what", "reason"))
    wants, over = tuple(map(str, as_array(found.get("wants")))), found.get("over") is True
    inquiry = _read_inquiry(found) if found.get("kind") == "inquiry" else None
    return Question(name, agent, tool, what, reason, wants, over, inquiry)


def _read_inquiry(found: Mapping[str, object]) -> Inquiry:
    agent, text, plan = (as_str(found.get(name)) for name in ("agent", "text", "plan"))
    options = tuple(map(str, as_array(found.get("options"))))
    return Inquiry(agent, text, options, found.get("multiple") is True, plan)


def encode_answer(question: Question, said: str | Settled | None) -> bytes:
    """What a person said to a question, as Reply or Answer has it."""
    if question.inquiry is None:
        return _encode({"id": question.id, "allow": said is None, "reason": said or ""})
    return _encode({"id": question.id, **(asdict(said) if isinstance(said, Settled) else {"said": said})})


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
