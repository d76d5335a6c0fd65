"""The API is what docs/api.md and docs/reference list: a name that appears, vanishes or moves is a change that must be
seen in a review.

A member is listed once: with the public base or protocol that has it, and not again with each class that implements it.
The tests of a suite are no names that anybody uses. `python -m tests.test_public_names` writes the list anew.
"""

import importlib
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import pytest

from sagent.model import Model, Provider
from sagent.policy import Policy
from sagent.session.log import Log
from sagent.tool import Tool

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("public_names.txt")
MODULES = (
    "sagent",
    "sagent.agent",
    "sagent.plugins.teams",
    "sagent.plugins.batches",
    "sagent.plugins.clouds",
    "sagent.plugins.local",
    "sagent.plugins.code",
    "sagent.plugins.notebook",
    "sagent.plugins.papers",
    "sagent.plugins.logins",
    "sagent.plugins.telemetry",
    "sagent.plugins.web",
    "sagent.codec",
    "sagent.cost.ledger",
    "sagent.errors",
    "sagent.events",
    "sagent.plugins.mesh.answering",
    "sagent.plugins.mesh.bus",
    "sagent.plugins.mesh.cards",
    "sagent.plugins.mesh.discovery",
    "sagent.plugins.mesh.errors",
    "sagent.messages",
    "sagent.model",
    "sagent.peer",
    "sagent.policy",
    "sagent.policy.permissions",
    "sagent.providers",
    "sagent.rewind.restore",
    "sagent.session.entries",
    "sagent.session.log",
    "sagent.testing",
    "sagent.plugins.mesh.bus_suite",
    "sagent.testing.model_suite",
    "sagent.testing.tool_suite",
    "sagent.testing.log_suite",
    "sagent.tool",
    "sagent.tools",
    "sagent.usage",
)
PROMISED = {
    "sagent.cost.ledger": ["Ledger"],
    "sagent.policy.permissions": ["PermissionPolicy"],
    "sagent.session.entries": ["Entry"],
    "sagent.session.log": ["FileLog", "Log", "MemoryLog", "read_log"],
    "sagent.plugins.mesh.bus": ["Address", "Bus", "Delivery", "Envelope", "Frame", "Sent", "message", "request"],
    "sagent.plugins.mesh.cards": ["Card", "Change", "Query"],
}
"""The public names of modules that have others, too."""


def public_names(module: ModuleType) -> list[str]:
    """The promised names; without a promise those of `__all__`, and without that those that the module defines."""
    declared = PROMISED.get(module.__name__) or getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    own = {name: value for name, value in vars(module).items() if not name.startswith(("_", "@"))}  # pytest adds @...
    return sorted(
        name
        for name, value in own.items()
        if not isinstance(value, ModuleType) and getattr(value, "__module__", module.__name__) == module.__name__
    )


def members(module: ModuleType, name: str) -> list[str]:
    """A class with its public members, an agent's or a log's from all its classes; anything else by its name."""
    value = getattr(module, name)
    if not isinstance(value, type):
        return [name]
    parts = ("sagent.agent.", "sagent.session.log")
    homes = [value, *(base for base in value.__mro__[1:] if base.__module__.startswith(parts))]
    fields = {field for home in homes for field in own_fields(home) if not field.startswith("test_")}
    for other in public_classes():
        is_met = other in (Log, Model, Policy, Provider, Tool) and all(map(partial(hasattr, value), own_fields(other)))
        if other is not value and (is_met or other in value.__mro__):
            fields -= own_fields(other)
    return [name, *(f"{name}.{field}" for field in sorted(fields))]


def own_fields(value: type) -> set[str]:
    """The public members that a class itself defines."""
    return {field for field in (*getattr(value, "__annotations__", {}), *vars(value)) if not field.startswith("_")}


@cache
def public_classes() -> list[type]:
    """All classes in the list."""
    modules = map(importlib.import_module, filter(is_there, MODULES))
    found = (getattr(module, name) for module in modules for name in public_names(module))
    return [value for value in found if isinstance(value, type)]


def is_there(path: str) -> bool:
    """Return False for a module of a plugin that was deleted."""
    return not path.startswith("sagent.plugins.") or (ROOT / "/".join(path.split(".")[:3])).is_dir()


def expected() -> str:
    """Return the list as it is kept, without modules of plugins that were deleted."""
    kept: list[str] = []
    path = ""
    for line in LIST.read_text("utf-8").splitlines(keepends=True):
        path = line.strip() if not line.startswith(" ") else path
        kept += [line] if is_there(path) else []
    return "".join(kept)


def listed() -> str:
    """The whole list, a module's names after its own."""
    lines: list[str] = []
    for path in filter(is_there, MODULES):
        module = importlib.import_module(path)
        lines += [path, *(f"    {line}" for name in public_names(module) for line in members(module, name))]
    return "\n".join(lines) + "\n"


def test_public_names_are_those_listed() -> None:
    assert listed() == expected(), "the public API changed: is it meant? python -m tests.test_public_names"


@pytest.mark.parametrize("path", [*filter(is_there, MODULES)])
def test_every_declared_name_is_there(path: str) -> None:
    module = importlib.import_module(path)
    for name in public_names(module):
        assert hasattr(module, name), f"{path}.{name} is declared and does not exist"


if __name__ == "__main__":
    LIST.write_text(listed(), "utf-8")
