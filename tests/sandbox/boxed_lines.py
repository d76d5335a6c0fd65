"""Run shell lines in one box, each as a command of its own, and print what came of each; for any user, by any Python.

Standard input: the profile, the working directory and the lines, as JSON. Nothing is run where there is no wall.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from sagent.sandbox import Sandbox
from sagent.sandbox.profile import Profile


async def main() -> None:
    given = json.load(sys.stdin)
    profile = Profile(**{name: tuple(paths) for name, paths in given["profile"].items()})
    cwd, answers = Path(given["cwd"]), list[tuple[int, str]]()
    sandbox = Sandbox()
    try:
        for line in given["lines"]:
            confined = await sandbox.confine(["bash", "-c", line], profile, cwd)
            if sandbox.means.name != "bubblewrap" or not confined.wall:
                raise SystemExit("no wall stands: nothing is run")
            argv, environment = confined.launched(os.environ)
            ended = subprocess.run(
                argv,
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                check=False,
                timeout=60,
            )
            confined.finish()
            answers.append((ended.returncode, ended.stdout.decode("utf-8", "replace")))
    finally:
        await sandbox.aclose()
    sys.stdout.write(json.dumps(answers))


asyncio.run(main())
