"""Whatever shape an error has, its kind, its words and the wait asked for come out, and the key stays in."""

import json
import time
from datetime import UTC, datetime
from email.utils import formatdate

import pytest

from sagent.errors import ModelError
from sagent.providers.wire.faults import Origin, error_in, from_event, from_status

ORIGIN = Origin("acme", "big-1", "sk-very-secret-key", "ACME_API_KEY")


def fault(status: int, body: object, headers: dict[str, str] | None = None) -> ModelError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return from_status(ORIGIN, status, headers or {}, data)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"type": "invalid_request_error", "message": "bad"}}, "invalid_request"),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, "auth"),
        (400, [{"error": {"code": 400, "message": "API_KEY_INVALID: api key not valid"}}], "auth"),
        (400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: sk-x"}, "auth"),
        (400, {"error": {"message": "Model Not Exist"}}, "not_found"),
        (400, {"code": "invalid-argument", "error": "Model not found: grok-9"}, "not_found"),
        (400, {"error": {"message": "The model `x-1` does not exist or you do not have access to it."}}, "not_found"),
        (400, {"error": {"message": "The model called a tool that was not found in the request"}}, "invalid_request"),
        (400, {"error": {"type": "too_many_prompt_tokens", "message": "Too long.", "code": 400}}, "context_overflow"),
        (400, {"error": {"code": "tool_use_failed", "message": "Failed to call a function."}}, "server"),
        (400, {"error": {"code": "json_validate_failed", "message": "No.", "failed_generation": "{"}}, "server"),
        (401, {"detail": "Unauthorized"}, "auth"),
        (402, {"error": {"message": "Insufficient credits"}}, "payment"),
        (403, {"error": {"message": "no"}}, "permission"),
        (404, {"error": "model 'x' not found"}, "not_found"),
        (405, b"Method Not Allowed", "not_found"),
        (413, b"<html><head><title>413 Request Entity Too Large</title></head></html>", "context_overflow"),
        (422, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}, "invalid_request"),
        (429, {"error": {"message": "slow down"}}, "rate_limit"),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "payment"),
        (429, {"error": {"type": "engine_overloaded_error", "message": "The engine is overloaded"}}, "overloaded"),
        (503, {"error": {"code": "slow_down", "message": "Please reduce your request rate."}}, "overloaded"),
        (429, {"error": {"code": "slow_down", "message": "Please reduce your request rate."}}, "overloaded"),
        (400, {"error": {"code": "invalid_prompt", "message": "flagged as potentially violating"}}, "invalid_request"),
        (
            429,
            {"error": {"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}},
            "rate_limit",
        ),
        (500, {"error": {"message": "oops"}}, "server"),
        (502, b"<html><body>Bad Gateway</body></html>", "server"),
        (503, {"error": {"message": "Service Unavailable"}}, "server"),
        (503, {"error": {"message": "The model is overloaded. Please try again later."}}, "overloaded"),
        (504, b"", "server"),
        (520, b"error code: 520", "server"),
        (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (307, b"", "not_found"),
        (301, b"<html><head><title>301 Moved Permanently</title></head></html>", "not_found"),
        (424, {"error": "Request failed during generation", "error_type": "generation"}, "server"),
        (418, b"teapot", "invalid_request"),
    ],
)
def test_error_kind_by_status_and_body(status: int, body: object, kind: str) -> None:
    error = fault(status, body)
    assert (error.kind, error.status, error.provider, error.model) == (kind, status, "acme", "big-1")
    assert error.args[0]
    assert str(status) in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "Your request exceeded model token limit: 262144",
        "invalid params, context window exceeds limit (2013)",
        "Range of input length should be [1, 129024]",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 140000 exceeds the limit of 128000",
        "the request exceeds the available context size. try increasing the context size",
        "Prompt contains 65673 tokens, too large for model with 32768 maximum context length",
        "tokens to keep from the initial prompt is greater than the context length",
        "prompt too long; exceeded max context length by 4 tokens",
        "Input tokens exceed the configured limit of 272000 tokens.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 9",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
        "max_tokens must be at least 1, got -123.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "too many tokens: size limit exceeded by 4000 tokens. Try using shorter or fewer inputs.",
        "Total message token length exceed model limit",
        "Malformed input request: expected maxLength: 200000, actual: 300000, please reformat your input.",
        "Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)",
        "input is larger than the max context size. skipped",
        "Request body too large for gpt-4o-mini model. Max size: 8000 tokens.",
        "Request payload size exceeds the limit: 20971520 bytes.",
        "Invalid 'messages[5].content': string too long. Expected a string with maximum length 10485760.",
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500])
def test_overflow_is_known_by_its_words(words: str, status: int) -> None:
    assert fault(status, {"error": {"message": words}}).kind == "context_overflow"


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
        "temperature: range: 0..1",
        "messages.3: tool_use ids were found without tool_result blocks",
        "Unknown parameter: 'context'",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
        "Invalid 'user': string too long. Expected a string with maximum length 64.",
        "Too many tokens, please wait before trying again.",
        "`max_tokens` must be less than or equal to `8192`, which is less than the `context_window` for this model",
    ],
)
def test_other_refusals_are_no_overflow(words: str) -> None:
    error = fault(
        400, {"error": {"message": words, "code": "string_above_max_length" if "too long" in words else None}}
    )
    assert error.kind == "invalid_request"


