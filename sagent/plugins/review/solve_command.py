"""`sagent solve`: solve the issue that a comment in CI asks for."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sagent.cli.flags import Parser
from sagent.cli.headless import Interrupter, exit_code
from sagent.cli.render import binary_safe, report
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.lib.atomic import atomic_output
from sagent.plugins.review.command import progress
from sagent.plugins.review.issue import COMMAND, Issue, read_github, read_gitlab
from sagent.plugins.review.pull_request import WISH
from sagent.plugins.review.solver import body_for, solve, title_for

ABOUT = f"""Solve an issue in the working tree, in CI: a comment that begins with `{WISH} {COMMAND}`, by somebody with
write access, asks for it. Nothing is committed or sent; the title and the text of a pull request are written into a
folder."""
_OURS = ("plan", "permission_mode", "continue_session", "resume", "session", "fork", "ephemeral")


def run_solve(argv: Sequence[str]) -> int:
    """Solve an issue; return the run's exit code, and 0 if there is nothing to do. Raises UsageError."""
    parser = Parser("solve", ABOUT)
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--github-event", metavar="FILE", help="the payload of an issue_comment event")
    one.add_argument("--gitlab-event", metavar="FILE", help="the payload of GitLab's webhook for comments")
    people = "users of GitLab whose comments are heard, separated by commas"
    parser.add_argument("--people", metavar="NAMES", default="", help=people)
    parser.add_argument("--out", metavar="DIR", default="sagent-solve", help="the folder (sagent-solve)")
    parser.add_cwd()
    parser.add_config()
    given, flags = parser.parse_apart(argv, _OURS, "`sagent solve` decides that itself; leave it out")
    issue = _issue(given)
    if issue.skip:
        report(f"issue {issue.number} is left alone: {issue.skip}")
        return 0
    settings = with_chosen_model(load_settings({**flags, "cwd": given.cwd, "config": given.config}))
    return asyncio.run(_solve(settings, issue, Path(given.out)))


def _issue(flags: argparse.Namespace) -> Issue:
    if flags.github_event is not None:
        return read_github(Path(flags.github_event))
    people = [name.strip() for name in flags.people.split(",") if name.strip()]
    if not people:
        raise UsageError("--gitlab-event needs --people: GitLab does not say who may write.")
    return read_gitlab(Path(flags.gitlab_event), people)


async def _solve(settings: Settings, issue: Issue, folder: Path) -> int:
    show: Callable[..., None] = progress()
    interrupter = Interrupter()
    result = await interrupter.outcome(solve(settings, issue, show))
    result = interrupter.result()[0] if result is None else result
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("title.txt", title_for(issue)), ("body.md", body_for(issue, result))):
            with atomic_output(folder / name, 0o666) as file:
                file.write(text.encode())
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from error
    binary_safe(sys.stdout).write(f"{folder / 'body.md'}\n")
    _tell_job(f"session={result.session_id}\ncost-usd={result.run_usd:f}\nnumber={issue.number}\n")
    if result.error is not None:
        report(f"The issue is not solved: {result.error.message}")
    return exit_code(result)


def _tell_job(outputs: str) -> None:
    """Write the outputs of a job of GitHub Actions, if this is one."""
    if file := os.environ.get("GITHUB_OUTPUT"):
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(outputs)
