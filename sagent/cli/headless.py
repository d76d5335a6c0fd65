"""One prompt, or a stream of them, answered without a terminal: the Unix filter."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from sagent.agent import Agent
from sagent.cli.render import PROPOSED, Renderer, StreamRenderer, TextRenderer, binary_safe, renderer_for, report
from sagent.errors import SagentError, UsageError
from sagent.events import Event, Failure, Notice, Result
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.names import path_of
from sagent.lib.signals import on_first_signal
from sagent.lib.text import count, printable, system_reason
from sagent.messages import Message, Part, Text, user

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.surface import Surface

T = TypeVar("T")
EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_BUDGET, EXIT_LIMIT, EXIT_CUT, EXIT_UNFIT = 0, 1, 2, 3, 4, 5, 6
EXIT_BY_KIND = {
    "usage": EXIT_USAGE,
    "config": EXIT_USAGE,
    "session_not_found": EXIT_USAGE,
    "budget": EXIT_BUDGET,
    "max_turns": EXIT_LIMIT,
    "max_tool_call_rounds": EXIT_LIMIT,
    "max_exchanges": EXIT_LIMIT,
    "repeated_calls": EXIT_LIMIT,
    "max_tokens": EXIT_CUT,
    "invalid_output": EXIT_UNFIT,
    "no_plan": EXIT_UNFIT,
}
MAX_PIPED_BYTES = 1 << 26  # bytes, twice the largest requests
FIRST_BYTE_TIMEOUT_SECONDS = 3.0  # for piped input beside a prompt: the pipe may be unused


def exit_code(result: Result, signal_number: int | None = None) -> int:
    """Return the exit code of a result; 0 exactly if it is no error."""
    if result.error is None:
        return EXIT_DONE
    if result.error.kind == "interrupted":
        return 128 + (signal_number or signal.SIGINT)
    return EXIT_BY_KIND.get(result.error.kind, EXIT_FAILED)


def failed(error: SagentError) -> Result:
    return Result("", (), "error", Failure(error.kind, str(error)))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and its piped input: a text, an image, or a PDF."""

    text: str
    parts: tuple[Part, ...] = ()


class Interrupter:
    """Turns SIGINT, SIGTERM and SIGHUP into an interrupt of the run, or an end of waiting; the second signal exits. It
    replaces Python's handlers in the running loop, and learns from a stream of events that cannot be written."""

    def __init__(self, renderer: Renderer | None = None) -> None:
        self.received: int | None = None
        self.output_error: OSError | None = None
        self.agent: Agent | None = None
        self.on_stop: Callable[[], None] | None = None  # what ends a run that is elsewhere
        self._task = asyncio.current_task()
        on_first_signal(self._on_signal)
        if isinstance(renderer, StreamRenderer):
            renderer.attach(asyncio.get_running_loop().call_soon, self.on_output_failed)

    @property
    def is_stopped(self) -> bool:
        return self.received is not None or self.output_error is not None

    async def outcome(self, work: Awaitable[T]) -> T | None:
        """Await work and return its result; None if it was stopped before there was one. Raises our output's errors."""
        found: T | None = None
        try:
            found = await work
        except asyncio.CancelledError:
            if not self.is_stopped:
                raise
        if self.output_error is not None:
            raise self.output_error
        return found

    def result(self) -> tuple[Result, int]:
        """Return the result and exit code of a run that was interrupted before its start."""
        failure = Failure("interrupted", "interrupted before it began")
        return Result("", (), "interrupted", failure), 128 + (self.received or signal.SIGINT)

    def on_output_failed(self, error: OSError) -> None:
        """Our output cannot be written, because its reader hung up for instance: stop."""
        if self.output_error is None:
            self.output_error = error
            self._stop()

    def _on_signal(self, number: int) -> None:
        self.received = number
        self._stop()

    def _stop(self) -> None:
        if self.agent is not None and self.agent.running:
            self.agent.interrupt()
        elif self.on_stop is not None:
            self.on_stop()
        elif self._task is not None:
            self._task.cancel()