@pytest.mark.parametrize("place", ["message", "param"])
def test_output_limit_refusal_gives_limit(place: str) -> None:
    words = "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas"
    error = fault(400, {"error": {"message": "Param Incorrect", place: words}})
    assert (error.kind, error.max_output) == ("invalid_request", 16_384)


def test_token_rate_limit_is_no_overflow() -> None:
    told = "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000."
    assert fault(429, {"error": {"code": "rate_limit_exceeded", "message": told}}).kind == "rate_limit"
    never = "Request too large for gpt-4 on tokens per min (TPM): Limit 10, Requested 20. The input must be reduced."
    assert fault(429, {"error": {"type": "tokens", "message": never}}).kind == "context_overflow"
    groq = "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce it."
    for status in (413, 429):
        told = {"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": groq}}
        assert fault(status, told).kind == "context_overflow"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "a"}}, "a"),
        ({"error": "b"}, "b"),
        ({"message": "c", "object": "error"}, "c"),
        ({"detail": "d"}, "d"),
        ({"detail": [{"loc": ["body", 0], "msg": "e"}, {"msg": "f"}]}, "body.0: e; f"),
        ({"errors": [{"message": "g"}]}, "g"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "h"}}}, "Provider returned error: h"),
        ({"base_resp": {"status_code": 1004, "status_msg": "i"}}, "i"),
        ({"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "j"}]}}, "body: j"),
        ({"message": json.loads("[" * 400 + "]" * 400), "detail": "k"}, "k"),
        (b'\xef\xbb\xbf{"error": {"message": "l"}}', "l"),
        (b"plain words", "plain words"),
        (b"", "no explanation was given"),
        ({"error": {"message": "x" * 5000}}, "x" * 600 + "…"),
    ],
)
def test_error_message_from_body(body: object, words: str) -> None:
    assert fault(400, body).args[0] == words


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        ("text/html; charset=gb2312", "gb2312"),
        ('application/json; charset="ISO-8859-1"', "latin-1"),
        ("application/json; charset=utf-8", "utf-8-sig"),
        ("application/json; charset=nonsense", "utf-8"),
        ("application/json; charset=idna", "utf-8"),
        ("application/json", "utf-16"),
    ],
)
def test_error_body_in_other_encoding(kind: str, encoding: str) -> None:
    words = "请稍后再试" if encoding == "gb2312" else "böse"
    body = f"<html>{words}</html>" if encoding == "gb2312" else json.dumps({"error": words}, ensure_ascii=False)
    assert words in fault(500, body.encode(encoding), {"content-type": kind}).args[0]


