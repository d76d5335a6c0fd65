"""Hints say what to install in the words of how this was installed, and never by a name that is another's."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from sagent.lib.installed import install_command
from tests.deleted import deleted
from tests.surroundings import PYTHON

ROOT = Path(__file__).parents[2]
PIP = f"{PYTHON} -m pip"
METADATA = """Metadata-Version: 2.4
Name: sagent
Version: 0.1.0
Provides-Extra: mcp
Requires-Dist: h11>=0.16
Requires-Dist: mcp>=2.3; extra == 'mcp'
Requires-Dist: mcp>=2.3; extra == 'dev'
"""


def test_checkout_installs_from_its_folder() -> None:
    assert install_command("mcp", "mcp") == f"{PIP} install -e {shlex.quote(f'{ROOT}[mcp]')}"


@pytest.mark.parametrize(
    ("came_from", "command"),
    [
        (
            {"url": "file:///wheels/sagent-0.1.0-py3-none-any.whl", "archive_info": {}},
            f"{PIP} install '/wheels/sagent-0.1.0-py3-none-any.whl[mcp]'",
        ),
        ({"url": "file:///my%20clone", "dir_info": {}}, f"{PIP} install '/my clone[mcp]'"),
        (
            {"url": "https://git.example/s", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            f"{PIP} install 'sagent[mcp] @ git+https://git.example/s@abc'",
        ),
        (
            {"url": "https://files.example/s.whl", "archive_info": {}},
            f"{PIP} install 'sagent[mcp] @ https://files.example/s.whl'",
        ),
        (None, f"{PIP} install 'mcp>=2.3'"),  # nobody knows from where: only what is missing
    ],
)
def test_installation_is_named_by_its_source(came_from: dict[str, object] | None, command: str, tmp_path: Path) -> None:
    assert told(installed(tmp_path / "site-packages", came_from)) == command


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("pipx_metadata.json", "pipx install --force '/clone[mcp]'"),
        ("uv-receipt.toml", "uv tool install '/clone[mcp]'"),
    ],
)
def test_install_uses_pipx_or_uv(mark: str, command: str, tmp_path: Path) -> None:
    """No pip of the path would find the environment that pipx or uv has made, and few of these have one."""
    (tmp_path / mark).touch()
    site = installed(tmp_path / "site-packages", {"url": "file:///clone", "dir_info": {}})
    assert told(site, prefix=tmp_path) == command


def test_unrecorded_install_names_packages(tmp_path: Path) -> None:
    site = installed(tmp_path / "site-packages", None)
    shutil.rmtree(site / "sagent-0.1.0.dist-info")
    assert told(site, "bedrock", "boto3") == f"{PIP} install boto3"
    assert told(site, "selfhosted", "torch transformers") == f"{PIP} install torch transformers"
    assert told(site, "keyring", "keyring") == f"{PIP} install keyring"


def installed(site: Path, came_from: dict[str, object] | None) -> Path:
    (site / "sagent" / "lib").mkdir(parents=True)
    (site / "sagent" / "__init__.py").touch()
    (site / "sagent" / "lib" / "__init__.py").touch()
    (site / "sagent" / "lib" / "installed.py").write_bytes((ROOT / "sagent" / "lib" / "installed.py").read_bytes())
    info = site / "sagent-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    if came_from is not None:
        (info / "direct_url.json").write_text(json.dumps(came_from))
    return site


def told(site: Path, extra: str = "mcp", packages: str = "mcp", prefix: Path = Path(sys.prefix)) -> str:
    """The command, as it is named by what is installed there."""
    code = f"import sys; sys.path.insert(0, {str(site)!r}); sys.prefix = {str(prefix)!r}\n"
    code += f"from sagent.lib.installed import install_command; print(install_command({extra!r}, {packages!r}))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_no_hint_names_the_index_package() -> None:
    files = [*(ROOT / "sagent").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    assert [path.name for path in files if "install 'sagent[" in path.read_text("utf-8")] == []


def test_named_extra_names_its_packages() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set[str]()
    calls = re.compile(r"""(?:install_command|require)\((?:"[^"]+", )?['"]([a-z]+)['"], ([\w'" -]+)[,)]""")
    for path in (ROOT / "sagent").rglob("*.py"):
        for extra, packages in calls.findall(path.read_text("utf-8")):
            if packages == "PACKAGES":
                packages = import_module(".".join(path.relative_to(ROOT).parts[:3])).PACKAGES
            assert packages.strip("'\"").split() == [re.split("[<>=]", each)[0] for each in extras[extra]], path
            named.add(extra)
    assert {"brotli", "keyring", *(() if deleted("clouds") else ("azure", "bedrock"))} <= named
