"""The examples of agents on several machines do what they say."""

import asyncio
import sys
from pathlib import Path

from tests.depth import slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "mesh"


@slow
async def test_the_lead_goes_on_when_its_node_is_killed() -> None:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    shown = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / "failover.py"), stdin=null, stdout=pipe, stderr=null
    )
    out, _ = await asyncio.wait_for(shown.communicate(), 60)
    assert shown.returncode == 0
    assert "Both parts are done" in out.decode()
