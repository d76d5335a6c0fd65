"""The sandbox without the plugin: allowed hosts are out of reach and that is said once; a grant is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deleted import copied_without
from tests.depth import later

SCRIPT = """
import asyncio, json, subprocess
from pathlib import Path
from sagent.errors import ToolError
from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Need, Profile

async def main():
    sandbox, warned, place = Sandbox(), [], Path.cwd()
    sandbox.warn = warned.append
    profile = Profile((str(place),), domains=("one.example",))
    for _ in range(2):
        confined = await sandbox.confine(["sh", "-c", "echo $HTTP_PROXY; cat /proc/net/dev"], profile, place)
        argv, environment = confined.launched({"PATH": "/usr/bin:/bin"})
        said = subprocess.run(argv, env=environment, capture_output=True, text=True).stdout
        assert not confined.finish()
    try:
        await sandbox.confine(["true"], profile, place, [Need("network", "two.example")])
    except ToolError as error:
        refusal = str(error)
    await sandbox.aclose()
    print(json.dumps([sandbox.means.name, said, warned, refusal]))

asyncio.run(main())
"""


@later
@pytest.mark.needs("bwrap")
def test_missing_plugin_keeps_hosts_closed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copied_without("network", tmp_path / "copy"))}
    (work := tmp_path / "work").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=work, env=environment, capture_output=True, text=True, check=True
    )
    means, said, warned, refusal = json.loads(done.stdout)
    if means != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    proxy, _, devices = said.partition("\n")
    assert (proxy, [line.split()[0] for line in devices.splitlines() if ":" in line]) == ("", ["lo:"])
    assert [text.count("the plugin network") for text in (*warned, refusal)] == [1, 1]
