"""The parts of an agent: each row has its module, and each module its row."""

from importlib import import_module
from inspect import iscoroutinefunction
from pkgutil import iter_modules

from sagent.app import parts
from sagent.app.assembly import AROUND, OFFERING


def test_each_part_has_a_module_with_what_adds_it() -> None:
    names = [part.name for part in (*OFFERING, *AROUND)]
    assert sorted(names) == sorted(module.name for module in iter_modules(parts.__path__))
    assert all(iscoroutinefunction(import_module(f"{parts.__name__}.{name}").add) for name in names)
