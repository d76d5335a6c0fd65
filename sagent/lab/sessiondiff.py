"""Two sessions side by side: turn by turn whether the same was sent, called and said, and what each came to."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, zip_longest
from pathlib import Path

from sagent.lab.check import CheckResult
from sagent.lab.recording import Recording, Turn, models_of, name_of, read_recording
from sagent.lib.dataclass import dataclass
from sagent.lib.json import Thawed, canonical_bytes
from sagent.lib.text import Table, one_line
from sagent.messages import Message
from sagent.session.contents import Environment
from sagent.session.folds import charges, contents
from sagent.session.log import read_log
from sagent.session.names import agent_of
from sagent.session.store import log_files
from sagent.usage import Sum, Totals

BUCKETS = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two. `seconds` are those in turns of the root agent; times between prompts do not count."""

    session: str
    path: str
    cwd: str
    commit: str
    dirty: bool
    recorded_by: str
    head: str
    models: tuple[str, ...]
    spent: Totals
    turns: int
    calls: int
    errors: int
    denials: int
    seconds: float
    final: str
    outcome: CheckResult | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A turn of one side: its number in its log, the request's sha256, the calls by name, how it ended."""

    turn: int
    sha256: str
    model: str
    calls: tuple[str, ...]
    stop: str
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Two turns side by side; one is None where the other run had more. `prompt` is what they answer."""

    agent: str
    prompt: str
    left: Move | None
    right: Move | None
    same_request: bool | None  # None where one of them is not known
    same_calls: bool | None  # by name and arguments
    same_reply: bool | None  # by text


@dataclass(frozen=True, slots=True)
class SessionDiff:
    """Both sessions and their turns. `notes` say what the figures do not."""

    left: Side
    right: Side
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether every turn of one is, in request, calls and reply, a turn of the other."""
        return all(row.same_request is not False and row.same_calls and row.same_reply for row in self.rows)

    def checked(self, left: CheckResult, right: CheckResult, *notes: str) -> "SessionDiff":
        """With what a check said of each."""
        sides = replace(self.left, outcome=left), replace(self.right, outcome=right)
        return replace(self, left=sides[0], right=sides[1], notes=(*self.notes, *notes))


def diff_sessions(left: Path, right: Path) -> SessionDiff:
    """Two sessions, by their directories. Raises SessionCorrupt and OSError."""
    one, other = _read(left), _read(right)
    rows = [
        row
        for agent in dict.fromkeys((*one.logs, *other.logs))
        for row in _rows(agent, one.logs.get(agent), other.logs.get(agent))
    ]
    notes = [f"{each.session}: a price is unknown, so that its cost is at least what is shown."
             for each in (one.side, other.side) if each.spent.whole.unpriced]  # fmt: skip
    strangers = [agent for agent in (*one.logs, *other.logs) if (agent in one.logs) != (agent in other.logs)]
    if strangers:
        notes.append(f"Only one of them has {', '.join(dict.fromkeys(strangers))}.")
    return SessionDiff(one.side, other.side, tuple(rows), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Session:
    side: Side
    logs: Mapping[str, Recording]


def _read(session: Path) -> _Session:
    logs: dict[str, Recording] = {}
    git = list[Environment]()
    spent = Totals()
    for file in log_files(session):
        entries = tuple(read_log(file))
        git += contents(entries, Environment)
        agent = agent_of(session, file)
        logs[agent] = read_recording(agent, entries, lambda _: b"")
        for charge in charges(entries):
            spent.add(charge)
    root = logs["root"]
    answers = [answer.result for each in logs.values() for turn in each.turns for answer in turn.answers]
    failed = [result for result in answers if result.is_error]
    denied = sum(result.denied for result in failed)
    models = dict.fromkeys(model for each in logs.values() for model in models_of(each))
    side = Side(
        session=name_of(session, root.origin),
        path=str(session),
        cwd=root.origin.cwd,
        commit=git[0].commit if git else "",
        dirty=bool(git and git[0].dirty),
        recorded_by=root.origin.recorded_by,
        head=root.head,
        models=tuple(models),
        spent=spent,
        turns=sum(turn.reply is not None for each in logs.values() for turn in each.turns),
        calls=sum(len(turn.reply.calls) for each in logs.values() for turn in each.turns if turn.reply),
        errors=len(failed) - denied,
        denials=denied,
        seconds=round(sum(map(_seconds, root.turns)), 3),
        final=next((turn.reply.content for turn in reversed(root.turns) if turn.reply and turn.reply.content), ""),
    )
    return _Session(side, logs)


def _seconds(turn: Turn) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(turn.ended) - datetime.fromisoformat(turn.began)).total_seconds())
    except ValueError:
        return 0.0