def run_headless(
    settings: "Settings", words: list[str], images: Sequence[str] = (), renderer: Renderer | None = None
) -> int:
    """Answer the prompt of the command line, to which files with images are attached, or the messages on stdin, and
    return the exit code."""
    renderer = renderer or renderer_for(settings, binary_safe(sys.stdout), binary_safe(sys.stderr))
    with reporting(settings, renderer):
        # Read before the loop handles signals, so that Ctrl-C ends a wait for input, which may be a pipe.
        schema = _schema_of(settings)
        way = "sagent -i FILE" if images else "sagent"
        prompt = None if settings.input_format == "stream-json" else read_prompt(words, sys.stdin, sys.stderr, way)
        if images:
            if prompt is None:
                raise UsageError("-i attaches files to a prompt, and --input-format stream-json has many.")
            prompt = Prompt(prompt.text, (*prompt.parts, *map(image_in, images)))
        return asyncio.run(
            in_order(renderer, partial(_answer_all, settings, schema, _prompts(prompt, words), renderer))
        )


@contextlib.contextmanager
def reporting(settings: "Settings", renderer: Renderer) -> Generator[None]:
    """Write errors raised in the block as the result, too, if that is JSON."""
    try:
        yield
    except SagentError as error:
        if settings.output_format != "text":
            from sagent.cli.reported import REPORTED

            renderer.on_result(failed(error))
            error.add_note(REPORTED)
        raise


async def in_order(renderer: Renderer, work: Callable[[Interrupter], Awaitable[int]]) -> int:
    """Return the exit code of work that a signal stops in order, with its result shown."""
    interrupter = Interrupter(renderer)
    code = await interrupter.outcome(work(interrupter))
    if code is None:
        result, code = interrupter.result()
        renderer.on_result(result)
    return code


async def _answer_all(
    settings: "Settings",
    schema: Mapping[str, object] | None,
    prompts: AsyncIterator[Prompt],
    renderer: Renderer,
    interrupter: Interrupter,
) -> int:
    from sagent.app import open_agent
    from sagent.providers.wire.exchange import ignore_wait
    from sagent.surface import Surface

    worst, over = EXIT_DONE, False
    on_waiting = renderer.on_waiting if isinstance(renderer, TextRenderer) else ignore_wait

    def emit(event: Event) -> None:
        if not over:  # jobs that end with the session are no news after the result
            renderer.on_event(event)
        elif isinstance(event, Notice) and event.level != "info":
            report(event.text)

    asyncio.get_running_loop().set_exception_handler(_telling(emit))
    try:
        surface = Surface()
        async with open_agent(settings, emit, on_waiting=on_waiting, surface=surface) as agent:
            interrupter.agent = agent
            async for said in prompts:
                text = await carry_out(said.text, settings, agent, surface)
                if not text and not said.parts:
                    continue
                if settings.plan or (agent.messages and settings.permission_mode != "plan"):
                    from sagent.context.plan import is_planning
                    from sagent.tools.plan import plan_notice

                    if settings.plan or is_planning(agent.messages):
                        notice = plan_notice(agent.state.tools, is_on=settings.plan)
                        agent.send(user(notice, sender="plan mode"), "next")
                result = await _answer(agent, user(text, *said.parts), schema)
                if settings.plan or result.stop_reason == PROPOSED:
                    from sagent.context.plan import last_plan

                    result = planned(result, last_plan(agent.messages))
                renderer.on_result(result)
                worst = worst or exit_code(result, interrupter.received)
                if interrupter.is_stopped:
                    break
            over = True
    finally:
        if interrupter.agent is not None:
            # list the jobs that outlive this process, and their output: the reader has not seen the calls
            for text in interrupter.agent.tree.detached:
                with contextlib.suppress(OSError):
                    report(text)
    return worst


