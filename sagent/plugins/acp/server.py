"""The agent's side of the Agent Client Protocol: the methods that a client may call.

Source: https://agentclientprotocol.com/protocol/v1. A client that requests a later version gets this one. Slow imports
wait until a session is set up, so that `initialize` is answered at once.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from sagent.errors import SagentError, SessionNotFound
from sagent.lib.json import EMPTY, as_object, valid_text
from sagent.plugins.acp import version2
from sagent.plugins.acp.client import Client
from sagent.plugins.hosting.jsonrpc import (
    AUTH_REQUIRED,
    INVALID_PARAMS,
    NOT_FOUND,
    Answer,
    Connection,
    Method,
    Params,
    RpcError,
    list_in,
    text_in,
)
from sagent.version import __version__

if TYPE_CHECKING:
    from sagent.plugins.acp.session import Opening, Place, Session
    from sagent.session.retention import Glance

PAGE = 100  # sessions in one answer of session/list
KEY, LOGIN = "key", "login"  # ways to authenticate
_NAME = re.compile(r"[\w-]{1,100}", re.ASCII)  # of a session
_INFO = {"name": "sagent", "title": "sagent", "version": __version__}
_CLOSE_TIMEOUT_SECONDS = 0.8  # for open work when the client is gone, and half of that for its cancellation
_CLOSING_TIMEOUT_SECONDS = 0.8  # seconds for the end of its sessions: commands and servers end with this process


class Host(Protocol):
    """The program that a server is part of."""

    @property
    def latest(self) -> int:
        """The latest version of the protocol that is offered."""
        ...

    @property
    def opening(self) -> "Opening": ...

    async def check_login(self) -> None:
        """Check that a model can be used. Raises SagentError."""
        ...

    def sessions(self, cwd: str | None) -> "Sequence[Glance]":
        """Return the saved sessions, last used first. Raises SagentError and OSError."""
        ...

    def delete(self, session: str) -> None:
        """Delete a saved session. Raises SagentError and OSError."""
        ...

    def warm_up(self) -> None:
        """Import modules for a session; in a thread."""
        ...


class Server:
    """The server of one client, and its sessions."""

    def __init__(self, host: Host, send: Callable[[bytes], None]) -> None:
        self._host = host
        every: Mapping[str, Method] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/set_config_option": self._set_option,
            "session/close": self._close,
            "session/delete": self._delete,
        }
        own: Mapping[str, Method] = {
            "authenticate": self._authenticate,
            "session/load": self._load,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
        }
        self._tables = {1: {**every, **own}, 2: {**every, "session/prompt": self._accept}}
        self.connection = Connection(self._tables[1], {"session/cancel": self._cancel}, send)
        self._client = Client(self.connection)
        self._sessions: dict[str, Session] = {}
        self._opening: set[Session] = set()
        self._warming: asyncio.Task[None] | None = None
        self._turns: set[asyncio.Task[None]] = set()  # of version 2, in which no request waits for them

    async def aclose(self) -> None:
        """Cancel all work and close every session after the client has left; two seconds at most."""
        for session in self._sessions.values():
            session.cancel()
        await self.connection.settle(_CLOSE_TIMEOUT_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_TIMEOUT_SECONDS):
                if self._turns:
                    await asyncio.wait(self._turns)
                await asyncio.gather(*(each.aclose() for each in (*self._sessions.values(), *self._opening)))
        self.connection.abandon()

    # -- the connection

    async def _initialize(self, params: Params) -> Answer:
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= 0xFFFF:
            raise RpcError(INVALID_PARAMS, "protocolVersion is missing, or is not a number from 0 to 65535.")
        self._client.version = agreed = min(max(version, 1), self._host.latest)
        self.connection.methods = self._tables[agreed]
        if agreed > 1:
            return Answer(self._greeting2(params), self._warm_up)
        self._client.capabilities = as_object(params.get("clientCapabilities"))
        session = dict.fromkeys(("list", "resume", "close", "delete", "additionalDirectories"), EMPTY)
        result: Mapping[str, object] = {
            "protocolVersion": agreed,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": session,
            },
            "agentInfo": _INFO,
            "authMethods": self._ways(),
        }
        return Answer(result, self._warm_up)

    def _greeting2(self, params: Params) -> Mapping[str, object]:
        """Return the greeting of version 2, in which another program handles logins."""
        self._client.capabilities = as_object(params.get("capabilities"))
        prompt = {"image": EMPTY, "embeddedContext": EMPTY}
        session = {"prompt": prompt, "mcp": {"stdio": EMPTY, "http": EMPTY}, "delete": EMPTY}
        can = {"session": {**session, "additionalDirectories": EMPTY}}
        return {"protocolVersion": 2, "info": _INFO, "capabilities": can}

    def _warm_up(self) -> None:
        if self._warming is None:
            self._warming = asyncio.ensure_future(asyncio.to_thread(self._host.warm_up))

    async def _warm(self) -> None:
        """Wait for the imports in a thread, because here they would block everything."""
        if self._warming is not None:
            await asyncio.wait([self._warming])

    def _ways(self) -> list[Mapping[str, object]]:
        what = "Set a provider's variable, such as ANTHROPIC_API_KEY, or put a key into sagent's settings."
        ways: list[Mapping[str, object]] = [{"id": KEY, "name": "A key in the environment", "description": what}]
        if self._client.has_login_terminal:
            about = "Enter a provider's API key in a terminal; it is tested, then saved."
            way = {"id": LOGIN, "name": "Log in", "description": about}
            ways.append({**way, "type": "terminal", "args": ["--login"], "env": {}})
        return ways

    async def _authenticate(self, params: Params) -> Mapping[str, object]:
        if params.get("methodId") != KEY:
            raise RpcError(INVALID_PARAMS, f"methodId is {KEY!r}, the one way that the protocol leads.")
        try:
            await self._host.check_login()
        except SagentError as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from error
        return {}

    # -- sessions

    async def _new(self, params: Params) -> Answer:
        await self._warm()
        session = await self._opened(self._place(params))
        self._sessions[session.id] = session
        return Answer({"sessionId": session.id, **self._state(session)}, session.begin)

    async def _load(self, params: Params) -> Answer:
        return await self._taken_up(params, replay=True)

    async def _resume(self, params: Params) -> Answer:
        since = params.get("replayFrom") if self._client.version > 1 else None
        if since is not None and as_object(since).get("type") != "start":
            raise RpcError(INVALID_PARAMS, "replayFrom is left out, or its type is start.")
        return await self._taken_up(params, replay=since is not None)

    def _state(self, session: "Session") -> Mapping[str, object]:
        """Return the state of a session that is set up."""
        if self._client.version == 1:
            return {"modes": session.options.modes(), **self._options(session)}
        return self._options(session)

    def _options(self, session: "Session") -> Mapping[str, object]:
        every = session.options.every()
        return {"configOptions": every if self._client.version == 1 else version2.config_options(every)}

    async def _taken_up(self, params: Params, *, replay: bool) -> Answer:
        """Resume an earlier session; one that is open here is replayed if its client wants that."""
        name = text_in(params, "sessionId")
        await self._warm()
        place = self._place(params, name)
        session = self._sessions.get(name)
        begin: Callable[[], None] = lambda: None  # noqa: E731 -- what follows for one that is open
        if session is None:
            if not _NAME.fullmatch(name):
                raise _missing(name)
            session = await self._opened(place)
            if session.id != name:
                await session.aclose()
                raise _missing(name)
            self._sessions[session.id] = session
            begin = session.begin
        elif os.path.realpath(place.cwd) != os.path.realpath(session.cwd):
            raise RpcError(INVALID_PARAMS, f"{name} is open in {session.cwd}: close it first, or load it there.")
        if replay:
            session.replay()
        return Answer(self._state(session), begin)

    async def _opened(self, place: "Place") -> "Session":
        from sagent.plugins.acp.session import Session

        session = Session(self._client, self._host.opening, place)
        self._opening.add(session)
        try:
            await session.opened()
        except BaseException:
            await session.aclose()
            raise
        finally:
            self._opening.discard(session)
        return session

    def _place(self, params: Params, session: str | None = None) -> "Place":
        from sagent.plugins.acp.servers import read_servers
        from sagent.plugins.acp.session import Place

        cwd = _directory("cwd", params.get("cwd"))
        more = list_in(params, "additionalDirectories")
        directories = tuple(_directory("additionalDirectories", each) for each in more)
        servers = read_servers(list_in(params, "mcpServers", required=session is None and self._client.version == 1))
        return Place(cwd, directories, servers, session)

    def _session(self, params: Params) -> "Session":
        name = text_in(params, "sessionId")
        if (found := self._sessions.get(name)) is None:
            raise _missing(name)
        return found

    async def _list(self, params: Params) -> Mapping[str, object]:
        cwd, cursor = params.get("cwd"), params.get("cursor")
        cwd = None if cwd is None else _absolute("cwd", cwd)
        cursor = "0" if cursor is None else cursor
        if not isinstance(cursor, str) or not re.fullmatch(r"\d{1,9}", cursor):
            raise RpcError(INVALID_PARAMS, "cursor is not one that session/list has given.")
        start = int(cursor)
        try:
            found = await asyncio.to_thread(self._host.sessions, cwd)
        except (SagentError, OSError) as error:
            from sagent.plugins.acp.session import failure

            raise failure(error) from error
        sessions = [
            {"sessionId": one.id, "cwd": one.cwd, "title": one.title or None, "updatedAt": one.last or None}
            for one in found
            if os.path.isabs(one.cwd)  # noqa: PTH117 -- of very many; one that is damaged has none
        ]
        more = {"nextCursor": str(start + PAGE)} if len(sessions) > start + PAGE else {}
        return {"sessions": sessions[start : start + PAGE], **more}

    async def _close(self, params: Params) -> Mapping[str, object]:
        session = self._session(params)
        del self._sessions[session.id]
        await session.aclose()
        return {}

    async def _delete(self, params: Params) -> Mapping[str, object]:
        """Delete a session, an open one after closing it; a missing one counts as deleted."""
        from sagent.plugins.acp.session import failure

        name = text_in(params, "sessionId")
        if (session := self._sessions.pop(name, None)) is not None:
            await session.aclose()
        try:
            if _NAME.fullmatch(name):
                await asyncio.to_thread(self._host.delete, name)
        except SessionNotFound:
            pass
        except (SagentError, OSError) as error:
            raise failure(error) from error
        return {}

    # -- what is done in them

    async def _prompt(self, params: Params) -> Mapping[str, object]:
        from sagent.plugins.acp.blocks import read_prompt

        session = self._session(params)
        return {"stopReason": await session.prompt(read_prompt(list_in(params, "prompt", required=True)))}

    async def _accept(self, params: Params) -> Mapping[str, object]:
        """Return a prompt of version 2: it is accepted, and its turn says by itself how it goes."""
        from sagent.plugins.acp.blocks import read_prompt
        from sagent.plugins.acp.version1 import new_id

        session, message, blocks = self._session(params), new_id(), list_in(params, "prompt", required=True)
        running = session.prompt(read_prompt(blocks))
        self._client.update(session.id, version2.user_message(message, blocks))
        self._client.update(session.id, version2.state_update("running"))
        turn = asyncio.ensure_future(self._turn(session, running))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)
        return {"messageId": message}

    async def _turn(self, session: "Session", running: Awaitable[str]) -> None:
        try:
            end = version2.state_update("idle", stopReason=await running)
        except RpcError as error:
            said = {"code": error.code, "message": str(error)}
            end = version2.state_update("idle", stopReason="error", error=said)
        self._client.update(session.id, end)

    async def _cancel(self, params: Params) -> Mapping[str, object]:
        self._session(params).cancel()
        return {}

    async def _set_mode(self, params: Params) -> Answer:
        session = self._session(params)
        session.options.set_mode(text_in(params, "modeId"))
        return Answer({}, session.show_options)

    async def _set_option(self, params: Params) -> Answer:
        session = self._session(params)
        before = session.policy.mode
        session.options.set(text_in(params, "configId"), params.get("value"))
        after = session.show_mode if session.policy.mode != before else lambda: None
        return Answer(self._options(session), after)


def _missing(session: str) -> RpcError:
    return RpcError(NOT_FOUND, f"There is no session {session!r}, or it is not open.", {"sessionId": session})


def _absolute(name: str, value: object) -> str:
    if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value or value != valid_text(value):  # noqa: PTH117 -- it is a text
        raise RpcError(INVALID_PARAMS, f"{name}: give an absolute path, not {value!r:.200}.")
    return value


def _directory(name: str, value: object) -> str:
    path = _absolute(name, value)
    if not os.path.isdir(path):  # noqa: PTH112 -- one that is too long is none
        raise RpcError(INVALID_PARAMS, f"{name}: there is no directory {path}.")
    return path
