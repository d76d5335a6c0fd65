"""A provider on loopback that speaks from a script: real HTTP/1.1, real wire formats, no network, no money.

    async with FakeProviderServer([Turn(text="Hello")]) as server:
        ...  # server.url is Anthropic's base URL, server.url + "/v1" OpenAI's

What a turn looks like on the wire is in `families`, how bytes are laid out and broken off in `delivery`, HTTP itself
in `connection`. From a shell: `python -m sagent.testing.server`.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from sagent.lib.listener import stop_accepting
from sagent.testing.connection import Connection, Reader
from sagent.testing.delivery import JSON, Delivery, deliver, failure, plain
from sagent.testing.families import FAMILIES, Answer, Bill, Family, counting_member, family_of, input_tokens
from sagent.testing.families.form import encode
from sagent.testing.script import (
    Call,
    Cut,
    ErrorEvent,
    Fail,
    Headers,
    Listed,
    Raw,
    Received,
    Script,
    Stall,
    Step,
    Turn,
    Wire,
    parse_script,
    read_script,
)
from sagent.usage import Charge, Usage

__all__ = ["Call", "Cut", "ErrorEvent", "Fail", "FakeProviderServer", "Headers", "Listed", "Raw", "Received"]
__all__ += ["Script", "Stall", "Step", "Turn", "Usage", "Wire", "parse_script", "read_script"]

_NO_RETRY = (("x-should-retry", "false"),)  # the SDKs obey it: a mistake in a test shows at once


class FakeProviderServer:
    """A provider that answers the i-th model request with the i-th step, or with what the script returns for it.

    A request that is refused at the door (401, or 400 in `strict` mode) uses up no step. When the steps are used up the
    answer is HTTP 500, or with `repeat_last` the last step again. `bill="worst"` bills each byte of the request as a
    token and the whole output limit. An exception in the script is answered with HTTP 500 and raised again at the end
    of the server's block, unless that ends with another.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        wire: Wire = Wire(),  # noqa: B008 -- frozen
        models: Sequence[str | Listed] = ("fake-model",),
        bill: Bill = "script",
        strict: bool = True,
        require_key: bool = True,
        repeat_last: bool = False,
        counts: bool = True,
    ) -> None:
        self.requests: list[Received] = []
        self.counted: list[Received] = []  # requests that asked only for a token count
        self.answered: list[float] = []  # times when each answer was complete, as time.monotonic()
        self.charges: list[Charge] = []
        self.abandoned: list[Received] = []  # requests whose client hung up before the end of the answer
        self.errors: list[Exception] = []  # exceptions from the script
        self._script: Sequence[Step] = () if callable(script) else script
        self._choose = script if callable(script) else None
        self._wire = wire
        self._models = tuple(Listed(row) if isinstance(row, str) else row for row in models)
        self._bill: Bill = bill
        self._strict = strict
        self._require_key = require_key
        self._repeat_last = repeat_last
        self._counts = counts
        self._steps = 0
        self._connections = 0
        self._url = ""
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], Connection] = {}

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT. Only the end of a request's path matters, so any prefix may come before it."""
        if not self._url:
            raise RuntimeError("the server has not started: enter it with `async with`, or `with server.in_thread()`")
        return self._url

    @property
    def billed(self) -> list[Usage]:
        """The usage of each answered request. An interrupted turn is billed in full, because the model has produced
        it."""
        return [charge.usage for charge in self.charges]

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0, backlog=1024)
        self._url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        if error is None:
            self._raise_errors()

    @contextlib.contextmanager
    def in_thread(self) -> Generator[Self, None, None]:
        """Run in a thread with its own event loop, for tests that are synchronous or drive a subprocess."""
        ready: Future[Callable[[], object]] = Future()
        thread = Thread(target=lambda: asyncio.run(self._live(ready)), name="fake-provider", daemon=True)
        thread.start()
        stop = ready.result()
        try:
            yield self
        finally:
            stop()
            thread.join()
        self._raise_errors()

    async def _live(self, ready: Future[Callable[[], object]]) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self.__aenter__()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(lambda: loop.call_soon_threadsafe(stopped.set))
        await stopped.wait()
        await self._close()

    async def _close(self) -> None:
        if self._server is None:
            return
        server, self._server = self._server, None
        await stop_accepting(server)
        server.close()
        tasks = tuple(self._links)
        for task, link in tuple(self._links.items()):
            link.writer.transport.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes aborted sockets in its next round
        await server.wait_closed()

    def _raise_errors(self) -> None:
        if self.errors:
            raise self.errors[0]

    def _accept(self) -> asyncio.Protocol:
        loop = asyncio.get_running_loop()
        reader = Reader(loop)

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._server is None:  # accepted while the server was closing
                writer.transport.abort()
                return
            self._connections += 1
            link = Connection(reader, writer, self._connections)
            task = loop.create_task(self._serve(link))
            self._links[task] = link
            task.add_done_callback(self._links.pop)

        return asyncio.StreamReaderProtocol(reader, connected, loop=loop)

    async def _serve(self, link: Connection) -> None:
        """Answer the requests of one connection, one after the other, until either side ends it."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            try:
                while (received := await link.receive()) is not None:
                    if not await self._answer(link, received):
                        break
            finally:
                link.writer.close()

    async def _answer(self, link: Connection, received: Received) -> bool:
        """Send the answer. Returns True if the connection can serve another request."""
        member = counting_member(received.path)
        (self.counted if member else self.requests).append(received)
        try:
            delivery = self._count(member, received) if member else await self._delivery(received)
        except Exception as error:
            self.errors.append(error)
            message = f"the script failed: {type(error).__name__}: {error}"
            delivery = failure(Fail(500, headers=_NO_RETRY, message=message), received)
        try:
            survived = await link.perform(delivery)
            self.answered.append(time.monotonic())
            return survived and received.headers.get("connection", "").lower() != "close"
        except ConnectionError:
            self.abandoned.append(received)
            raise

    def _count(self, member: str, received: Received) -> Delivery:
        """Answer with the tokens of a request, as it would be billed if no script says otherwise."""
        if not self._counts:
            return failure(Fail(404, message=f"the fake provider does not know {received.path}"), received)
        return plain(200, JSON, encode({member: input_tokens(received, self._bill)}), received)

    async def _delivery(self, received: Received) -> Delivery:
        family = FAMILIES[received.family]
        refusal = self._refusal(received, family)
        if refusal is not None:
            return failure(refusal, received)
        if received.path.endswith("/models"):
            return plain(200, JSON, encode(family.listing(self._models)), received)
        self._steps += 1
        serial = self._steps
        step = await self._step(serial, received)
        if isinstance(step, Fail):
            return failure(step, received)
        if isinstance(step, Raw):
            return plain(step.status, step.headers, step.body, received)
        answer = Answer.of(step if isinstance(step, Turn) else step.turn, received, serial=serial, bill=self._bill)
        if answer.streamed or not isinstance(step, ErrorEvent):  # an error instead of a reply costs nothing
            self.charges.append(Charge(answer.model, answer.usage))
        return deliver(step, answer, self._wire)

    def _refusal(self, received: Received, family: Family) -> Fail | None:
        """Return the refusal that the API would give before it asks the model."""
        listing = received.path.endswith("/models")
        if not listing and family_of(received.path) is None:
            return Fail(404, message=f"the fake provider does not know {received.path}")
        if received.method != ("GET" if listing else "POST"):
            return Fail(405, message=f"{received.method} is not for {received.path}")
        if self._require_key and not _has_key(received.headers):
            return Fail(401, message=family.no_key)
        if listing or not self._strict:
            return None
        if not received.json:
            return Fail(400, message="We could not parse the JSON body of your request: it must be a JSON object.")
        problem = next(family.complaints(received), None)
        return None if problem is None else Fail(400, message=problem)

    async def _step(self, serial: int, received: Received) -> Step:
        if self._choose is not None:
            step = self._choose(received)
            return await step if isinstance(step, Awaitable) else step
        if serial <= len(self._script):
            return self._script[serial - 1]
        if self._repeat_last and self._script:
            return self._script[-1]
        message = f"the script is used up: it has {len(self._script)} steps, and this is model request {serial}"
        return Fail(500, headers=_NO_RETRY, message=message)


def _has_key(headers: Mapping[str, str]) -> bool:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    own = headers.get("x-api-key") or headers.get("x-goog-api-key")
    return bool(own or token.strip() or (scheme and scheme.lower() != "bearer"))


def main() -> None:
    """Serve a JSON script (see `parse_script`), or one friendly turn for ever, until interrupted."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m sagent.testing.server", description=main.__doc__)
    parser.add_argument("--script", type=Path, help="a JSON array of steps; without it every answer is the same turn")
    parser.add_argument(
        "--repeat-last", action="store_true", help="go on with the last step when the script is used up"
    )
    parser.add_argument("--port-file", type=Path, help="write the port there once the server listens")
    parser.add_argument("--chunks", default="event", help="what one write holds: event, whole, bytes, or so many bytes")
    parser.add_argument("--bill", choices=("script", "worst"), default="script")
    parser.add_argument("--lenient", action="store_true", help="accept requests that the real API refuses")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    given = parser.parse_args()
    try:
        steps = read_script(given.script) if given.script else [Turn(text="You are talking to a fake provider.")]
    except (OSError, ValueError) as error:
        parser.error(f"--script {given.script}: {error}")
    server = FakeProviderServer(
        steps,
        wire=Wire(int(given.chunks) if given.chunks.isdigit() else given.chunks),
        bill=given.bill,
        strict=not given.lenient,
        repeat_last=given.repeat_last or given.script is None,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever(server, given.port_file, until_eof=given.until_eof))


async def _serve_forever(server: FakeProviderServer, port_file: Path | None, *, until_eof: bool) -> None:
    async with server:
        if port_file is not None:
            partial = port_file.with_name(port_file.name + ".partial")
            partial.write_text(server.url.rpartition(":")[2])
            partial.replace(port_file)  # readers never see an incomplete file
        print(server.url, flush=True)
        end = asyncio.Event()
        if until_eof:
            asyncio.get_running_loop().add_reader(0, end.set)
        await end.wait()


if __name__ == "__main__":
    main()