def _telling(emit: Callable[[Event], None]) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return a handler of unawaited errors. It reports errors of a plugin's code, such as a listener's, once."""
    from sagent.config.plugins import blame

    told = set[str]()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not (said := blame(context["exception"]) if "exception" in context else ""):
            loop.default_exception_handler(context)
        elif said not in told:
            told.add(said)
            emit(Notice("root", "warning", said))

    return handle


async def carry_out(text: str, settings: "Settings", agent: Agent, surface: "Surface | None" = None) -> str:
    """Run the slash command on the first line of a prompt, if any, and return the rest; its output goes to stderr if
    the format is JSON. Raises UsageError."""
    if not text.startswith("/"):
        return text
    from sagent.app import policy_of
    from sagent.repl.headless_command import run_headless_command
    from sagent.repl.opening import Opened
    from sagent.sandbox import Sandbox
    from sagent.surface import Surface

    sandbox = Sandbox(settings.sandbox, cache=settings.state_dir)
    opened = Opened(agent, policy_of(settings), sandbox, surface or Surface())
    out = sys.stdout if settings.output_format == "text" else sys.stderr
    rest = await run_headless_command(text, settings, opened, out.write, report)
    out.flush()
    return rest


def _schema_of(settings: "Settings") -> Mapping[str, object] | None:
    """Return the schema that answers must conform to. Raises UsageError."""
    if settings.output_schema is None:
        return None
    if settings.plan:
        raise UsageError("--plan prints a plan, and --output-schema asks for other data: give only one.")
    from sagent.cli.answer_schema import read_schema

    return read_schema(settings.output_schema)


def planned(result: Result, plan: str) -> Result:
    """Turn the result of a plan-mode run into its plan, or into an error if there is none."""
    if result.error is None and not plan:
        why = "The model ended without a plan. Its answer may say what is missing."
        return replace(result, error=Failure("no_plan", why))
    return replace(result, content=plan or result.content)


async def _answer(agent: Agent, message: Message, schema: Mapping[str, object] | None) -> Result:
    from sagent.agent.asking import outcome

    try:
        if schema is None:
            return await outcome(agent.run(message), agent.wait)
        from sagent.cli.answer_schema import with_data

        return with_data(await outcome(agent.run(message, output=schema), agent.wait))
    except SagentError as error:
        return failed(error)


def read_prompt(words: list[str], stdin: TextIO | None, err: TextIO, command: str = "sagent") -> Prompt:
    """Read the prompt of the command line, of stdin, or of both: then stdin is attached as context. `command` is the
    command with the prompt, for messages.

    Raises UsageError if there is none.
    """
    prompt = " ".join(words)
    piped = b""
    if stdin is not None and not stdin.isatty():
        piped = _read_all(stdin.fileno(), None if not prompt else FIRST_BYTE_TIMEOUT_SECONDS, err)
    if (shown := _media(piped)) is not None:
        if not prompt.strip():
            raise UsageError(f'The piped input has no prompt: say what to do, as in {command} "what is this?".')
        return Prompt(prompt, (shown,))
    text = _decode(piped, err).strip("\n")
    if not prompt.strip() and not text.strip():
        raise UsageError(f'Nothing to do: give a prompt, as in {command} "explain this repository", or pipe one in.')
    if prompt.strip() and text.strip():
        return Prompt(prompt, (Text(f"\n\n<stdin>\n{text}\n</stdin>"),))  # separate: dropped first
    return Prompt(prompt if prompt.strip() else text)


def read_text(stdin: TextIO, err: TextIO) -> str:
    """Return all text of standard input. Raises UsageError for more than any model reads."""
    return _decode(_read_all(stdin.fileno(), None, err), err)


def _decode(piped: bytes, err: TextIO) -> str:
    with contextlib.suppress(UnicodeDecodeError):
        text = piped.decode("utf-8-sig")
        if "\0" not in text:  # as in UTF-16 of letters that are ASCII
            return text
    from sagent.lib.encoding import decode_output

    decoded = decode_output(piped)
    if not decoded.guesses and decoded.sure:
        return decoded.text
    read = f"it was read as {', and '.join(decoded.guesses)}" if decoded.guesses else ""
    replaced = "bytes that could not be decoded were replaced" if not decoded.sure or "�" in decoded.text else ""
    err.write(f"sagent: the piped input is not UTF-8 text; {'; '.join(filter(None, (read, replaced)))}\n")
    return decoded.text


def _media(piped: bytes) -> Part | None:
    """Return the piped input as an image or a PDF; None for text. Raises UsageError if no model accepts it."""
    if b"\0" not in piped[:8192] and not piped.startswith(b"%PDF-"):
        return None  # the common case is fast
    from sagent.tools.media import media_in

    try:
        return media_in(piped, "stdin.pdf" if piped.startswith(b"%PDF-") else "stdin")
    except ValueError as error:
        raise UsageError(f"The piped input cannot be attached: {error}") from error


def image_in(path: str) -> Part:
    """Return the image, PDF or recording in a file. Raises UsageError if there is none."""
    from sagent.lib.regular import open_given
    from sagent.tools.media import media_in

    try:
        with open_given(path_of(path)) as file:
            data = file.read(MAX_PIPED_BYTES + 1)
        if len(data) > MAX_PIPED_BYTES:
            raise ValueError(f"it has more than {MAX_PIPED_BYTES >> 20} MB")
        shown = media_in(data, path_of(path).name)
    except (OSError, ValueError) as error:
        why = system_reason(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"-i {printable(path)}: {why.rstrip('.')}.") from error
    if shown is None:
        raise UsageError(f"-i {printable(path)} is no image, PDF or recording: name a text in the prompt.")
    return shown


def _read_all(fd: int, timeout: float | None, err: TextIO) -> bytes:
    """Read the whole input; with `timeout`, nothing if no first byte comes in that many seconds. Raises UsageError for
    more than any model accepts."""
    import select

    from sagent.lib.input import read_some

    if timeout is not None and not select.select([fd], [], [], timeout)[0]:
        err.write(f"sagent: no input on stdin within {timeout:.0f} s; continuing without it\n")
        return b""
    found, told = bytearray(), False
    while True:
        if not told and not select.select([fd], [], [], FIRST_BYTE_TIMEOUT_SECONDS)[0]:
            came = count(len(found), "byte") if found else "nothing"
            err.write(f"sagent: read {came} from stdin, which is still open; waiting for its end (Ctrl-C to stop)\n")
            err.flush()
            told = True
        if not (piece := read_some(fd)):
            break
        found += piece
        if len(found) > MAX_PIPED_BYTES:
            raise UsageError(
                f"More than {MAX_PIPED_BYTES >> 20} MB on stdin, more than a model reads: pipe a part, or name a file."
            )
    return bytes(found)


async def _prompts(prompt: Prompt | None, words: list[str]) -> AsyncIterator[Prompt]:
    """Yield the prompt, or those of `--input-format stream-json`, one a line; the command line's comes first."""
    if prompt is not None or words:
        yield prompt or Prompt(" ".join(words))
    if prompt is not None:
        return
    from sagent.lib.input import lines_of

    number, first = 0, b""
    async for line in lines_of(sys.stdin.fileno()):
        number += 1
        if line is None:
            raise UsageError(f"line {number} of the input is too long")
        first = first or line[:1]  # UTF-16 and UTF-32 differ in the position of line ends' NULs
        whole = line.rstrip(b"\0") if first in (b"\0", b"\xfe") else line.lstrip(b"\0")
        if whole.strip(b"\0\r\t "):
            yield Prompt(message_text(whole, number))


def message_text(line: bytes, number: int) -> str:
    """Return the text of an input line: a string, {"prompt": ...}, {"content": ...} or {"message": {"content": ...}}.
    Content is a string or a list of {"type": "text", "text": ...}. Raises UsageError naming the line."""
    try:
        value: object = json.loads(line)
    except ValueError as error:
        raise UsageError(f"line {number} of the input is not JSON: {error}") from error
    if isinstance(value, str):
        return value
    outer = as_object(value)
    inner = as_object(outer.get("message")) or outer
    content = inner.get("prompt", inner.get("content"))
    if isinstance(content, str) and content.strip():
        return content
    for part in map(as_object, as_array(content)):
        if part.get("type", "text") != "text":
            raise UsageError(
                f"line {number} of the input has a part of type {part['type']!r}; only text is accepted here"
            )
    text = "".join(as_str(as_object(part).get("text")) for part in as_array(content))
    if text.strip():
        return text
    raise UsageError(f'line {number} of the input has no text; expected {{"prompt": "..."}}')