# -- what stands beside what -------------------------------------------------------------------------------------------


def _rows(agent: str, left: Recording | None, right: Recording | None) -> Iterator[Row]:
    """Prompts that are the same are paired, and their turns one by one."""
    one, other = _runs(left), _runs(right)
    prompts = [[prompt for prompt, _ in runs] for runs in (one, other)]
    matcher = difflib.SequenceMatcher(None, prompts[0], prompts[1], autojunk=False)
    for kind, from_left, to_left, from_right, to_right in matcher.get_opcodes():
        if kind == "equal":
            for mine, theirs in zip(one[from_left:to_left], other[from_right:to_right], strict=True):
                yield from _paired(agent, mine[0], mine[1], theirs[1])
        else:
            for prompt, turns in one[from_left:to_left]:
                yield from _paired(agent, prompt, turns, ())
            for prompt, turns in other[from_right:to_right]:
                yield from _paired(agent, prompt, (), turns)


def _runs(recording: Recording | None) -> list[tuple[str, tuple[Turn, ...]]]:
    """The turns by the prompt that they answer. In an agent that was spawned the one above it prompts."""
    runs: list[tuple[str, list[Turn]]] = []
    for turn in recording.turns if recording is not None else ():
        said = [came.message.content for came in turn.came if came.is_prompt or (not runs and came.message.sender)]
        if said or not runs:
            runs.append(("\n".join(said), []))
        runs[-1][1].append(turn)
    return [(prompt, tuple(turns)) for prompt, turns in runs]


def _paired(agent: str, prompt: str, left: Sequence[Turn], right: Sequence[Turn]) -> Iterator[Row]:
    for one, other in zip_longest(left, right):
        mine, theirs = _move(one), _move(other)
        request = calls = reply = None
        if one is not None and other is not None:
            calls, reply = _calls(one.reply) == _calls(other.reply), _text(one) == _text(other)
        if mine is not None and theirs is not None and mine.sha256 and theirs.sha256:
            request = mine.sha256 == theirs.sha256
        yield Row(agent, prompt, mine, theirs, request, calls, reply)


def _move(turn: Turn | None) -> Move | None:
    if turn is None:
        return None
    reply = turn.reply
    return Move(
        turn.number,
        turn.sent.sha256 if turn.sent else "",
        reply.model if reply else "",
        tuple(call.name for call in reply.calls) if reply else (),
        (reply.stop or "") if reply else "",
        turn.failed.kind if turn.failed else "",
    )


def _calls(reply: Message | None) -> list[tuple[str, bytes]]:
    return [(call.name, canonical_bytes(call.arguments)) for call in reply.calls] if reply else []


def _text(turn: Turn) -> str:
    return turn.reply.content if turn.reply else ""


# -- as JSON and as text -----------------------------------------------------------------------------------------------


def as_json(diff: SessionDiff) -> dict[str, Thawed]:
    """Plain keys that stay. USD are strings of decimals; a cost with `unpriced` above 0 is a minimum."""
    return {
        "same": diff.is_same,
        "a": _side_json(diff.left),
        "b": _side_json(diff.right),
        "turns": [_row_json(row) for row in diff.rows],
        "notes": list(diff.notes),
    }


def _side_json(side: Side) -> dict[str, Thawed]:
    outcome = side.outcome
    shown: dict[str, Thawed] = {
        "session": side.session,
        "path": side.path,
        "head": side.head,
        "cwd": side.cwd,
        "git_commit": side.commit,
        "git_dirty": side.dirty,
        "recorded_by": side.recorded_by,
        "models": list(side.models),
        "turns": side.turns,
        "tool_calls": side.calls,
        "errors": side.errors,
        "denials": side.denials,
        "seconds": side.seconds,
        "cost": _sum_json(side.spent.whole),
        "cost_by_role": {role: _sum_json(each) for role, each in sorted(side.spent.by_role.items())},
        "result": side.final,
        "outcome": None,
    }
    if outcome is not None:
        check: dict[str, Thawed] = {"command": outcome.command, "exit_code": outcome.code, "said": outcome.said}
        shown["outcome"] = {**check, "directory": outcome.directory}
    return shown


