"""The questions that a session asks: by a request that any of several people may answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from os import urandom
from pathlib import Path
from typing import Literal

from sagent.lib.dataclass import dataclass
from sagent.lib.json import (
    as_array,
    as_object,
    as_str,
    json_freeze_object,
    json_load,
    json_thaw,
    valid_text,
    wire_bytes,
)
from sagent.messages import ToolCall
from sagent.plugins.hosting.asking import call_text
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import MeshError, NobodyThere, TooLarge, Unavailable
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.tasks import end
from sagent.policy import Ask
from sagent.policy.rules import EDITS
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import PlanDecision

_MAX_COMPARED_CHARS = 1_000_000  # of a file that is compared with what will replace it
_REPEAT_INTERVAL_SECONDS = 10.0  # seconds until a question is repeated for clients that came since


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a person: may `agent` make this `call`? Or, with an `inquiry`, a question of an agent. `what` are
    the call's arguments as text, and `texts` the present files that it would change. `id` stays the same when it is
    repeated. Once it is `over`, nobody waits for an answer."""

    id: str
    agent: str
    tool: str
    what: str
    reason: str
    wants: tuple[str, ...] = ()
    over: bool = False
    inquiry: Inquiry | None = None
    call: ToolCall | None = None
    remedy: str = ""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def ask(self) -> Ask:
        """The request for approval in the policy's words."""
        return Ask(self.reason, self.remedy, self.agent, self.wants)


Reply = Callable[[Question], Awaitable[str | None]]
"""Answers a call: None allows, a text denies and says why."""
Answer = Callable[[Inquiry], Awaitable[str | PlanDecision | None]]
"""Answers an agent's question, None for no answer; for a plan, the decision."""


class Asking:
    """Asks those attached to a session about calls and agents' questions; the first answer counts."""

    def __init__(self, bus: JetStream, session: str) -> None:
        self._bus, self._session = bus, session
        self.cwd: Path | None = None  # the session's directory
        self._newcomer = asyncio.Event()

    def put_again(self) -> None:
        """Repeat open questions, because another client has joined that may answer."""
        came, self._newcomer = self._newcomer, asyncio.Event()
        came.set()

    async def ask(self, call: ToolCall, ask: Ask) -> str | None:
        """Ask the people attached: None allows, a text denies with a reason. If nobody is attached, the call is
        denied."""
        question = {
            "agent": ask.agent or "root",
            "tool": call.name,
            "what": call_text(call),
            "reason": ask.reason,
            "remedy": ask.remedy,
            "wants": list(map(str, ask.wants)),
            "call": {"id": call.id, "arguments": json_thaw(call.arguments)},
            "texts": await asyncio.to_thread(self._texts, call),
        }
        answer = await self._put(names.asking_subject(self._session), "approval", question)
        if answer is None:
            return f"{ask.reason} Nobody is attached to this session to ask. {ask.remedy}".rstrip()
        return None if answer.get("allow") is True else _words(answer, "reason") or "The person said no."

    def _texts(self, call: ToolCall) -> Mapping[str, str]:
        """Return the file that a call of Edit or Write would change, by the name that it gives it."""
        path = as_str(call.arguments.get("file_path"))
        if self.cwd is None or call.name not in EDITS or not path:
            return {}
        from sagent.tools.textfile import read_whole

        try:
            text = read_whole(self.cwd / Path(path).expanduser(), _MAX_COMPARED_CHARS)
        except (OSError, ValueError, RuntimeError):
            return {}
        return {} if text is None else {path: text}

    async def answer(self, inquiry: Inquiry) -> str | PlanDecision | None:
        """Ask a person and return the answer; None if nobody is there, or leaves it open."""
        answer = await self._put(names.inquiry_subject(self._session), "inquiry", asdict(inquiry))
        if answer is None:
            return None
        if inquiry.plan and "mode" in answer:
            modes: Mapping[str, Literal["ask", "edit"]] = {"ask": "ask", "edit": "edit"}
            mode = modes.get(as_str(answer["mode"]))
            return PlanDecision(mode, _words(answer, "changed"), _words(answer, "reason"))
        return _words(answer, "said") or None

    async def _put(self, subject: str, kind: str, question: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the first answer; None if nobody is there."""
        head = {"version": names.VERSION, "kind": kind, "id": urandom(8).hex()}
        try:
            return await self._answered(subject, {**head, **question})
        finally:
            with suppress(MeshError):
                await self._bus.publish(subject, wire_bytes({**head, "over": True}))

    async def _answered(self, subject: str, question: Mapping[str, object]) -> Mapping[str, object] | None:
        while True:
            try:
                said = await self._once(subject, wire_bytes(question))
            except NobodyThere:
                return None
            except TooLarge:
                if "texts" not in question:
                    raise
                question = {name: value for name, value in question.items() if name not in ("texts", "call")}
                continue
            except Unavailable:
                continue  # no decision yet, or the bus is away
            with suppress(ValueError):  # otherwise it is no answer
                if (answer := as_object(json_load(said))).get("id") == question["id"]:
                    return answer

    async def _once(self, subject: str, data: bytes) -> bytes:
        """Ask once and return the answer. Raises Unavailable if the question has to be repeated."""
        asking = asyncio.create_task(self._bus.request(subject, data, timeout=_REPEAT_INTERVAL_SECONDS))
        newcomer = asyncio.create_task(self._newcomer.wait())
        try:
            await asyncio.wait((asking, newcomer), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Unavailable("Another client has joined that has not been asked.")
            return asking.result()
        finally:
            await end(asking, newcomer)


def _words(answer: Mapping[str, object], name: str) -> str:
    return valid_text(as_str(answer.get(name)))  # it comes from outside


def read_question(data: bytes) -> Question:
    """Decode a question. Raises ValueError."""
    found = as_object(json_load(data))
    name, agent, tool, what, reason = (as_str(found.get(key)) for key in ("id", "agent", "tool", "what", "reason"))
    wants, over = tuple(map(str, as_array(found.get("wants")))), found.get("over") is True
    inquiry = _read_inquiry(found) if found.get("kind") == "inquiry" else None
    asked, texts = as_object(found.get("call")), as_object(found.get("texts"))
    arguments = json_freeze_object(as_object(asked.get("arguments")))
    call = ToolCall(as_str(asked.get("id")), tool, arguments) if asked else None
    read = {path: as_str(text) for path, text in texts.items()}
    return Question(name, agent, tool, what, reason, wants, over, inquiry, call, as_str(found.get("remedy")), read)


def _read_inquiry(found: Mapping[str, object]) -> Inquiry:
    agent, text, plan = (as_str(found.get(name)) for name in ("agent", "text", "plan"))
    options = tuple(map(str, as_array(found.get("options"))))
    return Inquiry(agent, text, options, found.get("multiple") is True, plan)


def encode_answer(question: Question, answer: str | PlanDecision | None) -> bytes:
    """Encode a person's answer to a question, in the form of Reply or Answer."""
    if question.inquiry is None:
        return wire_bytes({"id": question.id, "allow": answer is None, "reason": answer or ""})
    return wire_bytes({"id": question.id, **(asdict(answer) if isinstance(answer, PlanDecision) else {"said": answer})})
