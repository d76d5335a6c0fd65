"""Record the REPL on the demo's project, its keys pressed in a real terminal (tmux), offline.

python scripts/record_demo.py [FILE]           docs/demo.svg: half a minute
python scripts/record_demo.py --tour [FILE]    docs/tour.svg: three minutes

Each shows the terminal's own screens at a few moments: agents at work as a tree, advice, a change to approve with its
diff, and what came of it. The tour goes on to cost, context, going back, permissions and a second task.
"""

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from sagent.testing.server import Call, FakeProviderServer, Received, Turn  # noqa: E402

TASK = "A test fails here. Find out why, fix the code, and run the tests."
COLUMNS, ROWS = 92, 30
STEP_X, STEP_Y, PAD = 8.4, 18, 16
COLOURS = ("#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4")
TIMEOUT_SECONDS = 40.0


def look(path: str) -> Call:
    return Call("Read", {"file_path": path})


def run(command: str) -> Call:
    return Call("Bash", {"command": command})


OLD, NEW = "start < merged[-1][1]:", "start <= merged[-1][1]:"
KEPT, LARGER = "(merged[-1][0], end)", "(merged[-1][0], max(merged[-1][1], end))"
EDIT = {
    "file_path": "intervals.py",
    "edits": [{"old_string": OLD, "new_string": NEW}, {"old_string": KEPT, "new_string": LARGER}],
}
CALLERS = "Find out who calls merge, and what they expect of intervals that touch."
TESTS = "Read the tests, and say which of them fails and why."
ROOT_TURNS = (
    Turn(
        text="Two agents look at the callers and the tests while I read the code.",
        calls=(
            look("intervals.py"),
            Call("AgentSpawn", {"name": "callers", "prompt": CALLERS}),
            Call("AgentSpawn", {"name": "tests", "prompt": TESTS}),
        ),
    ),
    Turn(
        delay=2.5,
        text="Intervals that touch are not joined. I ask for a second opinion before I change it.",
        calls=(Call("advisor", {"question": "Is `<=` all that is needed in merge?"}),),
    ),
    Turn(delay=3.0, text="Both, then.", calls=(Call("Edit", EDIT),)),
    Turn(calls=(run("python3 -m unittest 2>&1 | tail -3"),)),
    Turn(text="`merge` joins intervals that touch, and keeps the larger end. **All 4 tests pass.**"),
    Turn(delay=1.0, text="I look where the end of an interval is used.", calls=(Call("Grep", {"pattern": "end"}),)),
    Turn(
        delay=1.5,
        text="Three things rest on it:\n\n1. `merge` keeps the **larger** end of two intervals that meet.\n"
        "2. `total` adds `end - start`, so an end is not part of its interval.\n"
        "3. The tests name both: `test_touching` and `test_contained`.",
    ),
)
ADVICE = """VERDICT: adjust
Not quite. An interval inside another one still shortens it: keep the larger end too.
NEXT: change both lines of `merge`, then run the tests."""


def answer(request: Received) -> Turn:
    """What the models say: the root by how often it has spoken, the agents below by what they were asked."""
    if request.family == "responses":
        return Turn(text=ADVICE)
    messages = request.json["messages"]
    assert isinstance(messages, list)
    spoken = sum(isinstance(message, dict) and message["role"] == "assistant" for message in messages)
    if TASK in str(messages[0]):
        return ROOT_TURNS[spoken]
    if CALLERS in str(messages[0]):
        calls = (Call("Grep", {"pattern": "merge("}),)
        return Turn(delay=2.5, text="Only `total` calls it: touching is joining.") if spoken else Turn(calls=calls)
    if spoken:
        return Turn(delay=2.5, text="`test_touching` fails: (1, 3) and (3, 5) stay apart.")
    return Turn(calls=(look("test_intervals.py"),))


@dataclass(frozen=True)
class Moment:
    """Keys that are pressed, what is waited for then, and how many seconds the screen is shown; 0 for not at all. What
    `moves` is shown as it is then."""

    keys: Sequence[str]
    wanted: Sequence[str]
    seconds: float
    moves: bool = False


