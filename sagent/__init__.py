"""sagent: coding agents on any model of any provider. `import sagent` does no work: a name is imported when it is first
asked for; type checkers find them in `__init__.pyi`."""

from sagent.version import __version__ as __version__


def __getattr__(name: str) -> object:
    match name:
        case "Agent" | "Resources" | "RunLimits":
            from sagent import agent as home
        case "load_config" | "open_agent" | "run_task":
            from sagent.app import task as home
        case "BudgetExceeded" | "ModelError" | "SagentError" | "ToolError" | "UsageError":
            from sagent import errors as home
        case "Result":
            from sagent import events as home
        case "RunContext" | "ToolOutput":
            from sagent import tool as home
        case _:
            raise AttributeError(f"module 'sagent' has no attribute {name!r}")
    return getattr(home, name)
