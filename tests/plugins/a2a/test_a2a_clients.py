"""A client made with the JavaScript SDK, over both transports and in both versions of the protocol."""

import asyncio
import json
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import TaskState
from a2a_served import TOKEN, a2a_served

from sagent.testing.script import Call, Turn
from tests.npm import packages
from tests.waiting import started

SDK = "@a2a-js/sdk@1.3.0"


@pytest.mark.costly
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_javascript_sdk(place: Path, provider: list, transport: str, version: str) -> None:
    npm = packages(SDK)
    provider += [Turn("I write.", calls=(Call("Write", {"file_path": "a", "content": "x\n"}),)), Turn("Written: é.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        client = Path(__file__).with_name("a2a_peer.mjs")
        arguments = (client, npm.modules, peer.url, TOKEN, transport, version)
        pipe = asyncio.subprocess.PIPE
        async with started(npm.node, *arguments, stdout=pipe, stderr=pipe) as node:
            out, err = await node.communicate()
    assert node.returncode == 0, err.decode()
    seen = json.loads(out)
    assert seen["kinds"][0] == "task" and {"statusUpdate", "artifactUpdate"} <= set(seen["kinds"])
    assert seen["asking"] == TaskState.TASK_STATE_INPUT_REQUIRED and "wants to call Write" in seen["asked"]
    assert (seen["state"], seen["answer"], seen["same"]) == (TaskState.TASK_STATE_COMPLETED, "Written: é.", True)
    assert "COMPLETED" in seen["ended"] and seen["canceled"]
    assert (place / "a").read_text() == "x\n"
