"""`/config`: the settings that differ first, and the change of one."""

import tomllib

import pytest

from sagent.errors import UsageError
from tests.repl.recorded import RecordingContext


async def test_config_shows_what_differs_first(context: RecordingContext) -> None:
    context.has_person = False
    lines = (await context.do("/config")).splitlines()
    assert "(default)" not in lines[0] and "(default)" in lines[-1]
    assert "permission_mode" in await context.do("/config permission_mode")
    with pytest.raises(UsageError):
        await context.do("/config nonsense")


async def test_config_changes_a_setting(context: RecordingContext) -> None:
    context.picks = ["notify", "off"]
    await context.do("/config")
    assert [option.label for option in context.offered if option.current] == ["bell"]
    await context.do("/config max_turns 7")
    assert tomllib.loads(context.settings.user_file.read_text()) == {"notify": "off", "max_turns": 7}
    assert context.settings.notify == "off" and context.settings.max_turns == 7


@pytest.mark.parametrize("line", ["/config notify loud", "/config max_turns many", "/config allow Bash", "/config x y"])
async def test_config_refuses_wrong_values(context: RecordingContext, line: str) -> None:
    with pytest.raises(UsageError):
        await context.do(line)
    context.has_person = False
    with pytest.raises(UsageError):
        await context.do("/config notify off")
    assert not context.settings.user_file.exists()
