"""Notifications of tasks, posted to addresses that clients name.

Local and private addresses and unusual ports are refused unless allowed at the server's start. Connections are made as
in the web tools, which look a name up once and connect to exactly the address that was judged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from a2a.types.a2a_pb2 import StreamResponse, Task, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToJson

from sagent.errors import ToolError
from sagent.plugins.a2a.receiver_files import KeptReceiver, ReceiverFiles
from sagent.plugins.a2a.task import ENDED
from sagent.plugins.gateway.address import parse_address
from sagent.plugins.gateway.gateway import Gateway, WebRequest
from sagent.sandbox.hosts import Entry

MAX_RECEIVERS = 10  # of one task
MAX_KEPT = 1_000  # of one caller; those that know their task's end are removed first
_MAX_CONFIG_BYTES = 8_192  # of a config
_LINES = 50  # notifications that are on their way at a time
_TRIES = 3
_RETRY_DELAY_SECONDS = 1.0  # seconds before another try, and twice as many before the next
_FLUSH_TIMEOUT_SECONDS = 3.0  # for the last notifications when the server stops


class Show(Protocol):
    """Returns tasks with their present state, by ids."""

    async def __call__(self, *names: str) -> Mapping[str, Task]: ...


class Receiver:
    """An address that is notified in order, perhaps twice of the same state. `done` is called after the notification of
    the task's end."""

    def __init__(
        self,
        config: TaskPushNotificationConfig,
        post: Callable[[TaskPushNotificationConfig, Task], Awaitable[bool]],
        done: Callable[[], None],
    ) -> None:
        self.config, self._post, self._done = config, post, done
        self._waiting: asyncio.Queue[Task] = asyncio.Queue()
        self.work: asyncio.Task[None] | None = None

    def put(self, task: Task) -> None:
        self._waiting.put_nowait(task)
        if self.work is None or self.work.done():
            self.work = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        while True:
            task = await self._waiting.get()
            arrived = await self._send(task)
            if task.status.state in ENDED:
                if arrived:
                    self._done()
                return

    async def _send(self, task: Task) -> bool:
        for attempt in range(_TRIES):
            if await self._post(self.config, task):
                return True
            await asyncio.sleep(_RETRY_DELAY_SECONDS * 2**attempt)
        return False

    def stop(self) -> None:
        if self.work is not None:
            self.work.cancel()


