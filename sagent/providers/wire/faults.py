"""Errors from the wire: a status, headers and a body of any of the usual shapes become a ModelError."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import field

from sagent.errors import RETRYABLE, ModelError, ModelErrorKind
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str

_MISFIRES = 2  # repetitions of a call after an invalid generation
_MISFIRED = "tool_use_failed|failed_generation|failed to call a function"  # Groq's; the text for gateways that quote it
_MAX_MESSAGE_CHARS = 600  # characters of a provider's message

_PAYMENT = (
    r"insufficient[_ ](quota|balance|credit|fund)|credit balance is too low|exceeded_current_quota|billing_error"
    r"|billing_not_active|billing hard limit|arrearage|payment_required|payment required|requires more credits"
    r"|usage_not_included"  # in a ChatGPT plan
    r"|quota exceeded for metric: [^,]*, limit: 0(?![.\d])"  # Google: the free tier lacks this model
)
_BAD_KEY = (
    r"api[_ ]key[_ ](not valid|invalid)|(incorrect|invalid)[_ ](x-)?api[_ -]key|authentication_error"
    r"|invalid_authentication"
)
_NO_MODEL = (
    r"model[_ ](is |was )?not[_ ](found|exist)|invalid_model|deploymentnotfound|not a valid model|resource_not_found"
    r"|model identifier is invalid"
    r"|\bmodel:? ['`\"]?[\w./:-]+['`\"]? ((was |is )?not found|does(n't| not) exist)"
)
_OVERLOADED = (
    r"overload|at capacity|over capacity|high demand|no available (capacity|channel)|server_busy|server is busy"
)
# Messages of request parsers about a part of a request, which vLLM, SGLang and others pass on as a 500.
_OF_PART = (
    r"cannot identify image|image file is truncated|broken (data stream|png file)|incorrect padding|unknown image"
    r"|(invalid|unsupported|unknown) (image|audio|base64|json[- ]?schema)"
    r"|(failed|unable|error|not able) (to|when|while|in)? ?(load|decod|open|pars|read|compil)(e|ing)?"
    r" (the |this |input |json )*(image|audio|pdf|grammar|schema)"
    r"|error opening <_io|parsing grammar|image: unknown format"
    r"|(image|audio|pdf)s?( data| file| url)? ((is|was|are|were) )?(not valid|invalid|too (large|small)|corrupt|exceed)"
)
_TYPES: Mapping[ModelErrorKind, str] = {  # the last ones of a line are Bedrock's, in the middle of a stream
    "overloaded": "overloaded_error engine_overloaded_error slow_down unavailable serviceunavailableexception",
    "rate_limit": "rate_limit_error rate_limit_exceeded rate_limit_reached_error too_many_requests resource_exhausted"
    " throttlingexception",
    "server": "api_error server_error internal_error internal_server_error timeout_error service_unavailable"
    " modelstreamerrorexception internalserverexception modeltimeoutexception",
    "auth": "authentication_error invalid_api_key unrecognizedclientexception expiredtokenexception"
    " invalidsignatureexception missingauthenticationtokenexception",
    "permission": "permission_error permission_denied",
    "not_found": "not_found_error",
    "invalid_request": "invalid_request_error invalid_argument validationexception",
}
_BY_TYPE: Mapping[str, ModelErrorKind] = {code: kind for kind, codes in _TYPES.items() for code in codes.split()}
# Codes for a faulty request, which a retry would not help. Mostly OpenAI's for a failed response.
_REFUSED = ("invalid_", "image_", "unsupported_", "empty_", "failed_to_download", "data_residency")
_STATUSES: Mapping[ModelErrorKind, tuple[int, ...]] = {
    "invalid_request": (400,),
    "auth": (401,),
    "payment": (402,),
    "permission": (403,),
    "not_found": (404, 405),
    "network": (407,),
    "context_overflow": (413,),
    "rate_limit": (429,),
    "server": (408, 409, 424, 425, 499),  # 424 from TGI and Bedrock: the model failed
    "overloaded": (529,),
}
_LOST = (408, 499, 502, 504, 520, 522, 524)
"""Statuses of gateways or timeouts: a server that may have received the request gave no answer."""
_BY_STATUS: Mapping[int, ModelErrorKind] = {code: kind for kind, codes in _STATUSES.items() for code in codes}
_REMEDIES: Mapping[ModelErrorKind, str] = {
    "payment": "Add credit there, or choose another model.",
    "permission": "The key may not do this: ask for access there, or choose another model.",
    "not_found": "Check the model's name; sagent models --check asks which there are.",
}
_RETRY_MEMBERS = ("retry_after", "resets_in_seconds", "resets_at")  # members of an error
_UNITS: Mapping[str, float] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNIT = r"(\d+(?:\.\d+)?) ?(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_SPAN = rf"{_UNIT}(?:(?:,? | and )?{_UNIT})*"
# MiniMax reports these in `base_resp`, under HTTP 200 (its error code page).
_MINIMAX: Mapping[int, int] = {
    1001: 504,
    1008: 402,
    1039: 413,
    **dict.fromkeys((1000, 1013), 500),
    **dict.fromkeys((1002, 1041, 2045, 2056), 429),
    **dict.fromkeys((1004, 2049), 401),
    **dict.fromkeys((1026, 1027, 2013), 400),
}


class ExchangeFailed(Exception):
    """The exchange failed. `kind` is that of the ModelError, `reason` a description; `final`, `sent` as there."""

    def __init__(self, kind: ModelErrorKind, reason: str, *, final: bool = False, sent: bool = False) -> None:
        super().__init__(reason)
        self.final, self.sent = final, sent
        self.kind: ModelErrorKind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Origin:
    """The model that was called, named in every error. `secret` never appears in one; `variable` is the key's source.
    `window` and `most_input`, the most tokens that the request can have, help to judge an answer."""

    provider: str
    model: str = ""
    secret: str = field(default="", repr=False)
    variable: str = ""
    window: int | None = None
    most_input: int = 0

    def error(
        self, kind: ModelErrorKind, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> ModelError:
        """Return a ModelError that names this origin and hides its key."""
        if len(self.secret) >= 6:
            message = message.replace(self.secret, "***")
        return ModelError(
            kind, message, provider=self.provider, model=self.model, status=status, retry_after=retry_after
        )

    def hopeless(self, message: str) -> ModelError:
        """Return the error for an unreadable answer that a repeated call would get again."""
        error = self.error("protocol", message)
        error.final = True
        return error

    def disrupted(self, failure: ExchangeFailed) -> ModelError:
        """Turn a failure below HTTP into a ModelError."""
        error = self.error(failure.kind, failure.reason)
        error.final, error.sent = failure.final, failure.sent
        return error


def from_status(origin: Origin, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for a response with an error status, or with an invalid answer."""
    text = _decoded(body, headers.get("content-type", "")).strip()
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if 300 <= status < 400:  # mostly with an HTML page
        where = headers.get("location", "somewhere else")
        return origin.error("not_found", f"redirected to {where}: set the base URL to where the API is.", status=status)
    if data is None and (text[:1] == "<" or "html" in headers.get("content-type", "")):
        kind: ModelErrorKind = _BY_STATUS.get(status, "invalid_request" if 400 <= status < 500 else "server")
        if status == 503 and re.search(_OVERLOADED, text.lower()):
            kind = "overloaded"
        it = f"Check {origin.variable or 'the key'}; if that is right, it" if kind == "auth" else "It"
        words = f"an HTML page instead of an answer: {_plain(text)}. {it} comes from a proxy or a wrong base URL."
        return _answered(origin, kind, words, status, headers, "")
    return _judge(origin, status, headers, data, text)


