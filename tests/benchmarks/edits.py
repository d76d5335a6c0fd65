"""What the edit tools of other programs make of the near misses: `python -m tests.benchmarks.edits [NAME...]`.

The programs run headless, at a model on loopback that reads the files of many cases and then makes one edit of each;
judged is the file afterwards. aider's model writes edits into its answers, and aider tries them on every file of a
chat: its own library applies them, to a chat with one file. What is measured goes into `edits.json` and docs/edits.md.
Packages that are missing are installed into the user's cache directory.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from sagent.testing.script import Received
from sagent.testing.server import FakeProviderServer, Step, Turn
from tests import aider
from tests.benchmarks.clients import ROOT, provider_environment
from tests.benchmarks.edit_tools import PROGRAMS, Program, aider_reply
from tests.npm import installed
from tests.tools.near_misses import FILE, SNIPPETS, Case, join

FIGURES = Path(__file__).with_name("edits.json")
PAGE = ROOT / "docs" / "edits.md"
TOGETHER = 45  # cases in one session
VERDICTS = ("done", "loose", "refused", "wrong")
NAMES = (*(program.name for program in PROGRAMS), "aider")


class Measured(TypedDict):
    """What was measured of a program, and when: how often each kind of case had which of the verdicts."""

    package: str
    date: str
    kinds: Mapping[str, Mapping[str, int]]


def cases() -> list[Case]:
    """Those of the tests."""
    return [Case(**json.loads(line)) for line in FILE.read_text("utf-8").splitlines()]


def exact() -> list[Case]:
    """Edits that every tool must make: else it is not the tool that refuses the others."""
    return [
        Case("exact", one.name, one.text, join(one.quoted), join(one.given), one.wanted, one.wanted) for one in SNIPPETS
    ]


def verdict(case: Case, file: Path) -> str:
    """What became of a case's file; "loose" is right but for white space at line ends."""
    after = file.read_bytes() if file.exists() else None
    if after == case.text.encode():
        return "refused"
    if case.meant is None or after is None:
        return "wrong"
    wanted = case.meant.encode()
    if after == wanted:
        return "done"
    ends = [[line.rstrip() for line in text.split(b"\n")] for text in (after, wanted)]
    return "loose" if ends[0] == ends[1] else "wrong"


def planted(project: Path, some: Sequence[Case]) -> list[Path]:
    """The files of some cases, each in a directory of its own."""
    files = [project / f"case{number}" / case.name for number, case in enumerate(some)]
    for file, case in zip(files, some, strict=True):
        file.parent.mkdir()
        file.write_bytes(case.text.encode())
    return files


def session(program: Program, some: Sequence[Case]) -> list[str]:
    """The verdicts of one run."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as directory:
        files = planted(Path(directory), some)
        edits = [call for case, file in zip(some, files, strict=True) if (call := program.edit(case, str(file)))]
        steps = [program.turn([program.read(str(file)) for file in files])] if program.read else []
        steps.append(program.turn(edits))

        def answer(request: Received) -> Step:  # a request without the tool is for a title or the like
            return steps.pop(0) if steps and f'"{program.tool}"'.encode() in request.body else Turn("done")

        with FakeProviderServer(answer, strict=False).in_thread() as server:
            run(program, server.url, Path(home), Path(directory))
        if steps:
            raise RuntimeError(f"{program.name} ended before its edits")
        return [verdict(case, file) for case, file in zip(some, files, strict=True)]


def run(program: Program, url: str, home: Path, project: Path) -> None:
    """One run of a program."""
    for name, text in program.files(url).items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text)
    environment = {**provider_environment(url), "HOME": str(home), **program.environment(url)}
    if program.package:
        npm = installed(program.package)
        environment["PATH"] = f"{npm.modules / '.bin'}{os.pathsep}{npm.environment['PATH']}"
    succeed(program.argv, project, environment)


def succeed(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], said: str = "") -> None:
    """Run a command that reads `said`. Raises RuntimeError when it fails."""
    done = subprocess.run(
        argv, input=said, env=environment, cwd=cwd, text=True, capture_output=True, check=False, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"{argv} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def by_aider(some: Sequence[Case]) -> list[str]:
    """The verdicts of aider's library, run by a Python of its own."""
    python = aider.installed() / "python"
    with tempfile.TemporaryDirectory() as directory:
        files = planted(Path(directory), some)
        replies = [(str(file), aider_reply(case, file.name)) for case, file in zip(some, files, strict=True)]
        said = json.dumps([(file, reply) for file, reply in replies if reply is not None])
        environment = {"PATH": os.environ["PATH"], "HOME": directory, "OPENAI_API_KEY": "k"}
        program = Path(__file__).with_name("edit_aider.py")
        succeed([str(python), str(program)], Path(directory), environment, said)
        return [verdict(case, file) for case, file in zip(some, files, strict=True)]


def expressible(name: str) -> list[Case]:
    """The cases that a program's tool has words for."""
    edit = next((each.edit for each in PROGRAMS if each.name == name), aider_reply)
    return [case for case in cases() if edit(case, case.name) is not None]


def measure(name: str) -> Measured:
    """All cases with a program. Raises RuntimeError where it fails, or does not make the exact edits."""
    program = next((each for each in PROGRAMS if each.name == name), None)
    judge: Callable[[Sequence[Case]], list[str]] = (lambda some: session(program, some)) if program else by_aider
    if set(judge(exact())) != {"done"}:
        raise RuntimeError(f"{name} does not make exact edits")
    kinds: dict[str, Counter[str]] = {case.kind: Counter() for case in cases()}
    known = expressible(name)
    for at in range(0, len(known), TOGETHER):
        some = known[at : at + TOGETHER]
        for case, seen in zip(some, judge(some), strict=True):
            kinds[case.kind][seen] += 1
    package = program.package if program else aider.PACKAGE
    return {"package": package, "date": time.strftime("%Y-%m-%d"), "kinds": kinds}


def cell(counts: Mapping[str, int]) -> str:
    """How often there was each verdict: only which, where there was one."""
    seen = [word for word in VERDICTS if counts.get(word)]
    said = seen if len(seen) < 2 else [f"{counts[word]} {word}" for word in seen]
    return ", ".join(f"**{each}**" if "wrong" in each else each for each in said) or "–"


def table(figures: Mapping[str, Measured]) -> Iterator[str]:
    """The lines of the page's table."""
    yield f"| near miss | cases | {' | '.join(figures)} |"
    yield "|---|---|" + "---|" * len(figures)
    for kind, size in Counter(case.kind for case in cases()).items():
        yield f"| {kind} | {size} | {' | '.join(cell(one['kinds'][kind]) for one in figures.values())} |"
    for word in VERDICTS:
        sums = [sum(kind.get(word, 0) for kind in one["kinds"].values()) for one in figures.values()]
        yield f"| all: {word} | | {' | '.join(map(str, sums))} |"


def measured() -> dict[str, Measured]:
    """What the file holds."""
    return json.loads(FIGURES.read_text("utf-8"))


def main() -> None:
    """Measure and write."""
    figures = measured()
    for name in sys.argv[1:] or NAMES:
        figures[name] = measure(name)
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    before, _, rest = PAGE.read_text("utf-8").partition("<!-- table -->")
    lines = "\n".join(table(figures))
    PAGE.write_text(f"{before}<!-- table -->\n{lines}\n<!-- end -->{rest.partition('<!-- end -->')[2]}", "utf-8")


if __name__ == "__main__":
    main()
