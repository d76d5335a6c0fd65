"""Errors as application/problem+json (RFC 9457): `detail` is a sentence that says what to do."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import Response

from sagent.errors import (
    BudgetExceeded,
    ModelError,
    SagentError,
    SessionBusy,
    SessionCorrupt,
    SessionNotFound,
    UsageError,
)
from sagent.lib.json import wire_bytes
from sagent.lib.text import cut
from sagent.plugins.hosting.live import failure_of

MAX_DETAIL_CHARS = 4_000  # it quotes the request


class BodyTooLarge(UsageError):
    """A request has sent more than is read."""


class BodyTooSlow(UsageError):
    """A request did not arrive in time."""


_STATUS: tuple[tuple[type[SagentError], int], ...] = (
    (SessionNotFound, 404),
    (SessionBusy, 409),
    (SessionCorrupt, 409),
    (BudgetExceeded, 402),
    (ModelError, 502),
    (BodyTooLarge, 413),
    (BodyTooSlow, 408),
    (UsageError, 400),
)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, kind: str = "") -> Response:
    """Return an answer that says what went wrong; `kind` is the error's stable machine name."""
    said = cut(detail, MAX_DETAIL_CHARS)
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": said}
    data = wire_bytes({**body, "kind": kind} if kind else body)
    return Response(data, status, headers, "application/problem+json")


def problem_of(error: SagentError | OSError) -> Response:
    """Return the answer for an error."""
    if isinstance(error, OSError):
        return problem(500, failure_of(error))
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    headers = {"Connection": "close"} if status == 408 else {}  # the rest is not waited for
    return problem(status, str(error), headers, error.kind)
