"""A transport that collects requests to models for a while and sends them as one batch, at the batch price."""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str, sha256_hex, wire_bytes
from sagent.lib.renamed import warn_renamed
from sagent.lib.text import count
from sagent.plugins.batches.forms import Ask, Form, Outcome, Outcomes, failure, form_of
from sagent.plugins.batches.journal import Journal, Sent
from sagent.providers.wire.exchange import Timeouts, read_answer
from sagent.providers.wire.faults import ExchangeFailed
from sagent.providers.wire.transport import Answer, DirectTransport, Transport

ANSWER_TIMEOUT_SECONDS = 26 * 3_600.0  # longest wait for an answer; all providers promise 24 hours
_MAX_ANSWERS_BYTES = 1 << 30  # read of a batch's answers
_REQUEST_TIMEOUT_SECONDS = 600.0  # seconds for one request of ours
_MAX_POLL_SECONDS = 60.0
_LAST_BATCH_TIMEOUT_SECONDS = 15.0  # seconds for sending a batch at the end of the process
_DATE = re.compile(rb"Date: \d{4}-\d\d-\d\d")  # of the day, in system prompts: an answer may come on the next
_PASSING = ("prompt_cache_key", "metadata", "user", "safety_identifier")  # members that differ from session to session

T = TypeVar("T")
_Place: TypeAlias = tuple["_Batch", str]
"""The place of an answer: its batch, and the request's name there."""


