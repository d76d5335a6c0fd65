"""Keys in the keyring: a library stands in for it that keeps them in a file."""

import sys
from pathlib import Path

import pytest

from sagent.config import load
from sagent.config.keyring import IN_KEYRING, kept_key
from sagent.plugins.setup.stored import has_keyring, keep_key

LIBRARY = """
import json, pathlib
FILE = pathlib.Path(__file__).with_name("keys.json")
class Backend:
    priority = 5
def get_keyring(): return Backend()
def _all(): return json.loads(FILE.read_text()) if FILE.exists() else {}
def get_password(service, name): return _all().get(f"{service}/{name}")
def set_password(service, name, key):
    if key == "refused": raise RuntimeError("locked")
    FILE.write_text(json.dumps({**_all(), f"{service}/{name}": key}))
"""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library `keyring`."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "keyring.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    monkeypatch.delitem(sys.modules, "keyring", raising=False)


@pytest.mark.usefixtures("keyring")
def test_keyring_keeps_key_settings_name_it(home: Path, config: Path) -> None:
    assert has_keyring()
    keep_key("openai", "sk-secret")
    (config / "config.toml").write_text(f'[providers.openai]\napi_key = "{IN_KEYRING}"\n')
    assert load({}, {"HOME": str(home)}, home).providers["openai"].api_key == "sk-secret"
    with pytest.raises(OSError, match="locked"):
        keep_key("openai", "refused")


def test_without_keyring_there_is_no_key(home: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    (config / "config.toml").write_text(f'[providers.openai]\napi_key = "{IN_KEYRING}"\n')
    assert not has_keyring()
    assert load({}, {"HOME": str(home)}, home).providers["openai"].api_key == ""
    assert kept_key("openai") == ""
    with pytest.raises(OSError, match=r"pip install -e .*\[keyring\]"):
        keep_key("openai", "x")
