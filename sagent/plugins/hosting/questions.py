"""The questions of a session, for the people who follow it elsewhere, and their answers."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, field
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
from sagent.policy import Ask
from sagent.policy.rules import EDITS
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import PlanDecision

_MAX_COMPARED_CHARS = 1_000_000  # of a file that is compared with what will replace it


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a person: may `agent` make this `call`? Or, with an `inquiry`, a question of an agent. `what` are
    the call's arguments as text, and `texts` the present files that it would change. `id` stays the same when it is
    repeated. Once it is `over`, nobody waits for an answer. `node` is where the session runs, if not here."""

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
    node: str = ""

    @property
    def ask(self) -> Ask:
        """The request for approval in the policy's words."""
        return Ask(self.reason, self.remedy, self.agent, self.wants)


Reply = Callable[[Question], Awaitable[str | None]]
"""Answers a call: None allows, a text denies and says why."""
Answer = Callable[[Inquiry], Awaitable[str | PlanDecision | None]]
"""Answers an agent's question, None for no answer; for a plan, the decision."""


def encode_call(call: ToolCall, ask: Ask, texts: Mapping[str, str]) -> dict[str, object]:
    """Return the question about a call as JSON, with the texts of the files that it would change."""
    return {
        "agent": ask.agent or "root",
        "tool": call.name,
        "what": call_text(call),
        "reason": ask.reason,
        "remedy": ask.remedy,
        "wants": list(map(str, ask.wants)),
        "call": {"id": call.id, "arguments": json_thaw(call.arguments)},
        "texts": texts,
    }


def read_changed(cwd: Path | None, call: ToolCall) -> Mapping[str, str]:
    """Return the text of the file that a call of Edit or Write would change, by the name that the call gives it."""
    path = as_str(call.arguments.get("file_path"))
    if cwd is None or call.name not in EDITS or not path:
        return {}
    from sagent.tools.textfile import read_whole

    try:
        text = read_whole(cwd / Path(path).expanduser(), _MAX_COMPARED_CHARS)
    except (OSError, ValueError, RuntimeError):
        return {}
    return {} if text is None else {path: text}


def read_verdict(answer: Mapping[str, object]) -> str | None:
    """Return an answer to a question about a call: None allows it, a text says why not."""
    return None if answer.get("allow") is True else valid_words(answer, "reason") or "The person said no."


def read_answer(inquiry: Inquiry, answer: Mapping[str, object]) -> str | PlanDecision | None:
    """Return an answer to an agent's question; for a plan it may be a decision."""
    if inquiry.plan and "mode" in answer:
        modes: Mapping[str, Literal["ask", "edit"]] = {"ask": "ask", "edit": "edit"}
        mode = modes.get(as_str(answer["mode"]))
        return PlanDecision(mode, valid_words(answer, "changed"), valid_words(answer, "reason"))
    return valid_words(answer, "said") or None


def valid_words(answer: Mapping[str, object], name: str) -> str:
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
    remedy, node = as_str(found.get("remedy")), as_str(found.get("node"))
    return Question(name, agent, tool, what, reason, wants, over, inquiry, call, remedy, read, node)


def _read_inquiry(members: Mapping[str, object]) -> Inquiry:
    agent, text, plan = (as_str(members.get(name)) for name in ("agent", "text", "plan"))
    options = tuple(map(str, as_array(members.get("options"))))
    return Inquiry(agent, text, options, members.get("multiple") is True, plan)


def encode_answer(question: Question, answer: str | PlanDecision | None) -> bytes:
    """Encode a person's answer to a question, in the form of Reply or Answer."""
    if question.inquiry is None:
        return wire_bytes({"id": question.id, "allow": answer is None, "reason": answer or ""})
    return wire_bytes({"id": question.id, **(asdict(answer) if isinstance(answer, PlanDecision) else {"said": answer})})