def test_html_error_page_is_summarised() -> None:
    page = (
        b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>p{}</style></head><body><h1>nginx</h1></body>"
    )
    said = fault(502, page, {"content-type": "text/html"}).args[0]
    assert "502 Bad Gateway" in said
    assert "nginx" in said
    assert "<" not in said
    assert "p{}" not in said


def test_key_is_hidden_and_variable_named() -> None:
    error = fault(401, {"error": {"message": "Incorrect API key: sk-very-secret-key"}})
    assert "sk-very" not in str(error)
    assert "***" in str(error)
    assert "ACME_API_KEY" in str(error)
    assert "sk-very" not in repr(ORIGIN)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ms-retry-after-ms": "800"}, 0.8),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 360.0),
        ({"x-ratelimit-reset-tokens": "120ms", "x-ratelimit-remaining-tokens": "0"}, 0.12),
        (
            {
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "1h2m",
                "x-ratelimit-remaining-requests": "4",
            },
            2.0,
        ),
        ({"retry-after": "7, 7"}, 7.0),
        ({"retry-after": "30s"}, 30.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "99999999999999"}, None),
        ({"retry-after": "-3", "retry-after-ms": "nan", "x-ratelimit-reset": "12"}, 12.0),
        ({"x-ratelimit-reset": "999999999999h"}, None),
        ({"ratelimit": '"burst";r=4;t=9, "sustained";r=0;t=42'}, 42.0),
        ({"ratelimit": '"api";r=3;t=42'}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_wait_is_read_from_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert fault(429, {"error": {"message": "no"}}, headers).retry_after == seconds


def test_wait_as_a_date() -> None:
    soon = fault(429, b"", {"retry-after": formatdate(time.time() + 30, usegmt=True)}).retry_after
    assert soon is not None
    assert 25 < soon <= 30
    epoch = fault(429, b"", {"x-ratelimit-reset": str(int((time.time() + 30) * 1000))}).retry_after
    assert epoch is not None
    assert 25 < epoch <= 30
    for text in (str(int(time.time()) + 30), datetime.fromtimestamp(time.time() + 30, UTC).isoformat()):
        misplaced = fault(429, b"", {"retry-after": text}).retry_after
        assert misplaced is not None and 25 < misplaced <= 30
    assert fault(429, b"", {"retry-after": formatdate(time.time() - 30, usegmt=True)}).retry_after is None


def test_wait_in_words_and_repeated_header() -> None:
    assert fault(429, {"error": {"message": "Please try again in 1.25s. Visit"}}).retry_after == 1.25
    assert fault(429, {"error": {"message": "Please try again in 6m12s."}}).retry_after == 372.0
    assert fault(429, {"error": {"message": "slow"}, "retry_after": 12}).retry_after == 12.0
    assert fault(429, {"error": {"message": "Please try again in 2 minutes."}}).retry_after == 120.0
    assert fault(429, {"error": {"message": "Your quota will reset after 2h30m10s."}}).retry_after == 9_010.0
    waits = "Rate limit of 50 per 86400s exceeded. Please wait 38041 seconds before retrying."
    assert fault(429, {"error": {"message": waits}}).retry_after == 38_041.0
    told = {"error": {"message": "x", "code": 429, "metadata": {"headers": {"Retry-After": "3"}}}}
    assert from_event(ORIGIN, told).retry_after == 3.0


@pytest.mark.parametrize(("status", "seconds"), [(429, 4_000.0), (500, None), (503, None)])
def test_only_exceeded_limit_is_waited_for(status: int, seconds: float | None) -> None:
    headers = {"x-ratelimit-reset": "4000", "x-ratelimit-remaining": "99"}
    assert fault(status, {"error": {"message": "no"}}, headers).retry_after == seconds


def test_no_wait_for_incurable_errors() -> None:
    assert fault(400, {"error": {"message": "no"}}, {"retry-after": "5"}).retry_after is None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, "rate_limit"),
        ({"type": "error", "error": {"type": "api_error", "message": "x"}}, "server"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, "invalid_request"),
        ({"type": "error", "error": {"type": "something_new", "message": "x"}}, "server"),
        ({"type": "error", "code": "invalid_prompt", "message": "x"}, "invalid_request"),
        ({"type": "error", "error": {"type": "invalid_request_error", "code": "invalid_prompt"}}, "invalid_request"),
        ({"error": {"code": "image_content_policy_violation", "message": "x"}}, "invalid_request"),
        ({"error": {"code": "empty_image_file", "message": "x"}}, "invalid_request"),
        ({"error": {"code": "content_policy_violation", "message": "x"}}, "invalid_request"),
        ({"error": {"code": "invalid_api_key", "message": "x"}}, "auth"),
        ({"error": {"code": "slow_down", "message": "x"}}, "overloaded"),
        ({"error": {"code": "vector_store_timeout", "message": "x"}}, "server"),
        ({"error": {"code": 502, "message": "Provider disconnected"}}, "server"),
        ({"error": {"code": 429, "message": "busy"}}, "rate_limit"),
        ({"error": {"code": "server_error", "message": "x"}}, "server"),
        ({"error": "prompt is too long"}, "context_overflow"),
        ({"error": {"message": "input validation", "http_status_code": 422}}, "invalid_request"),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "payment"),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limit"),
        ({"base_resp": {"status_code": 2056, "status_msg": "usage limit exceeded"}}, "rate_limit"),
        ({"base_resp": {"status_code": 1026, "status_msg": "new_sensitive"}}, "invalid_request"),
    ],
)
def test_errors_in_a_stream(data: dict[str, object], kind: str) -> None:
    assert error_in(data)
    assert from_event(ORIGIN, data).kind == kind


