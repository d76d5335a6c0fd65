"""`python -m tests.benchmarks.serve`: sessions of `sagent serve` that stream at once: memory and time."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer

SESSIONS, DELTAS = 50, 1_000
ROOT = Path(__file__).parents[2]


def memory(pid: int, name: str) -> float:
    """A figure of /proc/PID/status in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name)) / 1024


async def follow(http: httpx2.AsyncClient, session: str) -> int:
    """Read a session's events to the end of its run; how many pieces of text there were."""
    pieces = 0
    async with http.stream("GET", f"/v1/sessions/{session}/events") as events:
        async for line in events.aiter_lines():
            pieces += '"type":"text_delta"' in line
            if '"type":"result"' in line:
                break
    return pieces


async def measure(url: str, token: str, pid: int) -> None:
    limits = httpx2.Limits(max_connections=None)
    login = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=login, timeout=600, limits=limits) as http:
        print(f"before the first session: {memory(pid, 'VmRSS'):.0f} MB")
        names = [(await http.post("/v1/sessions", json={})).json()["id"] for _ in range(SESSIONS)]
        print(f"{SESSIONS} open: {memory(pid, 'VmRSS'):.0f} MB")
        readers = [asyncio.create_task(follow(http, name)) for name in names]
        began = time.monotonic()
        await asyncio.gather(*(http.post(f"/v1/sessions/{name}/messages", json={"text": "go"}) for name in names))
        pieces = sum(await asyncio.gather(*readers))
        seconds = time.monotonic() - began
        print(f"{SESSIONS} streamed {pieces:,} pieces to {SESSIONS} readers in {seconds:.1f} s: "
              f"{memory(pid, 'VmHWM'):.0f} MB at most")  # fmt: skip


def main() -> None:
    turn = Turn("word " * DELTAS, pieces=5, gap=0.005)
    with FakeProviderServer(lambda _: turn).in_thread() as server, tempfile.TemporaryDirectory() as home:
        environment = {
            **os.environ, "HOME": home, "PYTHONPATH": str(ROOT), "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "k", "SAGENT_SERVE_TOKEN": "a-token-for-measuring",
        }  # fmt: skip
        words = [sys.executable, "-m", "sagent.bin.cli", "serve", "--output-format", "json", "--cwd", home]
        words += ["--model", "anthropic/claude-sonnet-4-6"]
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout is not None
                said = json.loads(child.stdout.readline())
                asyncio.run(measure(said["url"], said["token"], child.pid))
            finally:
                child.terminate()


if __name__ == "__main__":
    main()
