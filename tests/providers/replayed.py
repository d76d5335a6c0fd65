"""Recordings of real traffic, which lie next to the checkout and not in it, and the server that plays them again."""

import json
import sys
from pathlib import Path

from tests.conftest import RECORDINGS


def recordings(*endpoints: str) -> list[Path]:
    """Those that hold exchanges with one of these endpoints."""
    index = (json.loads(line) for line in (RECORDINGS / "INDEX.jsonl").read_text().splitlines())
    names = sorted(entry["file"] for entry in index if not set(endpoints).isdisjoint(entry["endpoints"]))
    return [RECORDINGS / "dev" / name for name in names if (RECORDINGS / "dev" / name).is_file()]


def serve(path: Path, **options: object):
    sys.path.insert(0, str(RECORDINGS))
    try:
        from replay_server import ReplayServer  # pyright: ignore[reportMissingImports] -- in ../shared
    finally:
        sys.path.remove(str(RECORDINGS))
    return ReplayServer(str(path), want_diff=False, **options)
