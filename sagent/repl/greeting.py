"""Text at the top of the first session, and news since the version that was used before."""

import contextlib
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.lib.atomic import put
from sagent.lib.regular import read_given
from sagent.repl.view.blocks import Page
from sagent.repl.view.lines import Line, one_line
from sagent.version import __version__

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.repl.opening import Opened

MAX_NEWS = 3
MAX_PATH_CHARS = 40
KEYS = (("/", "commands"), ("Shift-Tab", "mode"), ("?", "help"))


def greeting(
    settings: "Settings", opened: "Opened", news: Sequence[str] = (), useful: Sequence[tuple[str, str]] = KEYS
) -> Page:
    """Return name, version, model and directory; the permission mode; useful keys; and news."""
    from sagent.repl.commands.setup import mode_words

    mode, elsewhere = opened.policy.mode, opened.elsewhere
    model = opened.agent.status().model.partition("/")[2]
    place = short_path(settings.cwd)
    if elsewhere is not None:
        place = f"session {opened.agent.log.session_id}{f' on {where}' if (where := elsewhere.where()) else ''}"
    about = " · ".join(filter(None, (f" {__version__}", one_line(place), model)))
    keys = [span for key, what in useful for span in (("class:tool", key), ("class:dim", f" {what}  "))]
    lines: list[Line] = [(("class:prompt", "sagent"), ("class:dim", about)), tuple(keys)]
    if mode:  # otherwise it depends on who resumes the session
        words = mode_words(settings.plugins).get(mode, "")
        lines.insert(1, (("class:dim", "mode "), ("class:mode", mode), ("class:dim", f": {words}")))
    return Page((*lines, *((("class:news", "new  "), ("", text)) for text in news[:MAX_NEWS])))


def short_path(path: Path) -> str:
    """Return the path with ~ for the person's home; a long one is cut to its end."""
    home = Path.home()
    text = f"~/{path.relative_to(home)}".removesuffix("/.") if path.is_relative_to(home) else str(path)
    return text if len(text) <= MAX_PATH_CHARS else "…/" + "/".join(path.parts[-2:])


def take_news(state: Path) -> tuple[str, ...]:
    """Return the news since the version used before, once; () for the same version or the first use."""
    file = state / "version"
    try:
        before = read_given(file).decode().strip()
    except (OSError, ValueError):
        before = ""
    if before == __version__:
        return ()
    with contextlib.suppress(OSError):
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(file, __version__.encode())
    return news_since(before) if before else ()


@functools.cache  # each key that completes a command asks
def _news() -> str:
    return Path(__file__).with_name("news.md").read_text(encoding="utf-8")


def new_commands() -> list[str]:
    """Return the commands that the news of this version name."""
    return re.findall(r"/([a-z-]+)", _news().partition(f"## {__version__}")[2].partition("\n## ")[0])


def news_since(before: str) -> tuple[str, ...]:
    """Return the lines of news.md above that version's heading, newest first; without one, the latest version's."""
    text, found = _news(), list[str]()
    for line in text.splitlines():
        if line == f"## {before}" or (line.startswith("## ") and found and f"## {before}\n" not in text):
            break
        if line.startswith("- "):
            found.append(line[2:])
    return tuple(found)
