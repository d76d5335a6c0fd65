"""Anthropic through the installed `claude` program and its login: a Claude plan instead of a key."""

import asyncio
import os
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Self

from sagent.errors import ModelError, UsageError
from sagent.lib.json import EMPTY, JsonObject, as_str, json_freeze, wire_bytes
from sagent.model import Delta, Effort, ModelInfo, ModelLimits, Reply, Request, RequestDigest
from sagent.plugins.logins.claude_conversation import Lost, ProgramRun, Setup
from sagent.plugins.logins.claude_program import Program
from sagent.providers.deferral import searchable_tools
from sagent.providers.families.anthropic.provider import MessagesDialect, generation, levels, thinking_parameters
from sagent.providers.families.model import nearest
from sagent.providers.limits import limits_of, output_limit
from sagent.providers.toolforms import ANTHROPIC, ToolForm, are_plain
from sagent.providers.wire.encoding import EncodingCache
from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.faults import Origin
from sagent.providers.wire.refusals import Refusals, Trial

NAME = "anthropic-cli"

_OVERHEAD_TOKENS = 8_000  # tokens that the program adds about itself, its surroundings and the date
_MAX_IDLE_PROGRAMS = 4  # programs waiting for their conversation's next request; each takes up to 300 MB
_MAX_IDLE_SECONDS = 300.0  # for each of them
_TOOLS = ToolForm(keys=r"(?s).*")  # the program passes calls on unchanged: no names differ


