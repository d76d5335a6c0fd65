"""sagent: coding agents on any model of any provider. `import sagent` does no work: a name is imported when it is first
asked for; type checkers find them in `__init__.pyi`."""

import sys

from sagent.version import __version__ as __version__


class _Package(type(sys)):  # pyright: ignore[reportUntypedBaseClass] -- types.ModuleType, without importing types
    """Class of the module `sagent`: its `tool` stays the decorator when Python imports the module `sagent.tool`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "tool":  # Python sets it when it has imported the module
            super().__setattr__(name, value)  # pyright: ignore[reportUnknownMemberType] -- as above


sys.modules[__name__].__class__ = _Package
_LOOKED_FOR = ("query", "function_tool", "handoff", "trace", "create_sdk_mcp_server", "user", "assistant", "guarded")


def __getattr__(name: str) -> object:
    match name:
        case "Agent" | "Resources" | "RunLimits":
            from sagent import agent as home
        case "run_sync":
            from sagent.agent import blocking as home
        case "load_config" | "open_agent" | "run_task":
            from sagent.app import task as home
        case "BudgetExceeded" | "ModelError" | "SagentError" | "ToolError" | "UsageError":
            from sagent import errors as home
        case "Result":
            from sagent import events as home
        case "tool":
            from sagent import tools as home
        case "RunContext" | "ToolOutput":
            from sagent.tool import RunContext, ToolOutput

            return RunContext if name == "RunContext" else ToolOutput
        case "load_ipython_extension" | "unload_ipython_extension":
            from sagent.plugin import extra_of_ours

            return extra_of_ours(name) or (lambda _: print("This needs the plugin jupyter, which is not loaded."))  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType] -- an IPython shell
        case _:
            if name[:1].isupper() or name in _LOOKED_FOR:
                from sagent.lib.foreign import import_hint

                if here := import_hint(name):
                    raise ImportError(f"cannot import name {name!r} from 'sagent'. Here: {here}", name="sagent")
            raise AttributeError(f"module 'sagent' has no attribute {name!r}")
    return getattr(home, name)
