"""`sagent review`: review a range of commits or the working tree without changing it; in CI too."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sagent.cli.flags import Parser, plugins_of
from sagent.cli.headless import Interrupter, exit_code
from sagent.cli.render import binary_safe, report
from sagent.cli.settings import load_settings, with_chosen_model
from sagent.config import Settings
from sagent.errors import UsageError
from sagent.events import Event, Notice, Result, ToolStarted
from sagent.lib.atomic import atomic_output
from sagent.lib.money import EXACT, ZERO
from sagent.lib.regular import read_given
from sagent.lib.text import printable
from sagent.plugins.review.changes import read_changes
from sagent.plugins.review.finding import SEVERITIES, Review
from sagent.plugins.review.fixer import fix, open_findings
from sagent.plugins.review.github import open_github
from sagent.plugins.review.gitlab import open_gitlab
from sagent.plugins.review.posting import MAX_COMMENTS, Forge, findings_of, post
from sagent.plugins.review.pull_request import PullRequest, read_event, read_merge_request, with_commits
from sagent.plugins.review.report import FORMATS, as_markdown, figures, read_review
from sagent.plugins.review.reviewer import review

FOUND = 7
EPILOG = """RANGE is A..B or A...B as in git diff, or one revision, for the commits of HEAD that it lacks. Without it,
the working tree is reviewed against HEAD, including untracked files.

