"""`sagent export`, as a process."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sagent.plugins.audit.verify import verify
from sagent.testing.server import Turn
from tests.cli.program import PROGRAM, Shell
from tests.depth import later
from tests.session.format_1.test_format_1 import HEAD, run
from tests.session.format_1.test_format_1 import HERE as FIRST
from tests.session_place import Place

SECRET = "sk-ant-abcdefghij0123456789"


@pytest.mark.costly
@pytest.mark.parametrize(("kind", "suffix"), [("bundle", "tar"), ("html", "html"), ("md", "md"), ("jsonl", "jsonl")])
def test_every_format_written_without_secrets(place: Place, kind: str, suffix: str):
    path = place.session(f"my key is {SECRET}")
    _, err = place.run("export", "--format", kind)
    out = place.cwd / f"{path.name}.{suffix}"
    assert SECRET.encode() not in out.read_bytes()
    assert f"exported to {out.name}" in err
    assert "1 secret taken out" in err
    assert out.stat().st_mode & 0o777 == 0o600
    other = place.home / "out"
    _, err = place.run("export", path.name, "--format", kind, "--keep-secrets", "--out", str(other))
    assert SECRET.encode() in other.read_bytes()
    assert "it was not searched for secrets" in err
    assert sorted(each.name for each in place.cwd.iterdir()) == [out.name]


def test_exported_bundle_verifies(place: Place):
    path = place.session(f"my key is {SECRET}")
    _, err = place.run("export", "--out", "b.tar")
    out, _ = place.run("verify", "b.tar")
    assert "✓ manifest" in out
    assert out.split("id ")[1].split()[0] in err
    assert out.splitlines()[-1].startswith("OK: ") and out.endswith(" 1 redacted\n")
    head = json.loads(place.run("verify", "--json")[0])["head"]
    assert json.loads(place.run("verify", "--json", "b.tar", "--head", head)[0])["redacted"] == 1
    data = bytearray((place.cwd / "b.tar").read_bytes())
    data[data.index(b"redacted: key")] ^= 1
    (place.cwd / "b.tar").write_bytes(data)
    assert "not the file" in place.run("verify", "b.tar", code=1)[0]
    assert path.is_dir()


def test_bundle_has_settings_without_key(place: Place):
    place.session()
    config = place.home / ".config" / "sagent"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        'model = "mine/m"\n[providers.mine]\nbase_url = "http://localhost:1/v1"\nfamily = "chat"\n'
        'api_key = "k123456789012345678qzxw"\n'
    )
    place.run("export", "--out", "b.tar")
    data = (place.cwd / "b.tar").read_bytes()
    assert b'"model":"mine/m"' in data
    assert b"qzxw" not in data


def test_export_to_stdout_and_refusals(place: Place):
    place.session()
    out, _ = place.run("export", "--format", "jsonl", "--out", "-")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["opened", "message"]
    assert "name one with --out" in place.run("export", "--out", "-", code=2)[1]
    assert "sagent: no/where.tar: No such file" in place.run("export", "--out", "no/where.tar", code=2)[1]
    assert "invalid choice" in place.run("export", "--format", "pdf", code=2)[1]
    assert "no session" in place.run("export", "nope", code=2)[1]


@later
@pytest.mark.costly
@pytest.mark.parametrize("kind", ["bundle", "html", "md", "jsonl"])
def test_session_of_format_1_is_exported(tmp_path: Path, kind: str) -> None:
    session = Path(shutil.copytree(FIRST, tmp_path / "session"))
    out = tmp_path / f"out.{kind}"
    done = run(tmp_path, "export", str(session), "--format", kind, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert b"Look at everything." in out.read_bytes()
    if kind == "bundle":
        assert verify(out, HEAD).problems == ()


@later
@pytest.mark.costly
@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
def test_full_or_closed_stdout_handled(shell: Shell, redirect: str) -> None:
    shell.serve([Turn(text="ok")])
    assert shell.run("hi").code == 0
    for form in ("jsonl", "md"):
        line = f'exec "$@" export --format {form} --out - {redirect}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *PROGRAM], cwd=shell.cwd, env=shell.environment, capture_output=True, check=False
        )
        assert (done.returncode, b"xception" in done.stderr) == (1, False), done.stderr


def test_impossible_path_refused(shell: Shell) -> None:
    shell.serve([])
    done = shell.run(stdin="/export md a\0b")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert done.err.startswith("sagent: ")