class AnthropicCLIModel:
    """One model of the plan that the program is logged in to."""

    def __init__(self, provider: "AnthropicCLI", model_id: str) -> None:
        self._provider = provider
        self.provider, self.id = provider.name, model_id
        self._refusals = Refusals(self.provider, self.id, provider.refused_parts[self.id])

    @property
    def source(self) -> object:
        """The program that makes its calls, with its login."""
        return self._provider.program

    @property
    def limits(self) -> ModelLimits:
        """Known sizes; those of a short name once a program has reported its model."""
        return limits_of("anthropic", self._provider.resolve(self.id)[0])

    def max_input_tokens(self, request: Request) -> int:
        """Return an upper bound of the input's tokens: its bytes, with an image as 5,000 and a page of a PDF as
        5,000."""
        mended, _ = self._refusals.mend(request)
        return _OVERHEAD_TOKENS + self._provider.encodings.conversation(mended).max_input_tokens()

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        """Make the call with the program that knows the conversation or else a new one; repeat it without a refused
        part.

        The digest is of the program's input, in the form of the Messages API, because its own requests are not visible.
        """
        trial = Trial(self._refusals)
        while True:
            mended, left = self._refusals.mend(request)
            heard = False
            try:
                async with aclosing(self._made(mended, tuple(left))) as items:
                    async for item in items:
                        heard = True
                        yield item
            except ModelError as error:
                if heard or error.sent or not await trial.goes_on(self._find_refused(error, mended), mended):
                    raise
            else:
                return

    async def _made(self, request: Request, left: tuple[str, ...]) -> AsyncGenerator[Delta | Reply]:
        """Make the call as it is."""
        setup, notes = self._setup(request)
        run = await self._going_on(setup, request)
        while True:
            if run is None:
                run, notes = await self._begun(request)
            try:
                async with aclosing(self._listen(run, request, (*left, *notes))) as items:
                    async for item in items:
                        yield item
            except Lost:
                run = None
            else:
                return

    def _find_refused(self, error: ModelError, request: Request) -> Mapping[str, str]:
        """Return the parts of the request that an error is about. The program adds messages, so positions among them
        mean nothing; positions of tools do, unless some have a form that the API is known to refuse."""
        if error.kind != "invalid_request":
            return {}
        from sagent.providers.fitting import fit_tools
        from sagent.providers.leftout import find_refused

        fitted = fit_tools(request.tools, ANTHROPIC).tools
        odd = tuple(tool for tool, other in zip(request.tools, fitted, strict=True) if tool != other)
        body = wire_bytes({"tools": [] if odd else [{"name": tool.name} for tool in request.tools]})
        return find_refused(error, body, replace(request, tools=odd or request.tools), None, self._refusals.parts)

    async def _listen(self, run: ProgramRun, request: Request, notes: tuple[str, ...]) -> AsyncGenerator[Delta | Reply]:
        """Yield a program's output; keep the program for the next request, or else end it."""
        digest, tokens = self._digest(request)
        try:
            async with aclosing(run.listen(digest, tokens)) as said:
                async for item in said:
                    if isinstance(item, Reply):
                        await self._provider.keep(request.conversation, run)
                        yield replace(item, notes=(*notes, *item.notes))
                    else:
                        yield item
        finally:
            if not run.reusable:
                await self._provider.drop(run)

    async def _going_on(self, setup: Setup, request: Request) -> ProgramRun | None:
        """Return the program that knows the conversation, with the new messages sent; None if there is none."""
        run = self._provider.take(request.conversation)
        if run is None:
            return None
        gone_on = False
        try:
            gone_on = run.continues(setup, request.messages) and await run.continue_with(request.messages)
        finally:
            if not gone_on:
                await self._provider.drop(run)
        return run if gone_on else None

    async def _begun(self, request: Request) -> tuple[ProgramRun, tuple[str, ...]]:
        """Return a new program, given the whole conversation; and notes on what could not be given."""
        setup, _ = self._setup(request)
        run = await self._provider.open(setup)
        try:
            better, notes = self._setup(request)  # it has reported its short names
            if better != setup:
                await self._provider.drop(run)
                run = await self._provider.open(better)
            await run.send(request.messages)
        except BaseException:
            await self._provider.drop(run)
            raise
        return run, notes

    def _setup(self, request: Request) -> tuple[Setup, tuple[str, ...]]:
        left_out = [name for name in ("tools", "betas", "cache_control") if name in request.options]
        notes = tuple(f"the option {name} cannot be given to the program `claude`: left out" for name in left_out)
        body = JsonObject({name: value for name, value in request.options.items() if name not in left_out})
        wanted, cut = output_limit(self.id, self.limits, request.max_output) if request.max_output else (None, ())
        effort, clamped = self._effort(request.effort)
        tools = request.tools
        if any(tool.deferred for tool in tools):  # it cannot use a search
            tools = tuple(replace(tool, deferred=False) for tool in searchable_tools(tools))
        if not are_plain(tools, _TOOLS):
            from sagent.providers.fitting import fit_tools

            fitted = fit_tools(tools, _TOOLS)
            tools = tools if fitted.naming else fitted.tools
        return Setup(self.id, request.system, tools, wanted, effort, body), (*notes, *cut, *clamped)

    def _effort(self, wanted: Effort | None) -> tuple[Effort | None, tuple[str, ...]]:
        """Return an effort that the model supports. The program would silently clamp it itself, upwards too."""
        name, never_off = self._provider.resolve(self.id)
        family, version = generation(name)
        if wanted not in (None, "none") and family and version < (4, 6):
            return None, (f"{self.id} has no levels of effort: {wanted} was left out",)
        if wanted is None or (wanted == "none" and not (never_off or thinking_parameters(name, wanted, 0).notes)):
            return wanted, ()
        return nearest(self.id, wanted, levels(version if family else (5, 0)))

    def _digest(self, request: Request) -> tuple[RequestDigest, int]:
        members = {"model": self.id, "max_tokens": request.max_output, "effort": request.effort, **request.options}
        body = self._provider.encodings.conversation(request).write(members, _OVERHEAD_TOKENS)
        known = {name: value for name, value in members.items() if name != "model" and value is not None}
        parameters = {**known, **self._refusals.logged}
        return RequestDigest(body.sha256, body.size, self.id, json_freeze(parameters)), body.max_input_tokens