def answer_with(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Return a response whose body is complete."""

    async def chunks() -> AsyncGenerator[bytes]:
        yield body

    rest = chunks()
    return Answer(status, headers, rest, rest.aclose)


@dataclass(slots=True, eq=False)
class _Item:
    digest: str
    body: dict[str, object]
    size: int
    place: "asyncio.Future[_Place | _RefusedError]"


@dataclass(slots=True, eq=False)
class _Group:
    """Requests that may go together."""

    form: Form
    url: str
    headers: Mapping[str, str]
    first: float  # arrival of the first request, on the loop's clock
    items: list[_Item] = field(default_factory=list[_Item])
    timer: asyncio.TimerHandle | None = None


class Batches:
    """A Transport for Anthropic, OpenAI or Google that sends what several agents request at about the same time as one
    batch. Other requests are sent directly. Give the provider its `timeouts` too.

    A batch is sent when no request has arrived for `quiet` seconds, or `max_delay` seconds after the first, or when
    everybody who may make one (`expect`) has done so. With a `journal`, sent batches are recorded, and the same request
    in a later process takes the answer that was already paid for; each answer is used once. Requests that wait when a
    process ends continue at the provider. `report` is called with a line for each batch.
    """

    providers = ("anthropic", "openai", "google")
    """Providers whose batch APIs are known."""
    timeouts = Timeouts(stall=2 * ANSWER_TIMEOUT_SECONDS, reasoning_stall=2 * ANSWER_TIMEOUT_SECONDS)
    """An answer takes as long as its batch."""

    def __init__(
        self,
        journal: Path | None = None,
        *,
        quiet: float = 5.0,
        max_delay: float = 60.0,
        poll: float = 5.0,
        report: Callable[[str], None] = lambda _: None,
        through: Transport | None = None,
        longest: float | None = None,
    ) -> None:
        if longest is not None:
            warn_renamed("Batches(longest=)", "Batches(max_delay=)", "0.3")
            max_delay = longest
        self._through = through or DirectTransport()
        self._journal = Journal(journal)
        self._quiet, self._max_delay, self.poll, self.report = quiet, max_delay, poll, report
        self._groups: dict[object, _Group] = {}
        self._busy = self._waiting = 0  # who may ask, and requests that wait
        self._sends: set[asyncio.Task[None]] = set()
        self._waits: set[asyncio.Task[Outcomes]] = set()
        self._known: dict[str, deque[_Place]] = {}  # answers of earlier processes, by the digest of their request
        for sent in self._journal.read():
            if form := form_of(sent.path):
                batch = _Batch(self, form, sent)
                for name, digest in sent.digests.items():
                    self._known.setdefault(digest, deque()).append((batch, name))

    async def __aenter__(self) -> Self:
        if self._journal.unsure > 0:
            self.report(
                f"{self._journal.unsure} of the batches that were being sent when an earlier process ended may exist "
                "and be billed: the provider's console lists them"
            )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop waiting. Sent batches continue at the provider. For batches that are being sent, wait for the id:
        without it their answers would be lost."""
        for group in self._groups.values():
            if group.timer is not None:
                group.timer.cancel()
        if self._sends:
            await asyncio.wait(self._sends, timeout=_LAST_BATCH_TIMEOUT_SECONDS)
        if left := len(self._waits):
            self.report(f"{count(left, 'batch', 'batches')} in progress: the provider continues them")
        for task in (*self._sends, *self._waits):
            task.cancel()
        await asyncio.gather(*self._sends, *self._waits, return_exceptions=True)
        await self._through.aclose()

    def expect(self, change: int) -> None:
        """Change the number of agents that may make a request."""
        self._busy += change
        self._hasten()

    def _hasten(self) -> None:
        """Send the collected requests if no other agent can make one."""
        if 0 < self._busy <= self._waiting:
            for key, group in tuple(self._groups.items()):
                self._begin(key, group)

    async def post(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> Answer:
        form = form_of(url)
        if form is None:
            return await self._through.post(url, headers, body)
        self._waiting += 1
        try:
            return await self._batched(form, url, headers, form.body(json.loads(b"".join(body))))
        finally:
            self._waiting -= 1

    async def _batched(self, form: Form, url: str, headers: Mapping[str, str], body: dict[str, object]) -> Answer:
        digest = _digest(url, body)
        if known := self._known.get(digest):
            batch, name = known.popleft()
        else:
            found = await self._collect(form, url, headers, digest, body)
            if isinstance(found, _RefusedError):
                return answer_with(found.status, found.headers, found.body)
            batch, name = found
        outcome = await batch.outcome(name, url, headers)
        final = {"x-should-retry": "false"} if outcome.final else {}
        return answer_with(outcome.status, {"content-type": "application/json", **final}, outcome.body)

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
                return await self._through.get(url, headers)
        except TimeoutError as error:
            raise ExchangeFailed("stalled", f"no answer within {_REQUEST_TIMEOUT_SECONDS:g} s") from error

    async def aclose(self) -> None:
        """Close unused connections; others may still wait for their answers."""
        await self._through.aclose()

    async def _collect(
        self, form: Form, url: str, headers: Mapping[str, str], digest: str, body: dict[str, object]
    ) -> "_Place | _RefusedError":
        """Wait until the request is sent with others. Returns the place of its answer, or the refusal of the batch."""
        loop = asyncio.get_running_loop()
        key = url, as_str(body.get("model")), tuple(sorted(headers.items()))
        group = self._groups.get(key)
        size = len(wire_bytes(body))
        if group is not None and sum(item.size for item in group.items) + size > form.max_bytes:
            self._begin(key, group)
            group = None
        if group is None:
            group = self._groups[key] = _Group(form, url, headers, loop.time())
        item = _Item(digest, body, size, loop.create_future())
        group.items.append(item)
        if group.timer is not None:
            group.timer.cancel()
        at = min(loop.time() + self._quiet, group.first + self._max_delay)
        group.timer = loop.call_at(at, self._begin, key, group)
        self._hasten()
        try:
            return await item.place
        except asyncio.CancelledError:
            if item in group.items:  # it has not gone out
                group.items.remove(item)
            raise

    def _begin(self, key: object, group: _Group) -> None:
        if self._groups.get(key) is group:
            del self._groups[key]
        if group.timer is not None:
            group.timer.cancel()
        items, group.items = group.items, []
        if items:
            task = asyncio.get_running_loop().create_task(self._send(group, items))
            self._sends.add(task)
            task.add_done_callback(self._sends.discard)

    async def _send(self, group: _Group, items: Sequence[_Item]) -> None:
        named = {f"r{number}": item for number, item in enumerate(items)}
        try:
            sent = await self._sent(group, named)
        except _RefusedError as error:
            if error.status < 500:  # otherwise the batch may exist all the same
                self._journal.refused()
            for item in items:
                _settle(item.place, error)
        except (
            ExchangeFailed,
            OSError,
            ValueError,
        ) as error:  # connection, journal, or an answer that is no JSON
            lost = not isinstance(error, ExchangeFailed) or error.sent
            if not lost:
                self._journal.refused()
            words = f"a batch was not sent: {str(error) or 'no answer came'}"
            final = lost or getattr(error, "final", False)
            for item in items:
                if not item.place.done():  # each gets its own: a traceback grows with every raise
                    item.place.set_exception(ExchangeFailed("network", words, final=final, sent=lost))
        else:
            batch = _Batch(self, group.form, sent)
            for name, item in named.items():
                _settle(item.place, (batch, name))

    async def _sent(self, group: _Group, named: Mapping[str, _Item]) -> Sent:
        self._journal.sending(urlsplit(group.url).path)
        bodies = {name: item.body for name, item in named.items()}
        batch = await group.form.send(self.asking(group.headers), group.url, bodies)
        if not batch:
            raise ValueError("the provider gave no id for it")
        digests = {name: item.digest for name, item in named.items()}
        sent = Sent(batch, urlsplit(group.url).path, int(time.time()), digests)
        self._journal.sent(sent)
        self.report(f"batch {batch}: {count(len(named), 'request')} sent")
        return sent

    def wait(self, outcomes: Coroutine[None, None, Outcomes]) -> asyncio.Task[Outcomes]:
        """Wait for a batch, for as long as this transport is open."""
        task = asyncio.get_running_loop().create_task(outcomes)
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)
        return task

    def asking(self, headers: Mapping[str, str]) -> Ask:
        """Return a function that sends a form's requests, with the headers of a request."""
        own = {name: value for name, value in headers.items() if name not in ("content-type", "accept")}

        async def ask(url: str, body: bytes | None = None, content_type: str = "application/json") -> bytes:
            headers, sent = (own, None) if body is None else ({**own, "content-type": content_type}, (body,))
            answer, found = await read_answer(
                self._through, url, headers, sent, timeout=_REQUEST_TIMEOUT_SECONDS, max_bytes=_MAX_ANSWERS_BYTES
            )
            if not 200 <= answer.status < 300:
                raise _RefusedError(answer.status, answer.headers, found)
            return found

        return ask


class _Batch:
    """A batch that was sent. Its state is requested when its first answer is wanted."""

    def __init__(self, owner: Batches, form: Form, sent: Sent) -> None:
        self._owner, self._form, self._sent = owner, form, sent
        self._way: tuple[Ask, str] | None = None
        self._task: asyncio.Task[Outcomes] | None = None

    async def outcome(self, name: str, url: str, headers: Mapping[str, str]) -> Outcome:
        """Wait for the outcome of one of its requests. `url` and `headers` are those that the request has now."""
        self._way = self._owner.asking(headers), url
        if self._task is None:
            self._task = self._owner.wait(self._wait())
        return (await asyncio.shield(self._task))[name]

    async def _wait(self) -> Outcomes:
        sent, pause, trouble = self._sent, self._owner.poll, ""
        while True:
            assert self._way is not None
            try:
                outcomes = await self._form.fetch(*self._way, sent.id)
            except _RefusedError as error:
                if error.status == 404:
                    words = f"batch {sent.id} no longer exists"
                    return Outcomes(failure(503, "overloaded_error", words))
                outcomes, trouble = None, f"HTTP {error.status}"
            except (ExchangeFailed, OSError, ValueError) as error:
                outcomes, trouble = None, str(error) or "no answer"
            if outcomes is not None:
                self._owner.report(f"batch {sent.id} has ended")
                return outcomes
            if time.time() > sent.at + ANSWER_TIMEOUT_SECONDS:
                words = f"batch {sent.id} has not ended in {ANSWER_TIMEOUT_SECONDS / 3_600:.0f} hours {trouble}".strip()
                return Outcomes(failure(504, "timeout_error", words, final=True))
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _MAX_POLL_SECONDS)


class _RefusedError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"HTTP {status}")
        self.status, self.headers, self.body = status, headers, body


def _settle(place: "asyncio.Future[T]", value: T) -> None:
    if not place.done():  # its request was given up
        place.set_result(value)


def _digest(url: str, body: Mapping[str, object]) -> str:
    """Return a digest that is equal for two requests with the same content, on any day and in any session."""
    asked = {name: value for name, value in body.items() if name not in _PASSING}
    return sha256_hex(_DATE.sub(b"Date:", wire_bytes([urlsplit(url).path, asked])))
