"""Heads of requests that two programs may read differently."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.plugins.hosting.http1 import StrictConnection, problem_of
from tests.strict_http import GET, UNCLEAR


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
