"""The files under a directory: hidden ones too, `.git` and what git ignores left out, symlinks not followed."""

import os
from collections.abc import Callable, Iterator

from sagent.tools.ignore import Ignored


def walk(root: str, stop: Callable[[], bool]) -> Iterator[str]:
    """Paths of regular files relative to `root`, in no order. What cannot be read is passed over."""
    root = os.path.realpath(root)
    base = len(root.rstrip("/")) + 1
    stack = [(root, Ignored.at(root))]
    while stack and not stop():
        directory, ignored = stack.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            if entry.name == ".git" or entry in ignored:
                continue
            if entry.is_dir(follow_symlinks=False):
                stack.append((entry.path, ignored.enter(entry.path)))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path[base:]
