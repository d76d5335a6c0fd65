"""Playwright's MCP server from npm, installed once into the user's cache directory."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.surroundings import given_to_npm

GIVEN = {**os.environ, **given_to_npm()}
PACKAGE = "@playwright/mcp@0.0.83"
CACHE = Path(GIVEN.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sagent-tests" / "playwright-mcp-0.0.83"
PROGRAMS = CACHE / "node_modules" / ".bin"


def installed() -> bool:
    """Whether it is there; under CI=true it is fetched where npm is."""
    if (PROGRAMS / "playwright-mcp").exists():
        return True
    npm = shutil.which("npm")
    if os.environ.get("CI") != "true" or npm is None:
        return False
    CACHE.mkdir(parents=True, exist_ok=True)
    argv = [npm, "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "--loglevel=error", PACKAGE]
    environment = {**GIVEN, "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}
    subprocess.run(argv, env=environment, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    return (PROGRAMS / "playwright-mcp").exists()
