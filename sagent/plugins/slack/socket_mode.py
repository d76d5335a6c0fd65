"""Slack by Socket Mode: no public address, a token of the app and one of the bot. Needs sagent[slack]."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.text import one_line, printable
from sagent.plugins.slack.rules import DIRECT
from sagent.plugins.slack.surface import (
    Attachment,
    Button,
    ChatError,
    Commanded,
    Incoming,
    Person,
    Pressed,
    SlackMessage,
    Thread,
)

if TYPE_CHECKING:
    from slack_sdk.socket_mode.aiohttp import SocketModeClient
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.web.async_client import AsyncWebClient

API = "https://slack.com/api/"
MAX_RETRIES = 5  # of a call that Slack limits: each after as long as it says
_SUBTYPES = ("", "file_share", "thread_broadcast")  # messages of people; others are edits, joins and the like
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}


class SlackSurface:
    """A ChatSurface. `team` and `bot` are our own ids; authors from other workspaces are guests."""

    most_text = 8_000  # a markdown block may have 12,000, a whole message about 13,000
    pause = 1.2  # chat.update allows about one call a second in a channel

    def __init__(self, web: "AsyncWebClient", socket: "SocketModeClient", team: str, bot: str) -> None:
        self._web, self._socket, self._team, self._bot = web, socket, team, bot
        self._news: asyncio.Queue[Incoming] = asyncio.Queue()
        socket.socket_mode_request_listeners.append(self._on_request)

    async def incoming(self) -> AsyncIterator[Incoming]:
        while True:
            yield await self._news.get()

    async def post(self, thread: Thread, text: str, buttons: Sequence[Button] = ()) -> str:
        place, root = _slack_place(thread)
        sent = await self._call("chat.postMessage", channel=place, thread_ts=root, **_message(text, buttons))
        return as_str(sent.get("ts"))

    async def edit(self, thread: Thread, message: str, text: str) -> None:
        await self._call("chat.update", channel=_slack_place(thread)[0], ts=message, **_message(text, ()))

    async def upload(self, thread: Thread, name: str, data: bytes) -> None:
        from slack_sdk.errors import SlackClientError

        place, root = _slack_place(thread)
        try:
            await self._web.files_upload_v2(filename=name, file=data, channel=place, thread_ts=root)  # pyright: ignore[reportUnknownMemberType] -- as the SDK has it
        except (SlackClientError, OSError, TimeoutError) as error:
            raise _failed("files.upload", error) from error

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        import aiohttp

        asked, own = urlsplit(attachment.source), urlsplit(self._web.base_url)
        if asked.netloc != own.netloc and not (asked.scheme == "https" and f".{asked.hostname}".endswith(".slack.com")):
            raise ChatError(f"{attachment.name} is not at Slack")  # the token must not be sent there
        headers = {"Authorization": f"Bearer {self._web.token}"}
        try:
            async with aiohttp.ClientSession() as http, http.get(attachment.source, headers=headers) as response:
                response.raise_for_status()
                data = bytearray()
                async for piece in response.content.iter_any():
                    if len(data) + len(piece) > max_bytes:
                        raise ChatError(f"it has more than {max_bytes / 1e6:g} MB")
                    data += piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _failed(attachment.name, error) from error
        return bytes(data)

    async def answer(self, command: Commanded, text: str) -> None:
        await self._call("chat.postEphemeral", channel=command.reply, user=command.person.id, text=text)

    async def _call(self, method: str, **arguments: object) -> Mapping[str, object]:
        from slack_sdk.errors import SlackClientError

        try:
            response = await self._web.api_call(method, json=arguments)  # pyright: ignore[reportUnknownMemberType] -- as the SDK has it
        except (SlackClientError, OSError, TimeoutError) as error:
            raise _failed(method, error) from error
        return _data(response)

    async def _on_request(self, client: "AsyncBaseSocketModeClient", request: "SocketModeRequest") -> None:
        """Handle Slack's request, and acknowledge it at once: it is repeated after three seconds."""
        from slack_sdk.socket_mode.response import SocketModeResponse

        for found in self._read(request.type, as_object(cast("object", request.payload))):  # pyright: ignore[reportUnknownMemberType] -- as the SDK has it
            self._news.put_nowait(found)
        await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    def _read(self, kind: str, payload: Mapping[str, object]) -> Sequence[Incoming]:
        match kind:
            case "events_api":
                said = self._said(as_object(payload.get("event")), as_str(payload.get("team_id")))
                return [] if said is None else [said]
            case "interactive":
                return self._pressed(payload)
            case "slash_commands":
                person = Person(as_str(payload.get("user_id")), as_str(payload.get("team_id")) == self._team)
                channel = as_str(payload.get("channel_id"))
                place = DIRECT if as_str(payload.get("channel_name")) == "directmessage" else channel
                return [Commanded(place, person, tuple(as_str(payload.get("text")).split()), channel)]
            case _:
                return []

    def _said(self, event: Mapping[str, object], team: str) -> SlackMessage | None:
        """Return a message of a person; None for anything else."""
        kind, user = as_str(event.get("type")), as_str(event.get("user"))
        if kind not in ("message", "app_mention") or event.get("bot_id") or user in ("", self._bot):
            return None
        if as_str(event.get("subtype")) not in _SUBTYPES:
            return None
        channel, message, text = (as_str(event.get(name)) for name in ("channel", "ts", "text"))
        direct = as_str(event.get("channel_type")) == "im"
        root = as_str(event.get("thread_ts")) or message
        thread = Thread(DIRECT, f"{channel}:{root}") if direct else Thread(channel, root)
        called = f"<@{self._bot}>"
        whose = as_str(event.get("user_team")) or as_str(event.get("team")) or team
        files = tuple(
            Attachment(as_str(file.get("name"), "file"), as_str(file.get("url_private")))
            for file in map(as_object, as_array(event.get("files")))
            if file.get("url_private")
        )
        return SlackMessage(
            thread,
            message,
            Person(user, whose == self._team),
            _plain(text.replace(called, "")).strip(),
            direct or kind == "app_mention" or called in text,
            files,
        )

    def _pressed(self, payload: Mapping[str, object]) -> Sequence[Pressed]:
        user = as_object(payload.get("user"))
        whose = as_str(user.get("team_id")) or as_str(as_object(payload.get("team")).get("id"))
        person = Person(as_str(user.get("id")), whose == self._team)
        actions = map(as_object, as_array(payload.get("actions")))
        return [Pressed(person, as_str(action.get("value"))) for action in actions]


