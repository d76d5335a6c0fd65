"""Variables and secret folders that plugins declare."""

from pathlib import Path

import pytest

from sagent.cli.settings import load_settings
from sagent.config.layers import load
from sagent.events import Denied, Event
from sagent.plugins.hosting.live import ClientOptions, LiveSession
from sagent.plugins.hosting.opening import opening_of
from sagent.testing.script import Call, Step, Turn

HARBOUR = """
from sagent.plugin import Plugin, SecretFolder, Variable
plugin = Plugin(
    "harbour",
    variables=(Variable("SAGENT_HARBOUR_TOKEN", each=True), Variable("SAGENT_TIDE")),
    secret_folders=(SecretFolder("harbour"),),
)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "harbour.py").write_text(HARBOUR)
    return tmp_path / "harbour.py"


@pytest.mark.parametrize("name", ["SAGENT_TIDE", "SAGENT_HARBOUR_TOKEN", "SAGENT_HARBOUR_TOKEN_ANN"])
def test_variable_needs_its_plugin(tmp_path: Path, file: Path, name: str) -> None:
    environ = {"HOME": str(tmp_path), name: "x"}
    assert not load({"plugin": str(file)}, environ, tmp_path).warnings
    (warning,) = load({}, environ, tmp_path).warnings
    assert warning.startswith(f"{name}: there is no such setting")


@pytest.mark.parametrize("name", ["SAGENT_TIDE_ANN", "SAGENT_HARBOUR_TOKENS"])
def test_unknown_prefixed_variable_warned(tmp_path: Path, file: Path, name: str) -> None:
    (warning,) = load({"plugin": str(file)}, {"HOME": str(tmp_path), name: "x"}, tmp_path).warnings
    assert name in warning


@pytest.mark.costly
@pytest.mark.parametrize("user", ["", "ann"])
async def test_served_agent_avoids_secrets(place: Path, provider: list[Step], file: Path, user: str) -> None:
    state = load_settings({}).state_dir
    places = [state / "harbour", *([state / "users/ann/harbour"] if user else [])]
    for folder in places:
        folder.mkdir(parents=True)
        (folder / "token.json").write_text("secret")
    calls = [Call("Read", {"file_path": str(folder / "token.json")}) for folder in places]
    calls += [Call("Write", {"file_path": str(folder / "new"), "content": "x"}) for folder in places]
    provider += [Turn("", calls=tuple(calls)), Turn("done")]
    events: list[Event] = []
    flags = {"model": "anthropic/claude-sonnet-4-6", "permission_mode": "full", "plugin": str(file)}
    live = LiveSession(
        opening_of(flags, user, users=(user,)), ClientOptions(cwd=str(place)), events.append, lambda: None
    )
    await live.opened()
    assert (await live.prompt("go")).content == "done"
    await live.aclose()
    denied = [event.denial.tool for event in events if isinstance(event, Denied)]
    assert sorted(denied) == sorted(call.name for call in calls)
    assert not any((folder / "new").exists() for folder in places)
