"""The errors that this package raises. A message says what happened, which thing is concerned, and what to do next."""

from typing import Literal, TypeAlias

ModelErrorKind: TypeAlias = Literal[
    "auth",  # 401: key missing or wrong
    "permission",  # 403: key may not do this
    "payment",  # 402, or a quota that only money cures
    "not_found",  # 404: no such model or path
    "invalid_request",  # 400, 422: the provider refuses what we sent
    "context_overflow",  # the input does not fit the model's window
    "rate_limit",  # 429
    "overloaded",  # 529, 503 with that meaning
    "server",  # other 5xx, HTML error pages, proxies
    "network",  # no connection, DNS, TLS, reset
    "stalled",  # connected, then silent too long
    "cut",  # the stream ended without its closing event
    "generation",  # in a stream: the provider could not parse the model's call or structured answer
    "protocol",  # an answer that violates the wire format
    "empty",  # a reply that ended without saying or doing anything
]

RETRYABLE: frozenset[ModelErrorKind] = frozenset(
    {"rate_limit", "overloaded", "server", "network", "stalled", "cut", "protocol", "empty", "generation"}
)


class SagentError(Exception):
    """The base of every error that this package raises on purpose; `kind` is its stable machine name."""

    kind: str = "error"


class UsageError(SagentError):
    """The caller requested something that does not exist or contradicts itself. Exit code 2."""

    kind = "usage"


class ModelError(SagentError):
    """A provider, or the connection to it, failed. The only exception that a Model raises.

    `retry_after` is in seconds, as the provider requested, or None. For a context overflow, `window` and `tokens` are
    the sizes that the provider named: of the model's window, and of the input. `max_output` is the largest output that
    can be requested, if a request was refused for a larger one. A `final` error is not retried, others at most
    `max_retries` times. If `sent`, the provider may have received the request and may bill it.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        provider: str,
        model: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        window: int | None = None,
        tokens: int | None = None,
        max_output: int | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind  # pyright: ignore[reportIncompatibleVariableOverride] -- narrower, never set
        self.provider, self.model, self.status = provider, model, status
        self.retry_after, self.final, self.max_retries = retry_after, final, 1 if kind == "empty" else 1_000
        self.sent = kind in ("cut", "stalled", "protocol")
        self.window, self.tokens, self.max_output = window, tokens, max_output

    def advise(self, words: str) -> None:
        """Add a sentence about what the caller can do next, or should know."""
        self.args = (f"{str(self.args[0]).rstrip('.')}. {words}",)

    @property
    def retryable(self) -> bool:
        """True if sending the same bytes again may succeed."""
        return self.kind in RETRYABLE and not self.final

    def __str__(self) -> str:
        where = self.provider + (f"/{self.model}" if self.model else "")
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{where}{status}: {self.args[0]}"


class BudgetExceeded(SagentError):
    """The next call could pass the budget, so it was not made. Exit code 3."""

    kind = "budget"


class ToolError(SagentError):
    """A tool could not do what was asked; the message is the error result the model reads."""

    kind = "tool"


class SessionBusy(SagentError):
    """The session is held by another process; the message names it."""

    kind = "session_busy"


class SessionCorrupt(SagentError):
    """A log does not verify; the message names file and line and how to keep the good prefix."""

    kind = "session_corrupt"


class SessionNotFound(UsageError):
    """There is no session at this path."""

    kind = "session_not_found"


class ConfigError(UsageError):
    """A setting is wrong; the message names where it came from and what is accepted."""

    kind = "config"