def from_event(origin: Origin, data: object) -> ModelError:
    """Return the error for an object inside a stream, or in a body with status 200. The answer had begun: only a
    refusal of the request itself means that nothing was billed."""
    error = _judge(origin, _status_inside(data), {}, data, "", misfire="generation")
    error.sent = error.kind in RETRYABLE
    return error


def error_in(data: Mapping[str, object]) -> bool:
    """Return True if a JSON answer or chunk is an error, whatever its status."""
    if data.get("error") or data.get("type") == "error" or data.get("object") == "error":
        return True
    code = as_object(data.get("base_resp")).get("status_code")
    return isinstance(code, int) and code != 0


def _judge(
    origin: Origin,
    status: int | None,
    headers: Mapping[str, str],
    data: object,
    text: str,
    misfire: ModelErrorKind = "server",
) -> ModelError:
    from sagent.providers.wire.overflow import max_output_in, sizes_in

    words = _words(data) or _shorten(text) or "no explanation was given"
    codes = [*_codes(data), *filter(None, [headers.get("x-amzn-errortype", "").partition(":")[0]])]
    headers = {**_headers_inside(data), **headers}
    told = "failed_generation" in as_object(_first(data).get("error"))
    misfired = told or re.search(_MISFIRED, " ".join((*codes, words)).lower()) is not None
    kind = misfire if misfired else _kind(origin, status, codes, words)
    place = as_str(as_object(_first(data).get("error")).get("param"))
    if kind == "invalid_request" and place not in words and re.search(r"\d", place):
        words = f"{words.rstrip('.')} (at {place})."
    if kind == "auth" and origin.variable:
        words = f"{words.rstrip('.')}. Check {origin.variable}."
    elif kind in _REMEDIES and (kind != "not_found" or "model" in words.lower()):
        words = f"{words.rstrip('.')}. {_REMEDIES[kind]}"
    error = _answered(origin, kind, words, status, headers, words)
    if misfired:  # Groq's: the model wrote an invalid call; it may do better
        error.sent, error.max_retries, error.retry_after = True, _MISFIRES, 0.0
    elif kind == "context_overflow":
        error.window, error.tokens = sizes_in(f"{words} {text[:4_000]}")
    elif kind in ("invalid_request", "payment"):
        error.max_output = max_output_in(f"{words} {place}")
    return error


