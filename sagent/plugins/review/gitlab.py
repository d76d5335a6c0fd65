"""The few calls of GitLab's REST API (docs.gitlab.com/api) that a review needs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.plugins.review.forge import Api, Comment, ForgeError, LineComment, open_api


class GitLab:
    """A merge request, at `root` of the API. Discussions that the token's `user` began are ours. `version` is the
    version of the diff for comments at its lines."""

    def __init__(self, api: Api, root: str, user: int, version: Mapping[str, object]) -> None:
        self._api, self._root, self._user, self._version = api, root, user, version

    async def comments(self) -> Sequence[Comment]:
        return [each for each in await self._ours() if not each.place]

    async def comment(self, body: str) -> None:
        await self._api.call("POST", f"{self._root}/notes", {"body": body})

    async def line_comments(self) -> Sequence[Comment]:
        return [each for each in await self._ours() if each.place]

    async def edit_comment(self, key: str, body: str) -> None:
        await self._api.call("PUT", f"{self._root}/discussions/{key}", {"body": body})

    edit_line_comment = edit_comment

    async def comment_lines(self, commit: str, comments: Sequence[LineComment]) -> int:
        """Add comments, each a thread at its line, and return how many GitLab refused."""
        refused = 0
        for comment in comments:
            try:
                body = {"body": comment.body, "position": self._position(commit, comment)}
                await self._api.call("POST", f"{self._root}/discussions", body)
            except ForgeError as error:
                if error.status not in (400, 422):
                    raise
                refused += 1
        return refused

    def suggestion(self, lines: int) -> str:
        """Return the beginning of a block that replaces the lines of a comment. GitLab puts the comment at the last of
        them."""
        return f"suggestion:-{lines - 1}+0"

    def _position(self, commit: str, comment: LineComment) -> Mapping[str, object]:
        """Return a comment's place. An old line has its old number too (docs.gitlab.com/api/discussions)."""
        at: dict[str, object] = {
            "position_type": "text",
            "base_sha": self._version.get("base_commit_sha"),
            "start_sha": self._version.get("start_commit_sha"),
            "head_sha": commit,
            "old_path": comment.old_path or comment.path,
            "new_path": comment.path,
            "new_line": comment.end_line,
        }
        return at | ({"old_line": comment.old_line} if comment.old_line else {})

    async def _ours(self) -> Sequence[Comment]:
        found: list[Comment] = []
        for thread in await self._api.all(f"{self._root}/discussions"):
            note = as_object(next(iter(as_array(thread.get("notes"))), None))
            if as_int(as_object(note.get("author")).get("id")) == self._user and note.get("system") is not True:
                at = as_object(note.get("position"))
                place = f"{as_str(at.get('new_path'))}:{as_int(at.get('new_line'))}" if at else ""
                key = f"{as_str(thread.get('id'))}/notes/{as_int(note.get('id'))}"
                found.append(Comment(key, as_str(note.get("body")), place))
        return found


@asynccontextmanager
async def open_gitlab(api: str, token: str, project: str, number: int, head: str) -> AsyncGenerator[GitLab]:
    """Yield a merge request by its project's id and its number there. Raises ForgeError, also if it is no longer at
    `head`."""
    async with open_api("GitLab", api, {"PRIVATE-TOKEN": token}) as calls:
        user = as_int((await calls.call("GET", "user")).get("id"))
        root = f"projects/{project}/merge_requests/{number}"
        version = as_object(next(iter(await calls.all(f"{root}/versions")), None))  # the newest comes first
        if (stands := as_str(version.get("head_commit_sha"))) != head:
            raise ForgeError(
                f"The merge request is at {stands[:12] or 'no commit'}, and this pipeline is for {head[:12]}: run "
                "its newest pipeline."
            )
        yield GitLab(calls, root, user, version)
