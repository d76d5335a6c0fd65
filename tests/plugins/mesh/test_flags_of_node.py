"""What a session decided about itself holds on a node that was started with other flags."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sagent.config import Settings
from sagent.plugins.mesh.commands.node import settings_of
from sagent.plugins.mesh.session_worker import Opening
from tests.depth import later
from tests.plugins.hosting.test_flags_after_agentself import Door, check_kept, door

__all__ = ["door"]


def of_node(flags: Mapping[str, object], session: Path) -> Settings:
    return settings_of(flags, Opening(session, Path(str(flags["cwd"])), {"max_turns": "9"}))


@later
async def test_node_flag_keeps_session_choice(
    door: Door,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SAGENT_STATE_DIR", str(tmp_path / "state"))
    await check_kept(tmp_path, of_node)
