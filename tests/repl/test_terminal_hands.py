"""What hands expect of any terminal: words, modes, keys told apart, searching, and where one is."""

import subprocess

import pytest
from console import Console

from sagent.testing.server import Turn
from tests.depth import later

pytestmark = pytest.mark.needs("tmux")


@later
def test_words_modes_escape_and_titles(console: Console) -> None:
    server = console.serve([Turn(text="One."), Turn(text="Two.")])
    console.start("--sandbox", "off")
    console.until("sagent 0.", "work · claude-sonnet-4-6", "mode edit: edit in the project freely", "Shift-Tab mode")
    assert console.tmux("display", "-p", "#{pane_title}").strip() == "work · sagent"
    console.keys("BTab")
    console.until("auto: a reviewer answers")
    console.keys("BTab")
    console.until("plan: read only")
    console.keys("BTab", "BTab")
    console.until("edit: edit in the project")  # what asks nothing is not among them
    console.type("help")
    console.until("Commands", "Ctrl-D")
    console.type("/per")  # which only one command begins with
    console.until("› /permissions", "Mode edit")
    console.type("/re")
    console.until("There is no command /re. Did you mean /rename or /resume", "It was not sent", "› /re")
    console.keys("C-u")
    console.type("/modle")
    console.until("There is no command /modle. Did you mean /model?", "› /modle")
    console.keys("Escape")
    console.until("Esc again clears the input")
    console.keys("Escape")
    console.until("› ", gone="Esc again")
    console.raw(b"one\x1b[13;2utwo\x1b[27;2;13~three\x1b[13u")  # Shift-Enter of two kinds, and Enter as kitty has it
    console.until("One.", "› one\n  two\n  three")
    console.raw(b"a draft\x1b[114;5utwo")  # Ctrl-R
    console.until("search: two", "› one\n  two\n  three", gone="a draft")
    console.keys("Escape")
    console.until("› a draft", gone="search:")
    console.keys("C-s")
    console.until("search:")
    console.keys("C-q")
    console.until("› a draft", gone="search:")
    console.keys("C-r", "one", "C-r", "Escape")  # also after the one before that
    console.until("› a draft", gone="search:")
    console.raw(b"\x1b[99;5u")  # Ctrl-C
    console.keys("C-r", "thr")
    console.until("search: thr")
    console.keys("Enter", ".", "Enter")
    console.until("  three.", "Two.")
    assert len(server.requests) == 2
    console.type("exit")
    console.until("To continue:  sagent --resume ", "ended 0")
    assert console.tmux("display", "-p", "#{pane_title}").strip() != "work · sagent"


@later
def test_own_keys_status_line_and_git(console: Console) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=console.cwd, check=True)
    (console.cwd / "old.txt").touch()
    coloured = r"\033[1;31mON\033[0m \033]8;;x\033\\FEATURE"
    line = f'!read -r told; case "$told" in *feature*) printf "{coloured}";; *) echo elsewhere;; esac'
    console.environment |= {"SAGENT_KEYS": "mode=f5, send=alt-s, newline=enter", "SAGENT_STATUS_LINE": "cost branch"}
    server = console.serve([Turn(text="One.")])
    console.start("--permission-mode", "plan", ready="$0 │ ⎇ main ±1")  # what follows edit may be a plugin's
    console.keys("F5")
    console.until("ask: ")
    console.keys("one", "Enter", "two", "M-s")
    console.until("One.", "› one\n  two")
    console.keys("!git checkout -qb feature; touch new.txt", "M-s")
    console.until("⎇ feature ±2")
    console.keys("see @new", "Tab")
    console.until("› see @new.txt")
    assert len(server.requests) == 1
    console.leave()
    console.environment |= {"SAGENT_STATUS_LINE": line, "SAGENT_KEYS": "mode=hyper-x"}
    console.start(ready="ON FEATURE │ edit")
    console.until("keys: 'hyper-x' is not a key")
