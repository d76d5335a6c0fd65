"""HTTP/1.1 for servers: h11 parses it, and ambiguous requests are refused before.

If a proxy in front finds another end of a request, one client can insert requests into another's connection (request
smuggling, RFC 9112, 11.2).
"""

import re

import h11

_END = re.compile(rb"\n\r?\n")
_MAX_LINES = 256  # of a head; more is an attack
_FIRST = re.compile(rb"(?:\r\n)*[!-~]+ [!-~]+ HTTP/1\.[01]\r\n")
_LINES = re.compile(rb"(?<!\r)\n|\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FOLDED = re.compile(rb"\r\n[ \t]")
_LENGTH, _CODING = re.compile(rb"(?im)^content-length\s*:"), re.compile(rb"(?im)^transfer-encoding\s*:")


class StrictConnection(h11.Connection):
    """A server's side of a connection. A head that is not plain raises RemoteProtocolError; `problem` says why."""

    problem = ""

    def next_event(self) -> "type[h11.NEED_DATA | h11.PAUSED] | h11.Event":
        if self.their_state is h11.IDLE:
            data = self.trailing_data[0]
            if (end := _END.search(data)) is not None and (problem := problem_of(data[: end.end()])):
                self.problem = problem
                raise h11.RemoteProtocolError(problem)
        return super().next_event()


def problem_of(head: bytes) -> str:
    """Return a problem in the head of a request, as a sentence without its end; "" if there is none."""
    if _LINES.search(head):
        return "a line of its head does not end with CR and LF, or it has a control character"
    if _FIRST.match(head) is None:
        return "its first line is not HTTP/1.1"
    if head.count(b"\n") > _MAX_LINES:
        return f"its head has more than {_MAX_LINES} lines"
    if _FOLDED.search(head):
        return "a header continues on the next line"
    if _CODING.search(head):
        if _LENGTH.search(head):
            return "it has both Content-Length and Transfer-Encoding"
        if head.partition(b"\r\n")[0].endswith(b"HTTP/1.0"):
            return "it has a Transfer-Encoding, which HTTP/1.0 does not know"
    return ""
