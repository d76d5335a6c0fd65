"""llama.cpp: our own llama-server, started on demand, or one that runs elsewhere."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from sagent.errors import RETRYABLE, ModelError, ModelErrorKind
from sagent.lib.json import as_int, as_object
from sagent.model import Delta, ModelInfo, ModelLimits, Reply, Request
from sagent.plugins.local.waiting import CallWait, reading_line
from sagent.providers.access import Access, access_from_key, first_set
from sagent.providers.families.chat.events import ChatReplyReader
from sagent.providers.families.chat.provider import ChatModel, ChatProvider
from sagent.providers.families.endpoint import GivenTransport, read_access
from sagent.providers.families.model import Outgoing
from sagent.providers.rows import Row, row_of
from sagent.providers.wire.exchange import Call, Timeouts, fetch
from sagent.providers.wire.faults import ExchangeFailed, Origin
from sagent.providers.wire.transport import NOT_RUNNING, DirectTransport
from sagent.providers.wire.waiting import LoadingWait, loading_line, when_loaded

if TYPE_CHECKING:
    from sagent.plugins.local.llamacpp_server import Launch, LlamaServer

KEY, BASE_URL = "LLAMA_CPP_API_KEY", "LLAMA_CPP_BASE_URL"
_DEATHS = 3  # in a row without an answer, after which calls are no longer repeated automatically
_PATIENT = Timeouts(stall=5.0)  # for requests that a server answers at once
_PROMPT_TIMEOUT_SECONDS = 900.0  # seconds for 2,048 tokens of a prompt, between two reports, on a slow machine
_LISTEN_TIMEOUT_SECONDS = 60.0  # seconds until a llama-server listens at its port, long before the model is loaded
_DEATH_TIMEOUT_SECONDS = 0.5  # to notice that a server has died after it dropped a connection


class LlamaCpp(ChatProvider):
    """llama.cpp's server. With LLAMA_CPP_MODEL it is a child process: started by the first call or listing, restarted
    by the next one if it dies, and ended by `aclose` or with this process, even on SIGKILL."""

    row_name = "llamacpp"

    def __init__(
        self,
        row: Row,
        access: Access,
        *,
        launch: "Launch | None" = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        usual = Timeouts()
        timeouts = timeouts or usual
        if timeouts.reasoning_stall == usual.reasoning_stall:  # the default was not changed
            timeouts = replace(timeouts, reasoning_stall=_PROMPT_TIMEOUT_SECONDS)
        if launch is not None and transport in (None, "direct"):  # a proxy does not lead to a child
            transport = DirectTransport(connect=timeouts.connect, proxied=False)
        super().__init__(row, access, transport=transport, timeouts=timeouts)
        self.launch = launch
        self._server: LlamaServer | None = None
        self._deaths = 0  # since the last answer
        self._window = launch.context if launch else None
        self._met = False  # whether it has reported its abilities
        self.turns: tuple[int, asyncio.Semaphore] | None = None  # parallel calls that it supports, once reported
        self.waits: dict[str, CallWait] = {}  # of calls in progress, by conversation

    @classmethod
    def from_env(
        cls,
        *,
        base_url: str | None = None,
        auth: str | None = None,
        environ: Mapping[str, str] | None = None,
        transport: GivenTransport = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Return the server at LLAMA_CPP_BASE_URL, with LLAMA_CPP_API_KEY if it needs a key. Otherwise a child with the
        .gguf file LLAMA_CPP_MODEL, the program LLAMA_CPP_SERVER (llama-server), a context of LLAMA_CPP_CONTEXT tokens
        and the arguments LLAMA_CPP_ARGS, quoted as for a shell. Otherwise the server at its usual port.

        `environ` is added to the environment that a child inherits. Raises UsageError that names the wrong variable, or
        the missing file or program. `auth` is not used.
        """
        row = row_of(cls.row_name)
        given = os.environ if environ is None else environ
        launch = None
        if not base_url and not first_set(BASE_URL, given)[1]:
            from sagent.plugins.local.llamacpp_server import Launch

            launch = Launch.read(given)
        if launch is None:
            access = read_access(row, base_url=base_url, environ=given)
        else:
            import secrets

            key = first_set(KEY, given)[1] or secrets.token_urlsafe(24)  # other users of the machine cannot use it
            access = access_from_key(row.name, key, "http://127.0.0.1", variable=KEY)
        return cls(row, access, launch=launch, transport=transport, timeouts=timeouts)

    def model(self, model_id: str) -> "LlamaCppModel":
        """Return the server's model, under any id: a server has only one."""
        return LlamaCppModel(self, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the server's own list; starts a child if needed, again if it dies while loading. Raises ModelError."""
        while self.launch is not None:
            try:
                await self.ready("")
                break
            except ModelError as error:
                if error.kind != "server":  # not the last death
                    raise
        else:
            await self.ready("")
        try:
            listed = await super().models()
        except ModelError as error:
            explained = await self.explain(error, self._server, self.origin(""))
            if explained is error:
                raise
            raise explained from error
        return tuple(replace(info, limits=self.limits) for info in listed) if self._window else listed

    @property
    def unloaded(self) -> ModelInfo | None:
        """The model that a child of ours would load."""
        return self.launch.info if self.launch else None

    @property
    def limits(self) -> ModelLimits:
        """The window of one conversation as the server reports it; before that, LLAMA_CPP_CONTEXT.

        There is no separate output limit: a reply may fill the rest of the window.
        """
        return ModelLimits(self._window)

    async def aclose(self) -> None:
        """Close the connections and end the child: SIGTERM, a few seconds later SIGKILL."""
        server, self._server = self._server, None
        try:
            await super().aclose()
        finally:
            if server is not None:
                server.fate = server.fate or (False, "llama-server was stopped while it was in use")
                await server.stop()

    async def ready(self, model_id: str) -> "LlamaServer | None":
        """Return when the server can be called, after starting the child if there is one. Raises ModelError.

        If all callers waiting for a loading child are cancelled, it is killed.
        """
        server = None
        if self.launch is not None:
            server = await self._child(self.launch, self.origin(model_id))
        if not self._met:
            await self._meet()
        return server

    async def explain(self, error: ModelError, server: "LlamaServer | None", origin: Origin) -> ModelError:
        """Return the error to raise: the child's death, if that is the cause."""
        if error.kind not in ("network", "cut", "protocol"):
            return error
        if server is not None and await server.ended(_DEATH_TIMEOUT_SECONDS):
            return await self._died(server, origin, error.kind)
        if server is None and error.kind == "network" and self.access.base_url == self.row.base_url:
            start = f"llama-server -m MODEL.gguf --port {urlsplit(self.url).port}"
            hint = f"Start one there ({start}), name another in {BASE_URL}, or a .gguf file in LLAMA_CPP_MODEL."
            better = origin.error(error.kind, f"{str(error.args[0]).removesuffix(NOT_RUNNING)}. {hint}")
            better.final = error.final
            return better
        return error

    def answered(self) -> None:
        """Record that a call has ended."""
        self._deaths = 0

    async def _child(self, launch: "Launch", origin: Origin) -> "LlamaServer":
        """Return the child, once it is healthy."""
        server = self._server
        if server is None or not server.alive:
            if server is not None and server.fate is None:
                await self._died(server, origin)
                return await self._child(launch, origin)  # another caller may have started one meanwhile
            server = self._start(launch, origin)
        server.waiting += 1
        try:
            await self._healthy(server, launch, origin)
        finally:
            server.waiting -= 1
            if not server.waiting:
                self.on_waiting("", "")
            if not server.healthy and not server.waiting:
                server.kill()
                self._forget(server)
        return server

    def _start(self, launch: "Launch", origin: Origin) -> "LlamaServer":
        from sagent.plugins.local.llamacpp_server import REMEDY, LlamaServer

        try:
            server = self._server = LlamaServer(launch, self.access.key)
        except OSError as error:
            words = f"LLAMA_CPP_SERVER: {launch.program} cannot be started ({error.strerror or error}). {REMEDY}"
            raise origin.error("invalid_request", words) from error
        self.url = f"{server.url}/v1"
        self._met = False
        return server

    async def _healthy(self, server: "LlamaServer", launch: "Launch", origin: Origin) -> None:
        """Wait for a 200 from /health, which is 503 while the model loads. Raises ModelError if that fails."""
        pause = 0.02
        while not server.healthy:
            waited = time.monotonic() - server.since
            if waited >= 1:
                self.on_waiting("", loading_line(launch.name, waited))
            if not server.alive:
                raise await self._died(server, origin)
            if waited > launch.timeout:
                why = f"llama-server was not ready after {launch.timeout:g} s, so it was killed. {server.said()}"
                server.fate = (False, why)
                server.kill()
                continue
            if waited > _LISTEN_TIMEOUT_SECONDS and not server.listens:
                from sagent.plugins.local.llamacpp_server import REMEDY

                why = f"LLAMA_CPP_SERVER: {launch.program} was ended, for it did not answer at its port within"
                server.fate = (False, f"{why} {_LISTEN_TIMEOUT_SECONDS:g} s: is it a llama-server? {REMEDY}")
                server.kill()
                continue
            if await self._answers(server):
                server.healthy = server.alive
                continue
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.25)

    async def _answers(self, server: "LlamaServer") -> bool:
        try:
            async with asyncio.timeout(2.0):
                answer = await self.transport.get(f"{server.url}/health", {})
                await answer.aclose()
        except (ExchangeFailed, TimeoutError):
            return False
        server.listens = True
        return answer.status == 200

    async def _meet(self) -> None:
        """Learn the server's window, its number of parallel calls, and whether it accepts images. Not every server
        reports them."""
        url, headers, origin = f"{self.url.removesuffix('/v1')}/props", self.headers(), self.origin("")
        try:
            found = await when_loaded(lambda: fetch(self.transport, url, headers, origin, _PATIENT), self.on_waiting)
        except ModelError as error:
            self._met = error.kind not in RETRYABLE
            return
        self._met, props = True, as_object(found)
        self._window = as_int(as_object(props.get("default_generation_settings")).get("n_ctx")) or self._window
        slots = as_int(props.get("total_slots"))
        if slots > 0 and (self.turns is None or self.turns[0] != slots):
            self.turns = slots, asyncio.Semaphore(slots)
        vision = as_object(props.get("modalities")).get("vision")
        if isinstance(vision, bool):
            self.row = replace(self.row, quirks=replace(self.row.quirks, images=vision))

    async def _died(self, server: "LlamaServer", origin: Origin, kind: ModelErrorKind = "server") -> ModelError:
        """Return the error for all calls that this server's death ended. Each death counts once."""
        self._forget(server)
        if server.fate is None:
            said = await server.obituary()
            if server.fate is None:
                server.fate = server.refused() or self._count(said)
        again, why = server.fate
        return origin.error(kind if again else "invalid_request", why)

    def _count(self, reason: str) -> tuple[bool, str]:
        self._deaths += 1
        if self._deaths < _DEATHS:
            return True, reason
        self._deaths = 0
        text = f"llama-server died {_DEATHS} times in a row without an answer, so it is not started again for this call"
        model = f"LLAMA_CPP_MODEL ({self.launch.model})" if self.launch else "LLAMA_CPP_MODEL"
        return False, f"{text}; check {model}, LLAMA_CPP_ARGS and the free memory. The last time: {reason}"

    def _forget(self, server: "LlamaServer") -> None:
        if self._server is server:
            self._server = None


