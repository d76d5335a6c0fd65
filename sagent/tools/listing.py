"""The files below a directory, by ripgrep where it is installed: it lists them and finds those worth searching, faster
than Python can."""

import os
from collections.abc import Sequence

from sagent.lib.process import run, system_path
from sagent.tools.offload import offload
from sagent.tools.walk import walk

_ALIKE = (
    *("--no-config", "--no-messages", "--color=never", "--null", "--hidden", "--glob=!.git"),
    *("--no-require-git", "--no-ignore-global", "--no-ignore-dot"),
)
"""What makes it see the files that `walk` sees."""


async def list_files(root: str) -> list[str]:
    """What `walk` yields."""
    listed = await _ripgrep(("--files",), root)
    return await offload(lambda stop: list(walk(root, stop.is_set))) if listed is None else listed


async def files_matching(rust: str, options: Sequence[str], names: Sequence[str], root: str) -> list[str] | None:
    """The files that may match, of those whose name matches one of `names` if there are any; None when ripgrep is not
    there or not sure."""
    kinds = [*(f"--type-add=asked:{name}" for name in names), *(["--type=asked"] if names else [])]
    return await _ripgrep(("--files-with-matches", "--text", *options, *kinds, f"--regexp={rust}"), root)


async def _ripgrep(arguments: Sequence[str], root: str) -> list[str] | None:
    done = await run(["rg", *_ALIKE, *arguments, "./"], cwd=root, env={"PATH": system_path()})
    if done is None or done.code not in (0, 1):  # 2: something could not be read, or is beyond this version
        return None
    return [os.fsdecode(path.removeprefix(b"./")) for path in done.output.split(b"\0") if path]
