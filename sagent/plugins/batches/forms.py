"""The batch APIs of Anthropic, OpenAI and Google: requests in, an id back, and in the end an answer for each."""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias
from urllib.parse import urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str, wire_bytes

TIER = "batch"
_MB = 1_000_000
_JSON = "application/json"

Ask: TypeAlias = Callable[..., Awaitable[bytes]]
"""GET a URL, or POST a body of some content type to it: `(url, body=None, content_type=...)`. Raises RefusedError."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one request, as if the provider had answered it alone. A `final` error needs no second try."""

    status: int
    body: bytes
    final: bool = False


def failure(status: int, kind: str, words: str, *, final: bool = False) -> Outcome:
    """Return an error in a shape that all families read."""
    return Outcome(status, wire_bytes({"type": "error", "error": {"type": kind, "message": words}}), final)


EXPIRED = failure(503, "overloaded_error", "the batch expired before this request was made; it was not billed")
CANCELLED = failure(409, "api_error", "the batch was cancelled before this request was made", final=True)
MISSING = failure(503, "overloaded_error", "the batch ended without an answer to this request")


class Form(ABC):
    """The batch API of a provider. `url` is the address of a single request; `max_bytes` is the limit of a batch."""

    max_bytes: ClassVar[int]
    dropped: ClassVar[Sequence[str]] = ("stream",)
    """Members of a body that a batch does not take."""

    def body(self, alone: Mapping[str, object]) -> dict[str, object]:
        """Return a request's body as it goes into a batch."""
        return {name: value for name, value in alone.items() if name not in self.dropped}

    @abstractmethod
    async def send(self, ask: Ask, url: str, bodies: Mapping[str, Mapping[str, object]]) -> str:
        """Send a batch of bodies, by names for them; its id."""

    @abstractmethod
    async def fetch(self, ask: Ask, url: str, batch: str) -> "Outcomes | None":
        """Return the outcomes of a batch, by those names; None while it has not ended."""


class Outcomes(dict[str, Outcome]):
    """Outcomes by the names of requests, and the outcome of all others."""

    def __init__(self, others: Outcome = MISSING) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, name: str) -> Outcome:
        return self._others


class _Anthropic(Form):
    """platform.claude.com, batch processing."""

    max_bytes = 200 * _MB

    async def send(self, ask: Ask, url: str, bodies: Mapping[str, Mapping[str, object]]) -> str:
        requests = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        return as_str(_object(await ask(f"{_path(url)}/batches", wire_bytes({"requests": requests}))).get("id"))

    async def fetch(self, ask: Ask, url: str, batch: str) -> Outcomes | None:
        found = _object(await ask(f"{_path(url)}/batches/{batch}"))
        if found.get("processing_status") != "ended":
            return None
        outcomes, results = Outcomes(), await ask(f"{_path(url)}/batches/{batch}/results")
        outcomes.update((name, self._outcome(line)) for name, line in _lines(results))
        return outcomes

    def _outcome(self, line: Mapping[str, object]) -> Outcome:
        result = as_object(line.get("result"))
        match result.get("type"):
            case "succeeded":
                message = as_object(result.get("message"))
                usage = {**as_object(message.get("usage")), "service_tier": TIER}
                return Outcome(200, wire_bytes({**message, "usage": usage}))
            case "errored":
                error = as_object(result.get("error"))
                kind = as_str(as_object(error.get("error")).get("type"))
                return Outcome(_STATUSES.get(kind, 500), wire_bytes(error))
            case "expired":
                return EXPIRED
            case "canceled":
                return CANCELLED
            case _:
                return MISSING


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


