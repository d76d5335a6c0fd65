"""Installation of this sagent, for hints that say what to install. No hint may rely on its name in an index."""

import json
import re
import shlex
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

NAME = "sagent"
_TOOLS = {"pipx_metadata.json": "pipx install --force", "uv-receipt.toml": "uv tool install"}  # by the files they leave


def install_command(extra: str, packages: str) -> str:
    """Return the command that adds an extra to this installation with the original tool and source: "/venv/bin/python
    -m pip install -e '/checkout[mcp]'".

    If these are unknown, the command installs the `packages` that the extra needs (separated by spaces).
    """
    pip = f"{shlex.quote(sys.executable)} -m pip install"  # the first pip on the path may be another Python's
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"{pip} -e {shlex.quote(f'{checkout}[{extra}]')}"
    try:
        found = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return f"{pip} {packages}"
    if came_from := found.read_text("direct_url.json"):
        own = next((command for mark, command in _TOOLS.items() if Path(sys.prefix, mark).is_file()), pip)
        return f"{own} {shlex.quote(_requirement(json.loads(came_from), extra))}"
    return f"{pip} {shlex.join(_needs(found.requires or (), extra) or packages.split())}"


def _requirement(came_from: dict[str, object], extra: str) -> str:
    """Return the requirement for pip that matches a `direct_url.json` (PEP 610)."""
    url = str(came_from.get("url", ""))
    if url.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        return f"{unquote(urlsplit(url).path)}[{extra}]"
    match came_from.get("vcs_info"):
        case {"vcs": str(vcs), "commit_id": str(commit)}:
            url = f"{vcs}+{url}@{commit}"
        case _:
            pass
    return f"{NAME}[{extra}] @ {url}"


def _needs(requires: Iterable[str], extra: str) -> list[str]:
    """Return the requirements of an extra, without their markers."""
    marked = re.compile(rf"""\bextra\s*==\s*['"]{re.escape(extra)}['"]""")
    return [each.partition(";")[0].strip() for each in requires if marked.search(each)]
