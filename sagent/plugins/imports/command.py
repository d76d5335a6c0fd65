"""`sagent import`: converts another program's setup to settings; shows them, and writes them on request."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sagent.cli.flags import Parser
from sagent.cli.render import binary_safe
from sagent.cli.settings import load_settings
from sagent.cli.tables import write
from sagent.errors import SagentError, UsageError
from sagent.lib.text import Table, printable

if TYPE_CHECKING:
    from sagent.plugins.imports.plan import Additions, Plan

DESCRIPTION = """Show another program's settings in this project and in your home directory: which are imported, which
sagent uses as they are, and which are left out and why. Nothing is written without --write, and nothing is run."""
PROGRAMS = ("claude", "codex", "opencode", "gemini", "vscode")


def run_import(argv: Sequence[str]) -> int:
    parser = Parser("import", DESCRIPTION)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--write", action="store_true", help="write the imported settings")
    parser.add_cwd()
    parser.add_config()
    given = parser.parse_args(argv or ["--help"])
    settings = load_settings({"config": given.config, "cwd": given.cwd})
    from sagent.context.instructions import repository_root
    from sagent.plugins.imports.claude import take_claude
    from sagent.plugins.imports.others import take_codex, take_gemini, take_opencode, take_vscode
    from sagent.plugins.imports.plan import Plan

    project = repository_root(settings.cwd) or settings.cwd
    trusted = load_settings({"config": given.config, "cwd": given.cwd, "trust_project": True})
    found = cast("Sequence[object]", trusted.plugged.get("hooks", ()))
    hooks = frozenset(map(str, found))  # including those that wait for the person's trust
    taken = frozenset(settings.rows_of("mcp"))
    plan = Plan(project, Path("~").expanduser(), settings.config_dir, taken, hooks, plugins=settings.plugins)
    plan.look()
    takes = (take_claude, take_codex, take_opencode, take_gemini, take_vscode)
    dict(zip(PROGRAMS, takes, strict=True))[given.program](plan)
    out = binary_safe(sys.stdout)
    if not plan.items:
        write(out, [f"Nothing is set up for {given.program} in {project} or in your home."])
        return 0
    rows = tuple(
        (item.status, item.kind, printable(item.name), printable(item.note), printable(_place(item.file, plan)))
        for item in plan.items
    )
    write(out, [Table(rows, ("", "what", "name", "how", "from"))])
    both = {settings.config_dir / "config.toml": plan.own, project / ".sagent" / "config.toml": plan.shared}
    targets = {path: each for path, each in both.items() if each.mcp or each.hooks or each.allow or each.deny}
    if not given.write:
        named = ", ".join(map(str, (*targets, *plan.files)))
        write(out, [f"Nothing was written. With --write: {named}" if named else "There is nothing to write."])
        return 0
    write_plan(plan, targets, lambda: load_settings({"config": given.config, "cwd": given.cwd}))
    write(out, [f"Written: {path}" for path in (*targets, *plan.files)] or ["There was nothing to write."])
    return 0


def _place(file: Path, plan: "Plan") -> str:
    if file.is_relative_to(plan.project):
        return str(file.relative_to(plan.project))
    return f"~/{file.relative_to(plan.home)}" if file.is_relative_to(plan.home) else str(file)


def write_plan(plan: "Plan", targets: "Mapping[Path, Additions]", check: Callable[[], object]) -> None:
    """Write the plan. Restore the settings if `check`, which reads them, raises, because nothing would start any more.
    Raises UsageError for a file that cannot be changed; files written before it stay."""
    from sagent.plugins.imports.tables import add_tables, write_private
    from sagent.repl.settings_file import add_rule

    for path in (*targets, *plan.files):
        if path.is_relative_to(plan.project) and not Path(os.path.realpath(path)).is_relative_to(
            plan.project.resolve()
        ):
            raise UsageError(f"{path} is a link out of the project, to {os.path.realpath(path)}: nothing was written.")
    before = {path: path.read_bytes() if path.exists() else None for path in targets}
    try:
        for path, additions in targets.items():
            for rule in additions.allow:
                add_rule(path, rule)
            for rule in additions.deny:
                add_rule(path, rule, "deny")
            if additions.tables:
                add_tables(path, additions.tables)
        try:
            check()
        except SagentError:
            for path, data in before.items():
                path.unlink() if data is None else write_private(path, data)
            raise
        for path, text in plan.files.items():
            write_private(path, text.encode())
    except OSError as error:
        raise UsageError(f"{error.filename or 'a file'} was not written: {error.strerror or error}") from error