MOMENTS = (
    Moment((TASK,), ("run the tests.",), 2.0),
    Moment(("Enter",), ("Grep merge(", "Read test_intervals.py", "Running 2 s"), 4.0, moves=True),
    Moment((), ("╭─ advisor", "╰─"), 4.0, moves=True),
    Moment((), ("? Edit ", "y once"), 6.0, moves=True),
    Moment(("y",), ("python3", "y once"), 0, moves=True),
    Moment(("y",), ("All 4 tests pass.",), 6.0),
)


SECOND = "Where else does the end of an interval matter?"
TOUR = (
    Moment((), ("│ $0",), 6.0),
    Moment((TASK,), ("run the tests.",), 6.0),
    Moment(("Enter",), ("Grep merge(", "Read test_intervals.py", "Running 2 s"), 12.0, moves=True),
    Moment((), ("╭─ advisor", "╰─"), 12.0, moves=True),
    Moment((), ("? Edit ", "y once"), 18.0, moves=True),
    Moment(("y",), ("python3", "y once"), 10.0, moves=True),
    Moment(("y",), ("All 4 tests pass.",), 12.0),
    Moment(("/cost", "Enter"), ("executor", "advisor"), 14.0),
    Moment(("/context", "Enter"), ("tokens",), 12.0),
    Moment(("/permissions edit", "Enter"), ("Permission mode edit",), 8.0),
    Moment((SECOND,), (SECOND,), 5.0),
    Moment(("Enter",), ("test_contained",), 16.0),
    Moment(("/status", "Enter"), ("permissions",), 12.0),
    Moment(("/rewind", "Enter"), (TASK[:20],), 12.0),
    Moment(("Escape",), ("│ $0",), 3.0),
    Moment(("/help", "Enter"), ("Keys", "Ctrl-B"), 14.0),
    Moment(("/sessions", "Enter"), ("●",), 8.0),
)
"""Moments of the tour: 180 seconds."""


def main() -> None:
    """Record, and write the file."""
    words = [word for word in sys.argv[1:] if word != "--tour"]
    name, moments = ("tour.svg", TOUR) if "--tour" in sys.argv else ("demo.svg", MOMENTS)
    out = Path(words[0]) if words else ROOT / "docs" / name
    screens = list(record(moments))
    out.write_text(draw(screens, [moment.seconds for moment in moments if moment.seconds]), encoding="utf-8")


def record(moments: Sequence[Moment] = MOMENTS) -> Iterator[str]:
    """The screens, with their escape sequences."""
    with ExitStack() as stack:
        server = stack.enter_context(FakeProviderServer(answer, strict=False).in_thread())
        scratch = Path(tempfile.gettempdir(), "demo")  # by a name that can be shown
        scratch.mkdir()
        stack.callback(shutil.rmtree, scratch)
        home, work = scratch, scratch / "calendar"
        shutil.copytree(ROOT / "sagent/plugins/setup/demo_project", work, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SAGENT_MODEL": "anthropic/claude-sonnet-4-6",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }
        command = ["env", "-i", "TERM=tmux-256color", *(f"{name}={value}" for name, value in environment.items())]
        program = [sys.executable, "-m", "sagent.bin.cli", "--permission-mode", "ask", "--advisor", "openai/gpt-5.5"]
        terminal = Terminal(scratch / "tmux", [*command, *program], work)
        try:
            terminal.until(("│ $0",))
            for moment in moments:
                for key in moment.keys:
                    terminal.press(key)
                screen = terminal.until(moment.wanted, moves=moment.moves)
                if moment.seconds:
                    yield screen
        finally:
            terminal.close()


class Terminal:
    """A tmux server with one pane."""

    def __init__(self, socket: Path, command: Sequence[str], cwd: Path) -> None:
        self._socket = socket
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self._tmux("new-session", "-d", *size, "-c", str(cwd), shlex.join(command))

    def _tmux(self, *argv: str) -> str:
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *argv]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    def press(self, key: str) -> None:
        """A key by its name, or a text."""
        self._tmux("send-keys", *(() if key in ("Enter", "Escape") else ("-l",)), key)

    def screen(self, *, styles: bool = False) -> str:
        """What is to be seen."""
        return self._tmux("capture-pane", "-p", *(("-e",) if styles else ()))

    def until(self, wanted: Sequence[str], *, moves: bool = False) -> str:
        """Wait until texts are to be seen, and nothing changes any more unless it `moves`; the screen then."""
        end, before = time.monotonic() + TIMEOUT_SECONDS, ""
        while True:
            now = self.screen()
            if all(text in now for text in wanted) and (moves or now == before):
                return self.screen(styles=True)
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} did not come to be seen:\n{now}")
            before = now
            time.sleep(0.05 if moves else 1.1)

    def close(self) -> None:
        """End it."""
        self._tmux("kill-server")