def _answered(
    origin: Origin, kind: ModelErrorKind, words: str, status: int | None, headers: Mapping[str, str], wait: str
) -> ModelError:
    """Return the error; `wait` may be a delay. It is final if a second try would end the same way: Anthropic and OpenAI
    tell their own clients, and a proxy that wants a password will want it again."""
    error = origin.error(kind, words, status=status, retry_after=_retry_after(kind, headers, wait))
    error.final = headers.get("x-should-retry") == "false" or status == 407
    error.sent = status in _LOST or status == 200
    return error


def _kind(origin: Origin, status: int | None, codes: Sequence[str], words: str) -> ModelErrorKind:
    from sagent.providers.wire.overflow import is_of_part, is_overflow

    if is_overflow(status, codes, words, window=origin.window, most_input=origin.most_input):
        return "context_overflow"
    text = " ".join((*codes, words)).lower()
    if re.search(_PAYMENT, text):
        return "payment"
    if status in (400, 404, 422, None, 500):
        if re.search(_BAD_KEY, text):
            return "auth"
        if re.search(_NO_MODEL, text):
            return "not_found"
    named: ModelErrorKind | None = next((kind for kind in map(_named, codes) if kind is not None), None)
    if named == "auth" and status == 403:  # AWS, of a signature or a token
        return "auth"
    if named == "overloaded" or (status in (503, 429) and re.search(_OVERLOADED, " ".join(codes).lower())):
        return "overloaded"
    if status is None:
        return named or ("overloaded" if re.search(_OVERLOADED, text) else "server")
    if status == 503 and re.search(_OVERLOADED, text):
        return "overloaded"
    if status in _BY_STATUS:
        return "invalid_request" if status == 413 and is_of_part(text) else _BY_STATUS[status]
    if status < 400:
        return named or "server"
    of_request = status < 500 or (status == 500 and re.search(_OF_PART, text))
    return "invalid_request" if of_request else "server"


def _named(code: str) -> ModelErrorKind | None:
    """Return the kind of error that a code or type determines."""
    code = code.lower()
    if code in _BY_TYPE:
        return _BY_TYPE[code]
    return "invalid_request" if code.startswith(_REFUSED) or "policy" in code else None


def _first(data: object) -> Mapping[str, object]:
    """Return the object with the error; Google's compatible endpoint wraps it in an array."""
    return as_object(next(iter(as_array(data)), data))


