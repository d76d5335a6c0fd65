"""Who wrote which line, without a key: an agent, a person and git change a file, and `sagent blame` tells them apart.

    python examples/blame.py

The model is a script on this machine; the program, its tools, its log and git are the real ones.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sagent.testing.server import Call, FakeProviderServer, Turn

MODEL = "anthropic/claude-sonnet-4-6"
FIRST = """def greet(name):
    print("Hello")
"""
CALLS = (
    Call("Read", {"file_path": "greet.py"}),
    Call("Edit", {"file_path": "greet.py", "old_string": 'print("Hello")', "new_string": 'print(f"Hello, {name}!")'}),
    Call("Bash", {"command": "printf '\\n\\ngreet(\"world\")\\n' >> greet.py"}),
)
FREE = ("--model", MODEL, "--permission-mode", "full", "--sandbox", "off")


def run(place: Path, *words: str, **variables: str) -> None:
    """Show and run a command in the project."""
    print(f"\n$ {' '.join(words)}", flush=True)
    subprocess.run(words, cwd=place / "project", env={**os.environ, **variables}, check=True)


def main() -> None:
    """Let an agent change a file, then a person and git, and show the origins of its lines."""
    sagent = (sys.executable, "-m", "sagent.bin.cli")
    author = {f"GIT_{who}_{what}": "ann@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    script = [*(Turn(calls=(call,)) for call in CALLS), Turn(text="It greets by name now.")]
    with tempfile.TemporaryDirectory() as directory, FakeProviderServer(script).in_thread() as server:
        place = Path(directory)
        file = place / "project" / "greet.py"
        file.parent.mkdir()
        file.write_text(FIRST)
        own = {"HOME": directory, "XDG_STATE_HOME": directory, "XDG_CONFIG_HOME": directory, **author}
        own |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "no-key-needed"}
        run(place, "git", "init", "-q", **own)
        run(place, "git", "add", "greet.py", **own)
        run(place, "git", "commit", "-qm", "Greet", **own)
        run(place, *sagent, *FREE, "greet by name, and call it", **own)
        file.write_text('"""Greetings."""\n\n' + file.read_text())
        print("\n(a person writes a docstring above it)")
        run(place, "git", "mv", "greet.py", "hello.py", **own)
        run(place, "git", "commit", "-qam", "Move it", **own)
        run(place, *sagent, "blame", "hello.py", **own)
        run(place, *sagent, "blame", "hello.py:4", **own)


if __name__ == "__main__":
    main()