exit codes:
  0 reviewed   7 findings of the severity of --fail-on or above
  1 failed   2 usage   3 budget   4 turn limit   5 answer cut   6 answer invalid   130, 143 interrupted"""


def run_review(argv: Sequence[str]) -> int:
    given, flags = _parse(argv)
    settings = with_chosen_model(load_settings(flags))
    if given.github_event is not None:
        return asyncio.run(_on_github(given, settings))
    if given.gitlab:
        return asyncio.run(_on_gitlab(given, settings))
    return asyncio.run(_locally(given, settings))


def _ours() -> Sequence[str]:
    """Return the flags of settings that a review decides itself."""
    return [setting.keyword for setting in plugins_of(sys.argv[1:]).passed_on("acting")]


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, dict[str, object]]:
    parser = Parser("review", "Review changes: findings by file and line, each with its severity.", epilog=EPILOG)
    parser.add_argument(
        "range", nargs="?", default="", metavar="RANGE", help="the changes to review (default: the working tree)"
    )
    forms = "text (default), markdown, json, sarif, codequality (GitLab) or annotations (GitHub)"
    parser.add_argument("--format", choices=FORMATS, default="text", metavar="F", help=forms)
    parser.add_argument("--out", metavar="FILE", help="write to FILE (default: stdout)")
    fail = f"exit {FOUND} on findings of this severity or above: {', '.join(SEVERITIES)}, none (default)"
    parser.add_argument("--fail-on", choices=(*SEVERITIES, "none"), default="none", metavar="SEVERITY", help=fail)
    parser.add_argument("--read", metavar="FILE", help="use this review, written by --format json, and call no model")
    parser.add_argument(
        "--fix", action="store_true", help="then have the model fix the findings in the files; no commands are run"
    )
    group = parser.add_argument_group("on GitHub and GitLab")
    event = "the payload of a pull_request or issue_comment event: review its pull request, and post with GITHUB_TOKEN"
    group.add_argument("--github-event", metavar="FILE", help=event)
    merge = "review the merge request of this pipeline, and post with GITLAB_TOKEN"
    group.add_argument("--gitlab", action="store_true", help=merge)
    group.add_argument("--no-post", action="store_true", help="post nothing (use --read in another job to post)")
    most = f"at most N comments on lines, the most severe first ({MAX_COMMENTS})"
    group.add_argument("--max-comments", metavar="N", type=int, default=MAX_COMMENTS, help=most)
    parser.add_cwd()
    parser.add_config()
    given, flags = parser.parse_apart(argv, _ours(), "a review only reads, with its own prompt and tools; leave it out")
    return given, {**flags, "cwd": given.cwd, "config": given.config}


async def _locally(args: argparse.Namespace, settings: Settings) -> int:
    if args.read is not None:
        found = _read(args.read)
    else:
        found, result = await _review(settings, args.range, "")
        if result.error is not None:
            return _failed(result)
        if (cap := settings.max_budget_usd) is not None:  # the review and the fix share it
            spent = EXACT.add(result.cost.total, result.cost.unbilled)
            settings = replace(settings, max_budget_usd=max(EXACT.subtract(cap, spent), ZERO))
    code = _report(args, found)
    return await _fix(settings, open_findings(found)) if args.fix and found.findings else code


async def _fix(settings: Settings, findings: Sequence[tuple[str, str]]) -> int:
    interrupter = Interrupter()
    result = await interrupter.outcome(fix(settings, findings, progress()))
    result = interrupter.result()[0] if result is None else result
    if result.error is not None:
        return _failed(result)
    binary_safe(sys.stdout).write(printable(f"{result.content}\n"))
    report(f"the fixes have cost {_cost(result)}")
    return 0


async def _review(settings: Settings, named: str, description: str) -> tuple[Review, Result]:
    """Review, and show the reading on a terminal. Raises UsageError if there is nothing to review."""
    changes = read_changes(settings.cwd, named)
    if not changes.files:
        raise UsageError(f"There are no changes in {changes.title}.")
    interrupter = Interrupter()
    found = await interrupter.outcome(review(settings, changes, progress(), description))
    if found is None:
        return Review(changes.base, changes.head), interrupter.result()[0]
    return found


def progress() -> Callable[[Event], None]:
    """Return a listener that shows calls on a terminal, and warnings."""
    err = binary_safe(sys.stderr)

    def show(event: Event) -> None:
        if isinstance(event, ToolStarted) and sys.stderr.isatty():
            err.write(printable(f"· {event.call.name} {next(iter(event.call.arguments.values()), '')}\n"))
        elif isinstance(event, Notice) and event.level != "info":
            err.write(printable(f"sagent: {event.text}\n"))
        err.flush()

    return show


def _failed(result: Result) -> int:
    why = "" if result.error is None else result.error.message.rstrip(".")
    report(f"the review failed: {why}. It has cost {_cost(result)}.")
    return exit_code(result)


def _cost(result: Result) -> str:
    return f"{'at least ' if result.cost.unpriced else ''}${result.run_usd:.4f}"


def _report(args: argparse.Namespace, review: Review) -> int:
    text = FORMATS[args.format](review)
    if args.out is None:
        binary_safe(sys.stdout).write(text)
    else:
        try:
            with atomic_output(Path(args.out), 0o666) as file:
                file.write(text.encode())
        except OSError as error:
            raise UsageError(f"{args.out}: {error.strerror or error}") from error
    if args.format != "text" or args.out is not None:
        sys.stderr.write(f"{figures(review)}\n")
    return FOUND if review.at_least(args.fail_on) else 0


def _read(file: str) -> Review:
    try:
        return read_review(read_given(file).decode())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text: give a review written by `sagent review --format json`.") from error


# -- in CI -------------------------------------------------------------------------------------------------------------


async def _on_github(args: argparse.Namespace, settings: Settings) -> int:
    pull, token = read_event(Path(args.github_event)), os.environ.get("GITHUB_TOKEN", "")
    if pull.skip:
        return _skipped(pull)
    if not token and not (args.no_post and pull.base):
        raise UsageError("GITHUB_TOKEN is not set: pass the job's token to the step, or give --no-post.")
    async with open_github(os.environ.get("GITHUB_API_URL", ""), token, pull.repository, pull.number) as github:
        if not pull.base:
            pull = with_commits(pull, await github.pull())
        if pull.skip:
            return _skipped(pull)
        if pull.wish == "fix":
            return await _fix(settings, findings_of(await github.line_comments()))
        return await _in_ci(args, settings, pull, None if args.no_post else github)


async def _on_gitlab(args: argparse.Namespace, settings: Settings) -> int:
    pull = read_merge_request(os.environ)
    if pull.skip:
        return _skipped(pull)
    if args.no_post:
        return await _in_ci(args, settings, pull, None)
    api, token = os.environ.get("CI_API_V4_URL", ""), os.environ.get("GITLAB_TOKEN", "")
    if not (api and token):
        missing = "GITLAB_TOKEN" if api else "CI_API_V4_URL"
        raise UsageError(
            f"{missing} is not set: pass the job a project access token with the scope api, or give --no-post."
        )
    async with open_gitlab(api, token, pull.repository, pull.number, pull.head) as gitlab:
        return await _in_ci(args, settings, pull, gitlab)


async def _in_ci(args: argparse.Namespace, settings: Settings, pull: PullRequest, forge: Forge | None) -> int:
    found = _read(args.read) if args.read is not None else None
    if found is None:
        found, result = await _review(settings, f"{pull.base}...{pull.head}", pull.about)
        if result.error is not None:
            return _failed(result)
    elif found.head != pull.head:
        raise UsageError(
            f"{args.read} is a review of {found.head[:12]}, but the change is now at {pull.head[:12]}: review it again."
        )
    if forge is not None:
        await _post(forge, found, args.max_comments)
    _tell_job(found)
    return _report(args, found)


def _skipped(pull: PullRequest) -> int:
    report(f"change {pull.number} was not reviewed: {pull.skip}")
    return 0


async def _post(forge: Forge, review: Review, limit: int) -> None:
    posted = await post(forge, review, limit)
    report(
        f"comments on lines: {posted.added} added, {posted.changed} changed, {posted.gone} no longer found, "
        f"{posted.left_out} left out"
    )


def _tell_job(review: Review) -> None:
    """Write the summary and the outputs of a GitHub Actions job, if this is one."""
    lines = f"findings={len(review.findings)}\ncost-usd={review.usd}\n"
    for variable, text in (("GITHUB_STEP_SUMMARY", as_markdown(review)), ("GITHUB_OUTPUT", lines)):
        if file := os.environ.get(variable):
            with Path(file).open("a", encoding="utf-8") as out:
                out.write(text)
