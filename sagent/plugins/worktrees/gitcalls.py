"""Calls of git on a person's repository, which start no programs that the repository names."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.git import git_call
from sagent.lib.text import one_line, system_reason

MAX_REASON_CHARS = 300
IDENTITY = {"GIT_AUTHOR_NAME": "sagent", "GIT_COMMITTER_NAME": "sagent"} | {
    f"GIT_{who}_EMAIL": "sagent@localhost" for who in ("AUTHOR", "COMMITTER")
}
"""Author of commits that no branch keeps."""


@dataclass(frozen=True, slots=True)
class GitOutput:
    """The exit code of a call, its output, and the text of its error in one line."""

    code: int
    output: bytes
    error: str

    @property
    def text(self) -> str:
        """The output without a line end."""
        return os.fsdecode(self.output).removesuffix("\n")


def attempt(
    directory: Path, *arguments: str, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> GitOutput:
    """Run git in a directory. Raises UsageError if it cannot be run there at all."""
    call = git_call(directory, *arguments)
    if call is None:
        raise UsageError(
            f"The configuration of the repository at {directory} names filters or includes other files, whose programs "
            "sagent does not start: worktrees cannot be used there."
        )
    try:
        done = subprocess.run(
            call.argv, env={**call.environment, **(environment or {})}, input=given, capture_output=True, check=False
        )
    except OSError as error:
        raise UsageError(f"git could not be started: {system_reason(error)}. Worktrees need it.") from error
    said = done.stderr.decode("utf-8", "replace")
    lines = [line.strip() for line in said.splitlines() if line.startswith(("fatal:", "error:", "CONFLICT"))]
    return GitOutput(done.returncode, done.stdout, one_line("; ".join(lines) or said.strip(), MAX_REASON_CHARS))


def git(directory: Path, *arguments: str, environment: Mapping[str, str] | None = None, given: bytes = b"") -> str:
    """Run git in a directory and return its output. Raises UsageError with its reason if it fails."""
    done = attempt(directory, *arguments, environment=environment, given=given)
    if done.code:
        raise UsageError(f"git {arguments[0]} failed: {done.error.rstrip('.') or f'exit code {done.code}'}.")
    return done.text
