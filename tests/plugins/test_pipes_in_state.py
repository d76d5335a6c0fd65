"""A FIFO in place of a file that is kept: it is not waited for, and counts as unreadable."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sagent.plugins.a2a.records import RecordFile
from sagent.plugins.batches.journal import Journal
from sagent.plugins.exports.folder import ABOUT, _about
from sagent.plugins.hosting.listening import _sweep
from sagent.plugins.mcp.pins import FILE, Pins
from sagent.plugins.slack.seen import SeenMessages
from sagent.plugins.textcalls.protocols import LearnedProtocols
from sagent.providers.listings import Listings
from sagent.repl.greeting import take_news
from sagent.repl.terminal.history import ProjectHistory
from sagent.sandbox import probe
from sagent.session.search import _likely


def recall(file: Path) -> object:
    history = ProjectHistory()
    history.open(file)
    history.store_string("typed")
    return [*history.load_history_strings()]


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "about": (ABOUT, lambda file: _about(file.parent)),
    "batches": ("b.jsonl", lambda file: [*Journal(file).read()]),
    "greeting": ("version", lambda file: take_news(file.parent)),
    "history": ("history", recall),
    "listings": ("l.json", lambda file: Listings(file).models("here")),
    "pins": (FILE, lambda file: Pins(file.parent)._read()),
    "protocols": ("p.json", lambda file: LearnedProtocols(file).every()),
    "sandbox": (probe._FILE, lambda file: probe.probe(file.parent).name),
    "search": ("root.jsonl", lambda file: _likely(file, [b"a"], bytes.lower)),
    "servers": ("s.json", lambda file: _sweep(file.parent)),
    "slack": ("seen", SeenMessages),
    "tasks": ("t.jsonl", RecordFile.read),
}


@pytest.mark.parametrize(("name", "read"), READERS.values(), ids=READERS)
def test_pipe_in_place_of_a_file_is_not_waited_for(
    tmp_path: Path, name: str, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_try_all", lambda: probe.Confinement("none"))
    os.mkfifo(tmp_path / name)
    with suppress(OSError):
        assert read(tmp_path / name) in ((), [], {}, None, "none")
