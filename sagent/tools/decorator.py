"""`@tool`: a typed function with a docstring becomes a tool. Its signature is the schema, checked by pydantic."""

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Thread
from types import MethodType
from typing import Concatenate, Generic, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast, overload

from sagent.errors import ToolError
from sagent.lib.dataclass import Deps_contra
from sagent.lib.json import EMPTY, Json, JsonObject, as_array, json_freeze_object
from sagent.messages import Document, Image, Text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace
from sagent.tools.signature import name_of, parameters_of, read_signature, text_of

EffectKind: TypeAlias = Literal["none", "read", "write", "execute"]
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
D = TypeVar("D")


class FunctionTool(Generic[P, R, Deps_contra]):
    """A function as a tool. It can still be called like the function, which is `function`; `effect_kind` is the
    policy's classification of its calls, and `deps_type` the type of its dependencies. For a method, each object has
    its own tool; `is_method` is true without an object."""

    def __init__(
        self, function: Callable[P, R], *, name: str, description: str = "", effect: EffectKind = "execute"
    ) -> None:
        self.function = function
        self.name = name
        self.effect_kind: EffectKind = effect
        self.deps_type: object = None
        bindable = isinstance(cast("object", function), classmethod)
        parameters = () if bindable else parameters_of(function, name)
        first = parameters[0] if parameters else None
        self.is_method = bindable or (
            first is not None and first.name in ("self", "cls") and first.annotation is first.empty
        )
        if self.is_method:
            self.description, self.parameters = description, EMPTY
            return
        text, described = text_of(function, tuple(parameter.name for parameter in parameters))
        self.description = description or text
        if not self.description:
            raise TypeError(
                f"{name} needs a docstring, or a description, tool(..., description=): it is what the model reads."
            )
        self._signature = read_signature(function, name, parameters, described)
        self.deps_type = self._signature.deps
        schema = _without_titles(self._signature.schema)
        assert isinstance(schema, JsonObject)
        self.parameters = schema

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        del arguments, workspace
        return Effect(self.effect_kind)

    @overload
    def __get__(self, instance: None, owner: object = None) -> Self: ...
    @overload
    def __get__(
        self: "FunctionTool[Concatenate[S, Q], R, D]", instance: S, owner: object = None
    ) -> "FunctionTool[Q, R, D]": ...
    def __get__(self, instance: object, owner: object = None) -> object:
        if not self.is_method:
            return self
        function = cast("object", self.function)
        if isinstance(function, classmethod):
            bound = cast("classmethod[object, ..., object]", function).__get__(None, cast("type", owner))
        elif instance is None:
            return self
        else:
            bound = MethodType(cast("Callable[..., object]", function), instance)
        return FunctionTool(bound, name=self.name, description=self.description, effect=self.effect_kind)

    @overload
    def __call__(
        self, arguments: Mapping[str, object], run: RunContext[Deps_contra], /
    ) -> Coroutine[None, None, ToolOutput]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function; if called as a tool is, with JSON and a context, act as a tool."""
        if len(args) == 2 and not kwargs and self._is_call(*args):
            return self._run(json_freeze_object(cast("Mapping[str, object]", args[0])), cast("RunContext", args[1]))
        return cast("Callable[..., object]", self.function)(*args, **kwargs)

    def _is_call(self, arguments: object, run: object) -> bool:
        """Return True for the arguments of a tool call; the function itself may also take a mapping and a context."""
        if isinstance(arguments, JsonObject) or self.is_method:
            return not self.is_method
        own = [parameter.name for parameter in self._signature.parameters[1:2]]
        return isinstance(arguments, Mapping) and isinstance(run, RunContext) and own != [self._signature.context]

    async def _run(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Call the function, in its own thread unless it is async. Raises ToolError for wrong arguments."""
        by_place, by_name = self._signature.bind(self.name, arguments, run)
        call = partial(cast("Callable[..., object]", self.function), *by_place, **by_name)
        if _is_async(self.function):
            result = await cast("Awaitable[object]", call())
        else:
            try:
                result = await in_thread(call)
            except RuntimeError as error:
                if "event loop" not in str(error):
                    raise
                words = f"{self.name} needs the event loop, and runs in a thread: write it as async def"
                raise RuntimeError(f"{words} ({error})") from error
            if inspect.isawaitable(result):
                result = cast("object", await result)
            elif isinstance(result, AsyncIterable):
                result = [each async for each in cast("AsyncIterable[object]", result)]
        return _output(result)


def _is_async(function: object) -> bool:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 -- its code
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def in_thread(call: Callable[[], object]) -> object:
    """Call a function in its own daemon thread: threads of asyncio.to_thread delay the program's end, and a few stuck
    ones block all others."""
    returned, context = Future[object](), copy_context()
    returned.set_running_or_notify_cancel()

    def work() -> None:
        try:
            returned.set_result(context.run(_called, call))
        except BaseException as error:  # raised in the waiting caller
            returned.set_exception(error)

    Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(returned)