class Receivers:
    """The receivers of every task of one caller, which survive restarts of the server."""

    def __init__(self, files: ReceiverFiles, allowed: Sequence[str]) -> None:
        self._files, self._entries = files, tuple(map(Entry.parse, allowed))
        self._gateway = Gateway()
        self._lines = asyncio.Semaphore(_LINES)
        self._known: dict[str, dict[str, Receiver]] = {}
        self._sessions: dict[str, str] = {}  # by task
        self._done: dict[tuple[str, str], None] = {}  # task and id of those that know its end, in that order
        self._resuming: asyncio.Task[None] | None = None

    def resume(self, tasks: Mapping[str, Collection[str]], show: Show) -> None:
        """Resume the earlier receivers of each session's tasks, and notify those that missed the end of their task."""
        waiting = set[str]()
        for session, names in tasks.items():
            for kept in self._files.read(session):
                if (task := kept.config.task_id) in names:
                    self._add(session, kept.config)
                    if kept.done:
                        self._done[task, kept.config.id] = None
                    else:
                        waiting.add(task)
        if waiting:
            self._resuming = asyncio.create_task(self._catch_up(waiting, show))

    async def _catch_up(self, tasks: Iterable[str], show: Show) -> None:
        for task in (await show(*tasks)).values():
            if task.status.state in ENDED:  # else another process works on it
                self.notify(task)

    async def set(self, session: str, task: str, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Post changes of a task of a session to an address. Raises InvalidParamsError for a refused one, and
        OSError."""
        await self.check(config)
        kept = TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.task_id, kept.id = task, config.id or task
        receivers = self._known.get(task, {})
        if kept.id not in receivers:
            if len(receivers) >= MAX_RECEIVERS:
                raise UnsupportedOperationError(f"A task can have at most {MAX_RECEIVERS} receivers: delete one.")
            self._make_room()
        self._files.put(session, KeptReceiver(kept))
        self._done.pop((task, kept.id), None)
        if (before := receivers.get(kept.id)) is not None:
            before.stop()
        self._add(session, kept)
        return kept

    def _make_room(self) -> None:
        """Forget one that knows its task's end, if there are too many."""
        if sum(map(len, self._known.values())) < MAX_KEPT:
            return
        if (oldest := next(iter(self._done), None)) is None:
            raise UnsupportedOperationError(f"There are {MAX_KEPT:,} receivers, which is the limit: delete one.")
        self.delete(*oldest)

    def _add(self, session: str, config: TaskPushNotificationConfig) -> None:
        task, name = config.task_id, config.id
        self._sessions[task] = session

        def done() -> None:
            self._done[task, name] = None
            with suppress(OSError):  # it is sent that once more after a restart
                self._files.put(session, KeptReceiver(config, done=True))

        self._known.setdefault(task, {})[name] = Receiver(config, self._post, done)

    async def _post(self, config: TaskPushNotificationConfig, task: Task) -> bool:
        """Return True if it arrived, or never will. The address is judged anew each time."""
        headers = {"content-type": "application/a2a+json", "a2a-version": "1.0"}
        if config.token:
            headers["x-a2a-notification-token"] = config.token
        if config.authentication.credentials:
            headers["authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        body = MessageToJson(StreamResponse(task=task), indent=None).encode()
        try:
            request = WebRequest(parse_address(config.url), "POST", headers, body)
            async with self._lines:
                response = await self._gateway.fetch(request, lambda: self._entries)
        except ToolError:
            return False
        return response.status < 500 and response.status != 429

    async def check(self, config: TaskPushNotificationConfig) -> None:
        """Judge the address that a client names. Raises InvalidParamsError for a refused one."""
        if config.ByteSize() > _MAX_CONFIG_BYTES:
            raise InvalidParamsError(f"A push notification config has at most {_MAX_CONFIG_BYTES:,} bytes.")
        given = (config.token, config.authentication.scheme, config.authentication.credentials)
        if not all(text.isascii() and text.isprintable() for text in given):
            raise InvalidParamsError("The token and the credentials of a push notification are printable ASCII.")
        try:
            address = parse_address(config.url)
        except ToolError as error:
            raise InvalidParamsError(f"The URL for push notifications is refused: {error}") from error
        try:
            await self._gateway.check(address.endpoint, lambda: self._entries)
        except ToolError as error:
            raise InvalidParamsError(
                f"The URL for push notifications is refused: {address.endpoint} cannot be found, or is not a public "
                "address with a web port. The server's operator can allow it with --push-to HOST:PORT."
            ) from error

    def all(self, task: str) -> list[TaskPushNotificationConfig]:
        return [receiver.config for receiver in self._known.get(task, {}).values()]

    def get(self, task: str, name: str) -> TaskPushNotificationConfig:
        """Return a task's receiver. Raises TaskNotFoundError."""
        receivers = self._known.get(task, {})
        if name not in receivers:
            raise TaskNotFoundError(f"Task {task} has no push notification config {name[:100]!r}.")
        return receivers[name].config

    def delete(self, task: str, name: str) -> None:
        """Forget one, if it exists. Raises OSError."""
        if name not in (receivers := self._known.get(task, {})):
            return
        self._files.remove(self._sessions[task], task, name)
        receivers.pop(name).stop()
        self._done.pop((task, name), None)

    def notify(self, task: Task) -> None:
        """Notify a task's receivers of its state, except those that know its end."""
        for name, receiver in self._known.get(task.id, {}).items():
            if (task.id, name) not in self._done:
                receiver.put(task)

    async def aclose(self) -> None:
        """Send the last notifications for a moment. The rest is sent after the next start."""
        if self._resuming is not None:
            self._resuming.cancel()
        begun = [self._resuming, *(each.work for known in self._known.values() for each in known.values())]
        works = [work for work in begun if work is not None]
        if not works:
            return
        _, late = await asyncio.wait(works, timeout=_FLUSH_TIMEOUT_SECONDS)
        for work in late:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
