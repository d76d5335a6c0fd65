"""The process of a background session: it has the session open, and answers this user's other programs."""

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.headless import carry_out, exit_code, failed, planned
from sagent.cli.interactive import open_session
from sagent.cli.render import PROPOSED
from sagent.cli.settings import load_settings
from sagent.codec import decode_message
from sagent.context.plan import PLAN_MODE, is_planning, last_plan
from sagent.errors import SagentError, SessionBusy
from sagent.events import Advised, Event, Finished, Notice, Received, ReplyFinished, Result, Switched, ToolFinished
from sagent.lib import flock
from sagent.lib.dataclass import dataclass
from sagent.lib.figures import bill
from sagent.lib.json import as_object, as_str, json_dump
from sagent.lib.signals import on_first_signal
from sagent.lib.text import one_line, printable
from sagent.messages import user
from sagent.peer import Stop
from sagent.plugins.background import place
from sagent.plugins.background.clients import Clients
from sagent.plugins.background.records import Record, State, log_path, write, write_end
from sagent.plugins.background.starting import Place, places_of
from sagent.plugins.hosting.asking import call_text
from sagent.plugins.hosting.figures import Judgement
from sagent.plugins.hosting.lines import END_LINE, event_line, figures_line, wait_line
from sagent.plugins.hosting.live import ClientOptions, LiveSession, failure_of
from sagent.plugins.hosting.live import Question as Asked
from sagent.plugins.hosting.questions import encode_call, read_answer, read_verdict
from sagent.plugins.hosting.requests import Requests
from sagent.plugins.hosting.typed import encode
from sagent.policy.permissions import MODES
from sagent.session.folds import title
from sagent.tools.ask import Question as Inquiry
from sagent.tools.plan import PlanDecision, plan_notice
from sagent.transcript.event_json import encode_result

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sagent.agent import Agent, Asker
    from sagent.config import Settings
    from sagent.messages import Message
    from sagent.plugins.hosting.live import OpenSession
    from sagent.repl.opening import Listener
    from sagent.tools.ask import Answerer

MAX_OUTPUT_BYTES = 1 << 20  # of the file with what this process prints
_SAVE_INTERVAL_SECONDS = 1.0  # between two records of a session whose cost alone has changed
_CHECK_INTERVAL_SECONDS = 5.0  # between two looks at the socket's file
_STOP_TIMEOUT_SECONDS = 10.0  # for a run to end that is interrupted
_TAKEOVER_INTERVAL_SECONDS = 0.2  # between two attempts to open a session that another process has
_JOIN_TIMEOUT_SECONDS = 60.0  # for somebody to attach to a session without a prompt
_TELLING = (ReplyFinished, ToolFinished, Advised, Switched, Finished)  # events after which figures have changed


@dataclass(frozen=True, slots=True)
class Order:
    """The session to open: by these flags, with the first prompt if there is one. `output` is the file with what this
    process prints, `ready` the descriptor for its answer, and `patience` the seconds until another process has closed
    the session. With a `place` it works in a worktree of that name, of any name if that is ""."""

    flags: Mapping[str, object]
    prompt: "Message | None"
    output: Path
    ready: int
    patience: float = 0.0
    place: str | None = None


def main() -> int:
    """Carry out an order from standard input."""
    gc.set_threshold(50_000)  # as sagent.bin.cli
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    found = as_object(json.load(sys.stdin.buffer))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    said, ready = found["prompt"], found["ready"]
    assert isinstance(ready, int)
    os.set_inheritable(ready, False)  # noqa: FBT003 -- takes no keywords
    prompt = None if said is None else decode_message(said, None)
    order = Order(as_object(found["flags"]), prompt, Path(as_str(found["output"])), ready)
    patience, place = found.get("patience"), found.get("place")
    order = replace(order, place=place if isinstance(place, str) else None)
    order = replace(order, patience=patience) if isinstance(patience, float) else order
    try:
        settings = load_settings(order.flags)
        worktree = None if order.place is None else places_of(settings)(order.place, settings)
    except (SagentError, OSError) as error:
        return _tell(order, error)
    return asyncio.run(_work(order, settings, worktree))


async def _work(order: Order, settings: "Settings", worktree: Place | None) -> int:
    host = Host(order, settings, worktree)
    try:
        await host.open()
    except (SagentError, OSError) as error:
        return _tell(order, error)
    _tell(order, host.record.id)
    await host.live_on()
    return 0


