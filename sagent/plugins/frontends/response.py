"""An HTTP response that streams a run, for Starlette and FastAPI."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sagent.agent import Agent
from sagent.errors import SagentError, UsageError
from sagent.events import Failure, Result
from sagent.lib.dataclass import Deps
from sagent.plugins.frontends.agui import AGUIEvents
from sagent.plugins.frontends.following import follow
from sagent.plugins.frontends.requests import AGUIRequest, UIRequest
from sagent.plugins.frontends.shown import ErrorText, kind_only
from sagent.plugins.frontends.ui import UIChunks
from sagent.plugins.pauses import Pauses

_HEADERS = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}


def respond(
    agent: Agent[Deps],
    request: UIRequest | AGUIRequest,
    *,
    pauses: Pauses | None = None,
    error_text: ErrorText = kind_only,
    deps: Deps | None = None,
) -> "RunResponse":
    """Return a response that runs an agent on a request and then closes it. A reader that leaves ends the run.

    `pauses`, if they are the agent's `ask`, put its questions to the reader; the next request has the answers.
    `error_text` describes a failure to the reader, by default without its words.
    """
    run = _run_of(agent, request, pauses, deps)

    def waits(call_id: str) -> str | None:
        waiting = () if pauses is None else pauses.waiting(agent)
        return next((each.reason for each in waiting if each.call.id == call_id), None)

    match request:
        case UIRequest():
            encoder = UIChunks(sdk=request.sdk, waits=waits, error_text=error_text)
        case AGUIRequest():
            encoder = AGUIEvents(request.chat, request.run, waits=waits, error_text=error_text)
    crashes = list[Exception]()
    pieces = _pieces(agent, run, encoder, crashes)
    return RunResponse(pieces, {**_HEADERS, **encoder.headers}, agent.aclose, crashes)


class RunResponse(StreamingResponse):
    """A stream of server-sent events that ends when its reader leaves, also while nothing is sent.

    `close` is awaited in the end, also if nothing could be sent. `crashes` are errors of the program that the stream
    ended with: the server gets them once all was sent.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: dict[str, str],
        close: Callable[[], Awaitable[None]],
        crashes: Sequence[Exception] = (),
    ) -> None:
        super().__init__(pieces, headers=headers, media_type="text/event-stream")
        self._pieces, self._close, self._crashes = pieces, close, crashes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        sending = asyncio.create_task(self.stream_response(send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            gone = not sending.done()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.wait((sending, leaving))
            await self._pieces.aclose()
            await self._close()  # a stream that was never begun closes nothing
        error = None if sending.cancelled() else sending.exception()
        if error is not None and not gone and not isinstance(error, OSError):  # OSError: the reader has left
            raise error
        if self._crashes:
            raise self._crashes[0]


def _run_of(
    agent: Agent[Deps], request: UIRequest | AGUIRequest, pauses: Pauses | None, deps: Deps | None
) -> Callable[[], Coroutine[None, None, Result]]:
    if request.prompt is not None:
        prompt = request.prompt
        return lambda: agent.run(prompt) if deps is None else agent.run(prompt, deps=deps)

    async def resume() -> Result:
        waiting = set[str]() if pauses is None else {each.call.id for each in pauses.waiting(agent)}
        answers = {name: answer for name, answer in request.answers.items() if name in waiting}
        if pauses is None or not answers:
            raise UsageError("no call waits for these answers any more")
        return await pauses.resume(agent, answers, deps=deps)

    return resume


async def _pieces(
    agent: Agent[Deps],
    run: Callable[[], Coroutine[None, None, Result]],
    encoder: UIChunks | AGUIEvents,
    crashes: list[Exception],
) -> AsyncGenerator[bytes, None]:
    events = follow(agent, run)
    try:
        async for event in events:
            for piece in (b": \n\n",) if event is None else encoder.encode(event):
                yield piece
    except Exception as error:
        for piece in encoder.fail(Failure(error.kind if isinstance(error, SagentError) else "crashed", str(error))):
            yield piece
        if not isinstance(error, SagentError):
            crashes.append(error)
    finally:
        await events.aclose()
