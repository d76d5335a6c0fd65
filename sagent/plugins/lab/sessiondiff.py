"""Two sessions side by side: turn by turn whether requests, calls and texts are the same, and the results of each; as
JSON and as text."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed, canonical_bytes, json_dump
from sagent.lib.text import Table, one_line
from sagent.messages import Message
from sagent.plugins.exports.times import seconds_between
from sagent.plugins.lab.actions import HOW, Action, Agreement, action_of, agree
from sagent.plugins.lab.recording import (
    InheritedMessage,
    Recording,
    Turn,
    models_of,
    name_of,
    read_logs,
    read_recording,
)
from sagent.plugins.programs.check import CheckResult
from sagent.session.contents import Environment
from sagent.session.folds import charges, contents
from sagent.session.store import check_version
from sagent.usage import BUCKETS, Sum, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Session of a comparison. `seconds` only count turns of the root agent, not the time between prompts."""

    session: str
    path: str
    head: str
    cwd: str
    commit: str
    dirty: bool
    sandbox: str
    recorded_by: str
    models: tuple[str, ...]
    turns: int
    tool_calls: int
    errors: int
    denials: int
    seconds: float
    cost: Sum
    cost_by_role: Mapping[str, Sum]
    final: str
    outcome: CheckResult | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A turn of one side: its number in its log, the request's sha256, the calls by name, its end. `parts` are its
    texts, calls and results, each with a name; a page shows them, JSON does not."""

    turn: int
    sha256: str
    model: str
    calls: tuple[str, ...]
    stop: str
    failed: str = ""
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Two turns side by side; one is None if the other run had more. `prompt` is the prompt they answer."""

    agent: str
    prompt: str
    left: Move | None
    right: Move | None
    same_request: bool | None  # None if one of them is unknown
    same_actions: bool | None  # by tool, and path or command: see sagent.plugins.lab.actions
    same_calls: bool | None  # by name and arguments
    same_reply: bool | None  # by text


@dataclass(frozen=True, slots=True)
class SessionDiff:
    """Both sessions and their turns. `notes` add facts that figures lack."""

    left: Side
    right: Side
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    actions: Agreement = Agreement()

    @property
    def is_same(self) -> bool:
        """True if all turns of both have the same request, calls and reply."""
        return all(row.same_request is not False and row.same_calls and row.same_reply for row in self.rows)

    def checked(self, left: CheckResult, right: CheckResult, *notes: str) -> "SessionDiff":
        """Return the diff with a check's result for each side."""
        sides = replace(self.left, outcome=left), replace(self.right, outcome=right)
        return replace(self, left=sides[0], right=sides[1], notes=(*self.notes, *notes))


def diff_sessions(left: Path, right: Path) -> SessionDiff:
    """Compare two sessions, by their directories. Raises SessionCorrupt, OSError, and UsageError for one of a newer
    version."""
    for session in (left, right):
        check_version(session, "compare it")
    (one, mine), (other, theirs) = _read(left), _read(right)
    agents = dict.fromkeys((*mine, *theirs))
    rows = [row for agent in agents for row in _rows(agent, mine.get(agent), theirs.get(agent))]
    notes = [
        f"{side.session}: a price is unknown, so that its cost is at least what is shown."
        for side in (one, other)
        if side.cost.unpriced
    ]
    if strangers := [agent for agent in agents if (agent in mine) != (agent in theirs)]:
        notes.append(f"Only one of them has {', '.join(strangers)}.")
    agreed = (agree(*(_actions(logs.get(agent)) for logs in (mine, theirs))) for agent in agents)
    return SessionDiff(one, other, tuple(rows), tuple(notes), sum(agreed, Agreement()))


