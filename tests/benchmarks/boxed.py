"""Start to end of `true` by the Bash tool in an empty repository, in the sandbox: what there is (`auto`), `bubblewrap`,
`landlock`, or `off`.

Prints as JSON the milliseconds of the `first` command, for which the sandbox was made ready while a model thinks
for half a second, and the median of the `next` twenty.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from sagent.lib.json import json_freeze_object
from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.probe import Confinement, keep
from sagent.session.blobs import BlobDirectory
from sagent.tool import RunContext, Workspace
from sagent.tools.bash import Bash

THINKING = 0.5  # seconds of a quick model


async def measure(mode: str, place: Path) -> dict[str, float]:
    """Run the commands."""
    (place / "work/.git/hooks").mkdir(parents=True)
    if mode in ("bubblewrap", "landlock"):
        keep(place, Confinement(mode))
    sandbox = Sandbox("off" if mode == "off" else "auto", cache=place)
    workspace, blobs = Workspace((place / "work").resolve()), BlobDirectory(place / "blobs")
    workspace.profile = PermissionPolicy("edit").profile
    bash, took = Bash(sandbox=sandbox), list[float]()
    run = RunContext("root", "call", workspace, blobs, lambda text: None)
    await bash.prepare(workspace, blobs)
    await asyncio.sleep(THINKING)
    for _ in range(21):
        started = time.perf_counter()
        await bash(json_freeze_object({"command": "true"}), run)
        took.append(1000 * (time.perf_counter() - started))
    await bash.aclose()
    await sandbox.aclose()
    return {"first": took[0], "next": median(took[1:])}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(measure(sys.argv[1], Path(directory)))))
