"""What was learned of models' protocols: kept by several processes at once, and forgotten by any name."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.app.models import choose_model
from sagent.config import load
from sagent.errors import UsageError
from sagent.plugins.textcalls.protocols import LearnedProtocols, split_place
from sagent.providers.listings import weights_in_name
from sagent.testing.script import Listed
from sagent.testing.server import FakeProviderServer
from tests.depth import later

PROCESSES, EACH = 4, 40
KEEPS = f"""
import os, sys
from pathlib import Path
from sagent.plugins.textcalls.protocols import LearnedProtocols
children = []
for name in range({PROCESSES}):
    if child := os.fork():
        children.append(child)
        continue
    learned = LearnedProtocols(Path(sys.argv[1]))
    for number in range({EACH}):
        learned.keep("llamacpp host/v1", f"m{{name}}-{{number}}", "text")
    os._exit(0)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@later
def test_parallel_processes_keep_all_learned(tmp_path: Path) -> None:
    file = tmp_path / "state/protocols.json"
    subprocess.run([sys.executable, "-c", KEEPS, str(file)], check=True)
    assert len(LearnedProtocols(file).every()) == PROCESSES * EACH


@pytest.mark.parametrize("model", ["qwen", "vendor/qwen 7", "two  spaces", "ö:latest"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_model_is_forgotten_by_its_name(tmp_path: Path, model: str, on_disk: bool) -> None:
    learned = LearnedProtocols(tmp_path / "protocols.json" if on_disk else None)
    learned.keep("llamacpp host/v1", model, "text")
    learned.keep("openai-compatible other/v1", model, "text")
    learned.keep("llamacpp host/v1", "else", "text")
    assert split_place(f"llamacpp host/v1 {model}") == ("host/v1", model)
    assert learned.forget(model) == 2
    assert [*learned.every()] == ["llamacpp host/v1 else"]


def test_endless_number_has_no_size() -> None:
    assert weights_in_name("m-" + "9" * 400 + "b") is None


@pytest.mark.plugin("local")
@pytest.mark.parametrize(("before", "goes_on"), [(str, True), (lambda _: "elsewhere:1/v1", False)])
async def test_session_resumes_on_llama_cpp_server(tmp_path: Path, before: Callable[[str], str], goes_on: bool) -> None:
    listed = [Listed("tiny-q4", owner="llamacpp", weights=1_777_088_000)]
    async with FakeProviderServer([], models=listed, require_key=False) as server:
        (tmp_path / "config.toml").write_text(f'base_url = "{server.url}/v1"\n')
        flags = {"state_dir": str(tmp_path / "state")}
        choice = await choose_model(load(flags, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "config.toml"))
        assert choice.model.provider == "llamacpp"
        last = f"openai-compatible at {before(server.url.removeprefix('http://') + '/v1')}"
        if goes_on:
            choice.check_address(last)
        else:
            with pytest.raises(UsageError, match="elsewhere"):
                choice.check_address(last)
        await choice.aclose()
