"""A run from a session's logs, its agents' entries put in the order in which they were written."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sagent.lib.json import as_array, as_object, as_str
from sagent.session.entries import Entry, parse_line
from sagent.session.names import agent_of
from sagent.transcript.steps import (
    Answered,
    Asked,
    Damaged,
    Opened,
    Refused,
    Remark,
    Said,
    Step,
    Turn,
    as_json,
    as_number,
    charged,
    consulted,
)

DENIED = "Permission denied: "  # how the result of a call begins that the policy did not allow


def read_entries(session: Path, files: Sequence[Path]) -> Iterator[Step]:
    """The steps that a session's logs tell. A line that cannot be read is a step of its own. Raises OSError."""
    logs = [_Log(agent_of(session, file), file if len(files) > 1 else None) for file in files]
    streams = [log.steps(file) for log, file in zip(logs, files, strict=True)]
    for _, step in heapq.merge(*streams, key=lambda each: each[0]):
        yield step


class _Log:
    """One agent's log. `file` is named in what is said of damage."""

    def __init__(self, agent: str, file: Path | None) -> None:
        self._agent = agent
        self._place = file.name if file else ""
        self._names: dict[str, str] = {}  # of calls, by their ids

    def steps(self, file: Path) -> Iterator[tuple[str, Step]]:
        """The steps, each with its time; a damaged line has that of the one before."""
        at = ""
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    entry = parse_line(line)
                    found = list(self._read(entry, entry.body))
                except ValueError as error:
                    torn = "" if line.endswith(b"\n") else "; it has no end: its writer was killed, or is still at work"
                    yield at, Damaged(number, f"{error}{torn}", self._place)
                    continue
                at = entry.at
                for step in found:
                    yield at, step

    def _read(self, entry: Entry, body: Mapping[str, object]) -> Iterator[Step]:
        agent = self._agent
        match entry.kind:
            case "opened":
                session, cwd = as_str(body.get("session")), as_str(body.get("cwd"))
                yield Opened(agent, session, cwd=cwd, at=entry.at)
            case "message":
                yield from self._message(entry, body)
            case "result":
                yield self._result(body)
            case "advice":
                yield consulted(agent, body)
            case "spent":
                model = f"{as_str(body.get('provider'))}/{as_str(body.get('model'))}"
                yield charged(agent, as_str(body.get("role")), model, body.get("usage"), body.get("usd"))
            case _:
                yield from self._remark(entry.kind, body)

    def _message(self, entry: Entry, body: Mapping[str, object]) -> Iterator[Step]:
        parts = [as_object(part) for part in as_array(body.get("parts"))]
        text = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
        if body.get("role") != "assistant":
            if text:
                yield Said(self._agent, text, as_str(body.get("sender")))
            return
        calls = tuple(
            Asked(as_str(part.get("id")), as_str(part.get("name")), as_json(part.get("arguments")))
            for part in parts
            if part.get("type") == "tool_call"
        )
        self._names |= {call.id: call.name for call in calls}
        yield Turn(self._agent, as_str(body.get("model")), text, calls, as_str(body.get("stop")), entry.at)

    def _result(self, body: Mapping[str, object]) -> Step:
        result = as_object(body.get("result"))
        call, failed = as_str(result.get("call_id")), result.get("is_error") is True
        name = self._names.get(call, "")
        parts = map(as_object, as_array(result.get("content")))
        text = "".join(as_str(part.get("text")) for part in parts if part.get("type") == "text")
        if failed and text.startswith(DENIED):
            return Refused(self._agent, call, name, text.removeprefix(DENIED))
        return Answered(self._agent, call, name, text, failed, as_number(body.get("seconds")))

    def _remark(self, kind: str, body: Mapping[str, object]) -> Iterator[Remark]:
        said: Mapping[str, tuple[str, ...]] = {
            "switched": ("model", "effort", "advisor", "reason"),
            "compacted": ("reason", "before", "after"),
            "failed": ("kind", "message"),
            "notice": ("text",),
            "label": ("text",),
            "spawned": ("agent",),
            "returned": ("agent",),
            "job": ("job", "state"),
            "handoff": ("from", "to"),
            "forked": (),
            "repaired": (),
        }
        if kind in said:
            told = [str(body[name]) for name in said[kind] if body.get(name) not in (None, "")]
            yield Remark(self._agent, f"{kind}: {', '.join(told)}" if told else kind)
