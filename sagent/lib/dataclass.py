"""The standard library's `@dataclass`, with methods that are written on first use.

The standard library writes and compiles up to eight methods for each class while it is imported, 0.4 ms of them. A run
imports 110 of our classes before its first request and makes a third of them: 45 of 145 ms (decisions/start-lazy.md).
The classes are dataclasses: `fields`, `replace`, `asdict`, `match` and `copy` know them, and type checkers see that
this is the standard library's decorator. Common parts of classes, type variables and `Hinting`, are here too.
"""

import dataclasses
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Literal, Never, cast

__all__ = ["Data_co", "Deps", "Deps_contra", "Hinting", "dataclass", "hinting", "refuse_keywords"]


class _Later:
    """A method that is written when it is first looked up, and then replaces this object in its class."""

    __slots__ = ("_name", "_owner", "_write")

    def __init__(self, owner: type, name: str, write: Callable[[type], str]) -> None:
        self._owner, self._name, self._write = owner, name, write

    def __get__(self, instance: object, _: type | None = None) -> object:
        method = self._written()
        return method if instance is None else method.__get__(instance)

    def _written(self) -> FunctionType:
        owner, name = self._owner, self._name
        known: dict[str, object] = {"__name__": owner.__module__}
        for field in _fields(owner):
            known[f"_set_{field.name}"] = getattr(owner, field.name).__set__
            known[f"_default_{field.name}"] = field.default
            known[f"_make_{field.name}"] = field.default_factory
        known["_freeze"] = _freeze
        exec(self._write(owner), known)  # noqa: S102 -- of the names of our own fields, as the standard library does
        method = known[name]
        assert isinstance(method, FunctionType)
        method.__qualname__ = f"{owner.__qualname__}.{name}"
        setattr(owner, name, method)
        return method


def _fields(of: object) -> "tuple[Field[object], ...]":
    return dataclasses.fields(cast("type", of))


def _freeze(value: object, at: str) -> object:
    from sagent.lib.json import json_freeze  # few of the first classes need it

    return json_freeze(value, at)


def _takes_json(of: object) -> bool:
    """Return True if a field's type is JSON of a program, which is frozen."""
    known = sys.modules.get("sagent.lib.json")  # if it is not imported, no field has its types
    return known is not None and of in (known.JsonObject, known.JsonObject | None, known.Json)


def _write_init(cls: type) -> str:
    parameters, named, lines = ["self"], list[str](), list[str]()
    for field in _fields(cls):
        name, given = field.name, field.name if field.init else ""
        default, value = "", given
        if field.default_factory is not MISSING:
            default = f"_make_{name}"
            value = f"{default}() if {given} is {default} else {given}" if given else f"{default}()"
        elif field.default is not MISSING:
            default = f"_default_{name}"
            value = given or default
        if _takes_json(field.type):
            value = f"_freeze({value}, {name!r})" if value else value
        if given:
            (named if field.kw_only else parameters).append(f"{name}={default}" if default else name)
        if value:
            lines.append(f" _set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    head = ", ".join([*parameters, *(["*", *named] if named else [])])
    return "\n".join([f"def __init__({head}):", *lines, " return"])


def _write_eq(cls: type) -> str:
    names = [field.name for field in _fields(cls) if field.compare]
    mine, theirs = (f"({''.join(f'{of}.{name}, ' for name in names)})" for of in ("self", "other"))
    same = "other.__class__ is self.__class__"
    return f"def __eq__(self, other):\n return {mine} == {theirs} if {same} else NotImplemented"


def _write_hash(cls: type) -> str:
    known = [field.name for field in _fields(cls) if (field.compare if field.hash is None else field.hash)]
    return f"def __hash__(self):\n return hash(({''.join(f'self.{name}, ' for name in known)}))"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: object, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: object, name: str, deed: str) -> None:
    """Reject a change of a field, but not of an attribute that a derived class has added."""
    if "__dataclass_fields__" in vars(type(self)) or any(field.name == name for field in _fields(self)):
        raise FrozenInstanceError(f"cannot {deed} field {name!r}")


def _get_state(self: object) -> list[object]:
    return [getattr(self, field.name) for field in _fields(self)]


def _set_state(self: object, state: list[object]) -> None:
    for each, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


@reprlib.recursive_repr()
def _show(self: object) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _decorate(
    *, slots: Literal[True], frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> Callable[[type], type]:
    """Decorate as `dataclasses.dataclass` does. `slots` must be true; there are no `InitVar`s."""

    def decorate(plain: type) -> type:
        # Without a docstring, the standard library writes the signature there, which needs __init__.
        plain.__doc__ = plain.__doc__ or plain.__name__
        derived = any(dataclasses.is_dataclass(base) for base in plain.__bases__)
        bare: object = dataclasses.dataclass(
            init=False, repr=False, eq=False, slots=slots, kw_only=kw_only, frozen=frozen and derived
        )
        cls = cast("Callable[[type], type]", bare)(plain)
        methods: dict[str, object] = {"__init__": _Later(cls, "__init__", _write_init), "__repr__": _show}
        if eq:
            methods["__eq__"] = _Later(cls, "__eq__", _write_eq)
            methods["__hash__"] = _Later(cls, "__hash__", _write_hash) if frozen else None
        if frozen:
            methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
            methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        for name, method in methods.items():
            if name not in vars(plain):
                setattr(cls, name, method)
        parameters = vars(cls)["__dataclass_params__"]
        parameters.init, parameters.repr, parameters.eq, parameters.frozen = True, True, eq, frozen
        return cls

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass

    from typing_extensions import TypeVar

    F = TypeVar("F", bound=FunctionType)
    Data_co = TypeVar("Data_co", default=object, covariant=True)
    Deps = TypeVar("Deps", default=object)
    Deps_contra = TypeVar("Deps_contra", default=object, contravariant=True)
else:
    from typing import TypeVar

    dataclass = _decorate
    F = TypeVar("F")
    Data_co = TypeVar("Data_co", covariant=True)
    Deps = TypeVar("Deps")
    Deps_contra = TypeVar("Deps_contra", contravariant=True)
"""A type variable with a default, so that it need not be given: `Result` is `Result[object]` to type checkers."""


class Hinting:
    """An object with an error message for each attribute name of another library."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> Never:
            from sagent.lib.foreign import missing_attribute

            raise AttributeError(missing_attribute(type(self).__name__, name), name=name, obj=self)


def hinting(function: F) -> F:
    """Return a method with an error message for each keyword of another library."""
    code = function.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @wraps(function)
    def called(*args: object, **given: object) -> object:
        if not known >= given.keys():
            name = function.__qualname__.removesuffix(".__init__")
            refuse_keywords(name, {key: value for key, value in given.items() if key not in known})
        return function(*args, **given)

    return cast("F", called)


def refuse_keywords(owner: str, unknown: Mapping[str, object]) -> None:
    """Raise TypeError for unknown keywords of a function, if there are any."""
    if unknown:
        from sagent.lib.foreign import unknown_keyword

        raise unknown_keyword(owner, unknown)
