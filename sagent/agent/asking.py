"""The ways to ask agents and composites: with a prompt, from synchronous code, and as a stream of events; and short
summaries of requests and answers for other agents of a tree."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias, TypeVar, cast

from sagent.engine.state import AgentState
from sagent.errors import BudgetExceeded, ModelError, UsageError
from sagent.events import Event, Result
from sagent.lib.json import as_array
from sagent.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, user

Prompt: TypeAlias = str | Mapping[str, object] | Message
T = TypeVar("T")
Form: TypeAlias = type[T] | Callable[..., Awaitable[T] | T]
MAX_BRIEF_PARTS, MAX_BRIEF_CHARS = 3, 1_500  # hand-offs that a new agent reads, and of each


def to_message(prompt: Prompt) -> Message:
    """Return a person's or program's prompt as a message. Raises UsageError for one that is empty or no prompt."""
    if isinstance(prompt, Message):
        if prompt.role != "user":
            raise UsageError("a prompt must be a message of the user; to set an earlier conversation, use restore()")
        check_message(prompt)
        if all(isinstance(part, Text) and not part.text.strip() for part in prompt.parts):
            raise UsageError("the prompt is empty: say what is to be done; continue_run() needs no prompt")
        return prompt
    if isinstance(prompt, str):
        return to_message(user(prompt))
    if not isinstance(prompt, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers are not all typed
        raise UsageError(
            f"a prompt is a string, a mapping with a prompt, or a Message, not {type(prompt).__name__}: of text and "
            'images user("What is it?", Image("image/png", data)) makes one (sagent.messages)'
        )
    text = prompt.get("prompt")
    if not isinstance(text, str) or len(prompt) != 1:
        raise UsageError(f'a prompt mapping is {{"prompt": "text"}}, not {dict(prompt)!r:.200}')
    return to_message(user(text))


def check_message(message: Message) -> None:
    """Raise UsageError for an invalid message or part, for programs without a type checker."""
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
        raise UsageError(
            f'{message!r:.60} is not a Message: make one with user("...") or assistant("...") of sagent.messages'
        )
    given = cast("object", message.parts)
    for part in as_array(given) or (() if given in ((), []) else (given,)):
        if not isinstance(part, Text | Thinking | Image | Document | ToolCall | ToolResult | Opaque):
            raise UsageError(
                f'{part!r:.60} is not a part of a message: user("text", *parts) makes a message of text and parts'
            )
        data = cast("object", part.data if isinstance(part, Image | Document) else b"")
        if not isinstance(data, bytes):
            raise UsageError(
                f"{type(part).__name__}: its data is {type(data).__name__}; give bytes, as path.read_bytes()"
            )


async def outcome(run: Awaitable[Result], last: Callable[[], Awaitable[Result]]) -> Result:
    """Return the result of an agent's run, also if it failed: `last` is the agent's `wait`. Raises UsageError and any
    error that kept the run from beginning, because the last result is then that of an earlier run."""
    try:
        return await run
    except (ModelError, BudgetExceeded):
        return await last()


def wait_for(run: Callable[[], Awaitable[T]], close: Callable[[], Awaitable[None]] | None = None) -> T:
    """Return a run's result for code that is not async; what ran is then closed."""

    async def once() -> T:
        try:
            return await run()
        finally:
            if close is not None:
                await close()

    with suppress(RuntimeError):  # not `except`: the run's errors would get this one as context
        asyncio.get_running_loop()
        raise UsageError("run_sync cannot be used inside an event loop: await run() instead")
    return asyncio.run(once())


async def events_of(
    run: Callable[[], Coroutine[None, None, Event | None]],
    listen: Callable[[Callable[[Event], None]], Callable[[], None]],
) -> AsyncGenerator[Event, None]:
    """Yield events of a run as they happen, and finally the one that it returns; ending this early cancels the run."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    forget = listen(events.put_nowait)
    task = asyncio.create_task(run())
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        if (last := task.result()) is not None:
            yield last
    finally:
        forget()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


class Handoff(NamedTuple):
    """A question to an agent, and its answer."""

    path: str
    asked: str
    answered: str


def brief(state: AgentState, handoffs: Sequence[Handoff]) -> str:
    """Return the last request of the person or another sender, and the last answers of other agents, shortened."""
    asked = last_asked(state)
    parts = [f"{state.path} was asked:\n{shorten(asked)}"] if asked else []
    parts += [
        f"{handoff.path} was asked:\n{shorten(handoff.asked)}\nand answered:\n{shorten(handoff.answered)}"
        for handoff in handoffs[-MAX_BRIEF_PARTS:]
    ]
    return "\n\n".join(parts)


def shorten(text: str) -> str:
    """Return a text, shortened to its beginning and end if it is long."""
    return text if len(text) <= MAX_BRIEF_CHARS else f"{text[: MAX_BRIEF_CHARS - 200]} … {text[-190:]}"


def last_asked(state: AgentState) -> str:
    """Return the last message that was sent to an agent."""
    history = reversed(state.context.history)
    return next((message.content for message in history if message.role == "user" and message.content), "")


def answer_of(path: str, result: Result) -> Message:
    """Return the message that the asker reads when an agent has ended a turn."""
    if result.error is None:
        head = f"{path} has answered:"
    else:
        head = f"{path} failed ({result.error.kind}): {result.error.message}"
        head += "\nIts output so far:" if result.content else "\nIt had not said anything yet."
    return user("", Text(f"{head}\n{result.content}".rstrip()), sender=path)
