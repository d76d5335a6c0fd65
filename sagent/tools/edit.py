"""The Edit tool: exact replacements in a file, all of them or none."""

from dataclasses import replace
from pathlib import Path

from sagent.lib.json import JsonObject, as_str
from sagent.tool import Effect, RunContext, ToolOutput, Workspace, arguments_schema

_MAX_INLINE_BYTES = 200_000  # more is handled in a thread
_TEXTS = {"old_string": {"type": "string"}, "new_string": {"type": "string"}, "replace_all": {"type": "boolean"}}


class Edit:
    """Replaces exact text. Everything else in the file keeps its bytes: encoding, byte order mark, line ends."""

    name = "Edit"
    quick = True
    description = (
        "Replace text in a file that you have Read. old_string must be copied exactly from the file, without the line "
        "numbers, and occur once (add lines around it) unless replace_all. For several changes give edits instead: "
        "applied in order, all or none. An empty old_string creates a file."
    )
    parameters = arguments_schema(
        "file_path",
        file_path={"type": "string"},
        **_TEXTS,
        edits={
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": _TEXTS, "required": ["old_string", "new_string"]},
        },
    )

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        from sagent.tools.paths import foreseen

        path = workspace.resolve(as_str(arguments["file_path"]))
        effect = foreseen("write", path, workspace)

        def check() -> None:  # reveals nothing of an unread file but its existence
            from sagent.tools.change import plan_edit
            from sagent.tools.replacement import read_replacements

            real = effect.real or path
            if _is_small(real):
                plan_edit(path, real, read_replacements(arguments), workspace)

        return replace(effect, check=check)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Apply the edits. If one cannot be applied, raises ToolError and changes nothing."""
        from sagent.lib.pace import offload
        from sagent.tools.change import make, plan_edit
        from sagent.tools.paths import judged_path
        from sagent.tools.replacement import read_replacements

        path = run.workspace.resolve(as_str(arguments["file_path"]))
        real = judged_path(path, run)
        replacements = read_replacements(arguments)
        with run.workspace.changing(real):
            return await offload(
                lambda _: make(plan_edit(path, real, replacements, run.workspace), run.workspace), small=_is_small(real)
            )


def _is_small(real: Path) -> bool:
    try:
        return real.stat().st_size <= _MAX_INLINE_BYTES
    except OSError:  # who reads it says why
        return True
