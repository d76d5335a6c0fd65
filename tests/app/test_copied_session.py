"""A session that was copied or moved: what its conversation names is found where it lies now."""

import re
from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.config import load
from sagent.context.compaction import HEADINGS
from sagent.session.store import delete
from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)


class Model:
    """Says where the port is, sums up, and is then told to read what was cut."""

    def answer(self, request: Received) -> Step:
        body = request.body.decode()
        if "(This is from sagent" in body:
            return Turn(text=SUMMARY)
        if "read it" not in body or '"tool_result"' in body:
            return Turn(text="the port is 4711, as said")
        found = re.search(r"All of it is in (\S+?):", body)
        assert found is not None
        return Turn(calls=(Call("Read", {"file_path": found[1]}), Call("Grep", {"path": found[1], "pattern": "port"})))


@pytest.mark.parametrize("how", ["fork", "fork, and the first one deleted", "moved"])
async def test_what_a_cut_names_can_be_read_in_a_copy_too(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    async with FakeProviderServer(Model().answer) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(tmp_path / "state")}
        flags = {"model": "anthropic/claude-sonnet-4-6", "permission_mode": "ask"}
        async with open_agent(load(flags, environment, tmp_path / "work"), lambda _: None) as agent:
            path = Path(agent.log.path)
            for number in range(4):
                await agent.run(f"question {number}")
            await agent.compact()
        if how == "moved":
            path = path.rename(tmp_path / "elsewhere")
            flags["session"] = str(path)
        else:
            flags["fork"] = str(path)
        async with open_agent(load(flags, environment, tmp_path / "work"), lambda _: None) as agent:
            if "deleted" in how:
                delete(path)
            await agent.run("read it")
            results = agent.messages[-2].results
    assert [result.is_error for result in results] == [False, False]
    assert all("the port is 4711" in result.text for result in results)
