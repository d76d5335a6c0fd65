"""Two models, three tasks, a check that decides: which one is worth its price? By `sagent sweep`, from a program.

python examples/evaluate.py             (on a provider that runs from a script; leave out its address for real ones)
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sagent.testing.server import Call, FakeProviderServer, Received, Turn

TASKS = """{"name": "one", "prompt": "Write 1 to n.txt.", "check": "grep -qx 1 n.txt"}
{"name": "two", "prompt": "Write 2 to n.txt.", "check": "grep -qx 2 n.txt"}
{"name": "three", "prompt": "Write 3 to n.txt.", "check": "grep -qx 3 n.txt"}
"""
SPEC = """tasks = "tasks.jsonl"
max_budget_usd = 0.50
max_total_usd = 5
[grid]
model = ["anthropic/claude-haiku-4-5", "anthropic/claude-opus-4-8"]
"""


def answer(request: Received) -> Turn:
    """The cheap model cannot count to three."""
    said = str(request.json["messages"])
    number = next((each for each in "123" if f"Write {each} to" in said), "0")
    wrong = number == "3" and "haiku" in str(request.json["model"])
    done = Turn(text="Written.")
    write = Call("Write", {"file_path": "n.txt", "content": "2\n" if wrong else f"{number}\n"})
    return done if "tool_result" in said else Turn(calls=(write,))


with tempfile.TemporaryDirectory() as place, FakeProviderServer(answer).in_thread() as server:
    Path(place, "tasks.jsonl").write_text(TASKS)
    Path(place, "spec.toml").write_text(SPEC)
    environment = {**os.environ, "HOME": place, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
    command = [sys.executable, "-m", "sagent", "sweep", "spec.toml", "--output", "results"]
    subprocess.run(command, cwd=place, env=environment, check=True)
