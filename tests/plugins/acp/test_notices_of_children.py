"""Notices of agents below the root say whose they are: an editor and a client of A2A or MCP see one stream of all."""

import json
from pathlib import Path

import pytest

from sagent.events import Notice
from sagent.plugins.acp.version1 import Updates
from sagent.plugins.hosting.live import progress_of
from sagent.tool import Workspace

WORDS = "waiting for money (3 s so far): the next call needs $1, and $0.5 of $2 is free. In flight: " + "root/b " * 40


@pytest.mark.parametrize(("agent", "begin"), [("root", "waiting"), ("root/a/c", "root/a/c: waiting")])
def test_child_notice_names_agent(agent: str, begin: str) -> None:
    notice = Notice(agent, "warning", WORDS)
    assert progress_of(notice).startswith(begin)
    assert progress_of(notice).count("root/b") == 40  # who holds the money is not cut off
    for known in (True, False):
        (update,) = Updates(Workspace(Path("/")), notices=known).of(notice)
        assert f"{begin} for money" in json.dumps(update)
