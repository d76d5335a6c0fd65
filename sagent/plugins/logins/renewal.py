"""A login that expires: renewed before a call, once for all concurrent callers, and after a refusal."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from sagent.errors import ModelError
from sagent.lib.filelock import locked
from sagent.model import Delta, Reply, Request
from sagent.providers.families.model import E_co, WireModel
from sagent.providers.wire.faults import Origin

RENEWAL_TIMEOUT_SECONDS = 30.0  # for a renewal, also by another process


class Login(Protocol):
    """Credentials of calls: an access token that expires."""

    @property
    def access(self) -> str: ...

    @property
    def is_fresh(self) -> bool:
        """True if the token is still valid for a call made now."""
        ...


L = TypeVar("L", bound=Login)


class Renewal(Generic[L]):
    """The login of a provider. `renew` replaces a stale one, for a call of the named model, and raises ModelError."""

    def __init__(self, login: L, renew: Callable[[L, str], Coroutine[object, object, L]], advice: str) -> None:
        self.login = login
        self._renew = renew
        self._advice = advice  # remedy for the refusal of a new one
        self._task: asyncio.Task[L] | None = None

    async def fresh(self, model_id: str) -> L:
        """Return a login that is valid for a call now. Raises ModelError."""
        return self.login if self.login.is_fresh else await self.renewed(self.login, model_id)

    async def renewed(self, stale: L, model_id: str) -> L:
        """Replace a stale login; concurrent callers share one renewal. Raises ModelError.

        A started renewal continues if its caller is cancelled, because an incomplete one could lose the login.
        """
        if self.login.access != stale.access:
            return self.login
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renew(stale, model_id))
        self.login = await asyncio.shield(self._task)
        return self.login

    async def stream(
        self, model_id: str, call: Callable[[], AsyncGenerator[Delta | Reply]]
    ) -> AsyncGenerator[Delta | Reply]:
        """Make a call, with the login renewed before it expires, and repeated once if it is refused nonetheless."""
        used = await self.fresh(model_id)
        again = False
        while True:
            said = False
            try:
                async with aclosing(call()) as items:
                    async for item in items:
                        said = True
                        yield item
            except ModelError as error:
                if error.status != 401 or (said and not again):
                    raise
                if again:
                    error.advise(self._advice)
                    raise
                await self._after(error, used, model_id)
                again = True
            else:
                return

    async def _after(self, refused: ModelError, used: L, model_id: str) -> None:
        try:
            await self.renewed(used, model_id)
        except ModelError as error:
            if error.kind == "auth":
                raise
            refused.advise(f"It could not be renewed: {error.args[0]}")
            raise refused from error

    async def aclose(self) -> None:
        """Wait for a running renewal."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def one_at_a_time(path: Path, origin: Origin) -> AsyncGenerator[None]:
    """Yield the right to renew the login in a file, among the processes of this machine. The lock file stays. Raises
    ModelError."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(locked(path.with_name(f"{path.name}.lock"), RENEWAL_TIMEOUT_SECONDS))
        except TimeoutError as error:
            message = f"another process has been renewing the login for {RENEWAL_TIMEOUT_SECONDS:g} s"
            raise origin.error("stalled", message) from error
        except OSError as error:
            message = f"the login has expired and cannot be renewed ({error}): make {path.parent} writable."
            raise origin.error("auth", message) from error
        yield


class Renewing(Protocol):
    """A login of any kind that is renewed."""

    def stream(
        self, model_id: str, call: Callable[[], AsyncGenerator[Delta | Reply]]
    ) -> AsyncGenerator[Delta | Reply]: ...


class Plan(Protocol):
    """A provider with such a login."""

    @property
    def renewal(self) -> Renewing: ...


P = TypeVar("P", bound=Plan)


class PlanModel(WireModel[E_co], Generic[E_co, P]):
    """A model whose calls use the login of a plan, which is set at its creation."""

    plan: P

    @property
    def source(self) -> object:
        """The plan: its login is not in its access."""
        return self.plan

    def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call, with the login renewed before it expires, and repeated once if it is refused nonetheless."""
        return self.plan.renewal.stream(self.id, partial(super().stream, request))
