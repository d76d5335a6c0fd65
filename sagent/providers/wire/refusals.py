"""Parts of requests that a provider refused: left out or made smaller, reported, and logged."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_object
from sagent.messages import Image, Message
from sagent.model import Request
from sagent.providers.toolforms import LEFT_OUT

if TYPE_CHECKING:
    from sagent.providers.leftout import Known

MAX_TRIES = 8  # repetitions of a call without refused parts


@dataclass(slots=True, eq=False)
class Refusals:
    """The parts that a provider has refused for a model, and why. All model objects of one id share `parts`."""

    provider: str
    model: str
    parts: dict[str, object]
    _mended: "Known" = field(default_factory=dict[tuple[int, int], tuple[Message, Message]])
    _smaller: dict[str, Image] = field(default_factory=dict[str, Image])

    def mend(self, request: Request) -> tuple[Request, Sequence[str]]:
        """Return the request without refused parts, and a note on them. Parts refused in an earlier process come as an
        option."""
        if LEFT_OUT in request.options:
            self.parts.update(as_object(as_object(request.options[LEFT_OUT]).get(self.model)))
            others = {name: value for name, value in request.options.items() if name != LEFT_OUT}
            request = replace(request, options=JsonObject(others))
        if not self.parts:
            return request, ()
        from sagent.providers.leftout import notes_on, without

        mended = without(request, self.parts, self._mended, self._smaller)
        return mended, notes_on(self.parts, self.provider, self.model)

    @property
    def logged(self) -> Mapping[str, object]:
        """The parameter of a logged request for left-out parts."""
        return {LEFT_OUT: {self.provider: {self.model: self.parts}}} if self.parts else EMPTY

    async def add(self, parts: Mapping[str, str], request: Request) -> None:
        """Leave parts of a request out from now on; send smaller versions of large images."""
        from sagent.providers.leftout import shrink_refused

        refused, smaller = await asyncio.to_thread(shrink_refused, parts, request.messages)
        self._smaller.update(smaller)
        self.parts.update(refused)

    def restore(self, before: Mapping[str, object]) -> None:
        """Leave out only the earlier parts, because the rest did not help."""
        self.parts.clear()
        self.parts.update(before)
        self._mended.clear()


class Trial:
    """A call that is repeated without refused parts, a limited number of times."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals, self._before, self._left = refusals, dict(refusals.parts), MAX_TRIES

    async def goes_on(self, refused: Mapping[str, str], request: Request) -> bool:
        """Leave out the parts that an error is about. Return True to repeat the call. If a try did not help, nothing
        stays left out, unless each try found another part."""
        if refused and self._left:
            self._left -= 1
            await self._refusals.add(refused, request)
            return True
        if self._left < MAX_TRIES and (self._left or not refused):
            self._refusals.restore(self._before)
        return False