@pytest.mark.parametrize("data", [{"error": None}, {"base_resp": {"status_code": 0}}, {"choices": []}, {"error": {}}])
def test_harmless_data_is_no_error(data: dict[str, object]) -> None:
    assert not error_in(data)


@pytest.mark.parametrize(
    ("status", "words", "next_step"),
    [
        (402, "Insufficient credits", "Add credit there"),
        (403, "no", "ask for access there"),
        (404, "model 'x' not found", "Check the model's name"),
        (401, "no", "Check ACME_API_KEY"),
    ],
)
def test_curable_error_says_how(status: int, words: str, next_step: str) -> None:
    said = str(fault(status, {"error": {"message": words}}).args[0])
    assert said.startswith(f"{words}. ") and next_step in said


def test_provider_can_forbid_retries() -> None:
    slow_down = {"error": {"message": "slow down"}}
    said = [
        fault(429, slow_down, {"x-should-retry": word} if word else None).retryable for word in ("false", "true", "")
    ]
    assert said == [False, True, True]


@pytest.mark.parametrize("body", [b"", b"<html><title>Proxy Authentication Required</title></html>"])
def test_proxy_password_is_not_retried(body: bytes) -> None:
    error = fault(407, body)
    assert (error.kind, error.retryable) == ("network", False)


def test_page_at_refused_key_names_key_first() -> None:
    page = b"<html><title>401 Authorization Required</title></html>"
    said = str(fault(401, page))
    assert 0 < said.index("Check ACME_API_KEY") < said.index("proxy")
    assert "ACME_API_KEY" not in str(fault(502, page))


def test_place_named_by_param_is_said() -> None:
    body = b'{"error": {"message": "Invalid image.", "type": "invalid_request_error", "param": "input[3].content[1]"}}'
    assert "Invalid image (at input[3].content[1])." in str(from_status(Origin("p", "m"), 400, {}, body))


def test_details_of_google_are_told() -> None:
    details = [
        {"fieldViolations": [{"field": "contents[0].parts[1]", "description": "Invalid value"}]},
        {"detail": "[ORIGINAL ERROR] Unable to process input image."},
    ]
    body = [{"error": {"code": 400, "message": "Request contains an invalid argument.", "details": details}}]
    error = fault(400, body)
    assert error.kind == "invalid_request"
    assert "contents[0].parts[1]: Invalid value; [ORIGINAL ERROR] Unable to process input image." in str(error)
