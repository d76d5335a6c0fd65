"""One attempt at a model call: what has arrived of it, what it is billed, and when to try again."""

from collections.abc import AsyncIterator, Callable
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TypeAlias, assert_never

from sagent.engine.limits import RunLimits
from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.model import Billed, Delta, Model, Reply, Request, TextPart, ThinkingPart
from sagent.usage import Charge, Usage

LEAST_WAIT, MOST_WAIT = 0.5, 30.0  # seconds
_FAR = 1e9  # seconds that a date can be ahead

Hear: TypeAlias = Callable[[TextPart | ThinkingPart], None]
"""Told of what a model says as it comes."""


@dataclass(slots=True)
class Attempt:
    """How far one attempt came."""

    pieces: list[str] = field(default_factory=list[str])
    thought: int = 0  # bytes of reasoning received
    charges: tuple[Charge, ...] = ()

    @property
    def text(self) -> str:
        """The visible text received."""
        return "".join(self.pieces)

    def forget(self) -> None:
        """What was received no longer counts: the call is made again."""
        self.pieces, self.thought, self.charges = [], 0, ()

    async def stream(self, model: Model, request: Request, hear: Hear) -> Reply:
        """Make the call. Raises ModelError."""
        deltas = model.stream(request)
        try:
            return await self._consume(model, deltas, hear)
        finally:
            if hasattr(deltas, "aclose"):
                await deltas.aclose()  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType] -- a generator

    async def _consume(self, model: Model, deltas: AsyncIterator[Delta | Reply], hear: Hear) -> Reply:
        async for delta in deltas:
            match delta:
                case TextPart(text):
                    self.pieces.append(text)
                    hear(delta)
                case ThinkingPart(text):
                    self.thought += len(text.encode("utf-8", "replace"))
                    hear(delta)
                case Billed(charges):
                    self.charges = charges
                case Reply():
                    return delta
                case _:
                    assert_never(delta)
        raise ModelError("cut", "the stream ended without a reply", provider=model.provider, model=model.id)

    def bill(self, model: Model, estimate: int, error: BaseException) -> tuple[Charge, ...]:
        """The bill of a call that did not end well; `estimate` is how many tokens its input likely had.

        A provider that answers with an error, or cannot be reached, bills nothing. One that had begun bills its input
        and what it wrote. What it did not tell is estimated, and then the charge says so: the ledger counts the whole
        reservation towards the cap, for the true bill may be anything below it.
        """
        received = len(self.text.encode("utf-8", "replace")) + self.thought
        refused = isinstance(error, ModelError) and error.kind not in ("cut", "stalled")
        if refused and not self.charges and not received:
            return ()
        told = sum((charge.usage for charge in self.charges), Usage())
        guess = Usage(
            input=0 if told.total_input else estimate,
            output=max(0, received // 4 - told.output),
        )
        charges = (*self.charges, Charge(model.id, guess)) if guess != Usage() else self.charges
        return tuple(replace(charge, estimated=True) for charge in charges)


def wait_before_retry(limits: RunLimits, error: ModelError, attempt: int) -> float | None:
    """Seconds to wait before the same request goes out again, or None when it should not.

    What the provider asks for is honoured up to `longest_wait`; otherwise exponential backoff with full jitter. One
    that asked for too short a wait twice is not believed again: all tries would be over at once.
    """
    if not error.retryable or attempt >= limits.max_retries:
        return None
    if error.retry_after is not None and error.retry_after > limits.longest_wait:
        until = datetime.now().astimezone() + timedelta(seconds=min(error.retry_after, _FAR))
        error.advise(f"It can be asked again at {until:%Y-%m-%d %H:%M %Z}; so long a wait is left to you.")
        return None
    if error.retry_after is not None and attempt < 2:
        return error.retry_after
    import random

    backoff = random.uniform(LEAST_WAIT / 2, min(MOST_WAIT, LEAST_WAIT * 2**attempt))  # noqa: S311 -- not a secret
    return max(backoff, error.retry_after or 0.0)
