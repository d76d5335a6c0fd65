"""Checks of proposals: requests are built again from the log, compared with the bytes that were sent, and built once
more without what a proposal leaves out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sagent.errors import SagentError
from sagent.lib.money import EXACT
from sagent.lib.text import count
from sagent.messages import Message, Text, ToolResult
from sagent.model import Request
from sagent.plugins.lab.rebuild import Find, Rebuilder, adapters
from sagent.plugins.lab.recording import Prompt, read_prompt
from sagent.plugins.why.proposals import MAX_RESULT_CHARS, STUB, Kind, Proposal
from sagent.plugins.why.repricing import Repriced
from sagent.providers.rows import Row
from sagent.session.blobs import BlobDirectory
from sagent.session.contents import PromptEntry
from sagent.session.entries import Entry
from sagent.session.folds import history, origin
from sagent.session.log import read_log
from sagent.session.names import log_file

MAX_REBUILT = 12
"""Requests to build again for a proposal."""
MAX_READ_ENTRIES = 15_000
"""Entries to read for them, in all: fewer requests of a long session are built."""
_CUTS: Sequence[Kind] = ("repeated results", "long results")


class _Rebuilt(NamedTuple):
    """A request built again: the tokens that it would have had less, by its bytes; or why it could not be built."""

    tokens: float = 0.0
    problem: str = ""


def check(session: Path, proposals: Sequence[Proposal], rows: Mapping[str, Row] | None = None) -> None:
    """Check proposals, and lower what they promise where the bytes of the requests say less. `rows` are a person's own
    providers. Raises OSError."""
    find = adapters(rows)
    for proposal in proposals:
        if proposal.kind in _CUTS:
            _check_cut(session, proposal, find)
        elif proposal.requests:
            proposal.check = f"{count(proposal.requests, 'request')} priced again, by the counts in the log"
        else:
            proposal.check = "by the charges in the log"


def _check_cut(session: Path, proposal: Proposal, find: Find) -> None:
    """Build some of the requests again, evenly chosen among those of the agent that has most."""
    agent, affected = max(proposal.affected.items(), key=lambda item: len(item[1]))
    sent = [each for each in affected if each.request.sent is not None and each.request.sent.sha256]
    if not sent:
        proposal.basis, proposal.check = "estimated", "not rebuilt: the log has no request to compare with"
        return
    room = MAX_READ_ENTRIES // max(sent[-1].request.place, 1)
    number = min(len(sent), max(1, min(MAX_REBUILT, room)))
    chosen = [sent[(place + 1) * len(sent) // number - 1] for place in range(number)]
    entries = tuple(islice(read_log(log_file(session, agent)), sent[-1].request.place + 1))
    builder = _Builder(session, agent, entries, find)
    good: list[tuple[Repriced, _Rebuilt]] = []
    for each in chosen:
        if (built := builder.build(each, proposal)).problem:
            proposal.basis = "estimated"
            if not good:  # the next would hardly be better
                proposal.check = f"priced again by the counts in the log, but not rebuilt: {built.problem}"
                return
            continue
        good.append((each, built))
    claimed, counted = sum(each.tokens for each, _ in good), sum(built.tokens for _, built in good)
    proposal.check = (
        f"{len(good)} of {count(len(affected), 'request')} rebuilt byte for byte from the log, and again without it"
    )
    if counted < claimed:
        _lower(proposal, counted / max(claimed, 1))


def _lower(proposal: Proposal, share: float) -> None:
    """Lower what a proposal promises to a share of it."""
    part = Decimal(f"{share:.6f}")
    proposal.tokens = int(proposal.tokens * share)
    proposal.usd = None if proposal.usd is None else EXACT.multiply(proposal.usd, part)
    for row in proposal.days.values():
        row.usd, row.tokens = EXACT.multiply(row.usd, part), int(row.tokens * share)


class _Builder:
    """Builds the requests of one agent again."""

    def __init__(self, session: Path, agent: str, entries: Sequence[Entry], find: Find) -> None:
        self._agent, self._entries, self._find = agent, entries, find
        self._fetch = BlobDirectory(session / "blobs").get
        opened = origin(entries[:1]) if agent == "root" else origin(islice(read_log(session / "root.jsonl"), 1))
        self._names = (opened.session, session.name)
        self._rebuilders: dict[str, tuple[Prompt, Rebuilder]] = {}

    def build(self, repriced: Repriced, proposal: Proposal) -> _Rebuilt:
        """Build a request as it was sent, and without what the proposal leaves out."""
        request = repriced.request
        sent = request.sent
        assert sent is not None
        model = self._find(f"{request.charge.provider}/{sent.model}")
        if isinstance(model, str):
            return _Rebuilt(problem=model)
        try:
            messages = history(self._entries[: request.place], self._fetch)
            prompt, rebuilder = self._prompt(request.place)
            whole = Request("", messages, prompt.system)
            if rebuilder.compare(model, whole, sent).outcome != "same":
                return _Rebuilt(problem="other bytes than those that were sent")
            calls = proposal.calls.get(self._agent, set())
            cut = tuple(_cut(message, calls, proposal.kind) for message in messages)
            before = model.prepare(rebuilder.sent_as(whole)).digest.size
            after = model.prepare(rebuilder.sent_as(replace(whole, messages=cut))).digest.size
        except (SagentError, ValueError, OSError, LookupError) as error:
            return _Rebuilt(problem=str(error))
        return _Rebuilt(request.charge.usage.total_input * (before - after) / max(before, 1))

    def _prompt(self, place: int) -> tuple[Prompt, Rebuilder]:
        """Return the prompt of a request. Raises LookupError if the log has none."""
        entry = next((entry for entry in reversed(self._entries[:place]) if entry.kind == "prompt"), None)
        if entry is None or not isinstance(content := entry.content, PromptEntry):
            raise LookupError("the log has no system prompt")
        if entry.id not in self._rebuilders:
            prompt = read_prompt(content)
            self._rebuilders[entry.id] = prompt, Rebuilder(self._agent, prompt, self._names)
        return self._rebuilders[entry.id]


def _cut(message: Message, calls: set[str], kind: Kind) -> Message:
    """Return a message in which the results of some calls are cut."""
    if not any(result.call_id in calls for result in message.results):
        return message
    parts = tuple(
        _cut_result(part, kind) if isinstance(part, ToolResult) and part.call_id in calls else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _cut_result(result: ToolResult, kind: Kind) -> ToolResult:
    text = STUB if kind == "repeated results" else result.text[:MAX_RESULT_CHARS]
    return replace(result, content=(Text(text),))
