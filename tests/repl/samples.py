"""Values that several tests of the REPL are written with."""

from sagent.lib.json import JsonObject
from sagent.messages import Text, ToolCall, ToolResult

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
CALL = ToolCall("c1", "Bash", JsonObject({"command": "make test"}))
EDIT = ToolCall("c2", "Edit", JsonObject({"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}))
DIFF = "--- a.py\n+++ a.py\n@@ -9,3 +9,3 @@\n one\n-x = 1\n+x = 2\n three"


def answer(call: ToolCall, text: str = "ok", *, failed: bool = False) -> ToolResult:
    """The result of a call."""
    return ToolResult(call.id, (Text(text),), failed)
