"""Sessions made of transcripts: the one place where their steps become entries of a log."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from shutil import rmtree

from sagent.context.todo import TODO, Task, list_note, tasks_in
from sagent.cost.prices import PriceBook
from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import money
from sagent.lib.json import valid_text
from sagent.lib.money import ZERO, total
from sagent.lib.text import count
from sagent.messages import Message, Text, ToolCall
from sagent.plugins.transfer.steps import PROGRAMS, Child, Compaction, Said, Spent, Transcript
from sagent.session.contents import (
    Compacted,
    Label,
    MessageEntry,
    NoticeEntry,
    Opened,
    ResultEntry,
    Returned,
    Spawned,
    StoredMessage,
    StoredResult,
    Unknown,
)
from sagent.session.lock import Lock
from sagent.session.log import Log, make_directory
from sagent.session.names import new_session_id, sessions_of
from sagent.session.store import COPY, Session, note_last, sweep_copies
from sagent.usage import Usage

KIND = "imported"
"""The kind of the entry with everything about a transcript that is no part of the conversation."""
MAX_TITLE_CHARS = 200
MAX_FACT_CHARS = 500
_PROVIDERS = {"gemini": "google", "google-vertex": "google"}
"""Our names of providers that other programs call otherwise."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Taken:
    """A session that was made of a transcript. `usd` was spent in the other program, a minimum if `unpriced` models
    have no known price. `left_out` counts what was not taken over, by reason, sub-agents included."""

    session: Path
    program: str
    source: str
    title: str
    cwd: str
    model: str
    messages: int
    calls: int
    images: int
    children: int
    compactions: int
    usd: Decimal
    unpriced: tuple[str, ...]
    usage: Usage
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def summary(self) -> str:
        """Return a sentence for people, without text of the transcript."""
        name = PROGRAMS[self.program]  # pyright: ignore[reportArgumentType] -- one of them
        parts = [count(self.messages, "message"), count(self.calls, "call")]
        parts += [count(self.images, "image or document", "images and documents")] if self.images else []
        parts += [count(self.children, "sub-agent")] if self.children else []
        parts += [count(self.compactions, "compaction")] if self.compactions else []
        known = self.usd > 0 or (self.usage != Usage() and not self.unpriced)
        bill = f"{'≥ ' * bool(self.unpriced)}{money(self.usd)}" if known else "an unknown sum"
        return f"Taken over from {name}: {', '.join(parts)}. It cost {bill} there, which counts in no budget here."