def _sum_json(spent: Sum) -> dict[str, Thawed]:
    tokens: dict[str, Thawed] = {bucket: getattr(spent.usage, bucket) for bucket in BUCKETS}
    fees: dict[str, Thawed] = dict(spent.usage.fees)
    return {"usd": f"{spent.usd:f}", "unpriced": spent.unpriced, "calls": spent.charges, "tokens": tokens, "fees": fees}


def _row_json(row: Row) -> dict[str, Thawed]:
    return {
        "agent": row.agent,
        "prompt": row.prompt,
        "a": _move_json(row.left),
        "b": _move_json(row.right),
        "same_request": row.same_request,
        "same_calls": row.same_calls,
        "same_reply": row.same_reply,
    }


def _move_json(move: Move | None) -> Thawed:
    if move is None:
        return None
    return {
        "turn": move.turn,
        "request": move.sha256,
        "model": move.model,
        "calls": list(move.calls),
        "stop": move.stop,
        "failed": move.failed,
    }


def figures(diff: SessionDiff) -> Iterator[tuple[str, str, str]]:
    """What both came to: a name, and a text for each."""
    one, other = diff.left, diff.right
    yield "session", one.session, other.session
    yield "models", ", ".join(one.models), ", ".join(other.models)
    yield "commit", _commit(one), _commit(other)
    yield "turns", str(one.turns), str(other.turns)
    yield "tool calls", str(one.calls), str(other.calls)
    yield "errors", str(one.errors), str(other.errors)
    yield "denials", str(one.denials), str(other.denials)
    yield "seconds", f"{one.seconds:.1f}", f"{other.seconds:.1f}"
    for bucket in BUCKETS:
        mine, theirs = getattr(one.spent.whole.usage, bucket), getattr(other.spent.whole.usage, bucket)
        if mine or theirs:
            yield f"tokens: {bucket.replace('_', ' ')}", str(mine), str(theirs)
    mine, theirs = one.spent.by_role, other.spent.by_role
    for role in sorted({*mine, *theirs}):
        yield f"cost: {role}", _usd(mine.get(role, Sum())), _usd(theirs.get(role, Sum()))
    yield "cost", _usd(one.spent.whole), _usd(other.spent.whole)
    if one.outcome is not None and other.outcome is not None:
        yield "outcome", outcome_text(one.outcome), outcome_text(other.outcome)


def _usd(spent: Sum) -> str:
    if spent.unpriced and not spent.usd:
        return "price unknown"
    return f"{'≥ ' if spent.unpriced else ''}{spent.usd:f} USD"


def _commit(side: Side) -> str:
    return f"{side.commit[:12]}{' and changes' if side.dirty else ''}" if side.commit else "unknown"


def outcome_text(outcome: CheckResult) -> str:
    return f"not known: {outcome.said}" if outcome.code is None else f"exit {outcome.code}"


def marks(row: Row) -> tuple[str, str, str]:
    """Request, calls and reply: same, different, or not known."""
    words = {True: "same", False: "different", None: "-"}
    return words[row.same_request], words[row.same_calls], words[row.same_reply]


def move_text(move: Move | None) -> str:
    if move is None:
        return "no turn"
    calls = f" [{', '.join(move.calls)}]" if move.calls else ""
    return f"{move.turn}: {move.failed or move.stop or 'nothing said'}{calls}"


def show(diff: SessionDiff) -> Iterator[str | Table]:
    """Both for a person, the turns under the prompt that they answer."""
    yield Table(tuple(figures(diff)), ("", "A", "B"))
    for (agent, prompt), rows in groupby(diff.rows, lambda row: (row.agent, row.prompt)):
        yield ""
        yield f"{agent} > {one_line(prompt, 100)}"
        turns = tuple((*marks(row), move_text(row.left), move_text(row.right)) for row in rows)
        yield Table(turns, ("request", "calls", "reply", "A", "B"))
    for side, name in ((diff.left, "A"), (diff.right, "B")):
        if side.outcome is not None and side.outcome.said:
            yield ""
            yield f"{name} in {side.outcome.directory or 'no directory'}, `{side.outcome.command}`:"
            yield from (f"  {line}" for line in side.outcome.said.splitlines())
    yield ""
    yield "every request, call and reply is the same" if diff.is_same else "they differ"
    yield from (f"note: {note}" for note in diff.notes)