def _read(session: Path) -> tuple[Side, Mapping[str, Recording]]:
    """Return a session, and the logs of its agents."""
    logs: dict[str, Recording] = {}
    git = list[Environment]()
    spent, final = Totals(), ""
    for agent, entries in read_logs(session).items():
        git += contents(entries, Environment)
        recording = read_recording(agent, entries, lambda _: b"")
        final = _final(recording) if agent == "root" else final
        logs[agent] = replace(recording, turns=tuple(turn for turn in recording.turns if _asked(turn)))
        for charge in charges(entries):
            spent.add(charge)
    root = logs["root"]
    turns = [turn for log in logs.values() for turn in log.turns]
    replies = [turn.reply for turn in turns if turn.reply is not None]
    failed = [result for turn in turns for result in turn.answers if result.is_error]
    denied = sum(result.denied for result in failed)
    side = Side(
        session=name_of(session, root.origin),
        path=str(session),
        head=root.head,
        cwd=root.origin.cwd,
        commit=next((each.commit for each in git if each.commit), ""),
        dirty=bool(next((each.dirty for each in git if each.commit), False)),
        sandbox=next((each.sandbox for each in reversed(git) if each.sandbox), ""),
        recorded_by=root.origin.recorded_by,
        models=tuple(dict.fromkeys(model for log in logs.values() for model in models_of(log))),
        turns=len(replies),
        tool_calls=sum(len(reply.calls) for reply in replies),
        errors=len(failed) - denied,
        denials=denied,
        seconds=round(sum(seconds_between(turn.began, turn.ended) or 0.0 for turn in root.turns), 3),
        cost=spent.whole,
        cost_by_role=dict(sorted(spent.by_role.items())),
        final=final,
    )
    return side, logs


def _asked(turn: Turn) -> bool:
    """Return True if a model was asked: a team's answer is in its lead's log without a request."""
    return turn.reply is None or turn.sent is not None or bool(turn.bills)


def _final(recording: Recording) -> str:
    said = [turn.reply.content for turn in recording.turns if turn.reply is not None and turn.reply.content]
    steps = (step.message for step in recording.pending if isinstance(step, InheritedMessage))
    said += [message.content for message in steps if message.role == "assistant" and not said]
    return said[-1] if said else ""


# -- what stands beside what -------------------------------------------------------------------------------------------


def _rows(agent: str, left: Recording | None, right: Recording | None) -> Iterator[Row]:
    """Pair equal prompts, and then their turns one by one."""
    one, other = _runs(left), _runs(right)
    where = _cwd(left), _cwd(right)
    prompts = [[prompt for prompt, _ in runs] for runs in (one, other)]
    matcher = difflib.SequenceMatcher(None, prompts[0], prompts[1], autojunk=False)
    for kind, from_left, to_left, from_right, to_right in matcher.get_opcodes():
        alike = kind == "equal" or (agent != "root" and to_left - from_left == to_right - from_right)
        if alike:  # prompts of children contain other agents' texts
            for mine, theirs in zip(one[from_left:to_left], other[from_right:to_right], strict=True):
                yield from _paired(agent, mine[0], (mine[1], theirs[1]), where)
        else:
            for prompt, turns in one[from_left:to_left]:
                yield from _paired(agent, prompt, (turns, ()), where)
            for prompt, turns in other[from_right:to_right]:
                yield from _paired(agent, prompt, ((), turns), where)


def _runs(recording: Recording | None) -> list[tuple[str, tuple[Turn, ...]]]:
    """Return the turns by the prompt that they answer. A spawned agent is prompted by the one above it."""
    runs: list[tuple[str, list[Turn]]] = []
    for turn in recording.turns if recording is not None else ():
        said = [came.message.content for came in turn.came if came.is_prompt or (not runs and came.message.sender)]
        if said or not runs:
            runs.append(("\n".join(said), []))
        runs[-1][1].append(turn)
    return [(prompt, tuple(turns)) for prompt, turns in runs]