def write_session(transcript: Transcript, state: Path, cwd: Path, prices: PriceBook) -> Taken:
    """Make a session of a transcript in a working directory. Nothing is left of one that could not be written whole.
    Raises UsageError for a transcript without messages, SagentError and OSError."""
    if not transcript.messages:
        raise UsageError(f"{transcript.file} has no message that can be taken over{_and_why(transcript.left_out)}.")
    home = sessions_of(state, cwd)
    make_directory(home)
    sweep_copies(home)
    draft = home / f"{COPY}{new_session_id()}"  # removed by the next sweep if this process is killed
    with ExitStack() as undo:
        undo.callback(rmtree, draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        undo.enter_context(closing(Lock(draft)))
        with Session.create_at(draft / new_session_id()) as session:
            taken = _Writer(session, transcript, prices).write(cwd)
            session.log().sync()
        path = session.path.rename(home / session.path.name)  # from here on it is a session, and whole
    note_last(path)
    return replace(taken, session=path)


def _and_why(left_out: Mapping[str, int]) -> str:
    rows = [f"{number} × {reason}" for reason, number in list(left_out.items())[:5] if number]
    return f" ({'; '.join(rows)})" if rows else ""


class _Writer:
    """Writes one session: the root's log, and one for each sub-agent."""

    def __init__(self, session: Session, transcript: Transcript, prices: PriceBook) -> None:
        self._session, self._transcript, self._prices = session, transcript, prices
        self._blobs = session.log().blobs
        self._counts: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._spent: list[Spent] = []
        self._names: set[str] = set()
        self._model = ""

    def write(self, cwd: Path) -> Taken:
        transcript, log = self._transcript, self._session.log()
        source = {"program": transcript.program, "id": _fact(transcript.id), "version": _fact(transcript.version)}
        self._session.begin(cwd, imported=source)
        if title := _fact(" ".join((transcript.title or _first_prompt(transcript)).split()), MAX_TITLE_CHARS):
            log.append(Label(title))
        live = self._talk(log, transcript)
        self._write_list(log, live, transcript.todo)
        usd, unpriced, usage = self._price()
        taken = Taken(
            session=self._session.path,
            program=transcript.program,
            source=_fact(transcript.id),
            title=title,
            cwd=_fact(transcript.cwd),
            model=self._model,
            messages=self._counts["messages"],
            calls=self._counts["calls"],
            images=self._counts["images"],
            children=self._counts["children"],
            compactions=self._counts["compactions"],
            usd=usd,
            unpriced=unpriced,
            usage=usage,
            left_out={reason: number for reason, number in sorted(self._left_out.items()) if number > 0},
        )
        log.append(Unknown(KIND, self._about(taken)))
        log.append(NoticeEntry(taken.summary))
        return taken

    def _keep(self, data: bytes) -> str:
        return self._blobs.put(data).name

    def _about(self, record: Taken) -> Mapping[str, object]:
        """Return the facts that are no part of the conversation. USD are texts."""
        times = [step.at if isinstance(step, Said) else "" for step in self._transcript.steps]
        return {
            "program": record.program,
            "id": record.source,
            "version": _fact(self._transcript.version),
            "cwd": record.cwd,
            "file": _fact(str(self._transcript.file)),
            "times": times,
            "spent": {
                "usd": str(record.usd),
                "unpriced": list(record.unpriced),
                "input": record.usage.input,
                "cache_read": record.usage.cache_read,
                "cache_write": record.usage.cache_write + record.usage.cache_write_1h,
                "output": record.usage.output,
            },
            "left_out": dict(record.left_out),
        }

    def _talk(self, log: Log, transcript: Transcript) -> list[Message]:
        """Write a conversation with its sub-agents; return the messages that are left of it."""
        self._left_out.update(transcript.left_out)
        self._spent += transcript.spent
        waiting = {child.call_id: child for child in transcript.children if child.call_id}
        live: list[tuple[int, Message]] = []
        for step in transcript.steps:
            if isinstance(step, Compaction):
                self._compact(log, live, step)
                continue
            message = _ours(step.message)
            for result in message.results:
                log.append(ResultEntry(StoredResult.of(result, self._keep)))
            log.append(MessageEntry(StoredMessage.of(message, self._keep)))
            live.append((step.number, message))
            self._count(message)
            for call in message.calls:
                if (child := waiting.pop(call.id, None)) is not None:
                    self._write_child(log, child)
            if log.agent == "root":
                self._model = message.model or self._model
        started = {id(child) for child in waiting.values()}
        for child in transcript.children:
            if not child.call_id or id(child) in started:
                self._write_child(log, child)
        return [message for _, message in live]

    def _compact(self, log: Log, live: list[tuple[int, Message]], step: Compaction) -> None:
        kept = tuple(place for place, (number, _) in enumerate(live) if number in step.kept)
        author = PROGRAMS[self._transcript.program]
        text = f"Summary of this conversation until here, as {author} wrote it:\n\n{step.summary}"
        log.append(Compacted((), step.before, step.after, "asked for", kept, (0, text)))
        summary = Message("user", (Text(text),), sender="sagent")
        live[:] = [(-1, summary), *(live[place] for place in kept)]
        self._counts["compactions"] += 1

    def _write_child(self, log: Log, child: Child) -> None:
        """Write a sub-agent's log, and its start and end into that of its parent."""
        if not child.transcript.messages:
            self._left_out["a sub-agent without messages"] += 1
            return
        path = self._path(log.agent, child.name)
        own = log.child(path)
        first = own.append(Opened(log.session_id, path, child.transcript.cwd[:MAX_FACT_CHARS]))
        model = next((step.message.model for step in child.transcript.steps if isinstance(step, Said)
                      and step.message.model), "")  # fmt: skip
        log.append(Spawned(path, first.id, model=_model_name(model)))
        self._talk(own, child.transcript)
        own.sync()
        log.append(Returned(path, own.head))
        own.close()  # a session may have more sub-agents than a process may have open files
        self._counts["children"] += 1

    def _path(self, above: str, name: str) -> str:
        """Return an unused path for a sub-agent."""
        plain = _UNSAFE.sub("-", name).strip("-")[:60] or "agent"
        path, number = f"{above}/{plain}", 1
        while path in self._names:
            number += 1
            path = f"{above}/{plain}-{number}"
        self._names.add(path)
        return path

    def _count(self, message: Message) -> None:
        self._counts["messages"] += 1
        self._counts["calls"] += len(message.calls)
        parts = (*message.parts, *(part for result in message.results for part in result.content))
        self._counts["images"] += sum(hasattr(part, "media_type") for part in parts)

    def _write_list(self, log: Log, live: Sequence[Message], todo: Sequence[Task]) -> None:
        """Write the to-do list as after a compaction, unless the last call of the conversation wrote the same."""
        if not todo or tuple(todo) == tasks_in(live) or all(task.state == "completed" for task in todo):
            return
        arguments = {"todos": [{"content": task.text, "status": task.state} for task in todo]}
        wrote = Message("assistant", (ToolCall("list", TODO, arguments),))
        for sender, text in list_note((wrote,), (wrote,)):
            log.append(MessageEntry(StoredMessage.of(Message("user", (Text(text),), sender), self._keep)))

    def _price(self) -> tuple[Decimal, tuple[str, ...], Usage]:
        """Return USD of all calls, the models without a known price, and the tokens."""
        prices: list[Decimal] = []
        unpriced: set[str] = set()
        usage = Usage()
        for spent in self._spent:
            usage += spent.usage
            name = _PROVIDERS.get(spent.provider, spent.provider)
            usd = self._prices.price(name, spent.model, spent.usage) if spent.usd is None else spent.usd
            if usd is None:
                unpriced.add(_fact(f"{name}/{spent.model}", 100))
            else:
                prices.append(usd)
        return total(prices) if prices else ZERO, tuple(sorted(unpriced)), usage


def _ours(message: Message) -> Message:
    """Return a message with our name of its model's provider."""
    return replace(message, model=_model_name(message.model)) if message.model else message


def _first_prompt(transcript: Transcript) -> str:
    """Return the first prompt of a transcript from elsewhere, whose prompts no list of sessions would show."""
    prompts = (step.message for step in transcript.steps if isinstance(step, Said) and step.message.role == "user")
    asked = next((one for one in prompts if one.sender in ("", f"{transcript.program}-user") and one.content), None)
    return asked.content if asked is not None and asked.sender else ""


def _model_name(model: str) -> str:
    provider, _, name = model.partition("/")
    return f"{_PROVIDERS.get(provider, provider)}/{name}"[:MAX_FACT_CHARS] if name else ""


def _fact(text: str, most: int = MAX_FACT_CHARS) -> str:
    return valid_text(text)[:most]


def rows_of(left_out: Mapping[str, int]) -> Iterable[str]:
    """Yield a line for each reason, most frequent first."""
    for reason, number in sorted(left_out.items(), key=lambda row: (-row[1], row[0])):
        yield f"{number} × {reason}"
