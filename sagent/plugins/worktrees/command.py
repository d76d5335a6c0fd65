"""`sagent worktree`: lists, shows, merges and drops the worktrees of a repository."""

import sys
from collections.abc import Sequence

from sagent.cli.flags import Parser
from sagent.cli.render import report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.errors import UsageError
from sagent.lib.text import Table
from sagent.plugins.worktrees.record import Record, Repository, find_record, holding, is_held, records, repository_at
from sagent.plugins.worktrees.run import merge_and_remove
from sagent.plugins.worktrees.worktree import described_or_reason, diff, outcome_or_reason, remove, repair

DESCRIPTION = "List, show, merge or drop the git worktrees that sagent made of this repository."
EPILOG = """operations:
  list    all of them, with what was done in each (the default)
  diff    what was done in NAME, as a patch
  merge   bring it into your work tree, and remove the worktree
  drop    remove the worktree with all that was done in it"""


def run_worktree(argv: Sequence[str]) -> int:
    """Run the operation; raises UsageError."""
    parser = Parser("worktree", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("operation", nargs="?", choices=("list", "diff", "merge", "drop"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="a worktree's name, as it is listed")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for list")
    parser.add_cwd()
    given = parser.parse_args(argv)
    settings = load_settings({"cwd": given.cwd} if given.cwd else {})
    repository = repository_at(settings.cwd, settings.state_dir)
    for text in repair(repository):
        report(text)
    if given.operation == "list":
        _list(repository, as_json=given.json)
        return 0
    record = find_record(repository, given.name or _only(repository, given.operation))
    if given.operation == "diff":
        sys.stdout.buffer.write(diff(record))
        return 0
    with holding(record):
        if given.operation == "merge":
            merge_and_remove(record)
        else:
            done = outcome_or_reason(record).rstrip(".")
            remove(record)
            report(f"The worktree {record.name} is dropped: {done}.")
    return 0


def _only(repository: Repository, operation: str) -> str:
    """Return the name of the only worktree. Raises UsageError if there are several, or none."""
    names = [record.name for record in records(repository)]
    if len(names) == 1:
        return names[0]
    raise UsageError(f"sagent worktree {operation} needs a name. There are: {', '.join(names) or 'none'}.")


def _list(repository: Repository, *, as_json: bool) -> None:
    found = [*records(repository)]
    rows = tuple((each.name, _state(each), each.purpose, outcome_or_reason(each), str(each.path)) for each in found)
    blocks = [Table(rows, ("name", "state", "for", "done", "directory"))]
    if not found:
        blocks = [f"There are no worktrees of {repository.root}."]
    show({"worktrees": [described_or_reason(each) for each in found]} if as_json else {}, blocks, as_json=as_json)


def _state(record: Record) -> str:
    return "in use" if is_held(record) else record.state