def _tell(order: Order, outcome: str | SagentError | OSError) -> int:
    """Answer who has started this process: with the session's id, or with why it has none. Return the exit code."""
    answer = {"session_id": outcome}
    if not isinstance(outcome, str):
        sys.stderr.write(f"{failure_of(outcome)}\n")
        kind = outcome.kind if isinstance(outcome, SagentError) else "error"
        answer = {"error": failure_of(outcome), "kind": kind}
    with suppress(OSError):  # whoever has started it may be gone
        os.write(order.ready, json_dump(answer).encode() + b"\n")
    os.close(order.ready)
    return 0 if isinstance(outcome, str) else 1


class Host:
    """The open session, and its clients. It ends when it has nothing to do and nobody is attached."""

    record: Record

    def __init__(self, order: Order, settings: "Settings", worktree: Place | None = None) -> None:
        self._order, self._place = order, worktree
        self._settings = worktree.settings if worktree is not None else settings
        self._over = asyncio.Event()
        self._signal: int | None = None
        self._stopped = False
        self._joined = order.prompt is not None  # otherwise it waits for somebody to attach
        self._rested = asyncio.Event()
        self._result: Result | None = None
        self._first = order.prompt
        self._saving: asyncio.TimerHandle | None = None
        self._saved = 0.0
        self._told: dict[str, bytes] = {}  # open questions
        self._lock = -1
        self._server: asyncio.Server | None = None
        self._live: LiveSession | None = None
        self._requests: Requests | None = None
        self.clients = Clients(self._answer_client, self._check_end, self.greeting)

    # -- from its beginning to its end

    async def open(self) -> None:
        """Open the session, and listen. Raises SagentError and OSError."""
        on_first_signal(self._on_signal)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)  # no terminal is ours to lose
        try:
            await self._open()
        except BaseException:
            await self._leave_place()
            raise

    async def _leave_place(self) -> None:
        """Say what becomes of the worktree that this works in."""
        if self._place is not None:
            said = await asyncio.to_thread(self._place.finish)
            sys.stderr.write(f"{said}\n")
            if hasattr(self, "record"):
                self._change(note=said)

    async def _open(self) -> None:
        live, opened = await self._opened()
        agent = opened.agent
        try:
            if not agent.log.path:
                raise SagentError("The session cannot be saved to disk: free some space or fix the directory.")
            session = Path(agent.log.path)
            path, output = place.socket_path(session.name, os.environ), log_path(self._settings.state_dir, session.name)
            self._requests = Requests(agent, f"process {os.getpid()}", Judgement(opened.policy, MODES[-1]))
            self._live = live
            self.record = Record(
                session.name, str(session), str(self._settings.cwd), os.getpid(), os.uname().nodename, str(path),
                str(output), time.time(), title(agent.log.contents()) or self._first_words(),
                model=agent.status().model,
                flags={name: value for name, value in self._order.flags.items() if name not in _OF_ONE_RUN},
                place=self._place.name if self._place else "",
            )  # fmt: skip
            self._lock = _locked(self._order.output.replace(output))
            await self._listen()
            self._save()
        except BaseException:
            self._live = None
            await live.aclose()
            raise
        if self._first is not None:
            self._submit(self._first)

    async def _opened(self) -> "tuple[LiveSession, OpenSession]":
        """Open the session, once another process has closed it if that is to be awaited. Raises SagentError and
        OSError."""
        until = time.monotonic() + self._order.patience
        while True:
            live = LiveSession(self._opening, ClientOptions(), self._on_event, self._on_changed)
            try:
                return live, await live.opened()
            except SessionBusy:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_TAKEOVER_INTERVAL_SECONDS)

    def _first_words(self) -> str:
        return one_line(self._first.content, 80) if self._first is not None else ""

    async def live_on(self) -> None:
        """Serve clients until there is nothing left to do; then close the session."""
        checking = asyncio.create_task(self._check())
        if not self._joined:
            asyncio.get_running_loop().call_later(_JOIN_TIMEOUT_SECONDS, self._give_up)
        await self._over.wait()
        checking.cancel()
        assert self._live is not None
        if self._live.busy:
            self._live.interrupt()
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    await self._rested.wait()
        self._keep_result()
        await self._live.aclose()
        await self._leave_place()
        code = exit_code(self._result, self._signal) if self._result is not None else 0
        if self._stopped or self._signal:
            code = code or 128 + (self._signal or signal.SIGINT)
        self._change(state="ended", asks=(), ended=time.time(), code=code)
        self._write(write_end)
        self.clients.tell(_line("closed", code=code))
        if self._server is not None:
            self._server.close()
        Path(self.record.socket).unlink(missing_ok=True)
        await self.clients.aclose()

    def _give_up(self) -> None:
        self._joined = True
        self._check_end()

    def _opening(
        self, options: ClientOptions, listener: "Listener", ask: "Asker", answer: "Answerer"
    ) -> "AbstractAsyncContextManager[OpenSession]":
        del options
        answering = self._end_with(answer) if self._settings.plan else answer
        return open_session(self._settings, listener, ask, answering, on_waiting=self._on_waiting)

    def _end_with(self, answer: "Answerer") -> "Answerer":
        """Return what answers an agent's questions, and at its plan ends the run with that, as `sagent --plan` does."""

        async def decide(question: Inquiry) -> str | None:
            if not question.plan or self._live is None:
                return await answer(question)
            self._live.agent.apply(Stop(PROPOSED))
            return "The plan was given to the person."

        return decide

    def _on_signal(self, number: int) -> None:
        self._signal = number
        self._over.set()

    def _check_end(self) -> None:
        """End if there is nothing to do, and nobody to wait for."""
        if self.clients.following:
            self._joined = True
        live = self._live
        if live is None or (self._joined and not live.busy and not self.clients.following):
            self._over.set()

    async def _listen(self) -> None:
        bound = place.listening(Path(self.record.socket))
        self._server = await asyncio.start_unix_server(self.clients.serve, sock=bound, limit=MAX_REQUEST_BYTES)

    async def _check(self) -> None:
        """Listen again if the socket's file was removed, and keep this process's output small."""
        while True:
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            with suppress(OSError, SagentError):
                if os.fstat(1).st_size > MAX_OUTPUT_BYTES:
                    os.ftruncate(1, 0)
                if not os.path.lexists(self.record.socket):
                    self._change(socket=str(place.socket_path(self.record.id, os.environ)))
                    await self._listen()
                    self._save()

    # -- its work

    def _submit(self, message: "Message") -> None:
        """Answer a prompt after earlier ones."""
        assert self._live is not None
        self._live.do(lambda agent: self._answer(agent, message)).add_done_callback(_heard)

    async def _answer(self, agent: "Agent", message: "Message") -> None:
        assert self._live is not None
        try:
            if message is self._first and message.content.startswith("/"):
                text = await carry_out(message.content, self._settings, agent)
                if not text:
                    self._result = Result("", (), "end", session_id=agent.log.session_id, session_path=agent.log.path)
                    return
                message = user(text)
            planning = self._live.policy.mode == "plan"
            if planning or is_planning(agent.messages):
                agent.send(user(plan_notice(agent.state.tools, is_on=planning), sender=PLAN_MODE), "next")
            result = await self._live.answer(agent, message)
            plans = self._settings.plan or result.stop_reason == PROPOSED
            self._result = planned(result, last_plan(agent.messages)) if plans else result
        except SagentError as error:
            self._result = failed(error)
            self._on_event(Notice("root", "error", str(error)))

    def _on_event(self, event: Event) -> None:
        if (live := self._live) is None:
            return
        if isinstance(event, Finished) and event.agent == "root":
            self._result = event.result
        if isinstance(event, Received) and event.agent == "root" and not self.record.title:
            self._change(title=one_line(event.message.content, 80))
        if self._requests is not None and self._requests.watched and isinstance(event, _TELLING):
            self.clients.tell(figures_line(self._requests.figures()))  # first: clients that see the event need them
        self.clients.tell(event_line(event))
        if isinstance(event, _TELLING):
            cost = live.agent.cost()
            shown = bill(cost.total, cost.unbilled, least=bool(cost.unpriced))
            self._change(bill=shown, usd=float(cost.total), model=live.agent.status().model)
            self._save_soon()

    def _on_waiting(self, agent: str, line: str) -> None:
        self.clients.tell(wait_line(agent, line))

    def _on_changed(self) -> None:
        """Tell clients, and the record, of begun and ended runs and questions."""
        live = self._live
        if live is None:
            return
        self._keep_result()
        for name in [name for name in self._told if name not in live.questions]:
            del self._told[name]
            self.clients.tell(_line("question", question={"id": name, "over": True}))
        for name, question in live.questions.items():
            if name not in self._told:
                self._told[name] = _line("question", question=_encode(question))
                self.clients.tell(self._told[name])
        state: State = "asking" if live.questions else "working" if live.busy else "idle"
        asks = tuple(map(_describe, live.questions.values()))
        if (state, asks) != (self.record.state, self.record.asks):
            if state == "idle":
                self._rested.set()
                self.clients.tell(END_LINE)
            else:
                self._rested.clear()
            self._change(state=state, asks=asks)
            self.clients.tell(_line("state", **self._state()))
            self._check_end()
            self._save()

    def _state(self) -> Mapping[str, object]:
        return {
            "state": self.record.state,
            "result": self._result and json.loads(encode(self._result)),
            "asks": self.record.asks,
        }

    def _keep_result(self) -> None:
        if self._result is not None:
            self._change(result=encode_result(self._result), code=exit_code(self._result, self._signal))

    # -- its record

    def _change(self, **changes: object) -> None:
        self.record = replace(self.record, **changes)

    def _save_soon(self) -> None:
        if self._saving is None:
            delay = max(self._saved + _SAVE_INTERVAL_SECONDS - time.monotonic(), 0)
            self._saving = asyncio.get_running_loop().call_later(delay, self._save)

    def _save(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        self._saved = time.monotonic()
        if not self._over.is_set():  # otherwise its end is written next
            self._write()

    def _write(self, by: Callable[[Path, Record], None] = write) -> None:
        try:
            by(self._settings.state_dir, self.record)
        except OSError as error:
            sys.stderr.write(f"the record of the session could not be written: {error}\n")

    # -- its clients

    async def _answer_client(self, request: Mapping[str, object]) -> Mapping[str, object]:
        """Carry out a client's request. Raises SagentError and ValueError."""
        live, requests = self._live, self._requests
        assert live is not None
        assert requests is not None
        match request.get("op"):
            case "hello":
                return {"id": self.record.id, "pid": os.getpid(), **self._state()}
            case "prompt":
                message = decode_message(request.get("message"), None)
                if live.agent.running:
                    live.agent.send(message, "next" if request.get("moment") == "next" else "now")
                else:
                    self._submit(message)
                return {"state": "working"}
            case "questions":
                return {"questions": list(map(_encode, live.questions.values()))}
            case "answer":
                self._settle(live, request)
                return {}
            case "interrupt" if not request.get("agent") and not live.agent.running:
                live.stop()
                return {}
            case "stop":
                self._stopped = True
                self._over.set()
                return {}
            case _:
                answer = await requests.answer(json_dump(request).encode())
                self._on_changed()
                return answer

    def greeting(self) -> list[bytes]:
        """Return the lines for a client that begins to follow the session. With the last entry of its log: events that
        follow are of later ones."""
        head = self._live.agent.log.head if self._live is not None else ""
        return [_line("state", **self._state(), head=head), *self._told.values()]

    def _settle(self, live: LiveSession, request: Mapping[str, object]) -> None:
        """Answer a question. Raises SagentError if that is over."""
        question = live.questions.get(as_str(request.get("question")))
        if question is None or question.answer.done():
            raise SagentError("This question is no longer open: it was answered, or its call has ended.")
        if isinstance(question.about, tuple):
            question.answer.set_result(read_verdict(request))
            return
        said = read_answer(question.about, request)
        if isinstance(said, PlanDecision):
            live.policy.mode = said.mode or live.policy.mode
            said = said.answer()
        question.answer.set_result(said)


_OF_ONE_RUN = ("continue", "resume", "session", "fork", "output_schema", "goal", "plan")
"""Flags that are not repeated when an ended session is opened again."""
MAX_REQUEST_BYTES = 1 << 26


def _locked(path: Path) -> int:
    """Return a descriptor that holds a lock on a file, as long as this process lives. Raises OSError."""
    held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    flock.lock(held)
    return held


def _heard(run: "asyncio.Future[None]") -> None:
    if not run.cancelled():
        run.exception()  # a session that was deleted; its event says so


def _line(kind: str, **members: object) -> bytes:
    return json_dump({"kind": kind, **members}).encode("utf-8", "replace") + b"\n"


def _encode(question: Asked) -> Mapping[str, object]:
    match question.about:
        case Inquiry():
            return {"id": question.id, "kind": "inquiry", **asdict(question.about)}
        case (call, ask):
            return {"id": question.id, "kind": "approval", **encode_call(call, ask, {}), "agent": question.agent}


def _describe(question: Asked) -> str:
    match question.about:
        case Inquiry(_, text):
            return printable(one_line(text, 160))
        case (call, _):
            return f"{call.name} {one_line(call_text(call), 160)}"
