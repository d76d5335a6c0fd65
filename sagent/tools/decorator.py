"""`@tool`: a typed function with a docstring becomes a tool. Its signature is the schema, checked by pydantic."""

import asyncio
import inspect
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from sagent.errors import ToolError
from sagent.lib.dataclass import Deps_contra
from sagent.lib.json import EMPTY, Json, JsonObject, as_array, json_freeze_object, json_thaw
from sagent.messages import Document, Image, Text
from sagent.tool import Effect, RunContext, ToolOutput, Workspace

if TYPE_CHECKING:
    from pydantic import BaseModel

EffectKind: TypeAlias = Literal["none", "read", "write", "execute"]
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
D = TypeVar("D")

_SECTION = re.compile(r"^[ \t]*(?:Args|Arguments|Parameters)[ \t]*:?[ \t]*(?:\n[ \t]*-{3,}[ \t]*)?$", re.MULTILINE)
_PARAMETER = re.compile(r"^[ \t]*(?::param[ \t]+)?\*{0,2}(\w+)[ \t]*(?:\([^)\n]*\))?[ \t]*:[ \t]*(\S.*)$")


class FunctionTool(Generic[P, R, Deps_contra]):
    """A function as a tool. It can still be called like the function, which is `function`; `effect_kind` is what its
    calls count as for the policy, and `deps_type` the dependencies it takes. For a method, each object has its own
    tool; `is_method` is true without an object."""

    def __init__(
        self, function: Callable[P, R], *, name: str, description: str = "", effect: EffectKind = "execute"
    ) -> None:
        self.function = function
        self.name = name
        self.effect_kind: EffectKind = effect
        self.deps_type: object = None
        first = next(iter(inspect.signature(function).parameters.values()), None)
        self.is_method = first is not None and first.name == "self" and first.annotation is first.empty
        if self.is_method:
            self.description, self.parameters = description, EMPTY
            return
        text, described = _read_docstring(inspect.getdoc(function) or "", tuple(inspect.signature(function).parameters))
        self.description = description or text
        if not self.description:
            raise TypeError(f"{name} needs a docstring or a description: it is what the model reads.")
        self._context, self.deps_type, self._arguments = _read_signature(function, name, described)
        schema = _without_titles(json_freeze_object({**self._arguments.model_json_schema(by_alias=True)}))
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
        if instance is None or not self.is_method:
            return self
        bound = MethodType(cast("Callable[..., object]", self.function), instance)
        return FunctionTool(bound, name=self.name, description=self.description, effect=self.effect_kind)

    @overload
    def __call__(self, arguments: JsonObject, run: RunContext[Deps_contra], /) -> Coroutine[None, None, ToolOutput]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, *args: object, **kwargs: object) -> object:
        """Call the function; if called as a tool is, with JSON and a context, act as a tool."""
        if len(args) == 2 and isinstance(args[0], JsonObject) and not kwargs:
            return self._run(args[0], cast("RunContext", args[1]))
        return cast("Callable[..., object]", self.function)(*args, **kwargs)

    async def _run(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Call the function, in a thread of its own unless it is async. Raises ToolError for wrong arguments."""
        values = self._values(arguments)
        if self._context:
            values[self._context] = run
        function = cast("Callable[..., object]", self.function)
        if inspect.iscoroutinefunction(function):
            result = await cast("Awaitable[object]", function(**values))
        else:
            result = await _in_thread(function, values)
            if inspect.isawaitable(result):
                result = cast("object", await result)
            elif isinstance(result, AsyncIterable):
                result = [each async for each in cast("AsyncIterable[object]", result)]
        return _output(result)

    def _values(self, arguments: JsonObject) -> dict[str, object]:
        from pydantic import ValidationError

        try:
            model = self._arguments.model_validate(json_thaw(arguments))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, item['loc']))}: {item['msg']}, not {str(item['input'])[:80]!r}"
                for item in error.errors()
            )
            raise ToolError(f"Invalid arguments for {self.name}: {wrong}. Call it again.") from None
        return {field.alias or key: getattr(model, key) for key, field in type(model).model_fields.items()}


async def _in_thread(function: Callable[..., object], values: Mapping[str, object]) -> object:
    """Call a function in a daemon thread of its own: those of asyncio.to_thread keep the program from ending, and a few
    that are stuck leave none for others."""
    returned, context = Future[object](), copy_context()
    returned.set_running_or_notify_cancel()

    def work() -> None:
        try:
            returned.set_result(context.run(_called, function, values))
        except BaseException as error:  # raised where it is waited for
            returned.set_exception(error)

    Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(returned)


def _called(function: Callable[..., object], values: Mapping[str, object]) -> object:
    """What a function returns; of one that yields, all that it yields."""
    try:
        result = function(**values)
        return list(cast("Generator[object]", result)) if inspect.isgenerator(result) else result
    except StopIteration as error:  # which can leave no coroutine: whoever waits for the thread would wait for ever
        raise RuntimeError("the function raised StopIteration") from error


class Maker(Protocol):
    """Makes tools of functions; which dependencies one takes is read from its first parameter, after `self`."""

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
    function: Callable[Concatenate[RunContext[D], P], R], /
) -> FunctionTool[Concatenate[RunContext[D], P], R, D]: ...
@overload
def tool(
    function: Callable[Concatenate[S, RunContext[D], P], R], /
) -> FunctionTool[Concatenate[S, RunContext[D], P], R, D]: ...
@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R, object]: ...
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
    """Make a function a tool: `@tool`, or `@tool(name=..., description=..., effect="read")`.

    The schema comes from the annotations; descriptions of parameters from `Annotated[..., Field(description=...)]` or
    the docstring's lines `name: what it is`. A parameter annotated `RunContext`, or `RunContext[Deps]`, gets the call's
    context and is not in the schema; if it is the first one, type checkers compare `Deps` with the agent's. The
    function returns text, an image or a document, a list of these, a ToolOutput or a JSON value, or yields values; an
    exception becomes an error result. `effect` is what a policy decides by; the default is "execute", which may touch
    anything. Raises TypeError for a function that cannot be a tool.
    """

    def make(function: Callable[P, R]) -> FunctionTool[P, R, object]:
        called = name or str(getattr(function, "__name__", "tool"))
        return FunctionTool(function, name=called, description=description, effect=effect)

    if more or isinstance(function, str):
        raise TypeError(
            "tool takes only the function: write @tool above it, or @tool(name=..., description=...). What the model "
            "reads comes from its name, docstring and annotations."
        )
    return make if function is None else make(function)


def _read_signature(
    function: Callable[..., object], name: str, described: dict[str, str]
) -> "tuple[str, object, type[BaseModel]]":
    """The name of the parameter that takes the context ("" for none), the type of the dependencies it asks for, and the
    other parameters as a pydantic model."""
    from pydantic import ConfigDict, Field, PydanticUserError, create_model
    from pydantic.fields import FieldInfo

    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{name}: {error}. Annotations must name things that exist when the tool is made.") from None
    context, deps = "", cast("object", None)
    fields: dict[str, object] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: parameter {parameter.name} must be one that is passed by name.")
        if parameter.name not in hints:
            raise TypeError(f"{name}: parameter {parameter.name} needs a type annotation.")
        hint = hints[parameter.name]
        asked = next((each for each in (hint, *get_args(hint)) if RunContext in (each, get_origin(each))), None)
        if asked is not None:  # RunContext, RunContext[Deps], or one of them or None
            context, deps = parameter.name, next(iter(get_args(asked)), None)
            continue
        default = parameter.default
        if isinstance(default, FieldInfo):
            hint, default = Annotated[hint, default], default.default
        notes = getattr(hint, "__metadata__", ())  # what follows the type in Annotated
        if parameter.name in described and not any(getattr(note, "description", None) for note in notes):
            hint = Annotated[hint, Field(description=described[parameter.name])]
        # the names are ours: pydantic refuses some that functions use, such as model_config and _x
        alias = parameter.name
        field = Field(alias=alias) if default is parameter.empty else Field(default, alias=alias)
        fields[f"p{len(fields)}"] = (hint, field)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        make = cast("Callable[..., type[BaseModel]]", create_model)
        return context, deps, make(name, __config__=config, **fields)
    except PydanticUserError as error:
        raise TypeError(f"{name}: {error.message}") from None


def _without_titles(value: Json) -> Json:
    """The schema without the titles pydantic makes up of names: they cost tokens and say nothing."""
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


def _read_docstring(text: str, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The description without its section on parameters, and what it says on each."""
    described: dict[str, str] = {}
    kept: list[str] = []
    current = ""
    for line in _SECTION.sub("", text).split("\n"):
        match = _PARAMETER.match(line)
        if match and match[1] in names:
            current = match[1]
            described[current] = match[2].strip()
        elif current and line.startswith((" ", "\t")) and line.strip():
            described[current] += f" {line.strip()}"
        else:
            current = ""
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), described


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
        raise ToolError(f"The result cannot be written as JSON: {error}") from None