class LlamaReplyReader(ChatReplyReader):
    """Reads a reply, and reports how far the server has read the prompt."""

    def __init__(self, origin: Origin, family: str) -> None:
        super().__init__(origin, family)
        self.wait: CallWait | None = None
        self._tells = True  # reports the wait until the first output

    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        line = reading_line(as_object(event.get("prompt_progress")))
        if self.wait is not None and (line or self._tells):
            self._tells = bool(line)
            self.wait.tell(line)
        super().feed(event, out)


class LlamaCppModel(ChatModel):
    """The model of a llama-server."""

    reader = LlamaReplyReader

    def __init__(self, provider: LlamaCpp, model_id: str) -> None:
        super().__init__(provider, model_id)
        self._llama = provider

    @property
    def source(self) -> object:
        """The provider object, which runs the server."""
        return self._llama

    @property
    def limits(self) -> ModelLimits:
        """The window, once the server has given it."""
        return self._llama.limits

    def _call(self, request: Request, outgoing: Outgoing) -> Call:
        call = super()._call(request, outgoing)
        if isinstance(call.reader, LlamaReplyReader):
            call.reader.wait = self._llama.waits.get(request.conversation)
        return call

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call; time to load a model and to wait for earlier calls is not silence."""
        wait = CallWait(self._llama.on_waiting, request.conversation)
        loading = LoadingWait(wait.tell, self.id)
        try:
            while True:
                server = await self._llama.ready(self.id)
                try:
                    async with wait, self._turn(), aclosing(super().stream(request)) as items:
                        self._llama.waits[request.conversation] = wait
                        async for item in items:
                            yield item
                    break
                except ModelError as error:
                    explained = await self._llama.explain(error, server, self._llama.origin(self.id))
                    if explained is not error:
                        raise explained from error
                    await loading.pause(error)
        finally:
            self._llama.waits.pop(request.conversation, None)
            wait.tell("")
        self._llama.answered()

    def _turn(self) -> AbstractAsyncContextManager[object]:
        """Wait here and not in the server's queue, where silence means nothing."""
        return self._llama.turns[1] if self._llama.turns else nullcontext()
