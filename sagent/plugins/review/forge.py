"""The common part of the REST APIs of GitHub and GitLab, for reviews."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sagent.errors import SagentError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str
from sagent.lib.text import one_line, printable

if TYPE_CHECKING:
    import httpx2

TRIES = 4
MAX_WAIT_SECONDS = 60.0  # longest wait that an API may ask for
MAX_PAGES = 30  # of 100 each
_SECONDS = 30.0  # for one call


class ForgeError(SagentError):
    """GitHub or GitLab refused a call with an HTTP status, or was not reached: then that is 0."""

    kind = "forge"

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that the token's user has written. `key` is its id for edits, `place` its file and line."""

    key: str
    body: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class LineComment:
    """A comment to be made at lines of the new side. `old_line` is the number of `end_line` before the change, 0 if the
    line is new."""

    path: str
    line: int
    end_line: int
    body: str
    old_path: str = ""
    old_line: int = 0


class Api:
    """Calls of an API. `name` is the forge's name, for errors."""

    def __init__(self, http: "httpx2.AsyncClient", name: str) -> None:
        self._http, self._name = http, name

    async def all(self, path: str) -> Sequence[Mapping[str, object]]:
        found: list[Mapping[str, object]] = []
        for page in range(1, MAX_PAGES + 1):
            more = as_array(await self._answer("GET", f"{path}?per_page=100&page={page}", None))
            found += map(as_object, more)
            if len(more) < 100:
                break
        return found

    async def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Mapping[str, object]:
        return as_object(await self._answer(method, path, body))

    async def _answer(self, method: str, path: str, body: Mapping[str, object] | None) -> object:
        """Return the API's answer, after a wait for its rate limit if necessary. A writing call is repeated only if the
        API says that it did nothing. Raises ForgeError."""
        import httpx2

        for left in reversed(range(TRIES)):
            try:
                response = await self._http.request(method, path, json=body)
            except httpx2.HTTPError as error:
                if left and method == "GET":
                    await asyncio.sleep(TRIES - left)
                    continue
                raise ForgeError(f"{self._name} could not be reached: {type(error).__name__}: {error}") from error
            if response.status_code < 300:
                return self._read(response)
            wait = _wait(response, TRIES - left)
            if not left or wait is None or wait > MAX_WAIT_SECONDS or (response.status_code >= 500 and method != "GET"):
                words = f"{self._name} answered {method} {path} with {response.status_code}: {_said(response)}"
                raise ForgeError(words, response.status_code)
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _read(self, response: "httpx2.Response") -> object:
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise ForgeError(f"{self._name} answered {response.url} with something other than JSON.") from error


@asynccontextmanager
async def open_api(name: str, base: str, headers: Mapping[str, str]) -> AsyncGenerator[Api]:
    """Yield an API whose paths are below an address."""
    import httpx2

    from sagent.version import __version__

    given = {"User-Agent": f"sagent/{__version__}", **headers}
    try:
        http = httpx2.AsyncClient(base_url=f"{base.rstrip('/')}/", headers=given, timeout=_SECONDS)
    except (ValueError, httpx2.InvalidURL) as error:
        raise ForgeError(
            f"The address or the token for {name} is not valid: {type(error).__name__}: {error}"
        ) from error
    async with http:
        yield Api(http, name)


def _wait(response: "httpx2.Response", tried: int) -> float | None:
    """Seconds until the call may be repeated; None if that would be useless. A rate limit has status 403 or 429
    (docs.github.com, best practices for using the REST API)."""
    said = response.headers.get("retry-after", "")
    limited = response.status_code == 429 or (
        response.status_code == 403 and (said or response.headers.get("x-ratelimit-remaining") == "0")
    )
    if limited:
        return float(said) if said.isdecimal() else MAX_WAIT_SECONDS
    return float(tried) if response.status_code >= 500 else None


def _said(response: "httpx2.Response") -> str:
    """Return the forge's reason: GitHub's `message` and `errors`, GitLab's `message` (maybe an object) or `error`."""
    try:
        value = as_object(json.loads(response.content))
    except ValueError:
        return one_line(printable(response.text), 300)
    reason = value.get("message") or value.get("error")
    errors = "; ".join(str(error) for error in as_array(value.get("errors")))
    words = as_str(reason) or (json.dumps(reason) if reason else "")
    return one_line(printable(f"{words} {errors}".strip()), 300)
