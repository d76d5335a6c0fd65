"""The TodoWrite tool: the to-do list, rewritten at each step."""

from sagent.context.todo import STATES, read_tasks
from sagent.lib.json import JsonObject
from sagent.tool import Harmless, RunContext, ToolOutput, arguments_schema


class TodoWrite(Harmless):
    """Keeps no state: the last call in the conversation is the list."""

    name = "TodoWrite"
    quick = True
    description = (
        "Show the person a list of the steps, for work of three or more. Give the whole list each time; mark a step "
        "in_progress when you begin it and completed when it is done."
    )
    parameters = arguments_schema(
        "todos",
        todos={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"content": {"type": "string"}, "status": {"type": "string", "enum": list(STATES)}},
                "required": ["content", "status"],
                "additionalProperties": False,
            },
        },
    )

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Report the progress."""
        tasks = read_tasks(arguments)
        done = sum(task.state == "completed" for task in tasks)
        said = f"{done} of {len(tasks)} done" if tasks else "The list is empty"
        now = ", ".join(task.text for task in tasks if task.state == "in_progress")
        return ToolOutput.of(f"{said}.", summary=f"{said}{now and f'; now: {now}'}")
