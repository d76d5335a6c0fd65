"""Recognizes from a shell command's words whether it changes something and whether it runs tests."""

import re
from collections.abc import Iterator

from sagent.policy.shell import Part, Word, program, split, unwrap

_WRITERS = frozenset(
    "rm mv cp tee touch truncate install ln dd chmod chown chgrp mkdir rmdir rsync shred unlink patch unzip "  # noqa: SIM905 -- one line
    "scp setfacl".split()
)
_GIT_WRITES = frozenset(
    "add am apply checkout cherry-pick clean clone commit merge mv pull push rebase reset restore revert rm stash "  # noqa: SIM905 -- one line
    "switch".split()
)
_IN_PLACE = re.compile(r"^(?:sed|perl|ruby)\b.*\s-\w*i")
_RUNS = frozenset({"sudo", "doas", "xargs", "npx", "uv", "poetry", "pipenv", "run", "exec", "python", "python3", "-m"})
"""Words before a command that have it run."""
_SEARCHES = re.compile(
    r"(?:[efz]?grep|rg|ag|ack|diff|cmp|test|\[|pgrep|which|type|command -[vV]|git (?:grep|diff --(?:exit-code|quiet)))"
    r"(?: |$)"
)
"""Programs whose exit code 1 is an answer."""
_TESTS = re.compile(
    r"(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|gotestsum|ava|karma|behave)\b"
    r"|(?:npm|yarn|pnpm|bun|cargo|go|make|mvn|gradle|gradlew|dotnet|mix|swift|deno|rake|just|bazel|composer|sbt|cabal"
    r"|stack|zig|flutter|dart|rails|manage\.py)\s+(?:run\s+|-\S+\s+)*(?:\w+:)?(?:test|check)\w*",
    re.IGNORECASE,
)


def writes(command: str) -> bool:
    """Return True if a command is of a kind that changes files."""
    for part in split(command).parts:
        if any(redirect.writes and not redirect.target.text.startswith("/dev/") for redirect in part.redirects):
            return True
    for name, line in _commands(command):
        words = line.split()
        if name in _WRITERS or _IN_PLACE.match(line) or (name == "git" and not _GIT_WRITES.isdisjoint(words[1:4])):
            return True
    return False


def runs_tests(command: str) -> bool:
    """Return True if a command runs tests."""
    return any(_TESTS.match(line) for _, line in _commands(command))


def finds_nothing(command: str, text: str) -> bool:
    """Return True if a command's exit code 1 only means that nothing matched, or that two things differ."""
    if not re.search(r"^\[exit code 1\]$", text, re.MULTILINE):
        return False
    last = [line for _, line in _commands(command)][-1:]
    return bool(last) and _SEARCHES.match(last[0]) is not None


def _commands(command: str) -> Iterator[tuple[str, str]]:
    """Yield each command in a script: its program, and its unquoted words."""
    for part in split(command).parts:
        if words := _core(part):
            bare = [
                word.text if word.text == word.raw or ("\n" not in word.text and " " not in word.text) else "''"
                for word in words
            ]
            yield program(words[0]), " ".join([program(words[0]), *bare[1:]])


def _core(part: Part) -> tuple[Word, ...]:
    words = unwrap(part.words)
    while len(words) > 1 and words[0].text in _RUNS:
        words = words[1:]
        while len(words) > 1 and words[0].text.startswith("-") and words[0].text not in _RUNS:
            words = words[1:]
    return words
