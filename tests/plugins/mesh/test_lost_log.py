"""A session whose log the bus has lost is not gone on with as if it were new."""

import json
from pathlib import Path

from sagent.plugins.mesh import names
from sagent.testing.server import Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place


@later
async def test_session_with_lost_log_refused(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Hello."), Turn("Again.")])) as here:
        await here.node("n1")
        code, out, err = await here.ask("--json", "hello")
        assert code == 0, err
        session = json.loads(out)["session_id"]
        await here.bus.context.purge_stream(names.LOG, subject=names.log_subject(session))
        asked = len(here.server.requests)
        code, out, err = await here.ask("--json", "--resume", session, "more")
        assert code != 0
        assert "has lost the log" in json.loads(out)["error"]["message"]
        assert len(here.server.requests) == asked
