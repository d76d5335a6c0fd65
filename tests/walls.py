"""The sandbox of this machine, and the line that says why it is not bubblewrap."""

import re
import shutil
import subprocess
from functools import cache

SHORTFALL = re.compile(r"^(sagent: )?bubblewrap cannot be used, because .*Landlock is used.*\n?", re.MULTILINE)


@cache
def has_bubblewrap() -> bool:
    """Return True if bubblewrap can make a box here: a container may not let it."""
    spaces = ("--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc")  # a container may lack the first
    argv = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", *spaces, "true"]
    return bool(shutil.which("bwrap")) and not subprocess.run(argv, capture_output=True, check=False).returncode


def without_shortfall(text: str) -> str:
    """Return what a program said without the line about bubblewrap, where the machine has none that works.

    That line is right there, and a test of something else is not about it."""
    return text if has_bubblewrap() else SHORTFALL.sub("", text)
