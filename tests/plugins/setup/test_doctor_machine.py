"""What `sagent doctor` says of real keys, files, proxies and plugins, and the one step that it names last."""

import re
import socket
from pathlib import Path

import pytest

from sagent.plugin import Finding
from sagent.plugins.setup.machine import next_step
from tests.cli.program import Shell


def examined(shell: Shell) -> tuple[int, str]:
    done = shell.run("doctor", model="")
    (step,) = [line for line in done.out.splitlines() if re.match("Next: |All of it works", line)]
    assert done.out.endswith(f"{step}\n")
    return done.code, done.out


def settings_file(shell: Shell, text: str, mode: int) -> Path:
    file = Path(shell.environment["HOME"]) / ".config/sagent/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_missing_key_is_next_step(shell: Shell) -> None:
    code, out = examined(shell)
    assert code == 1
    assert "sagent login" in out.splitlines()[-1] and "sagent demo" in out.splitlines()[-1]


def test_source_of_each_key_is_named(shell: Shell) -> None:
    shell.serve([])
    settings_file(shell, '[providers.openai]\napi_key = "sk-0123456789ab"\nbase_url = "http://127.0.0.1:9"\n', 0o600)
    _, out = examined(shell)
    assert re.search(r"^✓ keys +anthropic \(ANTHROPIC_API_KEY\), openai \(config.toml\)$", out, re.MULTILINE)
    assert re.search(r"^✓ stored keys ", out, re.MULTILINE)
    assert "sk-0123456789ab" not in out


def test_key_in_loose_file_is_told(shell: Shell) -> None:
    shell.serve([])
    file = settings_file(shell, '[providers.anthropic]\napi_key = "sk-0123456789ab"\n', 0o644)
    code, out = examined(shell)
    assert code == 1
    assert re.search(rf"^✗ stored keys .*0644.*chmod 600 {file}$", out, re.MULTILINE)
    file.chmod(0o600)
    assert "chmod" not in examined(shell)[1]


@pytest.mark.plugin("serve")
def test_token_that_others_may_read_is_told(shell: Shell) -> None:
    folder = Path(shell.environment["HOME"]) / ".local/state/sagent/serve"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "8700.json").write_text("{}")
    for each in (folder, *folder.parents):
        if each.is_relative_to(shell.environment["HOME"]):
            each.chmod(0o755)
    (folder / "8700.json").chmod(0o644)
    assert re.search(r"^✗ stored keys .*8700.json: others may read it", examined(shell)[1], re.MULTILINE)
    folder.chmod(0o700)
    assert "8700.json" not in examined(shell)[1]


def test_proxies_are_tried(shell: Shell) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        shell.environment["HTTPS_PROXY"] = f"http://ada:pass-word@127.0.0.1:{port}"
        code, out = examined(shell)  # nobody listens yet
        assert code == 1 and re.search(rf"^✗ proxy +HTTPS_PROXY names 127.0.0.1:{port}, ", out, re.MULTILINE)
        listener.listen()
        out = examined(shell)[1]
        assert re.search(rf"^✓ proxy +HTTPS_PROXY: 127.0.0.1:{port} answers$", out, re.MULTILINE)
    assert "pass-word" not in out
    shell.environment["HTTPS_PROXY"] = "socks5://127.0.0.1:9"
    assert re.search(r"^✗ proxy .*socks5", examined(shell)[1], re.MULTILINE)


def test_missing_certificates_are_told(shell: Shell, tmp_path: Path) -> None:
    shell.environment |= {"SSL_CERT_FILE": str(tmp_path / "none.pem"), "SSL_CERT_DIR": str(tmp_path)}
    out = examined(shell)[1]
    assert re.search(r"^✗ certificates +SSL_CERT_FILE is .*none.pem, which is not there$", out, re.MULTILINE)
    assert re.search(r"^✓ certificates +SSL_CERT_DIR ", out, re.MULTILINE)


def test_plugins_are_told(shell: Shell) -> None:
    folder = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    folder.mkdir(parents=True)
    (folder / "harbour.py").write_text("from sagent.plugin import Plugin\nplugin = Plugin('harbour')\n")
    (folder / "wreck.py").write_text("raise RuntimeError('it sank')\n")
    code, out = examined(shell)
    assert code == 1
    assert re.search(r"^✓ plugins +harbour$", out, re.MULTILINE)
    assert re.search(r"^✗ plugin +.*wreck.*it sank", out, re.MULTILINE)


def test_dumb_terminal_is_told(shell: Shell) -> None:
    shell.environment["TERM"] = "dumb"
    assert re.search(r"^! terminal +dumb, .*plain lines", examined(shell)[1], re.MULTILINE)


def test_extras_are_listed(shell: Shell) -> None:
    (line,) = re.findall(r"^. extras +(.*)$", examined(shell)[1], re.MULTILINE)
    assert re.search(r"\bmcp\b", line) and "dev" not in re.split(r"[ ,;]+", line)


@pytest.mark.parametrize(
    ("states", "step"),
    [
        ((("a", "good"), ("b", "poor"), ("c", "bad"), ("d", "bad")), "Next: c: because"),
        ((("a", "good"), ("terminal", "poor"), ("rg", "poor")), "Next: rg: because"),
        ((("a", "good"), ("terminal", "poor")), "All of it works"),
    ],
)
def test_next_step_is_first_that_matters(states: tuple[tuple[str, str], ...], step: str) -> None:
    findings = [Finding(state, what, "because") for what, state in states]  # pyright: ignore[reportArgumentType]
    assert next_step(findings, "sagent login").startswith(step)
