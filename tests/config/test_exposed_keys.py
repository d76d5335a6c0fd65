"""A key that is written in a settings file which others on the machine may read."""

import os
import subprocess
import sys

import pytest

from sagent.config import load

KEY = "sk-ant-api03-abcdefghijklmnop"


@pytest.mark.parametrize(
    ("name", "text", "line", "keys"),
    [
        ("config.toml", f'model = "a/b"\n[providers.anthropic]\napi_key = "{KEY}"\n', 3, "providers.anthropic.api_key"),
        ("config.toml", '[providers.anthropic]\napi_key = "hand-made"\n', 2, "providers.anthropic.api_key"),
        (
            "config.yaml",
            f"model: a/b\nproviders:\n  anthropic:\n    api_key: {KEY}\n",
            4,
            "providers.anthropic.api_key",
        ),
    ],
)
def test_exposed_key_file_is_warned_of_once(tmp_path, name, text, line, keys):
    kept = tmp_path / ".config" / "sagent" / name
    kept.parent.mkdir(parents=True)
    kept.write_text(text)
    for mode in (0o644, 0o640, 0o604):
        kept.chmod(mode)
        for found in (load({}, {"HOME": str(tmp_path)}, tmp_path), load({}, {"HOME": "/x"}, tmp_path, file=kept)):
            (warning,) = found.warnings
            assert warning.startswith(f"{kept}:{line}: ")
            assert keys in warning
            assert f"{mode:04o}" in warning
            assert warning.endswith(f"chmod 600 {kept}")
            assert "hand-made" not in warning
            assert KEY not in warning
    kept.chmod(0o600)
    assert load({}, {"HOME": str(tmp_path)}, tmp_path).warnings == ()


def test_keyless_file_may_be_readable(tmp_path):
    kept = tmp_path / ".config" / "sagent" / "config.toml"
    kept.parent.mkdir(parents=True)
    kept.write_text(
        'model = "anthropic/claude-sonnet-4-5-20250929"\n[providers.anthropic]\napi_key = "${CORP_KEY:-none-at-all}"\n'
        '[providers.near]\nbase_url = "http://localhost:1234/v1"\napi_key = "lm-studio"\nkey = "NEAR_API_KEY"\n'
        '[providers.kept]\nbase_url = "https://kept.example/v1"\napi_key = "in the keyring"\n'
    )
    kept.chmod(0o644)
    assert load({}, {"HOME": str(tmp_path)}, tmp_path).warnings == ()
    heavy = "import sys; from sagent.config import load; load(); sys.exit('sagent.lib.secrets' in sys.modules)"
    kept.write_text('model = "a/b"\nmax_turns = 9\n[providers.anthropic]\napi_key = "${CORP_KEY:-}"\n')
    environment = {**os.environ, "HOME": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", heavy], env=environment, cwd=tmp_path, check=False).returncode == 0
