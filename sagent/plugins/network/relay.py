"""Joins a loopback port with a Unix socket: `python -I -S relay.py SOCKET PORT`.

It runs in a sandbox without network, and the socket leads to the proxy. It prints its port as soon as it listens; PORT
0 picks a free one. The starter waits for that, and asyncio takes four times as long to import as these modules. It ends
when its standard input closes.
"""

import os
import select
import socket
import sys

MAX_CONNECTIONS = 200  # more have to wait; select(2) takes descriptors below 1024


class Flow:
    """One direction of a connection. Each piece is written before the next is read."""

    def __init__(self, source: socket.socket, sink: socket.socket, back: "Flow | None" = None) -> None:
        self.source, self.sink, self.back = source, sink, back or Flow(sink, source, self)
        self.waiting = b""
        self.ended = False

    def advance(self) -> None:
        """Write pending data, else read; called when that does not block. Close all once both directions have ended."""
        try:
            if self.waiting:
                self.waiting = self.waiting[self.sink.send(self.waiting) :]
            elif not (data := self.source.recv(65_536)):
                self.ended = True
                self.sink.shutdown(socket.SHUT_WR)
            else:
                self.waiting = data
        except BlockingIOError:
            return
        except OSError:  # one side is gone: nobody reads the rest
            self.ended = self.back.ended = True
        if self.ended and self.back.ended:
            self.source.close()
            self.sink.close()


def connect(client: socket.socket, path: str) -> None:
    """Connect to a Unix socket, however long its path is: its name may have 107 bytes. Raises OSError."""
    if len(os.fsencode(path)) <= 103:
        client.connect(path)
        return
    directory, _, name = path.rpartition("/")
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        client.connect(f"/proc/self/fd/{held}/{name}")
    finally:
        os.close(held)


def main(path: str, port: int) -> None:
    """Relay until standard input ends."""
    listener = socket.create_server(("127.0.0.1", port), backlog=MAX_CONNECTIONS)
    print(listener.getsockname()[1], flush=True)
    flows: list[Flow] = []
    while True:
        reading = {flow.source: flow for flow in flows if not flow.waiting and not flow.ended}
        writing = {flow.sink: flow for flow in flows if flow.waiting}
        door = [listener] if len(flows) < 2 * MAX_CONNECTIONS else []
        readable, writable, _ = select.select([*reading, *door, 0], writing, [])
        ready = {*readable}
        if 0 in ready:
            return
        for flow in [
            *(flow for source, flow in reading.items() if source in ready),
            *map(writing.__getitem__, writable),
        ]:
            flow.advance()
        flows = [flow for flow in flows if flow.source.fileno() >= 0]
        if listener in ready:
            flows += accept(listener, path)


def accept(listener: socket.socket, path: str) -> list[Flow]:
    """Accept a waiting connection and return both directions; none if the Unix socket has no listener."""
    client, proxy = None, socket.socket(socket.AF_UNIX)
    try:
        client, _ = listener.accept()
        connect(proxy, path)
    except OSError:
        proxy.close()
        if client:
            client.close()
        return []
    client.settimeout(0)
    proxy.settimeout(0)
    there = Flow(client, proxy)
    return [there, there.back]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
