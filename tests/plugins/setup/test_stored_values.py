"""Keys and values that are kept in the person's config.toml, `/theme`, which keeps one, and `/vim`."""

import tomllib
from pathlib import Path

import pytest

from sagent.errors import UsageError
from sagent.plugins.setup.stored import store_key, store_value
from tests.repl.recorded import RecordingContext
from tests.repl.test_slash_commands import Row, check_row


async def test_display_rows_work(context: RecordingContext) -> None:
    await check_row(context, Row("/theme [name]", "/theme light", refuses="no terminal", completes="plain"))
    await check_row(context, Row("/vim [state]", "/vim on", refuses="no terminal", completes="off", wrong="maybe"))
    await context.do("/vim on")
    assert context.display == [("vim", "on")]


async def test_theme_is_set_and_kept(context: RecordingContext) -> None:
    await context.do("/theme light")
    assert context.display == [("theme", "light")]
    assert tomllib.loads(context.settings.user_file.read_text())["theme"] == "light"


def test_unreadable_or_yaml_settings_keep_no_key(tmp_path: Path) -> None:
    for name, text in (("config.toml", "permissions = broken"), ("config.yaml", "a: b")):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError):
            store_key(tmp_path / "config.toml", "openai", "sk")
        assert (tmp_path / name).read_text() == text
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "before", ["", '[providers.openai]\napi_key = "old"\nbase_url = "http://b"\n[prices."a/b"]\ninput = 1\n']
)
def test_key_is_private_to_its_owner(tmp_path: Path, before: str) -> None:
    path = tmp_path / "config.toml"
    if before:
        path.write_text(before)
    store_key(path, "openai", 'sk-"quoted"')
    data = tomllib.loads(path.read_text())
    assert data["providers"]["openai"]["api_key"] == 'sk-"quoted"'
    assert {**data, "providers": None} == {**tomllib.loads(before), "providers": None}
    assert path.stat().st_mode & 0o777 == 0o600


def test_value_is_stored_outside_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    store_value(path, "provider", "copilot")
    path.write_text(f"# mine\n{path.read_text()}\n[sandbox]\nprovider = 1\n")
    store_value(path, "provider", "a\\b")
    store_value(path, "theme", "light")
    assert path.read_text().startswith('theme = "light"\n# mine\nprovider = ')
    assert tomllib.loads(path.read_text()) == {"theme": "light", "provider": "a\\b", "sandbox": {"provider": 1}}
    path.write_text('provider = """\nx"""\n')
    with pytest.raises(UsageError):
        store_value(path, "provider", "copilot")


def test_new_base_url_replaces_old(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[providers.openai]\nbase_url = "http://old"  # mine\n\n[prices."a/b"]\ninput = 1\n')
    store_key(path, "openai", "sk", "http://new")
    data = tomllib.loads(path.read_text())
    assert data["providers"]["openai"] == {"base_url": "http://new", "api_key": "sk"}
    assert data["prices"] == {"a/b": {"input": 1}}
