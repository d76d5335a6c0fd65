"""Server-sent events, read incrementally. The rules are those of the HTML standard, section 9.2.6."""

_BOM = b"\xef\xbb\xbf"
_LINE_OVERHEAD_BYTES = 40  # overhead of a line in bytes


class EventReader:
    """Turns bytes, cut anywhere, into events. Line ends may be LF, CRLF or CR, mixed.

    An event is `(name, data)`. A line that is a bare JSON object counts as an event of its own, and so does one of the
    field `error`, which the standard does not know: some gateways, and llama.cpp until late 2025, report an error that
    way in the middle of a stream.
    """

    __slots__ = ("_data", "_first", "_name", "_rest", "_swallow_lf", "alive", "held")

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []
        self._name = b""
        self._swallow_lf = False  # the last chunk ended in CR: an LF that comes first belongs to it
        self._first = True
        self.held = 0  # size of the unfinished event in bytes, about
        self.alive = False  # a whole line has arrived since the caller last cleared this, be it only a comment

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Take the next bytes, and return the events that they complete."""
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            if chunk:
                self._rest.append(chunk)
                self.held += len(chunk)
            return []
        self._swallow_lf = chunk[-1] == 0x0D
        lines = chunk[:end].splitlines()
        if self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if end < len(chunk):
            self._rest.append(chunk[end:])
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BOM)
        self.alive = True
        events = self._take(lines)
        self.held += len(chunk) - end
        return events

    def end(self) -> list[tuple[str, str]]:
        """End the bytes, and return the event that only lacked its blank line, if there is one."""
        return self._take([b"".join(self._rest), b""]) if self._rest or self._data else []

    def _take(self, lines: list[bytes]) -> list[tuple[str, str]]:
        events: list[tuple[str, str]] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                self.held += len(line) + _LINE_OVERHEAD_BYTES
            elif not line:
                if data:
                    whole = data[0] if len(data) == 1 else b"\n".join(data)
                    events.append((self._name.decode("utf-8", "replace"), whole.decode("utf-8", "replace")))
                    data.clear()
                self._name = b""
                self.held = 0
            elif line.startswith(b"event:"):
                self._name = line[7:] if line[6:7] == b" " else line[6:]
            elif line.startswith(b"error:"):
                events.append(("error", line[6:].decode("utf-8", "replace")))
            elif line.startswith(b"{") and line.endswith(b"}"):
                events.append((self._name.decode("utf-8", "replace"), line.decode("utf-8", "replace")))
            # Ignored: comments, `id:`, `retry:`, undefined fields.
        return events