def _paired(
    agent: str, prompt: str, turns: tuple[Sequence[Turn], Sequence[Turn]], directories: tuple[str, str]
) -> Iterator[Row]:
    """Yield the turns of both sides after one prompt, each with its directory."""
    for one, other in zip_longest(*turns):
        mine, theirs = _move(one), _move(other)
        request = actions = calls = reply = None
        if one is not None and other is not None:
            actions = _acts(one, directories[0]) == _acts(other, directories[1])
            calls, reply = _calls(one.reply) == _calls(other.reply), _text(one) == _text(other)
        if mine is not None and theirs is not None and mine.sha256 and theirs.sha256:
            request = mine.sha256 == theirs.sha256
        yield Row(agent, prompt, mine, theirs, request, actions, calls, reply)


def _move(turn: Turn | None) -> Move | None:
    if turn is None:
        return None
    sha256, failed = turn.sent.sha256 if turn.sent else "", turn.failed.kind if turn.failed else ""
    reply = turn.reply or Message("assistant", ())
    names, stop = tuple(call.name for call in reply.calls), reply.stop or ""
    return Move(turn.number, sha256, reply.model, names, stop, failed, tuple(_said(turn, reply)))


def _said(turn: Turn, reply: Message) -> Iterator[tuple[str, str]]:
    if reply.content:
        yield "reply", reply.content
    results = {result.call_id: result for result in turn.answers}
    for call in reply.calls:
        values = (
            (name, value if isinstance(value, str) else json_dump(value)) for name, value in call.arguments.items()
        )
        yield call.name, "\n".join(f"{name}: {value}" for name, value in values)
        if call.id in results:
            yield f"result of {call.name}", results[call.id].text


def _calls(reply: Message | None) -> list[tuple[str, bytes]]:
    return [(call.name, canonical_bytes(call.arguments)) for call in reply.calls] if reply else []


def _acts(turn: Turn, cwd: str) -> list[Action]:
    return [action_of(call, cwd) for call in turn.reply.calls] if turn.reply else []


def _actions(recording: Recording | None) -> list[Action]:
    return [action for turn in (recording.turns if recording else ()) for action in _acts(turn, _cwd(recording))]


def _cwd(recording: Recording | None) -> str:
    return recording.origin.cwd.rstrip("/") if recording else ""


def _text(turn: Turn) -> str:
    return turn.reply.content if turn.reply else ""


# -- as JSON and as text -----------------------------------------------------------------------------------------------


def as_json(diff: SessionDiff) -> dict[str, Thawed]:
    """Encode as plain JSON with stable keys. USD are strings of decimals; a cost with `unpriced` above 0 is a minimum.
    `actions` counts those of both and the common ones in the same order; `share` is the common part."""
    agreed = diff.actions
    return {
        "same": diff.is_same,
        "a": _plain(diff.left),
        "b": _plain(diff.right),
        "actions": {"a": agreed.left, "b": agreed.right, "same": agreed.same, "share": agreed.share},
        "turns": _plain(diff.rows),
        "notes": list(diff.notes),
    }


_KEYS = {"commit": "git_commit", "dirty": "git_dirty", "final": "result", "code": "exit_code", "left": "a",
         "right": "b", "sha256": "request"}  # fmt: skip


_Part: TypeAlias = "str | float | tuple[_Part, ...] | Mapping[str, Sum] | Sum | Side | Row | Move | CheckResult | None"


def _plain(value: _Part) -> Thawed:
    match value:
        case Sum(charges, usage, usd, unpriced):
            tokens: dict[str, Thawed] = {bucket: getattr(usage, bucket) for bucket in BUCKETS}
            fees: dict[str, Thawed] = dict(usage.fees)
            return {"usd": f"{usd:f}", "unpriced": unpriced, "calls": charges, "tokens": tokens, "fees": fees}
        case Side() | Row() | Move() | CheckResult():
            return {_KEYS.get(field.name, field.name): _plain(getattr(value, field.name))
                    for field in fields(value) if field.name != "parts"}  # fmt: skip
        case tuple():
            return [_plain(each) for each in value]
        case None | str() | int() | float():
            return value
        case _:
            return {role: _plain(each) for role, each in value.items()}