@asynccontextmanager
async def open_slack(app_token: str, bot_token: str, api: str = API) -> AsyncGenerator[SlackSurface]:
    """Yield the connected surface. Raises ChatError for invalid tokens, and if Slack is unreachable."""
    from slack_sdk.errors import SlackClientError
    from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
    from slack_sdk.socket_mode.aiohttp import SocketModeClient
    from slack_sdk.web.async_client import AsyncWebClient

    logger = logging.getLogger("sagent.slack")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    limits = AsyncRateLimitErrorRetryHandler(max_retry_count=MAX_RETRIES)
    web = AsyncWebClient(bot_token, api, retry_handlers=[limits], logger=logger)
    socket = SocketModeClient(app_token, web_client=web, logger=logger)
    try:
        try:
            own = _data(await web.api_call("auth.test"))  # pyright: ignore[reportUnknownMemberType] -- as the SDK has it
            socket.wss_uri = await socket.issue_new_wss_url()  # else it would try for ever with a token that is wrong
        except (SlackClientError, OSError, TimeoutError) as error:
            raise _failed("Slack", error) from error
        surface = SlackSurface(web, socket, as_str(own.get("team_id")), as_str(own.get("user_id")))
        await socket.connect()
        yield surface
    finally:
        with suppress(Exception):  # errors of the SDK while closing are irrelevant
            await socket.close()


def _slack_place(thread: Thread) -> tuple[str, str]:
    """Return the channel and the first message of a thread."""
    if thread.place == DIRECT:
        channel, _, root = thread.name.partition(":")
        return channel, root
    return thread.place, thread.name


def _message(text: str, buttons: Sequence[Button]) -> dict[str, object]:
    """Return a message of Markdown and buttons; `text` is what notifications show."""
    blocks: list[dict[str, object]] = [{"type": "markdown", "text": text or " "}]
    if buttons:
        blocks.append({"type": "actions", "elements": [_button(button) for button in buttons]})
    return {"text": one_line(text, 300) or " ", "blocks": blocks}


def _button(button: Button) -> dict[str, object]:
    label = {"type": "plain_text", "text": button.label[:75]}
    style = {"style": "danger"} if button.is_danger else {}
    return {"type": "button", "action_id": button.choice, "value": button.choice, "text": label, **style}


def _plain(text: str) -> str:
    """Return a message without Slack's marks: `<url|words>`, `<#C1|general>`, `&lt;`."""
    text = re.sub(r"<([^<>|]+)\|([^<>]*)>", r"\2 (\1)", text)
    text = re.sub(r"<([^<>|]+)>", r"\1", text)
    return re.sub(r"&(?:lt|gt|amp);", lambda match: _ENTITIES[match[0]], text)


def _data(response: object) -> Mapping[str, object]:
    """Return the data of Slack's answer; empty if it is no object."""
    return as_object(getattr(response, "data", response))


def _failed(action: str, error: BaseException) -> ChatError:
    from slack_sdk.errors import SlackApiError

    why = f"{type(error).__name__}: {error}"
    if isinstance(error, SlackApiError):
        why = as_str(_data(error.response).get("error"), why)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] -- as the SDK has it
    return ChatError(f"{action}: {one_line(printable(why), 300)}")
