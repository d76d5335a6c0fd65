"""sagent: coding agents on any model of any provider. `import sagent` does no work; take names from its modules.

`run_task` and `load_config` are here as well, and imported when they are first asked for.
"""

from sagent.version import __version__ as __version__


def __getattr__(name: str) -> object:
    if name == "run_task":
        from sagent.app.task import run_task

        return run_task
    if name == "load_config":
        from sagent.app.task import load_config

        return load_config
    raise AttributeError(f"module 'sagent' has no attribute {name!r}")