def figures(diff: SessionDiff) -> Iterator[tuple[str, str, str]]:
    """Yield the figures of both sides: a name, and a text for each."""
    sides = diff.left, diff.right
    buckets = [bucket for bucket in BUCKETS if any(getattr(side.cost.usage, bucket) for side in sides)]
    roles = sorted({role for side in sides for role in side.cost_by_role})
    names = ("session", "models", "commit", "sandbox", "turns", "tool calls", "errors", "denials", "seconds")
    names += (*(f"tokens: {bucket.replace('_', ' ')}" for bucket in buckets), *(f"cost: {role}" for role in roles))
    yield from zip((*names, "cost"), *(_figures(side, buckets, roles) for side in sides), strict=True)
    agreed = diff.actions
    if agreed.left or agreed.right:
        yield "same actions", f"{agreed.same} of {agreed.left}", f"{agreed.same} of {agreed.right}"
    if diff.left.outcome is not None and diff.right.outcome is not None:
        yield "outcome", outcome_text(diff.left.outcome), outcome_text(diff.right.outcome)


def _figures(side: Side, buckets: Sequence[str], roles: Sequence[str]) -> Iterator[str]:
    yield side.session
    yield ", ".join(side.models)
    yield f"{side.commit[:12]}{' and changes' if side.dirty else ''}" if side.commit else "unknown"
    yield side.sandbox or "unknown"
    yield from map(str, (side.turns, side.tool_calls, side.errors, side.denials))
    yield f"{side.seconds:.1f}"
    yield from (str(getattr(side.cost.usage, bucket)) for bucket in buckets)
    yield from (_usd(side.cost_by_role.get(role, Sum())) for role in roles)
    yield _usd(side.cost)


def _usd(spent: Sum) -> str:
    if spent.unpriced and not spent.usd:
        return "price unknown"
    return f"{'≥ ' if spent.unpriced else ''}${spent.usd:f}"


def outcome_text(outcome: CheckResult) -> str:
    return f"not known: {outcome.said}" if outcome.code is None else f"exit {outcome.code}"


COMPARED = ("request", "actions", "calls", "reply")


def marks(row: Row) -> tuple[str, ...]:
    """Return the mark of each thing in COMPARED: same, different, or unknown."""
    words = {True: "same", False: "different", None: "-"}
    return tuple(words[each] for each in (row.same_request, row.same_actions, row.same_calls, row.same_reply))


def move_text(move: Move | None) -> str:
    if move is None:
        return "no turn"
    calls = f" [{', '.join(move.calls)}]" if move.calls else ""
    return f"{move.turn}: {move.failed or move.stop or 'nothing said'}{calls}"


def show(diff: SessionDiff) -> Iterator[str | Table]:
    """Show both sessions to a person, each turn under the prompt that it answers."""
    yield Table(tuple(figures(diff)), ("", "A", "B"))
    for (agent, prompt), rows in groupby(diff.rows, lambda row: (row.agent, row.prompt)):
        yield ""
        yield f"{agent} > {one_line(prompt, 100)}"
        turns = tuple((*marks(row), move_text(row.left), move_text(row.right)) for row in rows)
        yield Table(turns, (*COMPARED, "A", "B"))
    for side, name in ((diff.left, "A"), (diff.right, "B")):
        if side.outcome is not None and side.outcome.said:
            yield ""
            yield f"{name} in {side.outcome.directory or 'no directory'}, `{side.outcome.command}`:"
            yield from (f"  {line}" for line in side.outcome.said.splitlines())
    yield ""
    yield "every request, call and reply is the same" if diff.is_same else "they differ"
    if diff.actions.share is not None:
        yield f"{diff.actions.share:.0%} of the actions agree ({HOW})"
    yield from (f"note: {note}" for note in diff.notes)
