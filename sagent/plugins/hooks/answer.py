"""Answers of hooks, from an exit code or JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from sagent.app.builder import HookAnswer
from sagent.lib.json import JsonObject, as_object, as_str, json_load
from sagent.lib.text import one_line, printable
from sagent.plugin import HookEvent

BLOCKS = 2
"""The exit code by which a hook refuses; its standard error has the reason."""
MAX_CONTEXT_CHARS = 10_000  # that one hook may add
Decision: TypeAlias = Literal["", "allow", "ask", "deny"]
_WORDS: Mapping[object, Decision] = {
    "": "",
    "defer": "",
    "allow": "allow",
    "approve": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}
_ORDER: tuple[Decision, ...] = ("deny", "ask", "allow", "")  # strictest first


def read_exit(event: HookEvent, code: int, out: str, err: str) -> HookAnswer:
    """Read the answer of a command that has ended."""
    said = out.removeprefix("\ufeff").strip()
    if code == BLOCKS:
        return HookAnswer("deny", _cut(err.strip() or said or "a hook refused it without saying why"))
    if code:
        line = next((one_line(printable(each), 200) for each in reversed(err.splitlines()) if each.strip()), "")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return HookAnswer(fault=f"{how}{f': {line}' if line else ''}")
    if said.startswith("{"):
        return read_json(event.name, said)
    if event.prints:
        return HookAnswer(context=_cut(said))
    return HookAnswer(fault="printed text before its JSON, so the JSON was not read" if "\n{" in said else "")


def read_json(event: str, text: str) -> HookAnswer:
    """Read an answer in JSON."""
    try:
        given = as_object(json.loads(text))
    except (ValueError, RecursionError):
        return HookAnswer(fault=f"printed text that is not JSON: {one_line(printable(text), 80)}")
    own = as_object(given.get("hookSpecificOutput"))
    meant = own.get("hookEventName")
    if meant not in (None, event):
        return HookAnswer(
            fault=f"answered for the event {one_line(printable(str(meant)), 80)}, but the event was {event}"
        )
    request = as_object(own.get("decision"))  # as in PermissionRequest
    words = (own.get("permissionDecision"), request.get("behavior"), given.get("decision"))
    word = next((each for each in words if each is not None), "")
    decision = _WORDS.get(word) if isinstance(word, str) else None
    if decision is None:
        return HookAnswer(fault=f"decided {word!r:.40}, which is not one of allow, ask, deny, block")
    changed, output = own.get("updatedInput"), own.get("updatedToolOutput")
    try:
        arguments = None if changed is None or decision == "deny" else json_load(json.dumps(changed))
    except ValueError as error:
        return HookAnswer(fault=f"gave an updatedInput that cannot be used: {error}")
    if not isinstance(arguments, JsonObject | None):
        return HookAnswer(fault="gave an updatedInput that is not an object")
    reasons = (own.get("permissionDecisionReason"), request.get("message"), given.get("reason"))
    reason = next((each for each in reasons if isinstance(each, str) and each), "")
    return HookAnswer(
        decision,
        _cut(reason or ("a hook refused it without saying why" if decision == "deny" else "")),
        arguments,
        _cut(as_str(own.get("additionalContext")) or as_str(given.get("additionalContext"))),
        _cut(as_str(given.get("systemMessage"))),
        output if output is None or isinstance(output, str) else json.dumps(output),
        (as_str(given.get("stopReason")) or reason or "a hook ended the run")
        if given.get("continue") is False
        else None,
    )


def combine(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Combine the answers of several hooks to one event: the strictest decision, and the last change of arguments.
    Allowing a call does not allow another hook's changes to it."""
    changer = next((answer for answer in reversed(answers) if answer.arguments is not None), None)
    if changer is not None:
        answers = [
            replace(answer, decision="") if answer.decision == "allow" and answer is not changer else answer
            for answer in answers
        ]
    strictest = min(answers, key=lambda answer: _ORDER.index(answer.decision), default=HookAnswer())
    return HookAnswer(
        strictest.decision,
        "\n".join(answer.reason for answer in answers if answer.reason and answer.decision == strictest.decision),
        None if changer is None else changer.arguments,
        "\n\n".join(answer.context for answer in answers if answer.context),
        "\n".join(answer.message for answer in answers if answer.message),
        next((answer.output for answer in reversed(answers) if answer.output is not None), None),
        next((answer.stop for answer in answers if answer.stop is not None), None),
    )


def _cut(text: str) -> str:
    if len(text) <= MAX_CONTEXT_CHARS:
        return text
    return f"{text[:MAX_CONTEXT_CHARS]}\n({len(text) - MAX_CONTEXT_CHARS:,} more characters of a hook were left out)"
