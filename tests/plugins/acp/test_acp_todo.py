"""The list of what is to be done, as an editor is shown it."""

from pathlib import Path

from sagent.messages import Message, Text, ToolResult
from sagent.plugins.acp.version1 import Past, Updates
from sagent.tool import Workspace
from tests.messages import call


def test_failed_todo_list_not_shown() -> None:
    todos = [{"content": "Test it", "status": "pending"}]
    one = Message("assistant", (call("todo0", "TodoWrite", todos=todos),))
    failed, done = (Past(ToolResult("todo0", (Text("done"),), is_error)) for is_error in (True, False))
    updates = Updates(Workspace(Path("/")), notices=True)
    assert list(updates.replay([one, failed])) == []
    assert [each["sessionUpdate"] for each in updates.replay([one, done])] == ["plan"]
