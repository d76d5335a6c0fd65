"""A real browser for agents: Playwright's MCP server with this machine's Chromium, configured for the sandbox.

In a sandbox the only network access is a proxy that needs a user name, which `playwright-mcp` reads from a file;
Chromium's own sandbox needs namespaces, which ours refuses; and both would write to forbidden places.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from sagent.errors import UsageError
from sagent.sandbox.scratch import Scratch

PROGRAM = "playwright-mcp"
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def start_browser(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Replace this process by the server, with further arguments. Raises UsageError if a program is missing."""
    path = environ.get("PATH")
    program = shutil.which(PROGRAM, path=path)
    if program is None:
        raise UsageError(f"There is no {PROGRAM}. To install it: npm install -g @playwright/mcp")
    browser = next(filter(None, (shutil.which(name, path=path) for name in BROWSERS)), None)
    if browser is None:
        raise UsageError("There is no Chromium. To install it on Debian or Ubuntu: apt install chromium")
    if not _may_listen():
        raise UsageError(
            "Chromium cannot start in this sandbox: under Landlock, no program may listen on a socket."
            " Under bubblewrap it can; to install that on Debian or Ubuntu: apt install bubblewrap"
        )
    scratch = Scratch()
    if scratch.lock is not None:
        os.set_inheritable(scratch.lock, True)  # noqa: FBT003 -- it has no name. The server has the lock from here on
    folder = scratch.path
    file = folder / "config.json"
    file.write_text(json.dumps(configuration(browser, folder, environ)), "utf-8")
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_CONFIG_HOME": str(folder / "config")}
    os.execve(program, [program, "--config", str(file), *arguments], {**environ, **own})  # noqa: S606 -- no shell is meant


def configuration(browser: str, folder: Path, environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return the server's configuration: no window, nothing saved, files below the folder, and the proxy."""
    proxy = urlsplit(environ.get("HTTP_PROXY", ""))
    launch: dict[str, object] = {"headless": True, "executablePath": browser, "chromiumSandbox": _has_namespaces()}
    if proxy.hostname:
        way = {"server": f"http://{proxy.hostname}:{proxy.port or 80}"}
        if proxy.username:
            way |= {"username": proxy.username, "password": proxy.password or ""}
        launch["proxy"] = way
    return {
        "browser": {"browserName": "chromium", "isolated": True, "launchOptions": launch},
        "outputDir": str(folder / "out"),
    }


def _may_listen() -> bool:
    """Return True if the named sockets that Chromium needs are allowed."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except PermissionError:
        return False
    return True


def _has_namespaces() -> bool:
    """Return True if Chromium can use its own sandbox: not as root, and not within ours."""
    program = shutil.which("unshare")
    if os.geteuid() == 0 or program is None:
        return False
    return not subprocess.run([program, "--user", "true"], check=False, capture_output=True, timeout=10).returncode
