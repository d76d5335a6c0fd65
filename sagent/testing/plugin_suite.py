"""The promises of a plugin as tests, for whoever writes one. Needs pytest.

class TestMyPlugin(PluginSuite):
    plugin = plugin
    target = "my_plugin:plugin"
"""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar

from sagent.config.plugin_index import Source
from sagent.config.plugin_loading import index_of, known_plugin
from sagent.config.plugins import Installed
from sagent.plugin import GROUP, Plugin
from sagent.testing.plugin_check import check_plugin
from sagent.testing.script import Turn
from sagent.testing.server import FakeProviderServer


class PluginSuite:
    """Tests of a plugin. `target` is "module:plugin"; modules must be importable, as after `pip install -e .`."""

    plugin: ClassVar[Plugin]
    target: ClassVar[str]

    def test_all_that_it_names_can_be_had(self) -> None:
        """Check that all that the declaration names is there, and of its kind, and that no name is taken by the
        core."""
        found = Installed(index_of([known_plugin(Source(self.plugin.name, "under test", self.target))]))
        wrong = [each for each in check_plugin(found, self.plugin.name) if each.state != "good"]
        assert wrong == []

    def test_its_declaration_imports_no_model_and_no_terminal(self) -> None:
        """The declaration is read when an index is written: slow imports wait for their first use."""
        module = self.target.partition(":")[0]
        code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        heavy = {"sagent.agent", "sagent.app", "sagent.repl", "rich", "prompt_toolkit", "httpx2", "openai", "anthropic"}
        assert heavy.isdisjoint(json.loads(shown.stdout))

    def test_a_run_goes_on_with_it(self, tmp_path: Path) -> None:
        """A run with the plugin ends like one without it, and its output does not mention the plugin."""
        module, _, member = self.target.partition(":")
        file = tmp_path / "plugin.py"
        file.write_text(f"from {module} import {member} as plugin\n")
        installed = any(point.name == self.plugin.name for point in entry_points(group=GROUP))
        words = (*(() if installed else ("--plugin", str(file))), "--model", "anthropic/claude-sonnet-4-6", "hello")
        with FakeProviderServer([Turn(text="Fine.")]).in_thread() as server:
            environment = {
                **os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "",
                "ANTHROPIC_API_KEY": "test-key", "ANTHROPIC_BASE_URL": server.url,
            }  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-m", "sagent", *words], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "Fine.\n"), done.stderr
        assert f"plugin {self.plugin.name}" not in done.stderr
