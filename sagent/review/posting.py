"""A review on a pull request: a comment at each line, and one summary. Another review changes these, and adds what is
new; it repeats nothing."""

import re
from collections.abc import Mapping, Sequence

from sagent.bridges.github import GitHub, GitHubError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_int, as_object, as_str
from sagent.review.finding import Finding, Review
from sagent.review.report import as_markdown, comment

SUMMARY = "<!-- sagent-review -->"
_MARK = re.compile(r"<!-- sagent-finding ([0-9a-f]{16}) -->\s*\Z")
MOST_COMMENTS = 20  # of one review: more have timed out, and nobody reads them
MOST_BODY = 65_000  # characters; GitHub takes 65,536
GONE = "*No longer found.*\n\n"


@dataclass(frozen=True, slots=True)
class Posted:
    """How many comments at lines were added, changed, and said to be no longer true; and how many were left out."""

    added: int = 0
    changed: int = 0
    gone: int = 0
    left_out: int = 0


async def post(github: GitHub, number: int, review: Review, most: int = MOST_COMMENTS) -> Posted:
    """Post it. Comments count as ours by the mark at their end and the bot that wrote them. Raises GitHubError."""
    ours = _ours(await github.review_comments(number))
    shown = [each for each in review.findings if each.in_diff][:most]
    changed = gone = 0
    for finding in shown:
        if (old := ours.get(finding.mark)) is not None and as_str(old.get("body")) != (body := _body(finding)):
            await github.edit_review_comment(as_int(old.get("id")), body)
            changed += 1
    still = {each.mark for each in review.findings}
    for mark, old in ours.items():
        body = as_str(old.get("body"))
        if mark not in still and not body.startswith(GONE):
            await github.edit_review_comment(as_int(old.get("id")), (GONE + body)[:MOST_BODY])
            gone += 1
    new = [each for each in shown if each.mark not in ours]
    refused = await _add(github, number, review.head, new)
    left_out = len([each for each in review.findings if each.in_diff]) - len(shown) + refused
    await _summarise(github, number, review, left_out)
    return Posted(len(new) - refused, changed, gone, left_out)


async def _add(github: GitHub, number: int, commit: str, findings: Sequence[Finding]) -> int:
    """Add comments in one review; how many GitHub refused. One wrong line has it refuse them all, so that they are then
    added one by one."""
    if not findings:
        return 0
    try:
        await github.review(number, commit, [_at_line(each) for each in findings])
    except GitHubError as error:
        if error.status != 422:
            raise
        refused = 0
        for each in findings:
            try:
                await github.review(number, commit, [_at_line(each)])
            except GitHubError as wrong:
                if wrong.status != 422:
                    raise
                refused += 1
        return refused
    return 0


async def _summarise(github: GitHub, number: int, review: Review, left_out: int) -> None:
    note = f"\n{left_out} of them have no comment at their line.\n" if left_out else ""
    body = f"## Review\n\n{as_markdown(review)}{note}"[: MOST_BODY - len(SUMMARY)] + f"\n{SUMMARY}"
    for old in await github.comments(number):
        if as_str(old.get("body")).rstrip().endswith(SUMMARY) and _is_bot(old):
            if as_str(old.get("body")) != body:
                await github.edit_comment(as_int(old.get("id")), body)
            return
    await github.comment(number, body)


def _ours(comments: Sequence[Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
    """Our comments by their marks."""
    found: dict[str, Mapping[str, object]] = {}
    for each in comments:
        mark = _MARK.search(as_str(each.get("body")))
        if mark is not None and _is_bot(each):
            found.setdefault(mark[1], each)
    return found


def findings_of(comments: Sequence[Mapping[str, object]]) -> Sequence[tuple[str, str]]:
    """Where our comments stand that are still true, and what they say."""
    return [
        (f"{as_str(each.get('path'))}:{_line_of(each)}", _MARK.sub("", as_str(each.get("body"))).strip())
        for each in _ours(comments).values()
        if not as_str(each.get("body")).startswith(GONE)
    ]


def _line_of(each: Mapping[str, object]) -> int:
    """Where a comment stands; of one that the changes have overtaken, where it stood."""
    return as_int(each.get("line") or each.get("original_line"))


def _is_bot(each: Mapping[str, object]) -> bool:
    return as_str(as_object(each.get("user")).get("type")) == "Bot"


def _body(finding: Finding) -> str:
    end = f"\n\n<!-- sagent-finding {finding.mark} -->"
    return comment(finding)[: MOST_BODY - len(end)] + end


def _at_line(finding: Finding) -> Mapping[str, object]:
    at: dict[str, object] = {"path": finding.file, "side": "RIGHT", "line": finding.end_line, "body": _body(finding)}
    if finding.end_line > finding.line:
        at |= {"start_line": finding.line, "start_side": "RIGHT"}
    return at
