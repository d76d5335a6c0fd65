"""A terminal that only prints: whole lines out, typed lines in, and a label where the person types."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Generator

from sagent.errors import UsageError
from sagent.lib.input import read_lines
from sagent.repl.view.lines import printable

UNSEEN_SECONDS = 0.7  # too short to have read a question
LABEL_DELAY_SECONDS = 0.05  # after output, before the label is written again


class LineTerminal:
    """Writes lines, and hands on typed ones: to the latest reader, whose label the person sees, else to `take`.

    `on_end` is called at the end of the input, and returns True to close all questions.
    `prompt` returns the label while nobody reads, "" for none.
    """

    def __init__(self, take: Callable[[str], object], on_end: Callable[[], bool]) -> None:
        self._take, self._on_end = take, on_end
        self.prompt: Callable[[], str] = str
        self._readers: list[tuple[str, asyncio.Future[str | None]]] = []
        self._ended = False
        self._open = False  # the cursor stands behind something
        self._label = ""  # the one it stands behind
        self._goes_on = False  # the open line is a streamed one
        self._typing: asyncio.TimerHandle | None = None
        self._asking = 0  # questions that were just written
        self.written_at = 0.0

    def start(self) -> None:
        """Begin to read."""
        read_lines(sys.stdin.fileno(), self._on_line, self._on_input_end)
        self.invite()

    @property
    def reading(self) -> bool:
        """True while a question or list waits for a line."""
        return bool(self._readers)

    def write(self, text: str) -> None:
        """Write lines, below an open one, and then the label again."""
        self._put(f"{text}\n")
        self.invite()

    def stream(self, text: str) -> None:
        """Write a text that may end within a line, which the next one goes on with."""
        if self._open and self._goes_on:
            self.send(printable(text))
            self._open, self.written_at = not text.endswith("\n"), asyncio.get_running_loop().time()
        else:
            self._put(text)
        self._goes_on = self._open
        self.invite()

    def ring(self) -> None:
        self.send("\a")

    def _put(self, text: str) -> None:
        text = printable(text)
        self.send(f"\n{text}" if self._open else text)
        self._open, self._label, self._goes_on = not text.endswith("\n"), "", False
        self.written_at = asyncio.get_running_loop().time()

    def send(self, text: str) -> None:
        """Write a text as it is."""
        with contextlib.suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()

    def invite(self) -> None:
        """Write the label soon, if nothing else is written meanwhile."""
        if self._typing is not None:
            self._typing.cancel()
        self._typing = asyncio.get_running_loop().call_later(LABEL_DELAY_SECONDS, self._write_label)

    def _write_label(self) -> None:
        self._typing = None
        if self._goes_on and not self._readers:
            return
        label = self._readers[-1][0] if self._readers else "" if self._asking else self.prompt()
        if label and label != self._label:
            self._put(label)
            self._label = label

    def _on_line(self, line: bytes | None) -> None:
        """Take a typed line; a line that is too long counts as empty."""
        self._open, self._label = self._open and not sys.stdin.isatty(), ""  # a terminal has shown the end of the line
        text = (line or b"").decode("utf-8", "replace").rstrip("\r")
        if self._readers:
            self.answer(text)
        else:
            self._take(text)

    def _on_input_end(self) -> None:
        self._ended = True
        if self._on_end():
            while self._readers:
                self.answer(None)

    def answer(self, text: str | None) -> bool:
        """Give a line to the latest reader; None closes it. Return False if there is none."""
        if not self._readers:
            return False
        _, waits = self._readers.pop()
        if not waits.done():
            waits.set_result(text)
        return True

    def interrupted(self) -> None:
        """Note that the terminal has shown ^C."""
        self._open, self._label = True, ""

    async def read(self, label: str, *, secret: bool = False) -> str | None:
        """Return the next line; None at the end of the input, or if the person closes the question. A `secret` one is
        not shown. Raises UsageError if that is impossible."""
        if self._ended:
            return None
        with self._unseen() if secret else contextlib.nullcontext():
            self._readers.append(reader := (label, asyncio.get_running_loop().create_future()))
            self.invite()
            try:
                return await reader[1]
            finally:
                if reader in self._readers:
                    self._readers.remove(reader)
                if secret:
                    self._open = True  # the end of the line was not shown either
                self.invite()

    async def ask(self, text: str, label: str) -> str:
        """Return the line that answers a question, "" for none. Lines typed before the question could be read are
        messages, not answers."""
        self._asking += 1
        try:
            self.write(text)
            self.ring()
            await asyncio.sleep(UNSEEN_SECONDS)
        finally:
            self._asking -= 1
        return (await self.read(label)) or ""

    @contextlib.contextmanager
    def _unseen(self) -> Generator[None]:
        """Have the terminal not show what is typed."""
        import termios

        descriptor = sys.stdin.fileno()
        try:
            before = termios.tcgetattr(descriptor)
            silent = [*before]
            silent[3] = before[3] & ~termios.ECHO
            termios.tcsetattr(descriptor, termios.TCSANOW, silent)
        except termios.error as error:
            raise UsageError("This would show the key; set the provider's environment variable instead.") from error
        try:
            yield
        finally:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
