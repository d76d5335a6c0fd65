"""The few calls of GitHub's REST API (docs.github.com/rest) that a review needs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from sagent.lib.json import as_int, as_object, as_str
from sagent.plugins.review.forge import Api, Comment, ForgeError, LineComment, open_api

API = "https://api.github.com"


class GitHub:
    """A pull request of a repository, for the owner of a token. Comments by a bot are ours."""

    def __init__(self, api: Api, number: int) -> None:
        self._api, self._number = api, number

    async def pull(self) -> Mapping[str, object]:
        return await self._api.call("GET", f"pulls/{self._number}")

    async def comments(self) -> Sequence[Comment]:
        return _ours(await self._api.all(f"issues/{self._number}/comments"))

    async def comment(self, body: str) -> None:
        await self._api.call("POST", f"issues/{self._number}/comments", {"body": body})

    async def edit_comment(self, key: str, body: str) -> None:
        await self._api.call("PATCH", f"issues/comments/{key}", {"body": body})

    async def line_comments(self) -> Sequence[Comment]:
        return _ours(await self._api.all(f"pulls/{self._number}/comments"))

    async def edit_line_comment(self, key: str, body: str) -> None:
        await self._api.call("PATCH", f"pulls/comments/{key}", {"body": body})

    async def comment_lines(self, commit: str, comments: Sequence[LineComment]) -> int:
        """Add comments in one review, and return how many GitHub refused. One wrong line makes it refuse them all: then
        they are added one by one."""
        body = {"commit_id": commit, "event": "COMMENT", "comments": [_at_line(comment) for comment in comments]}
        try:
            await self._api.call("POST", f"pulls/{self._number}/reviews", body)
        except ForgeError as error:
            if error.status != 422:
                raise
            return 1 if len(comments) == 1 else sum([await self.comment_lines(commit, [each]) for each in comments])
        return 0

    def suggestion(self, lines: int) -> str:
        """Return the beginning of a block that replaces the lines of a comment: here all of them."""
        return "suggestion"


def _ours(comments: Sequence[Mapping[str, object]]) -> Sequence[Comment]:
    return [
        Comment(str(as_int(each.get("id"))), as_str(each.get("body")), f"{as_str(each.get('path'))}:{_line(each)}")
        for each in comments
        if as_str(as_object(each.get("user")).get("type")) == "Bot"
    ]


def _line(comment: Mapping[str, object]) -> int:
    """Return the line of a comment, or its former line if later changes have removed it."""
    return as_int(comment.get("line") or comment.get("original_line"))


def _at_line(comment: LineComment) -> Mapping[str, object]:
    at: dict[str, object] = {"path": comment.path, "side": "RIGHT", "line": comment.end_line, "body": comment.body}
    if comment.end_line > comment.line:
        at |= {"start_line": comment.line, "start_side": "RIGHT"}
    return at


@asynccontextmanager
async def open_github(api: str, token: str, repository: str, number: int) -> AsyncGenerator[GitHub]:
    """Yield a pull request of "owner/name" at an API's address, by default github.com's."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    async with open_api("GitHub", f"{(api or API).rstrip('/')}/repos/{repository}", headers) as calls:
        yield GitHub(calls, number)
