"""Post a review on a pull or merge request: a comment at each line, and one summary. A later review changes these and
adds new ones. It repeats nothing."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from sagent.lib.dataclass import dataclass
from sagent.plugins.review.finding import Finding, Review
from sagent.plugins.review.forge import Comment, LineComment
from sagent.plugins.review.report import as_markdown, comment

SUMMARY = "<!-- sagent-review -->"
_MARK = re.compile(r"<!-- sagent-finding ([0-9a-f]{16}) -->\s*\Z")
MAX_COMMENTS = 20  # of one review: GitHub has timed out with more, and nobody reads them
MAX_BODY_CHARS = 65_000  # ; GitHub takes 65,536
GONE = "*No longer found.*\n\n"


@dataclass(frozen=True, slots=True)
class Posted:
    """The number of comments that were added, changed, marked as no longer true, and left out."""

    added: int = 0
    changed: int = 0
    gone: int = 0
    left_out: int = 0


class Forge(Protocol):
    """A pull request of GitHub or a merge request of GitLab: its comments that the token's user wrote, and more. A call
    that fails raises ForgeError."""

    async def comments(self) -> Sequence[Comment]: ...
    async def comment(self, body: str) -> None: ...
    async def edit_comment(self, key: str, body: str) -> None: ...
    async def line_comments(self) -> Sequence[Comment]: ...
    async def edit_line_comment(self, key: str, body: str) -> None: ...
    async def comment_lines(self, commit: str, comments: Sequence[LineComment]) -> int:
        """Add comments, and return how many were refused because of their place."""
        ...

    def suggestion(self, lines: int) -> str:
        """Return the beginning of a block that replaces a comment's lines."""
        ...


async def post(forge: Forge, review: Review, limit: int = MAX_COMMENTS) -> Posted:
    """Post the review. A comment is ours if it ends with our mark and we wrote it. Raises ForgeError."""
    ours = _marked(await forge.line_comments())
    shown = [each for each in review.findings if each.in_diff][: max(limit, 0)]
    changed = gone = 0
    for finding in shown:
        if (old := ours.get(finding.mark)) is not None and old.body != (body := _body(forge, finding)):
            await forge.edit_line_comment(old.key, body)
            changed += 1
    still = {each.mark for each in review.findings}
    for mark, old in ours.items():
        if mark not in still and not old.body.startswith(GONE):
            await forge.edit_line_comment(old.key, (GONE + old.body)[:MAX_BODY_CHARS])
            gone += 1
    new = [
        LineComment(each.file, each.line, each.end_line, _body(forge, each), each.old_file, each.old_line)
        for each in shown
        if each.mark not in ours
    ]
    refused = await forge.comment_lines(review.head, new) if new else 0
    left_out = len([each for each in review.findings if each.in_diff]) - len(shown) + refused
    await _summarise(forge, review, left_out)
    return Posted(len(new) - refused, changed, gone, left_out)


async def _summarise(forge: Forge, review: Review, left_out: int) -> None:
    note = f"\n{left_out} of them have no comment at their line.\n" if left_out else ""
    body = f"## Review\n\n{as_markdown(review)}{note}"[: MAX_BODY_CHARS - len(SUMMARY)] + f"\n{SUMMARY}"
    for old in await forge.comments():
        if old.body.rstrip().endswith(SUMMARY):
            if old.body != body:
                await forge.edit_comment(old.key, body)
            return
    await forge.comment(body)


def _marked(comments: Sequence[Comment]) -> Mapping[str, Comment]:
    """Comments by their marks."""
    found: dict[str, Comment] = {}
    for each in comments:
        if mark := _MARK.search(each.body):
            found.setdefault(mark[1], each)
    return found


def findings_of(comments: Sequence[Comment]) -> Sequence[tuple[str, str]]:
    """Return the places and texts of our comments that are still true."""
    return [
        (each.place, _MARK.sub("", each.body).strip())
        for each in _marked(comments).values()
        if not each.body.startswith(GONE)
    ]


def _body(forge: Forge, finding: Finding) -> str:
    end = f"\n\n<!-- sagent-finding {finding.mark} -->"
    block = forge.suggestion(finding.end_line - finding.line + 1)
    return comment(finding, block)[: MAX_BODY_CHARS - len(end)] + end
