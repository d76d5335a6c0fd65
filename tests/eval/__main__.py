"""`make eval`: what agents get done with a small model on llama-server, ours beside others, under the same limits.

Model and server are fetched once as packages; LLAMA_CPP_SERVER and LLAMA_CPP_MODEL name files of one's own. The
harnesses take turns, task by task. They run a small model's commands unasked, and pi has no sandbox.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

from sagent.errors import SagentError
from sagent.plugins.local.packages import MODELS, find
from sagent.plugins.local.progress import ProgressLine
from tests.eval import results
from tests.eval.advising import FORMS
from tests.eval.harnesses import HARNESSES, Harness, MissingError
from tests.eval.recorder import Limits
from tests.eval.runs import Bench, Row, measure
from tests.eval.served import ServerError, served
from tests.eval.suites import AnyTask, chosen, folder_tasks
from tests.eval.tasks import TASKS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "eval.md"
OUT = ROOT / "build" / "eval"


def main() -> None:
    """Measure and print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", default="", metavar="PART,…", help="only tasks with one of these in their names")
    parser.add_argument("--harness", action="append", choices=list(HARNESSES), help="only this one; may be repeated")
    parser.add_argument("--model", choices=list(MODELS), default=next(iter(MODELS)))
    parser.add_argument(
        "--suite", type=Path, metavar="FOLDER", help="tasks of a folder: */prompt.txt, files/, check.py"
    )
    parser.add_argument("--advise", choices=FORMS, help="give sagent a scripted advisor that knows each task")
    parser.add_argument(
        "--variable", action="append", default=[], metavar="NAME=VALUE", help="for the agents; may be repeated"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help="for results (default: build/eval)")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the results into docs/eval.md")
    arguments = parser.parse_args()
    out: Path = arguments.out.absolute()
    if arguments.page:
        if not (rows := results.read(out)):
            parser.error(f"{out} holds no results; run python -m tests.eval first")
        results.write_page(PAGE, rows)
        return
    suite: Path | None = arguments.suite
    tasks = chosen(TASKS if suite is None else folder_tasks(suite), arguments.tasks)
    if not tasks:
        parser.error(f"no task of {suite or 'the suite'} has {arguments.tasks or 'a check.py'}")
    if arguments.advise and (suite is not None or arguments.harness != ["sagent"]):
        parser.error("--advise needs our own tasks and --harness sagent")
    harnesses = available(arguments.harness or list(HARNESSES))
    if not harnesses:
        parser.error("no harness is left")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server and the agent are ended too
    try:
        launch = find(MODELS[arguments.model], os.environ, ProgressLine(sys.stderr))
        with served(launch) as url:
            named = suite.absolute().name if suite else "sagent"
            variables = dict(each.split("=", 1) for each in arguments.variable)
            bench = Bench(url, launch.name, named, Limits(), out, arguments.advise, variables)
            rows = run(bench, harnesses, tasks)
    except (SagentError, ServerError) as error:
        sys.exit(f"eval: {error}")
    except KeyboardInterrupt:
        sys.exit(f"eval: stopped; the runs that are done are in {out / results.FILE}")
    print("\n".join(results.tables(rows)))


def available(names: list[str]) -> list[Harness]:
    """Return the harnesses that can be had; say of each other in a line why not."""
    found: list[Harness] = []
    for name in names:
        try:
            found.append(HARNESSES[name]())
        except MissingError as error:
            say(f"{name} is left out: {error}.")
    return found


def run(bench: Bench, harnesses: list[Harness], tasks: list[AnyTask]) -> list[Row]:
    """Run every task with each harness in turn; return the rows of these runs."""
    rows: list[Row] = []
    for number, task in enumerate(tasks, 1):
        for harness in harnesses:
            row = measure(bench, harness, task)
            results.append(bench.out, row)
            rows.append(row)
            told = "done" if row.success else f"failed: {row.reason.splitlines()[-1]}"
            limit = f" (limit of {row.ended})" if row.ended else ""
            asked = "".join(f", {each}" for each in row.consultations)
            say(f"{number}/{len(tasks)} {task.name} · {harness.name}: {told}{limit}{asked}, {row.seconds:.0f} s")
    return rows


def say(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
