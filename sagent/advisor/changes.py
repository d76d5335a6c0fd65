"""What a shell command would do, as far as its words tell: change something, take it away for good, run tests."""

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
_DESTROYS = re.compile(
    r"rm\s+(?:\S+\s+)*?(?:-\w*[rfR]|--recursive|--force)|git\s+(?:\S+\s+)*?(?:reset\s+(?:\S+\s+)*?--hard"
    r"|clean\s+(?:\S+\s+)*?-\w*f|push\s+(?:.*\s)?(?:--force\S*|-f\b|--delete|--mirror)|checkout\s+(?:\S+\s+)*?(?:--\s|\.(?:\s|$))"
    r"|restore\s|branch\s+(?:\S+\s+)*?-D|stash\s+(?:drop|clear)|filter-branch|update-ref\s+-d|reflog\s+expire)"
    r"|(?:mkfs\S*|shred|wipefs)\b|dd\s+(?:.*\s)?of=|terraform\s+(?:\S+\s+)*?(?:destroy|apply)|kubectl\s+(?:\S+\s+)*?delete"
    r"|docker\s+(?:system|volume|image|container)\s+(?:prune|rm)|find\s+(?:.*\s)?-delete\b|(?:chmod|chown)\s+(?:\S+\s+)*?-\w*R"
    r"|truncate\s+(?:\S+\s+)*?(?:-s|--size)|helm\s+(?:uninstall|delete)|aws\s+s3\s+(?:rb|rm)|dropdb\b",
    re.IGNORECASE,
)
_SQL = re.compile(
    r"\b(?:drop|truncate)\s+(?:table|database|schema)\b|\btruncate\s+\w+\s*;|\bdelete\s+from\b", re.IGNORECASE
)
_CLIENTS = frozenset({"psql", "mysql", "mariadb", "sqlite3", "sqlcmd", "duckdb", "clickhouse-client", "cockroach"})
_RUNS = frozenset({"sudo", "doas", "xargs", "npx", "uv", "poetry", "pipenv", "run", "exec", "python", "python3", "-m"})
"""Words before a command that have it run."""
_TESTS = re.compile(
    r"(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|gotestsum|ava|karma|behave)\b"
    r"|(?:npm|yarn|pnpm|bun|cargo|go|make|mvn|gradle|gradlew|dotnet|mix|swift|deno|rake|just|bazel|composer|sbt|cabal"
    r"|stack|zig|flutter|dart|rails|manage\.py)\s+(?:run\s+|-\S+\s+)*(?:\w+:)?(?:test|check)\w*",
    re.IGNORECASE,
)


def destroys(command: str) -> bool:
    """Whether a command is of a kind that takes things away for good. Words that it only quotes are none."""
    return any(
        _DESTROYS.match(line) or (name in _CLIENTS and _SQL.search(text)) for name, line, text in _commands(command)
    )


def writes(command: str) -> bool:
    """Whether a command is of a kind that changes files."""
    for part in split(command).parts:
        if any(redirect.writes and not redirect.target.text.startswith("/dev/") for redirect in part.redirects):
            return True
    for name, line, _ in _commands(command):
        words = line.split()
        if name in _WRITERS or _IN_PLACE.match(line) or (name == "git" and not _GIT_WRITES.isdisjoint(words[1:4])):
            return True
    return False


def runs_tests(command: str) -> bool:
    """Whether a command runs tests."""
    return any(_TESTS.match(line) for _, line, _ in _commands(command))


def _commands(command: str) -> Iterator[tuple[str, str, str]]:
    """Each command in a script: its program, its words with quoted ones left out, and all of its words."""
    for part in split(command).parts:
        if words := _core(part):
            bare = [
                word.text if word.text == word.raw or ("\n" not in word.text and " " not in word.text) else "''"
                for word in words
            ]
            yield program(words[0]), " ".join([program(words[0]), *bare[1:]]), " ".join(word.text for word in words)


def _core(part: Part) -> tuple[Word, ...]:
    words = unwrap(part.words)
    while len(words) > 1 and words[0].text in _RUNS:
        words = words[1:]
        while len(words) > 1 and words[0].text.startswith("-") and words[0].text not in _RUNS:
            words = words[1:]
    return words