class AnthropicCLI:
    """The person's Claude plan, through the login of the installed `claude` program, which makes the calls.

    One program runs for each conversation. A few are kept between calls, so the history need not be sent again. They
    get no tools of their own, no settings, hooks, plugins or memory files, and save no session.
    """

    name = NAME

    def __init__(self, program: Program, *, timeouts: Timeouts | None = None) -> None:
        self.program = program
        self.timeouts = timeouts or Timeouts()
        self.encodings = EncodingCache(MessagesDialect(NAME))
        self._running: set[ProgramRun] = set()
        self._kept: OrderedDict[str, tuple[ProgramRun, asyncio.TimerHandle]] = OrderedDict()
        self._endings: set[asyncio.Task[None]] = set()
        self.refused_parts = defaultdict[str, dict[str, object]](dict)  # by model: parts of requests, and why
        self._offered: dict[str, Mapping[str, object]] = {}  # a program's report on its models, by each of their names

    @classmethod
    def from_credentials(
        cls,
        *,
        path: str | None = None,
        base_url: str | None = None,
        environ: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Use the login of the program at `path`, or on PATH. Raises UsageError if there is none.

        `environ` is the environment that the program inherits (by default this process's), without keys and addresses;
        `variables` are always set for it. A missing login is only noticed in the first call.
        """
        own = {**({"ANTHROPIC_BASE_URL": base_url} if base_url else {}), **(variables or {})}
        return cls(Program.find(path, os.environ if environ is None else environ, own), timeouts=timeouts)

    from_env = from_credentials

    @classmethod
    def from_key(cls, key: str, *, base_url: str | None = None) -> Self:
        """Raise UsageError: the program has its own login."""
        raise UsageError(
            f"{NAME} takes no key: it uses the login of the program `claude`. With a key, use the provider anthropic."
        )

    def model(self, model_id: str) -> AnthropicCLIModel:
        """Return a model by id, or by one of the program's short names ("sonnet", "opus", "haiku")."""
        return AnthropicCLIModel(self, model_id)

    async def models(self) -> Sequence[ModelInfo]:
        """Return the models that the program offers. Raises ModelError."""
        run = await self.open(Setup("", "", ()))
        try:
            rows = {as_str(row.get("resolvedModel")) or as_str(row.get("value")): row for row in reversed(run.models)}
        finally:
            await self.drop(run)
        return tuple(
            ModelInfo(model_id, limits_of("anthropic", self.resolve(model_id)[0]), as_str(row.get("displayName")))
            for model_id, row in sorted(rows.items())
            if model_id
        )

    async def aclose(self) -> None:
        """End all programs."""
        for _, timer in self._kept.values():
            timer.cancel()
        self._kept.clear()
        await asyncio.gather(*(run.close() for run in tuple(self._running)), *self._endings)
        self._running.clear()

    async def open(self, setup: Setup) -> ProgramRun:
        """Return a running program. Raises ModelError."""
        run = await ProgramRun.open(self.program, setup, Origin(NAME, setup.model), self.timeouts)
        self._running.add(run)
        self._offered = {as_str(row.get(key)): row for key in ("resolvedModel", "value") for row in run.models}
        return run

    def resolve(self, model_id: str) -> tuple[str, bool]:
        """Return the full id of a name, as far as a program has reported, and True if it always thinks."""
        row = self._offered.get(model_id, EMPTY)
        full = as_str(row.get("resolvedModel")) or model_id
        return full.partition("[")[0], row.get("supportsThinkingOff") is False  # "[1m]" requests a longer window

    def take(self, conversation: str) -> ProgramRun | None:
        """Return and remove the program kept for a conversation."""
        run, timer = self._kept.pop(conversation, (None, None))
        if timer is not None:
            timer.cancel()
        return run

    async def keep(self, conversation: str, run: ProgramRun) -> None:
        """Keep a program for its conversation's next request if possible, for a while, within a limit."""
        if not run.reusable:
            return
        if (before := self.take(conversation)) is not None:
            await self.drop(before)
        timer = asyncio.get_running_loop().call_later(_MAX_IDLE_SECONDS, self._expire, conversation)
        self._kept[conversation] = (run, timer)
        if len(self._kept) > _MAX_IDLE_PROGRAMS:
            self._expire(next(iter(self._kept)))

    async def drop(self, run: ProgramRun) -> None:
        """End a program."""
        self._running.discard(run)
        await run.close()

    def _expire(self, conversation: str) -> None:
        if (run := self.take(conversation)) is not None:
            ending = asyncio.get_running_loop().create_task(self.drop(run))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