# ----------------------------------------------------------------------------------------------------------------------
# From a terminal's screen to SVG


def draw(screens: Sequence[str], seconds: Sequence[float]) -> str:
    """An image that shows one screen after the other, and the last to whoever wants no motion."""
    width, height = COLUMNS * STEP_X + 2 * PAD, ROWS * STEP_Y + 2 * PAD
    total, begun = sum(seconds), 0.0
    styles, frames = "", ""
    rows: dict[str, int] = {}
    for number, (screen, shown) in enumerate(zip(screens, seconds, strict=True)):
        first, last = 100 * begun / total, 100 * (begun + shown) / total
        begun += shown
        styles += f"@keyframes k{number}{{0%{{opacity:0}}{first:.2f}%{{opacity:1}}{last:.2f}%{{opacity:0}}}}"
        styles += f"#f{number}{{animation:k{number} {total:g}s step-end infinite}}"
        frames += f'<g id="f{number}" opacity="{int(number == len(screens) - 1)}">'
        for line, found in enumerate(rows_of(screen)):
            if drawn := draw_row(found):
                place = rows.setdefault(drawn, len(rows))
                frames += f'<use href="#r{place}" y="{PAD + (line + 1) * STEP_Y - 5}"/>'
        frames += "</g>\n"
    known = "".join(f'<g id="r{place}">{drawn}</g>\n' for drawn, place in rows.items())
    still = "".join(f"#f{number}{{animation:none}}" for number in range(len(screens)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="14">\n'
        f"<title>sagent repairs a small project</title>\n<style>text{{white-space:pre;fill:#dcdfe4}}{styles}"
        f"@media(prefers-reduced-motion){{{still}}}</style>\n<defs>\n{known}</defs>\n"
        f'<rect width="100%" height="100%" rx="10" fill="#21252b"/>\n{frames}</svg>\n'
    )


def draw_row(row: Sequence[tuple[frozenset[str], str]]) -> str:
    """A row of the screen as SVG; "" where it is empty."""
    drawn, column = "", 0
    for style, part in row:
        if part.strip() or "reverse" in style:
            x = PAD + column * STEP_X
            size = len(part) * STEP_X
            if "reverse" in style:
                drawn += f'<rect x="{x:.1f}" y="-14" width="{size:.1f}" height="{STEP_Y}" fill="#dcdfe4"/>'
            words = html.escape(part)
            drawn += f'<text x="{x:.1f}" textLength="{size:.1f}"{attributes(style)}>{words}</text>'
        column += len(part)
    return drawn


def rows_of(screen: str) -> Iterator[list[tuple[frozenset[str], str]]]:
    """The rows, each as texts with their styles: "bold", "dim", "c4". A style goes on in the next row."""
    style: frozenset[str] = frozenset()
    names = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
    for line in screen.rstrip("\n").split("\n")[:ROWS]:
        row: list[tuple[frozenset[str], str]] = []
        for place, part in enumerate(re.split(r"\x1b\[([\d;]*)m", line)):
            if place % 2 == 0:
                row += [(style, part)] if part else []
                continue
            for code in (int(word or 0) for word in part.split(";")):
                if code == 0:
                    style = frozenset()
                elif code in names:
                    style |= {names[code]}
                elif 30 <= code <= 37 or 90 <= code <= 97 or code == 39:
                    style = frozenset(one for one in style if one[0] != "c")
                    style |= frozenset[str]() if code == 39 else {f"c{code % 10}"}
        yield row


def attributes(style: frozenset[str]) -> str:
    """A style in SVG's words."""
    fill = "#21252b" if "reverse" in style else next((COLOURS[int(one[1])] for one in style if one[0] == "c"), "")
    said = (
        ("bold", 'font-weight="bold"'),
        ("italic", 'font-style="italic"'),
        ("dim", 'opacity="0.6"'),
        ("underline", 'text-decoration="underline"'),
        ("strike", 'text-decoration="line-through"'),
    )
    found = [words for name, words in said if name in style]
    return "".join(f" {words}" for words in ([f'style="fill:{fill}"'] if fill else []) + found)


if __name__ == "__main__":
    main()
