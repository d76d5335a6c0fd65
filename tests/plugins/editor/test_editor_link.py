"""The link of an editor with a lock file: a WebSocket server on loopback plays the extension."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sagent.lib.json import json_freeze_object
from sagent.messages import ToolCall
from sagent.plugins.editor.link import EditorLink, open_link
from sagent.plugins.editor.lockfile import find_lock_file, listens_for_others
from sagent.plugins.editor.tool import reviewing
from sagent.policy import Ask
from tests.plugins.editor.extension import TOKEN, Extension
from tests.waiting import until


@asynccontextmanager
async def link_to(extension: Extension) -> AsyncGenerator[EditorLink]:
    async with extension.listening():
        lock = find_lock_file(extension.folder, {"HOME": str(extension.home)})
        assert lock is not None
        async with open_link(lock) as link:
            assert link is not None
            yield link


def test_only_own_live_lock_file_used(extension: Extension) -> None:
    place = extension.home / ".claude" / "ide"
    place.mkdir(parents=True)
    inner = extension.folder / "inner"
    inner.mkdir()
    home = {"HOME": str(extension.home)}
    wrong: dict[str, object] = {
        "1001": extension.lock(pid=2**22 + 1),
        "1002": extension.lock(workspaceFolders=["/no/such/place"]),
        "1003": extension.lock(transport="sse"),
        "1004": extension.lock(authToken=""),
        "1005": [],
        "99999": extension.lock(),
        "name": extension.lock(),
    }
    for name, said in wrong.items():
        (place / f"{name}.lock").write_text(json.dumps(said))
    (place / "1006.lock").write_text("{")
    (place / "1007.lock").write_text(json.dumps(extension.lock()))
    (place / "1007.lock").chmod(0o666)
    (place / "1008.lock").symlink_to(place / "1009")
    (place / "1009").write_text(json.dumps(extension.lock()))
    os.mkfifo(place / "1010.lock")
    assert find_lock_file(inner, home) is None
    (place / "2000.lock").write_text(json.dumps(extension.lock()))
    (place / "2001.lock").write_text(json.dumps(extension.lock(workspaceFolders=[str(inner)])))
    for cwd, environ, port in (
        (inner, {}, 2001), (extension.folder, {}, 2000), (inner, {"CLAUDE_CODE_SSE_PORT": "2000"}, 2000),
    ):  # fmt: skip
        found = find_lock_file(cwd, {**home, **environ})
        assert found is not None
        assert found.port == port
        assert TOKEN not in repr(found)
    assert find_lock_file(inner, {**home, "CLAUDE_CONFIG_DIR": str(extension.folder)}) is None


@pytest.mark.needs("linux")
async def test_foreign_port_not_trusted(extension: Extension, tmp_path: Path) -> None:
    async with extension.listening() as server:
        port = server.sockets[0].getsockname()[1]
        assert not listens_for_others(port)
        row = f"   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000"
        for user, others in ((os.geteuid(), False), (os.geteuid() + 1, True)):
            (tmp_path / "tcp").write_text(f"head\n{row} {user:5}        0 17 1 00 100 0 0 10 0\n")
            assert listens_for_others(port, [tmp_path / "none", tmp_path / "tcp"]) == others
            assert not listens_for_others(port + 1, [tmp_path / "tcp"])


async def test_wrong_token_or_gone_editor_no_link(extension: Extension) -> None:
    async with extension.listening():
        lock = find_lock_file(extension.folder, {"HOME": str(extension.home)})
        assert lock is not None
        async with open_link(replace(lock, token="wrong")) as link:
            assert link is None
    async with open_link(lock) as link:
        assert link is None


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (["FILE_SAVED", "new\n"], None),
        (["FILE_SAVED"], None),
        (["DIFF_REJECTED"], "The person said no, in the editor."),
        (["FILE_SAVED", "other\n"], "other\n"),
        (["TAB_CLOSED"], "here"),
        (["nonsense"], "here"),
        (None, "here"),
    ],
)
async def test_change_decided_here_or_in_editor(
    extension: Extension, decision: list[str] | None, answer: str | None
) -> None:
    said = asyncio.Event()

    async def ask(call: ToolCall, asked: Ask) -> str | None:
        await said.wait()
        return "here"

    async with link_to(extension) as link:
        extension.decisions.append(decision)
        call = ToolCall("1", "Write", json_freeze_object({"file_path": "a.txt", "content": "new\n"}))
        asking = asyncio.ensure_future(reviewing(ask, link, extension.folder)(call, Ask("why")))
        await until(lambda: extension.called, "the diff")
        if answer == "here":
            said.set()
        found = await asking
        assert found == answer if answer in (None, "here") else isinstance(found, str) and found.endswith(answer)
        name, arguments = extension.called[0]
        assert (name, arguments["new_file_contents"]) == ("openDiff", "new\n")
        await until(lambda: any(name == "close_tab" for name, _ in extension.called), "the tab to close")


async def test_foreign_selection_not_sent(extension: Extension, tmp_path: Path) -> None:
    async with link_to(extension) as link:
        await extension.select(tmp_path / "secret.txt", "a secret")
        await extension.select(extension.folder / "a.txt", "")
        await extension.select(extension.folder / "a.txt", "mine")
        await until(link.context, "the selection")
        assert link.context() == ""
