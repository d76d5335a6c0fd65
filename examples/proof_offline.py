"""A change by an agent, its signed proof, and what a checker says once somebody adds a line: no key, no network.

python examples/proof_offline.py
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sagent.testing.server import Call, FakeProviderServer, Turn

TEST = "python3 -c 'import mean; assert mean.mean(6, 3) == 2; print(1, \"passed\")'"
TURNS = (
    Turn(calls=(Call("Read", {"file_path": "mean.py"}),)),
    Turn(calls=(Call("Edit", {"file_path": "mean.py", "old_string": "return 0", "new_string": "return total / n"}),)),
    Turn(calls=(Call("Bash", {"command": TEST}),)),
    Turn("The mean is divided by n now."),
)
ANN = {"NAME": "Ann", "EMAIL": "ann@example.org"}


def main() -> None:
    """Work, prove, check; then change the proven file and check again."""
    with tempfile.TemporaryDirectory() as place, FakeProviderServer(TURNS).in_thread() as server:
        work, key = Path(place, "work"), Path(place, "key")
        environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        environment |= {"HOME": place, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        environment |= {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in ANN.items()}

        def run(*words: str, shown: bool = False) -> int:
            """Run a program; its exit code."""
            if shown:
                print("$", *(word.replace(place, "~").replace(sys.executable, "python3") for word in words), flush=True)
            output = None if shown else subprocess.DEVNULL
            return subprocess.run(
                words, cwd=work, env=environment, stdout=output, stderr=output, check=False
            ).returncode

        work.mkdir()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        (work / "mean.py").write_text("def mean(total, n):\n    return 0\n")
        (work / ".sagent").mkdir()
        (work / ".sagent/allowed_signers").write_text(f"ann@example.org {Path(place, 'key.pub').read_text()}")
        sagent = (sys.executable, "-m", "sagent")
        check = (*sagent, "check-proof", "../proof.tar", "--base", "main", "--fresh")
        prove = (*sagent, "prove", "main..topic", "--sign", str(key), "--out", "../proof.tar", "--quote", "passed")
        for words in ("init -q -b main", "add -A", "commit -qm Begin", "checkout -qb topic"):
            run("git", *words.split())
        run(*sagent, "--model", "anthropic/claude-sonnet-4-6", "--permission-mode", "full", "make mean divide")
        run("git", "commit", "-qam", "Divide")
        assert run(*prove, shown=True) == 0
        assert run(*check, shown=True) == 0
        (work / "mean.py").write_text((work / "mean.py").read_text() + "print('one line more')\n")
        run("git", "commit", "-qam", "One more line", shown=True)
        assert run(*check, shown=True) == 1


if __name__ == "__main__":
    main()
