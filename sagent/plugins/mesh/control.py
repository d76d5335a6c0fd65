"""The questions that a session asks: by a request that any of several people may answer."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from os import urandom
from typing import TYPE_CHECKING

from sagent.lib.json import as_object, json_load, wire_bytes
from sagent.messages import ToolCall
from sagent.plugins.hosting.questions import (
    Answer,
    Question,
    Reply,
    encode_answer,
    encode_call,
    read_answer,
    read_changed,
    read_question,
    read_verdict,
)
from sagent.plugins.mesh import names
from sagent.plugins.mesh.errors import MeshError, NobodyThere, TooLarge, Unavailable
from sagent.plugins.mesh.jetstream import JetStream
from sagent.plugins.mesh.tasks import end
from sagent.policy import Ask
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import PlanDecision

if TYPE_CHECKING:
    from pathlib import Path

_REPEAT_INTERVAL_SECONDS = 10.0  # seconds until a question is repeated for clients that came since
__all__ = ["Answer", "Asking", "Question", "Reply", "encode_answer", "read_question"]


class Asking:
    """Asks those attached to a session about calls and agents' questions; the first answer counts."""

    def __init__(self, bus: JetStream, session: str, node: str = "") -> None:
        self._bus, self._session, self._node = bus, session, node
        self.cwd: Path | None = None  # the session's directory
        self._newcomer = asyncio.Event()

    def put_again(self) -> None:
        """Repeat open questions, because another client has joined that may answer."""
        came, self._newcomer = self._newcomer, asyncio.Event()
        came.set()

    async def ask(self, call: ToolCall, ask: Ask) -> str | None:
        """Ask the people attached: None allows, a text denies with a reason. If nobody is attached, the call is
        denied."""
        question = encode_call(call, ask, await asyncio.to_thread(read_changed, self.cwd, call))
        answer = await self._put(names.asking_subject(self._session), "approval", question)
        if answer is None:
            return f"{ask.reason} Nobody is attached to this session to ask. {ask.remedy}".rstrip()
        return read_verdict(answer)

    async def answer(self, inquiry: Inquiry) -> str | PlanDecision | None:
        """Ask a person and return the answer; None if nobody is there, or leaves it open."""
        answer = await self._put(names.inquiry_subject(self._session), "inquiry", asdict(inquiry))
        if answer is None:
            return None
        return read_answer(inquiry, answer)

    async def _put(self, subject: str, kind: str, question: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the first answer; None if nobody is there."""
        head = {"version": names.VERSION, "kind": kind, "id": urandom(8).hex(), "node": self._node}
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