class _OpenAI(Form):
    """platform.openai.com, Batch API: a file of lines, all for one model and endpoint."""

    max_bytes = 150 * _MB
    dropped = ("stream", "stream_options", "service_tier")

    async def send(self, ask: Ask, url: str, bodies: Mapping[str, Mapping[str, object]]) -> str:
        root, endpoint = self._place(url)
        lines = [
            wire_bytes({"custom_id": name, "method": "POST", "url": endpoint, "body": body})
            for name, body in bodies.items()
        ]
        form = _multipart({"purpose": "batch"}, "batch.jsonl", b"\n".join(lines) + b"\n")
        file = as_str(_object(await ask(f"{root}/files", *form)).get("id"))
        order = {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h"}
        return as_str(_object(await ask(f"{root}/batches", wire_bytes(order))).get("id"))

    async def fetch(self, ask: Ask, url: str, batch: str) -> Outcomes | None:
        root, _ = self._place(url)
        found = _object(await ask(f"{root}/batches/{batch}"))
        status = found.get("status")
        if status == "failed":
            return _refused(_first_error(found))
        if status not in ("completed", "expired", "cancelled"):
            return None
        files = [as_str(found.get(name)) for name in ("output_file_id", "error_file_id")]
        known = Outcomes({"expired": EXPIRED, "cancelled": CANCELLED}.get(as_str(status), MISSING))
        for file in filter(None, files):
            lines = _lines(await ask(f"{root}/files/{file}/content"))
            known.update((name, self._outcome(line)) for name, line in lines)
        return known

    def _outcome(self, line: Mapping[str, object]) -> Outcome:
        error, response = as_object(line.get("error")), as_object(line.get("response"))
        match error.get("code"):
            case "batch_expired":
                return EXPIRED
            case "batch_cancelled":
                return CANCELLED
            case _ if not response:
                return failure(500, as_str(error.get("code")), as_str(error.get("message")) or "no answer was made")
            case _:
                body, status = as_object(response.get("body")), as_int(response.get("status_code")) or 500
                return Outcome(status, wire_bytes({**body, "service_tier": TIER} if status == 200 else body))

    def _place(self, url: str) -> tuple[str, str]:
        """Return the API's address, and a request's endpoint as batches name it."""
        end = "/responses" if _path(url).endswith("/responses") else "/chat/completions"
        return _path(url).removesuffix(end), f"/v1{end}"


class _Google(Form):
    """ai.google.dev, Batch API: requests inline, all for one model."""

    max_bytes = 18 * _MB

    async def send(self, ask: Ask, url: str, bodies: Mapping[str, Mapping[str, object]]) -> str:
        requests = [{"request": body, "metadata": {"key": name}} for name, body in bodies.items()]
        batch = {"displayName": "sagent", "inputConfig": {"requests": {"requests": requests}}}
        there = _path(url).rpartition(":")[0]
        return as_str(_object(await ask(f"{there}:batchGenerateContent", wire_bytes({"batch": batch}))).get("name"))

    async def fetch(self, ask: Ask, url: str, batch: str) -> Outcomes | None:
        root = _path(url).rpartition("/models/")[0]
        found = _object(await ask(f"{root}/{batch}"))
        state = as_str(as_object(found.get("metadata")).get("state")).rpartition("_")[2]
        if state not in ("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"):
            return None
        if state == "FAILED":
            return _refused(as_str(as_object(found.get("error")).get("message")))
        output = as_object(as_object(found.get("metadata")).get("output")) or as_object(found.get("response"))
        rows = map(as_object, as_array(as_object(output.get("inlinedResponses")).get("inlinedResponses")))
        known = Outcomes({"EXPIRED": EXPIRED, "CANCELLED": CANCELLED}.get(state, MISSING))
        known.update((as_str(as_object(row.get("metadata")).get("key")), self._outcome(row)) for row in rows)
        return known

    def _outcome(self, row: Mapping[str, object]) -> Outcome:
        if error := as_object(row.get("error")):
            return Outcome(_CODES.get(as_int(error.get("code")), 500), wire_bytes({"error": error}))
        response = as_object(row.get("response"))
        usage = {**as_object(response.get("usageMetadata")), "serviceTier": TIER}
        return Outcome(200, wire_bytes({**response, "usageMetadata": usage}))


_CODES = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 14: 503, 16: 401}  # of gRPC, as HTTP has them


def _refused(words: str) -> Outcomes:
    """Return the outcomes of a batch that the provider refused. It has cost nothing."""
    return Outcomes(failure(400, "invalid_request_error", f"the batch was refused: {words or 'no reason was given'}"))


def form_of(url: str) -> Form | None:
    """Return the batch API for a request to this URL; None if such a request cannot be batched."""
    path = urlsplit(url).path
    return next((form for ends, form in _FORMS if path.endswith(ends)), None)


_FORMS: Sequence[tuple[tuple[str, ...], Form]] = (
    (("/v1/messages",), _Anthropic()),
    (("/responses", "/chat/completions"), _OpenAI()),
    ((":streamGenerateContent",), _Google()),
)


def _path(url: str) -> str:
    return url.partition("?")[0]


def _object(data: bytes) -> Mapping[str, object]:
    try:
        return as_object(json.loads(data))
    except RecursionError as error:
        raise ValueError("an answer is nested too deeply") from error


def _lines(data: bytes) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the lines of a file, by the names of their requests."""
    for line in filter(bytes.strip, data.split(b"\n")):
        fields = _object(line)
        yield as_str(fields.get("custom_id")), fields


def _first_error(batch: Mapping[str, object]) -> str:
    errors = map(as_object, as_array(as_object(batch.get("errors")).get("data")))
    return next((as_str(error.get("message")) for error in errors), "")


def _multipart(fields: Mapping[str, str], name: str, data: bytes) -> tuple[bytes, str]:
    """Return a form with a file (RFC 7578), and its content type."""
    from secrets import token_hex

    mark = token_hex(16)
    parts = [f'form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    parts.append(
        f'form-data; name="file"; filename="{name}"\r\ncontent-type: application/jsonl\r\n\r\n'.encode() + data
    )
    body = b"".join(b"--%b\r\ncontent-disposition: %b\r\n" % (mark.encode(), part) for part in parts)
    return body + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"