def _called(call: Callable[[], object]) -> object:
    """Call a function and return its result; for a generator, all its values."""
    try:
        result = call()
        return list(cast("Generator[object]", result)) if inspect.isgenerator(result) else result
    except StopIteration as error:  # a coroutine cannot raise it: the caller would wait for ever
        raise RuntimeError("the function raised StopIteration") from error


class Maker(Protocol):
    """Makes tools of functions; the dependencies are those of its first parameter, after `self`."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[RunContext[D], P], R], /
    ) -> FunctionTool[Concatenate[RunContext[D], P], R, D]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, RunContext[D], P], R], /
    ) -> FunctionTool[Concatenate[S, RunContext[D], P], R, D]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTool[P, R, object]: ...


@overload
def tool(
    function: Callable[Concatenate[RunContext[D], P], R],
    /,
    *,
    name: str = "",
    description: str = "",
    effect: EffectKind = "execute",
) -> FunctionTool[Concatenate[RunContext[D], P], R, D]: ...
@overload
def tool(
    function: Callable[Concatenate[S, RunContext[D], P], R],
    /,
    *,
    name: str = "",
    description: str = "",
    effect: EffectKind = "execute",
) -> FunctionTool[Concatenate[S, RunContext[D], P], R, D]: ...
@overload
def tool(
    function: Callable[P, R], /, *, name: str = "", description: str = "", effect: EffectKind = "execute"
) -> FunctionTool[P, R, object]: ...
@overload
def tool(*, name: str = "", description: str = "", effect: EffectKind = "execute") -> Maker: ...
def tool(
    function: Callable[..., object] | str | None = None,
    /,
    *more: object,
    name: str = "",
    description: str = "",
    effect: EffectKind = "execute",
) -> object:
    """Make a function a tool: `@tool`, `@tool(name=..., description=..., effect="read")` or `tool(function, name=...)`.

    Everything callable is a function here: a method, a partial, a class, an object with `__call__`.

    The schema comes from the annotations; descriptions of parameters from `Annotated[..., Field(description=...)]` or
    the docstring's lines `name: description`. A parameter annotated `RunContext`, or `RunContext[Deps]`, gets the
    call's context and is not in the schema; if it is the first one, type checkers compare `Deps` with the agent's. The
    function returns text, an image or a document, a list of these, a ToolOutput or a JSON value, or yields values; an
    exception becomes an error result. Policies decide by `effect`; the default is "execute", which may change anything.
    Raises TypeError for a function that cannot be a tool.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R, object]:
        inner = cast("object", function.function if isinstance(function, FunctionTool) else function)
        if not callable(inner) and not isinstance(inner, classmethod):
            raise TypeError(f"{inner!r:.60} cannot be called, so it cannot be a tool: give a function")
        called = cast("Callable[P, R]", inner)
        text = description or (function.description if isinstance(function, FunctionTool) else "")
        return FunctionTool(called, name=name_of(called, name), description=text, effect=effect)

    if more or isinstance(function, str):
        raise TypeError(
            "tool takes only the function: write @tool above it, or @tool(name=..., description=...). What the model "
            "reads comes from its name, docstring and annotations."
        )
    return make if function is None else make(function)


def _without_titles(value: Json) -> Json:
    """Return the schema without pydantic's titles, which cost tokens and say nothing."""
    if isinstance(value, tuple):
        return tuple(map(_without_titles, value))
    if not isinstance(value, JsonObject):
        return value
    kept: dict[str, Json] = {}
    for key, item in value.items():
        if key in {"properties", "$defs"} and isinstance(item, JsonObject):
            kept[key] = JsonObject({name: _without_titles(inner) for name, inner in item.items()})
        elif key in {"default", "const", "enum", "examples"}:
            kept[key] = item
        elif key != "title":
            kept[key] = _without_titles(item)
    return JsonObject(kept)


def _output(result: object) -> ToolOutput:
    if isinstance(result, ToolOutput):
        return result
    if isinstance(result, str):
        return ToolOutput.of(result)
    parts = as_array(result) or (result,)
    shown = [part for part in parts if isinstance(part, str | Text | Image | Document)]
    if len(shown) == len(parts) and not all(isinstance(part, str) for part in parts):  # a list of texts is JSON
        return ToolOutput(tuple(Text(part) if isinstance(part, str) else part for part in shown))
    from pydantic_core import to_json

    try:
        return ToolOutput.of(to_json(result).decode())
    except ValueError as error:
        raise ToolError(
            f"The result cannot be written as JSON: {error}. A tool returns text, JSON values, dataclasses, pydantic "
            "models, or Image and Document of sagent."
        ) from None
