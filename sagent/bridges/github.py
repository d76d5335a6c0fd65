"""The few calls of GitHub's REST API (docs.github.com/rest) that a review needs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sagent.errors import SagentError
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    import httpx2

API = "https://api.github.com"
TRIES = 4
LONGEST_WAIT = 60.0  # seconds that are waited where GitHub says how long
MOST_PAGES = 30  # of 100 each
_SECONDS = 30.0  # for one call


class GitHubError(SagentError):
    """GitHub refused a call with an HTTP status, or was not reached: then that is 0."""

    kind = "github"

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


class GitHub:
    """A repository, as a token may use it: "owner/name"."""

    def __init__(self, http: "httpx2.AsyncClient", repository: str) -> None:
        self._http, self._repository = http, repository

    async def comments(self, number: int) -> Sequence[Mapping[str, object]]:
        """The comments below a pull request."""
        return await self._all(f"issues/{number}/comments")

    async def comment(self, number: int, body: str) -> Mapping[str, object]:
        return await self._call("POST", f"issues/{number}/comments", {"body": body})

    async def edit_comment(self, comment: int, body: str) -> None:
        await self._call("PATCH", f"issues/comments/{comment}", {"body": body})

    async def review_comments(self, number: int) -> Sequence[Mapping[str, object]]:
        """The comments at lines of a pull request."""
        return await self._all(f"pulls/{number}/comments")

    async def edit_review_comment(self, comment: int, body: str) -> None:
        await self._call("PATCH", f"pulls/comments/{comment}", {"body": body})

    async def review(self, number: int, commit: str, comments: Sequence[Mapping[str, object]]) -> None:
        """A review that is these comments."""
        body = {"commit_id": commit, "event": "COMMENT", "comments": list(comments)}
        await self._call("POST", f"pulls/{number}/reviews", body)

    async def pull(self, number: int) -> Mapping[str, object]:
        return await self._call("GET", f"pulls/{number}")

    async def _all(self, path: str) -> Sequence[Mapping[str, object]]:
        found: list[Mapping[str, object]] = []
        for page in range(1, MOST_PAGES + 1):
            more = as_array(await self._answer("GET", f"{path}?per_page=100&page={page}", None))
            found += map(as_object, more)
            if len(more) < 100:
                break
        return found

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
        return as_object(await self._answer(method, path, body))

    async def _answer(self, method: str, path: str, body: Mapping[str, object] | None) -> object:
        """What GitHub answers. A limit of its is waited for; a call that writes is made again only where it says that
        it did nothing. Raises GitHubError."""
        import httpx2

        for left in reversed(range(TRIES)):
            try:
                response = await self._http.request(method, f"repos/{self._repository}/{path}", json=body)
            except httpx2.HTTPError as error:
                if left and method == "GET":
                    await asyncio.sleep(TRIES - left)
                    continue
                raise GitHubError(f"GitHub was not reached: {type(error).__name__}: {error}") from error
            if response.status_code < 300:
                return response.json() if response.content else None
            wait = _wait(response, TRIES - left)
            if not left or wait is None or wait > LONGEST_WAIT or (response.status_code >= 500 and method != "GET"):
                words = f"GitHub answered {method} {path} with {response.status_code}: {_said(response)}"
                raise GitHubError(words, response.status_code)
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")


def _wait(response: "httpx2.Response", tried: int) -> float | None:
    """Seconds until a call may be made again; None where that would be no use. A limit is 403 or 429 (docs.github.com,
    best practices for using the REST API)."""
    said = response.headers.get("retry-after", "")
    limited = response.status_code == 429 or (
        response.status_code == 403 and (said or response.headers.get("x-ratelimit-remaining") == "0")
    )
    if limited:
        return float(said) if said.isdecimal() else LONGEST_WAIT
    return float(tried) if response.status_code >= 500 else None


def _said(response: "httpx2.Response") -> str:
    try:
        value = as_object(json.loads(response.content))
    except ValueError:
        return one_line(printable(response.text), 300)
    errors = "; ".join(str(each) for each in as_array(value.get("errors")))
    return one_line(printable(f"{as_str(value.get('message'))} {errors}".strip()), 300)


@asynccontextmanager
async def open_github(api: str, token: str, repository: str) -> AsyncGenerator[GitHub]:
    """A repository at an API's address, by default github.com's."""
    import httpx2

    from sagent.version import __version__

    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "User-Agent": f"sagent/{__version__}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    base = f"{(api or API).rstrip('/')}/"
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=_SECONDS) as http:
        yield GitHub(http, repository)