def _codes(data: object) -> list[str]:
    """Return every short code in an error: types, codes, statuses; the most specific first."""
    whole = _first(data)
    error = as_object(whole.get("error"))
    found = [error.get(name) for name in ("code", "type", "status")]
    if not error or as_str(whole.get("type")) != "error":
        found += [whole.get(name) for name in ("code", "type", "status")]
    return [code for code in found if isinstance(code, str) and code]


def _status_inside(data: object) -> int | None:
    """Return an HTTP status inside a body: OpenRouter's `code`, Groq's `status_code`, TGI's `http_status_code`,
    MiniMax's `base_resp`."""
    whole = _first(data)
    error = as_object(whole.get("error"))
    named = (error.get(name) for name in ("status_code", "http_code", "http_status_code", "code"))
    for value in (*named, whole.get("code"), whole.get("status")):
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and 400 <= number < 600:
            return number
    code = as_object(whole.get("base_resp")).get("status_code")
    return _MINIMAX.get(code, 500) if isinstance(code, int) and code else None


def _headers_inside(data: object) -> dict[str, str]:
    """Return headers of the upstream provider, which OpenRouter repeats in the body, and delays from Google's and, for
    plan limits, ChatGPT's body."""
    error = as_object(_first(data).get("error"))
    metadata = as_object(error.get("metadata"))
    found = _retry_info([as_object(detail) for detail in as_array(error.get("details"))])
    places = (*(error.get(name) for name in _RETRY_MEMBERS), _first(data).get("retry_after"))
    wait = found if found is not None else next((place for place in places if place is not None), None)
    held = {} if wait is None else {"retry-after": str(wait)}
    return {**held, **{name.lower(): str(value) for name, value in as_object(metadata.get("headers")).items()}}


def _retry_info(details: Sequence[Mapping[str, object]]) -> float | None:
    """Return the seconds in Google's RetryInfo ("3.5s"). If a daily quota is used up, return the time until it is
    refilled, at midnight Pacific time (ai.google.dev, rate limits)."""
    wait = next(
        (span for detail in details if (span := _span(as_str(detail.get("retryDelay")) or "-")) is not None), None
    )
    quotas = [as_object(violation) for detail in details for violation in as_array(detail.get("violations"))]
    if any("perday" in as_str(quota.get("quotaId")).lower() for quota in quotas):
        return max(wait or 0.0, _until_pacific_midnight())
    return wait


def _until_pacific_midnight() -> float:
    """Return seconds; by winter time if this machine has no time zones."""
    from datetime import datetime, timedelta, timezone, tzinfo
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        zone: tzinfo = ZoneInfo("America/Los_Angeles")
    except ZoneInfoNotFoundError:
        zone = timezone(timedelta(hours=-8))
    now = datetime.now(zone)
    day = datetime(now.year, now.month, now.day, tzinfo=zone) + timedelta(days=1)
    return max(0.0, day.timestamp() - now.timestamp())


def _words(data: object) -> str:
    """Return the provider's message to a person, from any of the shapes in use."""
    whole = _first(data)
    error = whole.get("error")
    inner = as_object(error)
    said = as_str(inner.get("message")) or as_str(error) or as_str(inner.get("msg")) or as_str(inner.get("detail"))
    if told := _details(inner):
        said = f"{said.rstrip('.')} ({told})" if said else told
    if raw := as_str(as_object(inner.get("metadata")).get("raw")):
        said = f"{said}: {raw}" if said else raw
    for name in ("message", "msg", "detail", "error_description", "error_message", "errors", "title"):
        said = said or _said(whole.get(name))
    said = said or as_str(as_object(whole.get("base_resp")).get("status_msg"))
    if not said and inner:
        said = ", ".join(f"{key}: {value}" for key, value in inner.items() if isinstance(value, str | int))
    return _shorten(said)


def _details(error: Mapping[str, object]) -> str:
    """Return Google's details that add to its message: fields with their errors, and its own log."""
    details = [as_object(detail) for detail in as_array(error.get("details"))]
    fields = [as_object(each) for detail in details for each in as_array(detail.get("fieldViolations"))]
    told = [f"{as_str(each.get('field'))}: {as_str(each.get('description'))}" for each in fields]
    told += [as_str(detail.get("detail")) for detail in details]
    said = as_str(error.get("message"))
    return "; ".join(each for each in told if each and each not in said)


