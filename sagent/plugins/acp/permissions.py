"""Questions to a person: approvals of calls, decisions on plans, and questions of agents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sagent.lib.json import as_array, as_str, json_thaw
from sagent.lib.text import fenced, printable, spelled
from sagent.messages import ToolCall
from sagent.plugins.acp import calls
from sagent.plugins.acp.client import Client
from sagent.plugins.acp.version1 import Updates, content, text_block
from sagent.plugins.hosting.asking import call_text, wants_text
from sagent.policy import Ask
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rule, rules_for
from sagent.tools.ask import Question
from sagent.tools.plan import PlanDecision

_DECLINED = "The person said no."
_PLAN_OPTIONS = (
    {"optionId": "ask", "name": "Yes, and ask before every change", "kind": "allow_once"},
    {"optionId": "edit", "name": "Yes, and edit in the project freely", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
)


class AskingSession(Protocol):
    """The session that asks, once it is open."""

    @property
    def id(self) -> str: ...

    @property
    def updates(self) -> Updates: ...

    @property
    def policy(self) -> PermissionPolicy: ...

    def emit(self, update: Mapping[str, object]) -> None: ...


class Person:
    """The user at the client. Each question is a separate request: several may be open at once."""

    def __init__(self, client: Client, session: AskingSession, left_plan: Callable[[], None]) -> None:
        self._client, self._session, self._left_plan = client, session, left_plan

    async def approve(self, call: ToolCall, ask: Ask) -> str | None:
        """Return None if the person allows a call, else the reason. Rules that they allow join the session's policy."""
        session = self._session
        name, news = session.updates.announce(ask.agent or "root", call)
        for each in news:
            session.emit(each)
        rules = rules_for(ask)
        chosen = await self._client.permit(session.id, _shown(call, ask, name, session.updates), _options(rules))
        if chosen == "allow_always" and rules:
            policy = session.policy
            policy.rules = replace(policy.rules, allow=(*policy.rules.allow, *map(Rule.parse, rules)))
            return None
        return None if chosen == "allow_once" else _DECLINED

    async def answer(self, question: Question) -> str | None:
        """Put an agent's question to the person; None for no answer."""
        if question.plan:
            settled = await self.settle(question.plan)
            return settled and settled.answer()
        if not self._client.has_forms:
            return None  # MCP servers ask without knowing the client
        filled = await self._client.fill(self._session.id, printable(question.text), _form(question))
        if filled is None:
            return None
        said = [filled.get("answer"), *as_array(filled.get("answers")), filled.get("other")]
        return "\n".join(filter(None, map(as_str, said))) or None

    async def settle(self, plan: str) -> PlanDecision | None:
        """Let the person decide on a plan; None if they leave it open. An accepted one ends plan mode."""
        session = self._session
        name, shown = session.updates.synthetic("Carry out this plan?", "switch_mode", [text_block(plan)])
        session.emit(shown)
        chosen = ""
        try:
            call = {name: value for name, value in shown.items() if name != "sessionUpdate"}
            chosen = await self._client.permit(session.id, {**call, "status": "pending"}, _PLAN_OPTIONS)
        finally:
            session.emit(session.updates.ended(name, failed=chosen not in ("ask", "edit")))
        if chosen in ("ask", "edit"):
            session.policy.mode = chosen
            self._left_plan()
            return PlanDecision(chosen)
        return PlanDecision(None) if chosen == "no" else None


def _shown(call: ToolCall, ask: Ask, name: str, updates: Updates) -> Mapping[str, object]:
    """Return the complete call for a person's judgement, with the reason for asking, and its additional requests."""
    words = fenced(call_text(call)) if call.arguments.get("command") else ""
    said = "\n\n".join(filter(None, (words, wants_text(ask.wants), spelled(ask.reason))))
    shown = {
        "toolCallId": name,
        "title": calls.title_of(call, ask.agent),
        "kind": calls.kind_of(call),
        "status": "pending",
        "rawInput": json_thaw(call.arguments),
        "content": [*updates.changes(name), content(text_block(said))],
    }
    place = updates.place(call)
    return {**shown, "locations": place} if place else shown


def _options(rules: Sequence[str]) -> list[Mapping[str, str]]:
    """Return the options: only a call with rules can be allowed for longer than once."""
    every = ", ".join(spelled(rule) if "(" in rule else f"every call of {spelled(rule)}" for rule in rules)
    always = {"optionId": "allow_always", "name": f"Allow in this session: {every}", "kind": "allow_always"}
    return [
        {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
        *([always] if rules else []),
        {"optionId": "reject_once", "name": "No", "kind": "reject_once"},
    ]


def _form(question: Question) -> Mapping[str, object]:
    """Return the form of a question: one option, several, or free text."""
    words = {"type": "string", "title": "Something else" if question.options else "Answer"}
    if not question.options:
        properties: Mapping[str, object] = {"answer": words}
    elif question.multiple:
        items = {"type": "string", "enum": list(question.options)}
        properties = {"answers": {"type": "array", "title": "Answers", "items": items}, "other": words}
    else:
        properties = {"answer": {"type": "string", "title": "Answer", "enum": list(question.options)}, "other": words}
    return {"type": "object", "properties": properties}
