"""What a person is told of the sandbox."""

from pathlib import Path

import pytest

from sagent.sandbox import Sandbox, SandboxMode, probe
from sagent.sandbox.probe import Confinement, keep
from sagent.sandbox.profile import Profile
from sagent.sandbox.report import advice, described, held_by, shortfall


def found(state: Path, means: Confinement, wanted: SandboxMode = "auto") -> Sandbox:
    keep(state, means)
    return Sandbox(wanted, cache=state)


def test_shortfall_is_told_only_when_wanted(tmp_path: Path) -> None:
    missing = Confinement("none", "bwrap is not installed; there is no Landlock")
    assert "apt install bubblewrap" in shortfall(found(tmp_path, missing))
    assert shortfall(found(tmp_path, missing, "off")) == ""
    assert shortfall(found(tmp_path, Confinement("landlock", "bwrap is not installed"))) == ""
    assert "because bwrap: no room. Landlock is used" in shortfall(
        found(tmp_path, Confinement("landlock", "bwrap: no room"))
    )
    assert shortfall(found(tmp_path, Confinement("bubblewrap"))) == ""
    assert held_by(found(tmp_path, missing)) == "none"
    assert held_by(found(tmp_path, missing, "off")) == "off"


def test_sandbox_is_tried_only_when_asked(tmp_path: Path) -> None:
    sandbox = found(tmp_path, Confinement("bubblewrap"))
    assert sandbox.known is None
    assert sandbox.stands
    assert sandbox.known is True
    assert Sandbox("off").known is False


def test_advice_names_the_package() -> None:
    assert "bubblewrap" in advice(Confinement("landlock", "bwrap, setpriv are not installed"))
    assert "util-linux" in advice(Confinement("none", "setpriv is not installed"))
    assert advice(Confinement("none", "there is none for sunos")) == ""


def test_transient_failure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_try_all", lambda: Confinement("none", "bubblewrap did not finish in time"))
    assert Sandbox(cache=tmp_path).means.name == "none"
    monkeypatch.setattr(probe, "_try_all", lambda: Confinement("bubblewrap"))
    assert Sandbox(cache=tmp_path).means.name == "bubblewrap"
    monkeypatch.setattr(probe, "_try_all", lambda: Confinement("none", "it is kept"))
    assert Sandbox(cache=tmp_path).means.name == "bubblewrap"


def test_caches_counted_and_rest_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = tmp_path / ".cache" / "pip"
    cache.mkdir(parents=True)
    profile = Profile(("/work", str(cache), f"{tmp_path}/.cache/uv"), hidden=("/", "/gone"), domains=("pypi.org",))
    assert dict(described(profile)) == {
        "hosts": "pypi.org",
        "writable": "/work, 1 cache, temporary files",
        "not readable": "1 place that may hold keys",
    }