def _said(value: object, deep: int = 4) -> str:
    """Return a message given as a string, an object with one, or a list of these."""
    if isinstance(value, str) or not (value and deep):
        return as_str(value)
    if items := as_array(value):
        return "; ".join(filter(None, (_said(item, deep - 1) for item in items)))
    entry = as_object(value)
    text = as_str(entry.get("message")) or as_str(entry.get("msg")) or _said(entry.get("detail"), deep - 1)
    place = ".".join(str(step) for step in as_array(entry.get("loc")))
    return f"{place}: {text}" if place and text else text


def _decoded(body: bytes, kind: str) -> str:
    """Return a body as text, in the encoding of its content type if Python supports it."""
    named = re.search(r"(?i)charset=[\"']?([\w.:-]+)", kind)
    encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else named[1] if named else "utf-8"
    try:
        return body.decode(encoding, "replace").removeprefix("\ufeff")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}…"


def _plain(page: str) -> str:
    """Return the text of an HTML page: its title, and the beginning of its body."""
    page = page[:20_000]  # each unclosed tag searches the rest again
    hidden, title = r"(?is)<(script|style|head)\b(?!er).*?</\1>", r"(?is)<title[^>]*>(.*?)</title>"
    page = re.sub(hidden, lambda match: " ".join(re.findall(title, match.group())), page)
    text = " ".join(re.sub(r"(?s)<[^>]*>", " ", page).split())
    return (text[:200] + "…" if len(text) > 200 else text) or "an empty page"


def _retry_after(kind: ModelErrorKind, headers: Mapping[str, str], words: str) -> float | None:
    """Return the seconds that the provider asks to wait, from the first place that has them."""
    if kind not in ("rate_limit", "overloaded", "server"):
        return None
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):  # OpenAI, Azure
        if (wait := _number(headers.get(name, ""))) is not None:
            return wait / 1000
    asked = headers.get("retry-after", "")
    if asked:
        if (wait := _number(asked.partition(",")[0])) is not None:  # a header may be repeated
            return wait
        if wait := _until_date(asked) or _span(asked):
            return wait
    if kind == "rate_limit" and (waits := _resets(headers)):
        return max(waits)
    said = re.search(rf"(?i)(?:again|retry|wait|resets?)(?: (?:in|after|for|at least|about))* ({_SPAN})", words)
    return _span(said[1]) if said else None


def _resets(headers: Mapping[str, str]) -> list[float]:
    """Return the seconds until used-up limits are reset, by the headers."""
    resets = [name for name in headers if "ratelimit" in name and "reset" in name]
    spent = [name for name in resets if _number(headers.get(name.replace("reset", "remaining"), "")) == 0]
    if not spent and len(resets) == 1:
        spent = resets
    spans = [headers[name] for name in spent]
    spans += re.findall(r"\br=0 *; *t=(\d+)", headers.get("ratelimit", ""))  # the IETF's reader: Hugging Face
    return [wait for text in spans if (wait := _span(text)) is not None]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _until_date(text: str) -> float | None:
    """Seconds until an HTTP date."""
    from email.utils import parsedate_to_datetime

    try:
        return _ahead(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError):
        return None


def _span(text: str) -> float | None:
    """Seconds in "6m0s", "120ms", "1.5 seconds", "2 hours and 5 minutes", a plain number, an epoch time in s or ms, or
    an ISO date."""
    text = text.strip()
    if re.fullmatch(f"(?i){_SPAN}", text):
        parts = re.findall(_UNIT, text.lower())
        seconds = sum(
            float(number) * (0.001 if unit.startswith(("ms", "mil")) else _UNITS[unit[0]]) for number, unit in parts
        )
        return seconds if seconds < 1e9 else None
    try:
        value = float(text)
    except ValueError:
        from datetime import datetime

        try:
            return _ahead(datetime.fromisoformat(text).timestamp())
        except ValueError:
            return None
    if value > 1e11:
        value /= 1000
    return _ahead(value) if value > 1e8 else max(0.0, value)


def _ahead(moment: float) -> float | None:
    """Return the seconds until an epoch time; None if it is past, or decades ahead and so meaningless."""
    left = moment - time.time()
    return left if 0 < left < 1e9 else None
