"""A run that has ended by the time that its prompt's answer is read."""

import asyncio
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sagent.events import Result
from sagent.plugins.background.peer import LocalPeer
from sagent.plugins.background.place import listening
from sagent.plugins.background.records import Record
from sagent.plugins.hosting.typed import adapter


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a prompt, and end its run, in one piece."""
    result = json.loads(adapter(Result).dump_json(Result("And more.", (), "end")))
    try:
        while line := await reader.readline():
            request = json.loads(line)
            text = json.dumps({"kind": "answer", "to": request["to"]}) + "\n"
            for state in ("working", "idle") * (request["op"] == "prompt"):
                text += json.dumps({"kind": "state", "state": state, "result": result}) + "\n"
            writer.write(text.encode())
    finally:
        writer.close()


async def test_run_that_has_ended_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as short:  # a socket's path has an end
        bound = listening(Path(short, "s"))
        record = Record(
            "s", str(tmp_path), str(tmp_path), os.getpid(), os.uname().nodename, str(Path(short, "s")), "", time.time()
        )

        def open_record(_: LocalPeer) -> Record:
            return record

        monkeypatch.setattr(LocalPeer, "_open_record", open_record)
        async with (
            await asyncio.start_unix_server(serve, sock=bound),
            LocalPeer.attached(tmp_path, record) as peer,
            asyncio.timeout(60),
        ):
            peer.send("more")
            assert (await peer.wait()).content == "And more."
