"""A dataclass of ours is one of the standard library's, in everything that can be asked of it."""

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sagent
from sagent.lib.dataclass import dataclass
from sagent.usage import Usage

NAMES = ["a", "b", "c", "self_", "cls", "name", "_private"]
T = TypeVar("T")

settings = st.fixed_dictionaries(
    {"init": st.booleans(), "repr": st.booleans(), "compare": st.booleans(), "kw_only": st.booleans()},
    optional={"hash": st.sampled_from([None, False, True])},
)
kinds = st.sampled_from(["required", "value", "factory"])
members = st.lists(st.tuples(st.sampled_from(NAMES), kinds, settings), max_size=5, unique_by=lambda member: member[0])
words = st.fixed_dictionaries({}, optional={"frozen": st.booleans(), "kw_only": st.booleans(), "eq": st.booleans()})


def build(decorator: Any, specs: Any, options: dict[str, bool]) -> type:
    body: dict[str, Any] = {"__annotations__": {name: object for name, _, _ in specs}, "__qualname__": "Made"}
    for name, kind, flags in specs:
        default = {"required": {}, "value": {"default": 7}, "factory": {"default_factory": list}}[kind]
        body[name] = field(**flags, **default)
    return decorator(slots=True, **options)(type("Made", (), body))


def outcome(act: Callable[[], Any]) -> Any:
    """What it gives, or the error's type and words."""
    try:
        return act()
    except Exception as error:
        return type(error), str(error)


def parameters(kind: type) -> list[tuple[str, Any, bool]]:
    found = inspect.signature(kind).parameters.values()
    return [(each.name, each.kind, each.default is not each.empty) for each in found]


@given(members, words, st.lists(st.integers(0, 3), max_size=4), st.sets(st.sampled_from(NAMES)))
def test_behaves_as_standard_dataclass(
    specs: Any, options: dict[str, bool], positional: list[int], named: set[str]
) -> None:
    ours, theirs = (
        outcome(lambda kind=kind: build(kind, specs, options)) for kind in (dataclass, dataclasses.dataclass)
    )
    if isinstance(theirs, tuple):  # a field without a default after one with: said when it is first to be made
        with pytest.raises(SyntaxError, match="default"):
            inspect.signature(ours)
        return
    for ask in (parameters, lambda kind: kind.__match_args__, lambda kind: [each.name for each in fields(kind)]):
        assert ask(ours) == ask(theirs)
    own = next((name for name, _, flags in specs if flags["init"]), None)
    keywords = dict.fromkeys(sorted(named), 1)

    def seen(kind: Any) -> list[Any]:
        def make() -> Any:
            return kind(*positional, **keywords)

        acts: list[Callable[[], Any]] = [
            lambda: repr(make()),
            lambda: make() == make(),
            lambda: make() == object(),
            lambda: len({hash(each) for each in (make(), make())}),  # both are there, for some are known by their place
            lambda: asdict(make()),
            lambda: asdict(copy.deepcopy(make())),
            lambda: asdict(replace(make(), **dict.fromkeys(sorted(named), 2))),
            lambda: own and (setattr(made := make(), own, 5) or getattr(made, own)),
            lambda: own and delattr(make(), own),
            lambda: vars(make()),
        ]
        return [outcome(act) for act in acts]

    assert seen(ours) == seen(theirs)


@dataclass(frozen=True, slots=True)
class Point(Generic[T]):
    x: T
    y: int = 2
    tags: list[str] = field(default_factory=list[str], compare=False)
    origin: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.y < 0:
            raise ValueError("y is negative")


@dataclass(frozen=True, slots=True)
class Solid(Point[int]):
    z: int = 3


def test_dataclass_matches_copies_and_pickles() -> None:
    point = Point("x", tags=["t"])
    match point:
        case Point(x, y):
            assert (x, y) == ("x", 2)
    assert pickle.loads(pickle.dumps(point)) == copy.copy(point) == point == Point("x")
    assert {point: 1}[Point("x")] == 1
    with pytest.raises(ValueError, match="negative"):
        replace(point, y=-1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = "y"  # pyright: ignore[reportAttributeAccessIssue]
    solid = Solid(1)
    assert (repr(solid), solid == Solid(1, 2, z=3), solid == Point(1)) == ("Solid(x=1, y=2, tags=[], z=3)", True, False)
    with pytest.raises(FrozenInstanceError):
        solid.z = 4  # pyright: ignore[reportAttributeAccessIssue]

    @dataclasses.dataclass(frozen=True)
    class Named(Point[int]):
        label: str = ""

    class Loose(Point[int]):
        pass

    assert Named(1, label="n").label == "n"
    loose = Loose(1)
    loose.note = "own"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        loose.y = 4  # pyright: ignore[reportAttributeAccessIssue]
    assert (loose, vars(loose)) == (Loose(1), {"note": "own"})


def test_signature_before_first_instance() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        a: int
        b: str = "b"

    assert str(inspect.signature(Fresh)) == "(a, b='b')"
    assert Fresh.__init__.__qualname__.endswith("Fresh.__init__")
    assert (Fresh.__hash__(Fresh(1)), Fresh.__eq__(Fresh(1), Fresh(1))) == (hash(Fresh(1)), True)
    with pytest.raises(TypeError, match=r"Fresh.__init__\(\) missing 1 required positional argument: 'a'"):
        Fresh()  # pyright: ignore[reportCallIssue]


def test_self_containing_instance_has_repr() -> None:
    @dataclass(slots=True)
    class Node:
        next: object = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_pydantic_reads_ours() -> None:
    from pydantic import TypeAdapter

    usage = TypeAdapter(Usage).validate_python({"input": "5"})
    assert (usage, type(usage)) == (Usage(input=5), Usage)


def test_package_has_no_other_dataclasses() -> None:
    """One decorator: a class of the other kind would cost its 0.4 ms unseen."""
    root = Path(sagent.__file__).parent
    own = root / "lib" / "dataclass.py"
    found: list[str] = []
    for path in root.rglob("*.py"):
        if path == own or "demo_project" in path.parts:
            continue
        imported = r"\bfrom dataclasses import (?:\([^)]*|[^(\n]*)\bdataclass\b"
        used = re.findall(rf"{imported}|\bdataclasses\.dataclass\b", path.read_text("utf-8"))
        found += [f"{path.name}: {each}" for each in used]
    assert found == []
