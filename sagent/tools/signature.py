"""Reading of whatever Python can call, as a tool: its name, text and arguments, and how these are passed."""

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Annotated, cast, get_args, get_origin, get_type_hints

from typing_extensions import Unpack

from sagent.errors import ToolError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import JsonObject, NotJsonError, json_freeze, json_freeze_object, json_thaw
from sagent.tool import RunContext

if TYPE_CHECKING:
    from inspect import Parameter

    from pydantic import BaseModel

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECTION = re.compile(r"^[ \t]*(?:Args|Arguments|Parameters)[ \t]*:?[ \t]*(?:\n[ \t]*-{3,}[ \t]*)?$", re.MULTILINE)
_PARAMETER = re.compile(r"^[ \t]*(?::param[ \t]+)?\*{0,2}(\w+)[ \t]*(?:\([^)\n]*\))?[ \t]*:[ \t]*(\S.*)$")
_WRITE = (
    'write a function that calls it, with annotations and a docstring: def find(name: str) -> str: """Find a person."""'
)
_GUESSED = (bool, int, float, str)  # types of defaults that stand for an annotation


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a callable. `context` takes a RunContext ("" for none), `deps` is the type of the dependencies,
    and `arguments` has the others as a pydantic model."""

    parameters: "tuple[Parameter, ...]"
    context: str
    deps: object
    arguments: "type[BaseModel]"
    schema: JsonObject

    def bind(self, name: str, arguments: JsonObject, run: RunContext) -> tuple[list[object], dict[str, object]]:
        """Return what to pass by place and by name. Raises ToolError for wrong arguments."""
        from pydantic import ValidationError
        from pydantic.fields import FieldInfo

        try:
            model = self.arguments.model_validate(json_thaw(arguments))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, item['loc']))}: {item['msg']}, not {str(item['input'])[:80]!r}"
                for item in error.errors()
            )
            raise ToolError(f"Invalid arguments for {name}: {wrong}. Call it again.") from None
        keys = {field.alias: key for key, field in self.arguments.model_fields.items()}
        has_rest = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in self.parameters)
        by_place, by_name = list[object](), dict[str, object]()
        for each in self.parameters:
            if each.name == self.context:
                value, given_here = cast("object", run), True
            else:
                key = keys[each.name]
                given_here = key in model.model_fields_set
                own = not given_here and each.default is not each.empty and not isinstance(each.default, FieldInfo)
                value = each.default if own else getattr(model, key)
                given_here = given_here or not own
            match each.kind:
                case each.VAR_POSITIONAL:
                    by_place += cast("list[object]", value)
                case each.VAR_KEYWORD:
                    by_name |= cast("dict[str, object]", value)
                case each.POSITIONAL_ONLY:
                    by_place.append(value)
                case each.POSITIONAL_OR_KEYWORD if has_rest:
                    by_place.append(value)
                case _ if given_here:
                    by_name[each.name] = value
                case _:  # the function's own default, which may be a sentinel compared by identity
                    pass
        return by_place, by_name


def name_of(function: object, explicit: str) -> str:
    """Return a tool's name: the given one, or the callable's. Raises TypeError for one that no provider accepts."""
    own = _inner(function)
    name = explicit or str(getattr(own, "__name__", type(own).__name__))
    if name == "<lambda>":
        raise TypeError(f"a lambda has no name, annotations or docstring: give name= and description=, or {_WRITE}")
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} is not a valid tool name: give one of 1 to 64 letters, digits, _ and -, name=")
    return name


def text_of(function: object, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the docstring's general text, and that of each parameter."""
    return _read_docstring(_docstring(_inner(function)), names)


def parameters_of(function: Callable[..., object], name: str) -> "tuple[Parameter, ...]":
    """Return the parameters that a caller has to give. Raises TypeError for a callable without a signature."""
    try:
        found = inspect.signature(_without_static(function)).parameters.values()
    except (ValueError, TypeError):
        raise TypeError(f"{name} does not tell which arguments it takes: {_WRITE}") from None
    except NameError as error:  # annotations are evaluated late from Python 3.14 on
        raise TypeError(_unknown_name(name, error)) from None
    if hasattr(function, "dispatch") and hasattr(function, "registry"):  # singledispatch uses the first argument
        found = [each.replace(kind=each.POSITIONAL_ONLY) if not at else each for at, each in enumerate(found)]
    bound = function.keywords if isinstance(function, functools.partial) else {}
    return tuple(each for each in found if each.name not in bound)  # without arguments that the program has bound


def read_signature(
    function: Callable[..., object], name: str, parameters: "tuple[Parameter, ...]", described: Mapping[str, str]
) -> Signature:
    """Return how to call it. Raises TypeError for parameters that JSON cannot fill."""
    from pydantic import Field
    from pydantic.fields import FieldInfo

    hints = _hints(function, name, parameters)
    context, deps = "", cast("object", None)
    fields: dict[str, tuple[object, object]] = {}
    for parameter in parameters:
        hint = _hint_of(parameter, hints, name)
        asked = next((part for part in (hint, *get_args(hint)) if RunContext in (part, get_origin(part))), None)
        if asked is not None:  # RunContext, RunContext[Deps], or one of them or None
            context, deps = parameter.name, next(iter(get_args(asked)), None)
            continue
        default = cast("object", parameter.default)
        if parameter.kind is parameter.VAR_POSITIONAL:
            hint, default = list[hint], list[object]()
        elif parameter.kind is parameter.VAR_KEYWORD:
            hint, default = (get_args(hint)[0] if get_origin(hint) is Unpack else dict[str, hint]), dict[str, object]()
        elif isinstance(default, FieldInfo):
            hint, default = Annotated[hint, default], default.default
        elif default is None:
            hint = hint | None if isinstance(hint, type) else hint
        notes = getattr(hint, "__metadata__", ())  # what follows the type in Annotated
        if parameter.name in described and not any(getattr(note, "description", None) for note in notes):
            hint = Annotated[hint, Field(description=described[parameter.name])]
        fields[parameter.name] = (hint, _field(default, parameter.name, required=default is parameter.empty))
    arguments, schema = _model_of(name, fields)
    return Signature(parameters, context, deps, arguments, schema)


