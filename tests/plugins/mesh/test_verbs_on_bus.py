"""`sagent ps`, `logs`, `wait` and `stop` with --bus."""

import asyncio
import json
from pathlib import Path

import pytest

from sagent.testing.server import Call, Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place
from tests.waiting import wait_until


@later
@pytest.mark.plugin("background")
async def test_background_verbs_on_bus(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    sleep = Call("Bash", {"command": f"echo $$ >{pid}; sleep 600"})
    async with place(tmp_path, by_results([Turn("I wait.", calls=(sleep,))])) as here:
        await here.node("n1", "--permission-mode", "full", "--sandbox", "off")
        code, session, err = await here.ask("--detach", "please work")
        assert code == 0, err
        session = session.strip()
        code, out, _ = await here.ask_plain("ps", "--bus", here.url, "--json")
        assert code == 0 and [one["id"] for one in json.loads(out)] == [session]
        code, _, err = await here.ask_plain("wait", session, "--bus", here.url, "--timeout", "0")
        assert code == 124 and "still at work" in err
        await asyncio.to_thread(wait_until, pid.exists)
        code, out, err = await here.ask_plain("stop", session[:-2], "--bus", here.url)
        assert (code, out) == (0, f"{session}\n"), err
        code, out, err = await here.ask_plain("wait", session, "--bus", here.url)
        assert code == 130 and "interrupted" in err
        code, out, _ = await here.ask_plain("logs", session, "--bus", here.url)
        assert code == 0 and "I wait." in out
        code, _, err = await here.ask_plain("wait", "--bus", here.url)
        assert code == 2 and "give the id of a session" in err
