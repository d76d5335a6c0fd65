"""Notifications of tasks, posted to addresses that clients name.

An address of this machine, a private one and an unusual port are refused unless the server was started with it: the
way out is that of the web tools, which look a name up once and connect to the very address that was judged.
"""

import asyncio
from collections.abc import Sequence

from a2a.types.a2a_pb2 import StreamResponse, Task, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToJson

from sagent.bridges.a2a.task import ENDED
from sagent.errors import ToolError
from sagent.sandbox.hosts import Entry
from sagent.tools.web.address import WebAddress, parse_address
from sagent.tools.web.gateway import Gateway, WebRequest

MOST = 10  # receivers of one task
_TRIES = 3
_PAUSE = 1.0  # seconds before another try, and twice as many before the next
_GRACE = 3.0  # seconds in which the last notifications are sent when the server stops


class Receiver:
    """One address, which is sent what it is to know in order. A receiver may be sent something twice."""

    def __init__(
        self, config: TaskPushNotificationConfig, address: WebAddress, gateway: Gateway, entries: Sequence[Entry]
    ) -> None:
        self.config, self._address, self._gateway, self._entries = config, address, gateway, entries
        self._waiting: asyncio.Queue[Task] = asyncio.Queue()
        self.work = asyncio.create_task(self._deliver())

    def put(self, task: Task) -> None:
        self._waiting.put_nowait(task)

    async def _deliver(self) -> None:
        while True:
            task = await self._waiting.get()
            for attempt in range(_TRIES):
                if await self._post(task):
                    break
                await asyncio.sleep(_PAUSE * 2**attempt)
            if task.status.state in ENDED:
                return

    async def _post(self, task: Task) -> bool:
        """Whether it arrived, or never will."""
        config = self.config
        headers = {"content-type": "application/a2a+json", "a2a-version": "1.0"}
        if config.token:
            headers["x-a2a-notification-token"] = config.token
        if config.authentication.credentials:
            headers["authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        body = MessageToJson(StreamResponse(task=task), indent=None).encode()
        try:
            request = WebRequest(self._address, "POST", headers, body)
            response = await self._gateway.fetch(request, lambda: self._entries)
        except ToolError:
            return False
        return response.status < 500 and response.status != 429


class Receivers:
    """Those of every task of one caller. They are known while the server runs: a task does not outlive it."""

    def __init__(self, allowed: Sequence[str] = (), gateway: Gateway | None = None) -> None:
        self._entries = tuple(map(Entry.parse, allowed))
        self._gateway = gateway or Gateway()
        self._known: dict[str, dict[str, Receiver]] = {}

    async def set(self, task: str, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Have changes of a task posted to an address. Raises InvalidParamsError for one that is refused."""
        address = await self.check(config)
        kept = TaskPushNotificationConfig()
        kept.CopyFrom(config)
        kept.task_id, kept.id = task, config.id or task
        receivers = self._known.setdefault(task, {})
        if kept.id not in receivers and len(receivers) >= MOST:
            raise UnsupportedOperationError(f"A task has at most {MOST} receivers: delete one.")
        if (before := receivers.pop(kept.id, None)) is not None:
            before.work.cancel()
        receivers[kept.id] = Receiver(kept, address, self._gateway, self._entries)
        return kept

    async def check(self, config: TaskPushNotificationConfig) -> WebAddress:
        """The address that a client names. Raises InvalidParamsError for one that is refused."""
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
                "address at a port of the web. Whoever runs the server can allow it: --push-to HOST:PORT."
            ) from error
        return address

    def all(self, task: str) -> list[TaskPushNotificationConfig]:
        return [receiver.config for receiver in self._known.get(task, {}).values()]

    def get(self, task: str, name: str) -> TaskPushNotificationConfig:
        """Raises TaskNotFoundError."""
        receivers = self._known.get(task, {})
        if name not in receivers:
            raise TaskNotFoundError(f"Task {task} has no push notification config {name[:100]!r}.")
        return receivers[name].config

    def delete(self, task: str, name: str) -> None:
        """Forget one; there may be none."""
        if (receiver := self._known.get(task, {}).pop(name, None)) is not None:
            receiver.work.cancel()

    def notify(self, task: Task) -> None:
        """Send those of a task how it stands."""
        for receiver in self._known.get(task.id, {}).values():
            receiver.put(task)

    async def aclose(self) -> None:
        """Give the last notifications a moment."""
        works = [receiver.work for each in self._known.values() for receiver in each.values()]
        if not works:
            return
        _, late = await asyncio.wait(works, timeout=_GRACE)
        for work in late:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
