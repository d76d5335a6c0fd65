"""What follows from the declaration of a setting: its flag, its variable, its key in a file."""

from pathlib import Path

import pytest

from sagent.cli.flags import Parser, run_parser
from sagent.config import load
from sagent.config.declared import SETTINGS
from sagent.config.plugins import Installed
from sagent.plugin import Setting

_VALUES = {
    "N": "7",
    "S": "7",
    "DIR": ".",
    "RULE": "Bash(ls:*)",
    "URL": "http://a.test",
    "NAME=URL": "a=http://b.test",
    "A,B": "a",
}
FLAGS = [setting for setting in SETTINGS if setting.help]


def _example(setting: Setting) -> str:
    return str(setting.order[-1]) if setting.order else _VALUES.get(setting.metavar, "a=b")


@pytest.mark.parametrize("setting", FLAGS, ids=lambda setting: setting.name)
def test_flag_sets_its_setting_alone(setting: Setting, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    value = [_example(setting)] if setting.metavar else []
    given = vars(run_parser(Installed()).parse_args([f"--{setting.flag_name}", *value]))
    found = load(given, environ, tmp_path)
    assert found.origins == {setting.name: f"--{setting.flag_name}"}
    assert getattr(found, setting.name) != setting.default


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_variable_sets_its_setting_alone(setting: Setting, tmp_path: Path) -> None:
    text = "false" if setting.default is True else "true" if setting.default is False else _variable(setting)
    found = load({}, {"HOME": str(tmp_path), setting.variable: text}, tmp_path)
    assert found.origins == {setting.name: setting.variable}


def _variable(setting: Setting) -> str:
    special = {"keys": "send=ctrl-t", "status_line": "model", "advisors": "openai/gpt-5.5"}
    rules = {"allow": "Bash(ls:*)", "deny": "Bash(ls:*)", "cwd": ".", "add_dirs": ".", "base_url": "http://a.test"}
    known = {**special, **rules, "options": "a=1", "compact_at": "0.5"}
    numeric = setting.type.startswith(("int", "float", "Decimal"))
    return known.get(setting.name, str(setting.order[0]) if setting.order else "7" if numeric else "a")


def test_unsaid_switch_leaves_file_value() -> None:
    _, flags = Parser("any").parse_apart([], (), "")
    assert not {setting.keyword for setting in SETTINGS} & {*flags}
