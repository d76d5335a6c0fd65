"""What holds for every command holds for those of the bus: errors as JSON, open and empty input, ignored signals."""

from pathlib import Path

import pytest

from sagent.config.plugins import find_plugins
from tests.cli.program import Shell
from tests.cli.test_ignored_signals import check_server
from tests.cli.test_json_errors import check_error


@pytest.mark.parametrize("argv", [["nodes", "--json", "--nonsense"], ["agents", "--json", "--bus"]], ids=" ".join)
def test_bus_command_prints_one_object(shell: Shell, argv: list[str]) -> None:
    check_error(shell, argv)


@pytest.mark.parametrize("stdin", [b"", b"\n"])
def test_empty_message_is_refused(shell: Shell, stdin: bytes) -> None:
    done = shell.run("send", "team.echo", "--bus", "nats://127.0.0.1:1", stdin=stdin, model="")
    assert done.code == 2
    assert "There is no message" in done.err


def test_ignored_signals_still_stop_bus(shell: Shell) -> None:
    check_server(shell, "bus", "--port", "0")


@pytest.mark.parametrize("name", ["bus", "label", "files", "detach"])
def test_bus_flag_name_reserved(tmp_path: Path, name: str) -> None:
    (tmp_path / "plugins").mkdir()
    setting = f"plugin = Plugin('late', settings=(Setting({name!r}, str, help='x'),))"
    (tmp_path / "plugins/late.py").write_text(f"from sagent.plugin import Plugin, Setting\n{setting}")
    (notice,) = find_plugins(tmp_path, tmp_path).notices
    assert notice.startswith(f"The setting {name} of the plugin late")
