"""Take the pictures of `docs/pictures.md`: the page of `sagent serve` and the report of a session, offline.

python scripts/make_pictures.py [DIR]    needs Chromium; DIR is docs/pictures by default
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from record_demo import TASK, answer  # noqa: E402

from sagent.testing.server import FakeProviderServer  # noqa: E402
from tests.plugins.exports.browser import Browser  # noqa: E402

WIDTH, HEIGHT = 1200, 760
MAX_WAIT_SECONDS = 90.0
PROGRAM = (sys.executable, "-m", "sagent.bin.cli")
FLAGS = ("--model", "anthropic/claude-sonnet-4-6", "--advisor", "openai/gpt-5.5", "--permission-mode", "edit")


def main() -> None:
    """Take each picture, and write it."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures"
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        FakeProviderServer(answer, strict=False).in_thread() as server,
        Browser(width=WIDTH, height=HEIGHT) as browser,
    ):
        work = Path(scratch, "calendar")
        shutil.copytree(ROOT / "sagent/plugins/setup/demo_project", work, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {
            **{name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ},
            "HOME": scratch,
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }
        session = show_served(browser, work, environment, out / "serve.png")
        report = Path(scratch, "report.html")
        argv = (*PROGRAM, "export", session, "--format", "html", "--out", str(report))
        subprocess.run(argv, cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL)
        browser.open(report)
        take(browser, out / "report.png")


def show_served(browser: Browser, work: Path, environment: dict[str, str], picture: Path) -> str:
    """Have a session of `sagent serve` do the task, take its picture, and return its id."""
    argv = (*PROGRAM, "serve", "--output-format", "json", *FLAGS)
    with subprocess.Popen(argv, cwd=work, env=environment, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            place = json.loads(serving.stdout.readline())
            login = {"authorization": f"Bearer {place['token']}"}
            with httpx2.Client(base_url=place["url"], headers=login, timeout=30) as http:
                session = str(http.post("/v1/sessions", json={"text": TASK}).json()["id"])
            browser.open(f"{place['url']}/#token={place['token']}")
            wait_for(browser, "status !== null")
            browser.run(f"show({session!r}); 0")
            wait_for(browser, "live && status.state === 'idle' && at('transcript').innerText.includes('tests pass')")
            take(browser, picture)
        finally:
            serving.terminate()
    return session


def take(browser: Browser, picture: Path) -> None:
    """Write a picture of a light page."""
    browser.size(WIDTH, HEIGHT)
    browser.scheme("light")
    time.sleep(0.5)
    browser.picture(picture)


def wait_for(browser: Browser, code: str) -> None:
    """Wait until an expression is true on the page. Raises TimeoutError."""
    end = time.monotonic() + MAX_WAIT_SECONDS
    while not browser.run(code):
        if time.monotonic() > end:
            raise TimeoutError(f"{code} on a page with {browser.run('document.body.innerText')}")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