def _without_static(function: Callable[..., object]) -> Callable[..., object]:
    """Return an object's call if it is static: `inspect` would take its first parameter for self."""
    if isinstance(function, functools.partial):
        return functools.partial(_without_static(function.func), *function.args, **function.keywords)
    called = inspect.getattr_static(type(function), "__call__", None)
    return function.__call__ if isinstance(called, staticmethod | classmethod) else function


def _inner(function: object) -> object:
    """Return the function that a partial, a bound method or a wrapper finally calls."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("object", function.func)
        elif inspect.ismethod(function):
            function = function.__func__
        elif (wrapped := getattr(function, "__wrapped__", None)) is not None:
            function = wrapped
        else:
            return function


def _docstring(function: object) -> str:
    if isinstance(function, type):
        written = function.__doc__ or ""
        if written.startswith(f"{function.__name__}("):  # a dataclass writes that itself
            written = ""
        return inspect.cleandoc(written or getattr(vars(function).get("__init__"), "__doc__", None) or "")
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    return inspect.cleandoc(type(function).__call__.__doc__ or type(function).__doc__ or "")


def _hints(function: object, name: str, parameters: "tuple[Parameter, ...]") -> Mapping[str, object]:
    """Evaluate the annotations of parameters, in the scope where they were written."""
    own = _inner(function)
    if isinstance(own, type):
        own = next((init for cls in own.__mro__ if (init := vars(cls).get("__init__"))), own)
    elif not inspect.isroutine(own):
        own = _inner(type(own).__call__)
    scope = getattr(own, "__globals__", None) or vars(sys.modules.get(getattr(own, "__module__", None) or "", sys))
    written = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    annotated = SimpleNamespace(__annotations__=written)
    try:
        return get_type_hints(annotated, {**scope}, _local_names(own), include_extras=True)
    except NameError as error:
        raise TypeError(_unknown_name(name, error)) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise TypeError(f"{name}: an annotation is not a type: {error}") from None


def _unknown_name(name: str, error: NameError) -> str:
    return f"{name}: {error}. Annotations must name things that exist when the tool is made."


def _local_names(function: object) -> dict[str, object]:
    """Return the names of the running function in which this one was defined."""
    outer = getattr(function, "__qualname__", "").rpartition(".<locals>.")[0]
    code = function.__code__ if isinstance(function, FunctionType) else None
    frame = sys._getframe() if outer and code else None  # noqa: SLF001 -- annotations as text name its local types
    while frame is not None and code is not None:
        if frame.f_code.co_filename == code.co_filename and frame.f_code.co_qualname == outer:
            return {**frame.f_locals}
        frame = frame.f_back
    return {}


def _hint_of(parameter: "Parameter", hints: Mapping[str, object], name: str) -> object:
    if parameter.name in hints:
        return hints[parameter.name]
    if type(parameter.default) in _GUESSED:
        return cast("object", type(parameter.default))
    wrapper = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    advice = "a decorator keeps those of its function with functools.wraps" if wrapper else f"or {_WRITE}"
    raise TypeError(f"{name}: parameter {parameter.name} needs a type annotation, as {parameter.name}: str; {advice}")


def _field(default: object, alias: str, *, required: bool) -> object:
    """Return the field of a parameter. A default that JSON cannot express is not shown."""
    from pydantic import Field
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    if required:
        return Field(alias=alias)
    try:
        json_freeze(to_jsonable_python(default))
    except (PydanticSerializationError, NotJsonError, ValueError):
        return Field(default_factory=lambda: default, alias=alias)
    return Field(default, alias=alias)


def _model_of(name: str, fields: Mapping[str, tuple[object, object]]) -> "tuple[type[BaseModel], JsonObject]":
    from pydantic import ConfigDict, PydanticUserError, create_model

    make = cast("Callable[..., type[BaseModel]]", create_model)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    # own names, because pydantic refuses some that functions use, such as model_config and _x
    named = {f"p{place}": field for place, field in enumerate(fields.values())}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(name, __config__=config, **named)
            return model, json_freeze_object({**model.model_json_schema(by_alias=True)})
    except (PydanticUserError, NotJsonError, TypeError) as error:
        if len(fields) == 1:
            parameter, (hint, _) = next(iter(fields.items()))
            raise TypeError(
                f"{name}: parameter {parameter}: JSON cannot hold {hint!r:.80}: take text, a number, a list, a "
                "TypedDict (before Python 3.12 of typing_extensions), a dataclass or a pydantic model, and make the "
                f"rest of it. {str(error).splitlines()[0]}"
            ) from None
        for parameter, field in fields.items():
            _model_of(name, {parameter: field})
        raise TypeError(f"{name}: {error}") from None


def _read_docstring(text: str, names: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the description without its section on parameters, and what that says on each."""
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
