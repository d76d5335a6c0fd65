"""An answer as it is written: messages that are edited as it grows, no more often than the service allows."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress

from sagent.plugins.slack.surface import ChatError, ChatSurface, Thread
from sagent.transcript.redaction import Redaction

TRIES = 5  # to finish an answer
_CALLED = re.compile(r"@(?=channel\b|here\b|everyone\b)|(?<=<)(?=[!@#])")  # what would call people


class Reply:
    """An answer in a thread. Only this writes its messages, so that nothing appears twice."""

    def __init__(self, surface: ChatSurface, thread: Thread) -> None:
        self._surface, self._thread = surface, thread
        self._text, self._certain, self._doing = "", 0, ""
        self._shown: list[tuple[str, str]] = []  # messages by name, with their texts
        self._changed, self._ending = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._keep_up())

    def write(self, text: str) -> None:
        self._text += text
        self._changed.set()

    def settle(self) -> None:
        """Keep the text written so far."""
        self._text = f"{self._text.rstrip()}\n\n" if self._text.strip() else ""
        self._certain = len(self._text)

    def discard(self) -> None:
        """Discard the text since the last `settle`."""
        self._text = self._text[: self._certain]
        self._changed.set()

    def show(self, doing: str) -> None:
        """Show the current activity in a line below the text."""
        self._doing = doing
        self._changed.set()

    async def finish(self, footer: str) -> None:
        """Write the whole answer, and a line below. Raises ChatError."""
        self._ending.set()
        self._changed.set()
        await asyncio.wait([self._task])  # to its end: a message in transit would be posted twice
        self._doing = footer
        for left in reversed(range(TRIES)):
            try:
                await self._bring(self._text)
            except ChatError:
                if not left:
                    raise
                await asyncio.sleep(self._surface.pause)
            else:
                return

    def abandon(self) -> None:
        """Leave it as it is."""
        self._task.cancel()

    async def _keep_up(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._ending.is_set():
                return
            with suppress(ChatError):  # retried with the next change
                await self._bring(_whole_words(self._text))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._surface.pause):
                    await self._ending.wait()

    async def _bring(self, text: str) -> None:
        """Have the messages say a text."""
        below = f"\n\n_{self._doing}_" if self._doing else ""
        pieces = split(outgoing(text.strip()) + below, self._surface.most_text)
        for place, piece in enumerate(pieces):
            if place == len(self._shown):
                self._shown.append((await self._surface.post(self._thread, piece), piece))
            elif self._shown[place][1] != piece:
                message = self._shown[place][0]
                await self._surface.edit(self._thread, message, piece)
                self._shown[place] = message, piece
        for place in range(len(pieces), len(self._shown)):  # of an answer that started over and is shorter
            message, said = self._shown[place]
            if said != "…":
                await self._surface.edit(self._thread, message, "…")
                self._shown[place] = message, "…"


def _whole_words(text: str) -> str:
    """Drop a last word that may continue, because only a complete secret is recognised."""
    return text[: max(text.rfind(" "), text.rfind("\n")) + 1]


def outgoing(text: str) -> str:
    """Return a text that may be sent to a chat: without secrets and mentions of people."""
    return _CALLED.sub(lambda match: f"{match[0]}\u200b", Redaction().text(text))


def split(text: str, limit: int) -> Sequence[str]:
    """Split a text into pieces that fit into a message, preferably between lines; a block of code continues in the next
    one."""
    pieces: list[str] = []
    room = limit - 16  # for the end and start of a block
    while len(text) > limit:
        cut = text.rfind("\n", room // 2, room)
        cut = room if cut < 0 else cut
        piece, text = text[:cut], text[cut:].lstrip("\n")
        if len(re.findall(r"^```", piece, re.MULTILINE)) % 2:
            piece, text = f"{piece}\n```", f"```\n{text}"
        pieces.append(piece)
    return [*pieces, *([text] if text.strip() else [])]
