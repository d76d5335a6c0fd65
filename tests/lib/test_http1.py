"""Heads of requests that two programs may read differently."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.lib.http1 import StrictConnection, problem_of

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
UNCLEAR = {
    "both": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
    "both the other way": b"PUT / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:chunked\r\nCONTENT-LENGTH:4\r\n\r\n",
    "folded coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
    "folded header": GET + b"X: a\r\n\tb\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF within": GET + b"X: a\nContent-Length: 4\r\n\r\n",
    "bare LF at the end": GET + b"\n",
    "bare CR": GET + b"X: a\rContent-Length: 4\r\n\r\n",
    "NUL": GET + b"X: a\0b\r\n\r\n",
    "escape": GET + b"X: a\x1b[31mb\r\n\r\n",
    "delete": GET + b"X: a\x7f\r\n\r\n",
    "bell in a name": GET + b"X\x07: a\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "three parts": b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
    "very many headers": GET + b"X: a\r\n" * 300 + b"\r\n",
    "coding in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "lengths that differ": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
    "a list of lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\n",
    "a signed length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\n",
    "a space before the colon": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 4\r\n\r\n",
    "another coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
}


def feed(connection: StrictConnection, data: bytes, step: int) -> None:
    for start in range(0, len(data), step):
        connection.receive_data(data[start : start + step])
        connection.next_event()


@pytest.mark.parametrize("name", UNCLEAR)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_unclear_head_is_refused(name: str, step: int) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        feed(StrictConnection(h11.SERVER), UNCLEAR[name], step)


@pytest.mark.parametrize(("name", "why"), [("both", "both Content-Length and T"), ("HTTP/2 preface", "not HTTP/1.1")])
def test_second_request_on_connection_is_checked(name: str, why: str) -> None:
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(GET + b"\r\n" + UNCLEAR[name])
    assert isinstance(connection.next_event(), h11.Request)
    assert isinstance(connection.next_event(), h11.EndOfMessage)
    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()
    with pytest.raises(h11.RemoteProtocolError, match=why):
        connection.next_event()


def test_body_may_hold_anything() -> None:
    body = b"Transfer-Encoding: chunked\n\nContent-Length: 4\r\n\r\n\0"
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    assert isinstance(connection.next_event(), h11.Request)
    data = connection.next_event()
    assert isinstance(data, h11.Data)
    assert bytes(data.data) == body


NAMES = st.from_regex(r"[A-Za-z][A-Za-z-]{0,20}", fullmatch=True).filter(
    lambda name: name.lower() not in ("content-length", "transfer-encoding", "host")
)
VALUES = st.text("abc XYZ:;,=/\"'", max_size=30).map(str.strip)


@given(
    st.lists(st.tuples(NAMES, VALUES), max_size=8),
    st.sampled_from(["", "Content-Length: 0", "Transfer-Encoding: chunked"]),
)
def test_plain_head_is_taken(headers: list[tuple[str, str]], framing: str) -> None:
    lines = [
        "POST /x HTTP/1.1",
        "Host: a",
        *(f"{name}: {value}" for name, value in headers),
        *([framing] if framing else []),
    ]
    head = "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"
    assert problem_of(head) == ""
    connection = StrictConnection(h11.SERVER)
    connection.receive_data(head)
    assert isinstance(connection.next_event(), h11.Request)
