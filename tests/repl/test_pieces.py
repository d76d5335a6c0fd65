"""The parts of the REPL that need no terminal: rules, keys, files, drafts, lists, notes, shell lines."""

import asyncio
import os
import re
import signal
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document as Typed
from samples import PNG

from sagent.app import policy_of
from sagent.config import load
from sagent.errors import UsageError
from sagent.events import Retrying
from sagent.lib.json import JsonObject, json_freeze_object
from sagent.lib.text import spelled
from sagent.messages import Document, Image, Message, Text, ToolCall, ToolResult
from sagent.policy import Ask
from sagent.policy.rules import rules_for
from sagent.repl.input import InputBuffer
from sagent.repl.opening import CurrentSession
from sagent.repl.project import add_note, attach, branch_of, images_at, list_files, mentioned
from sagent.repl.session import guide
from sagent.repl.settings_file import add_rule
from sagent.repl.shell import run_shell
from sagent.repl.terminal.approval import allow_rules, approval_options
from sagent.repl.terminal.clipboard import osc52
from sagent.repl.terminal.completion import InputCompleter, nearest, used_commands
from sagent.repl.terminal.history import ProjectHistory
from sagent.repl.terminal.menu import render_menu
from sagent.repl.terminal.picker import Option, Picker, matches, narrowed, render_picker
from sagent.repl.view.blocks import Report, Shell, past_blocks, render_block
from sagent.repl.view.calls import proposal, render_approval
from sagent.repl.view.diff import render_diff
from sagent.repl.view.lines import line_width, plain, table
from sagent.repl.view.view import plain_text
from sagent.tools.capture import without_colours
from tests.waiting import until


@pytest.mark.parametrize(
    "before",
    [
        "",
        "model = 'x'\n",
        "[permissions]\n",
        "[permissions]\nallow = []\n",
        '[permissions]  # mine\nallow = ["Edit(src/**)"]  # why\ndeny = ["Read(x)"]\n[providers.a]\nbase_url = "http://a"\n',
        '[permissions]\nallow = [\n  "Write",\n]\n',
        'model = "x"  # no line end',
    ],
)
def test_adding_a_rule_changes_nothing_else(tmp_path: Path, before: str) -> None:
    path = tmp_path / "config" / "config.toml"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    rule = 'Bash(git commit -m "x y":*)'
    add_rule(path, rule)
    add_rule(path, rule)
    data, old = tomllib.loads(path.read_text()), tomllib.loads(before)
    assert data["permissions"]["allow"].count(rule) == 1
    kept = old.get("permissions", {}).get("allow", [])
    assert [one for one in data["permissions"]["allow"] if one != rule] == kept
    assert {**data, "permissions": None} == {**old, "permissions": None}
    assert all(line in path.read_text() for line in before.splitlines() if "#" in line and "allow" not in line)


def test_rule_of_any_characters_is_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"# mine\r\n[permissions]\r\nallow = [] # none\r\n")
    rule = "Bash(touch 'a\x7f\x01\n\t\u202e\"\\b')"
    add_rule(path, rule)
    assert tomllib.loads(path.read_text())["permissions"]["allow"] == [rule]
    before, _, after = path.read_bytes().partition(b"allow = [")
    assert before == b"# mine\r\n[permissions]\r\n"
    assert after.endswith(b"] # none\r\n")


def test_read_only_settings_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n")
    path.chmod(0o444)
    with pytest.raises(UsageError, match=r'is read-only, so it was not changed: add "Bash" to permissions.allow'):
        add_rule(path, "Bash")
    assert path.read_text() == "# mine\n"


def test_yaml_settings_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("permissions:\n  deny: [Bash(rm)]\n")
    with pytest.raises(UsageError, match=r"Your settings are in .*config\.yaml"):
        add_rule(tmp_path / "config.toml", "Bash")
    with pytest.raises(UsageError, match=r"Your settings are in .*config\.yaml"):
        add_rule(tmp_path / "config.yaml", "Bash")
    assert not (tmp_path / "config.toml").exists()


def test_always_rule_goes_to_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[permissions]\ndeny = ["Bash(rm)"]\n')
    current = CurrentSession()
    current.use(load({}, {"HOME": str(tmp_path)}, tmp_path, file=file))
    vars(current)["_opened"] = SimpleNamespace(policy=policy_of(current.settings))
    said = list(allow_rules(current, ["Bash(make)", "Edit(/a\nb)"], always=True))
    assert said == [
        (f"Bash(make) is allowed from now on, and was added to {file}", True),
        (f"Edit(/a⟨U+000A⟩b) is allowed from now on, and was added to {file}", True),
    ]
    again = load({}, {"HOME": str(tmp_path)}, tmp_path, file=file)
    assert (set(again.allow), again.deny) == ({"Bash(make)", "Edit(/a\nb)"}, ("Bash(rm)",))
    assert not (tmp_path / ".config").exists()


def test_concurrent_rules_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"

    def add(name: str) -> None:
        for number in range(20):
            add_rule(path, f"Bash({name} {number})")

    with ThreadPoolExecutor() as threads:
        list(threads.map(add, ("one", "two")))
    assert len(tomllib.loads(path.read_text())["permissions"]["allow"]) == 40


def test_overtaken_change_keeps_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a writer that was stopped for so long that another one no longer waited for its turn."""
    path, sync, left = tmp_path / "config.toml", os.fsync, ['model = "theirs"\n']

    def overtaken(file: int) -> None:
        sync(file)
        if left:
            path.write_text(left.pop())

    monkeypatch.setattr(os, "fsync", overtaken)
    add_rule(path, "Bash(mine)")
    found = path.read_text()
    assert "theirs" in found
    assert "mine" in found


def test_unreadable_settings_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"# \xff\n")
    with pytest.raises(UsageError, match="not valid TOML"):
        add_rule(path, "Bash")
    assert path.read_bytes() == b"# \xff\n"
    path.write_text("permissions = broken")
    with pytest.raises(UsageError, match="not valid TOML"):
        add_rule(path, "Bash")
    assert path.read_text() == "permissions = broken"


def test_fixed_settings_error_says_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('permissions = { allow = ["Read"] }\n')
    with pytest.raises(UsageError, match=r'add "Bash" to permissions.allow yourself'):
        add_rule(path, "Bash")
    assert path.read_text() == 'permissions = { allow = ["Read"] }\n'


@pytest.mark.parametrize(
    ("remedy", "rules"),
    [
        ("Allowed with --permission-mode full, or with --allow 'Bash(git push:*)'.", ["Bash(git push:*)"]),
        ("Allowed with --allow 'Network(pypi.org)' --allow 'Edit(/o x)'.", ["Network(pypi.org)", "Edit(/o x)"]),
        ("Allowed with --allow mcp__a__b.", ["mcp__a__b"]),
        ("", []),
        ("Write plain commands, each with its program's name.", []),
        ("With --add-dir '/a --allow Bash b', or with --allow 'Edit(/a --allow Bash b)'.", ["Edit(/a --allow Bash b)"]),
        ("Allowed with --allow 'Unsandboxed(*)'.", []),  # which would be every command
        ("Allowed with --allow 'Edit(/a\udcff)'.", []),  # which no file of settings can hold
        ("Allowed with --allow Bash --allow 'Bash(a; b)'.", []),  # one that is no rule
    ],
)  # fmt: skip
def test_longer_approvals_offer_policy_rules(remedy: str, rules: list[str]) -> None:
    assert rules_for(Ask("why", remedy)) == rules
    offered = approval_options(rules)
    assert [option.value for option in offered] == (["once", "session", "always", "no"] if rules else ["once", "no"])
    assert all(rule in option.hint for option in offered[1:-1] for rule in rules)


def test_approval_shows_command_and_wants() -> None:
    command = "\n".join(f"echo {number}" for number in range(40))
    said = "the index\n  wants: nothing \x1b\u202e"
    call = ToolCall("c", "Bash", JsonObject({"command": command, "reason": said}))
    wants = ("to reach pypi.org", "to write /opt/\u202ex", "to run without the sandbox")
    shown = plain(render_approval(call, Ask("`echo` wants.", wants=wants), lambda _: None, 60)).splitlines()
    assert shown[1] == "  $ echo 0"
    assert shown[40:] == [
        "    echo 39",
        "  wants: to reach pypi.org",
        "         to write /opt/⟨U+202E⟩x",
        "         to run without the sandbox",
        "  the model says: the index wants: nothing ⟨U+001B⟩⟨U+202E⟩",
    ]
    silent = ToolCall("c", "Bash", JsonObject({"command": "ls"}))
    assert "the model gives no reason" in plain(render_approval(silent, Ask("", wants=wants), lambda _: None, 60))


def test_question_shows_edit_diff() -> None:
    call = ToolCall("c", "Edit", JsonObject({"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}))
    shown = plain(render_approval(call, Ask("Outside.", agent="root/a"), lambda _: "one\nx = 1\nthree\n", 60, 2))
    assert (
        "\n".join(line.rstrip() for line in shown.split("\n"))
        == """\
? root/a: Edit a.py? (2 more waiting)
  Outside.
    1   one
    2 - x = 1
    2 + x = 2
    3   three"""
    )


def test_write_proposal_is_a_diff() -> None:
    call = ToolCall("c", "Write", JsonObject({"file_path": "a", "content": "new\n"}))
    assert "-old" in proposal(call, lambda _: "old\n")
    assert "+new" in proposal(call, lambda _: None)
    assert proposal(ToolCall("c", "Bash", JsonObject({"command": "x"})), lambda _: None) == ""


def test_mentions_attach_by_kind(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("code = 1")
    (tmp_path / "b c.png").write_bytes(PNG)
    (tmp_path / "d.pdf").write_bytes(b"%PDF-1.4 ...")
    (tmp_path / "e.bin").write_bytes(b"\0\1\2")
    (tmp_path / "sub").mkdir()
    text = 'see @a.py, @"b c.png" and (@d.pdf) @e.bin @sub/ @nothing mail@example.org'
    assert mentioned(text) == ["a.py", "b c.png", "d.pdf", "e.bin", "sub/", "nothing"]
    parts, wrong = attach(text, tmp_path)
    assert [type(part) for part in parts] == [Text, Image, Document, Text]
    assert isinstance(parts[0], Text)
    assert "code = 1" in parts[0].text
    assert len(wrong) == 2
    assert wrong[1].startswith("@nothing is not a file here")
    assert wrong[0].startswith("@e.bin is not attached")


@pytest.mark.parametrize(
    ("codec", "said"),
    [("utf-8", ""), ("utf-16", "utf-16-le with BOM"), ("utf-16-be", "utf-16-be"), ("cp1251", "cp1251"), ("gbk", "gb")],
)
def test_mentioned_text_is_decoded(codec: str, said: str, tmp_path: Path) -> None:
    text = (
        "这是一个用中文写的文件，里面有很多常用的字。" if codec == "gbk" else "Привет, мир! Это обычный русский текст. "
    )
    (tmp_path / "f.txt").write_bytes((text * 20).encode(codec))
    ((part,), wrong) = attach("@f.txt", tmp_path)
    assert isinstance(part, Text)
    assert text * 20 in part.text
    assert said in part.text.split("\n")[1]
    assert (wrong, "encoding" in part.text) == ([], bool(said))


def test_dragged_images_are_attached(tmp_path: Path) -> None:
    image = Image("image/png", PNG)
    for name in ("a.png", "b c.png", "it's.png"):
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "no.png").write_text("text")
    os.mkfifo(tmp_path / "pipe.png")
    for text in ("a.png", f" {tmp_path}/b c.png\n", "b\\ c.png", "it's.png", f"file://{tmp_path}/b%20c.png"):
        assert images_at(text, tmp_path) == (image,), text
    for text in ("a.png 'b c.png'", f"file://{tmp_path}/a.png\nfile://{tmp_path}/b%20c.png\n"):
        assert images_at(text, tmp_path) == (image, image), text
    for text in (
        "a.png gone.png",
        "no.png",
        f"see {'x' * 300}.png",
        "~nobody-has-this-name/a.png",
        "\0.png",
        "'.png",
        "",
    ):
        assert images_at(text, tmp_path) == (), text
    assert attach("@~nobody-has-this-name/a", tmp_path)[1] == [
        "@~nobody-has-this-name/a is not a file here; it was sent as text"
    ]


@pytest.mark.needs("git")
async def test_files_are_those_git_knows(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "trunk", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "new.py").touch()
    (tmp_path / "x.log").touch()
    assert sorted(await list_files(tmp_path)) == [".gitignore", "new.py"]
    assert branch_of(tmp_path) == "trunk"


async def test_without_git_directory_is_walked(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").touch()
    (tmp_path / ".hidden").touch()
    assert await list_files(tmp_path) == ["sub/a.py"]
    assert branch_of(tmp_path) == ""


def test_nearest_files_come_first() -> None:
    files = ["docs/plan.md", "sagent/repl/panel.py", "tests/repl/test_panel.py", "panel.py", "a/p/l/a/n/e/l"]
    assert nearest("panel", files)[:2] == ["panel.py", "sagent/repl/panel.py"]
    assert nearest("srpan", files)[0] == "sagent/repl/panel.py"
    assert nearest("zzz", files) == []


@given(st.text('a漢 .)\t"@\n\u202f/', min_size=1))
def test_offered_file_can_be_mentioned(name: str) -> None:
    completer = InputCompleter(lambda: [name], tuple, lambda name, typed: ())
    offered = [one.text for one in completer.get_completions(Typed("see @"), CompleteEvent())]
    assert [mentioned(f"see @{text} ") for text in offered] == ([] if '"' in name or "\n" in name else [[name]])


@given(st.text(max_size=12), st.text(max_size=40))
def test_match_keeps_letter_order(query: str, text: str) -> None:
    letters = iter(text.lower())
    assert (matches(query, text) is not None) == all(letter in letters for letter in query.lower())


def test_sentence_found_by_hidden_words() -> None:
    said = "number 2416: the module has no end, delete a line"  # the letters of "needle" in that order, far apart
    options = [
        Option(1, said),
        Option(2, "number 37: fix the test …", keywords="fix the test of the needle"),
        Option(3, "ne edl xs"),
    ]
    assert [one.value for one in narrowed(options, "needle")] == [2]
    assert [one.value for one in narrowed(options, "nedl")] == [3]


async def test_list_begins_at_current() -> None:
    options = [Option("a", "first"), Option("b", "second", current=True)]
    picker = Picker([], options)
    assert picker.at == 1 and Picker([], options[:1]).at == 0 and Picker([], options, keys=True).at == -1
    assert [plain([row]).split()[-1] for row in render_picker(picker, 40, 10) if "second" in plain([row])] == ["✓"]


async def test_picker_narrows_by_words() -> None:
    options = [Option(number, name) for number, name in enumerate(("openai/gpt-5.5", "anthropic/opus", "openai/mini"))]
    assert [one.label for one in narrowed(options, "mini openai")] == ["openai/mini"]
    hinted = [Option(1, "a/one", "window 400 of it"), Option(2, "a/two", "window 500, openly priced")]
    assert [one.value for one in narrowed(hinted, "open")] == [2]  # a hint holds the word, not just its letters
    picker = Picker([], options)
    picker.type("open")
    picker.move(1)
    assert plain(render_picker(picker, 40, 6)) == "  / open  2 of 3\n  openai/gpt-5.5\n❯ openai/mini"
    picker.enter()
    assert await picker.chosen == 2


def test_names_match_before_hints() -> None:
    options = [Option(1, "gpt", "as good as opus"), Option(2, "claude-opus", "", also="anthropic/claude-opus")]
    assert [one.value for one in narrowed(options, "opus")] == [2, 1]
    assert [one.value for one in narrowed(options, "anthropic/cl")] == [2]
    models = ["claude-opus-5-5", "claude-opus-4-5", "claude-3-opus", "claude-opus-4"]  # the newest first, as in /model
    assert next(one.label for one in narrowed([Option(name, name) for name in models], "opus")) == "claude-opus-5-5"
    assert next(one.label for one in narrowed([Option(name, name) for name in models], "claude-opus-4")) == models[-1]
    commands = [("clear", "Forget the conversation"), ("compact", "Shrink"), ("model", "Clear words"), ("quit", "Quit")]
    completer = InputCompleter(tuple, lambda: commands, lambda *_: (), lambda: used_commands(["/quit", "x /y", "/"]))

    def offered(typed: str) -> list[str]:
        return [one.display_text for one in completer.get_completions(Typed(typed), CompleteEvent())]

    assert offered("/") == ["/quit", "/clear", "/compact", "/model"]
    assert offered("/cle") == ["/clear", "/model"]
    assert offered("/cpt") == ["/compact"]


@given(
    st.lists(st.tuples(st.text("ab宽\n", max_size=50), st.text("c \x1b", max_size=50)), max_size=20),
    st.integers(-1, 19),
    st.integers(12, 60),
    st.integers(1, 9),
)
def test_menu_fits_and_counts_hidden_rows(rows: list[tuple[str, str]], at: int, width: int, most: int) -> None:
    at = min(at, len(rows) - 1)
    lines = render_menu(rows, at, width, most)
    assert len(lines) == min(len(rows), most)
    assert all(line_width(line) <= width for line in lines)
    told = [int(count) for count in re.findall(r"[↑↓] (\d+)", plain(lines))]
    assert sum(told) == len(rows) - len(lines) or len(lines) < 2
    assert plain(lines).count("❯") == (at >= 0)


def test_narrow_menu_drops_whole_columns() -> None:
    cells = [("here", size, f"${usd} in ${5 * usd} out", "sees") for usd, size in enumerate(("1M", "200k", "1M"), 9)]
    about = ["".join(text for _, text in line)[2:] for line in table([("", cell) for cell in row] for row in cells)]
    names = ["claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-5"]
    rows = list(zip(names, about, strict=True))
    assert plain(render_menu(rows, 0, 60, 3)).split("\n")[1] == "  claude-opus-4-7  here  200k  $10 in $50 out  sees"
    assert plain(render_menu(rows, 0, 39, 3)).split("\n")[1] == "  claude-opus-4-7  200k  $10 in $50 out"
    assert plain(render_menu(rows, 0, 36, 3)).split("\n")[1] == "  claude-opus-4-7  $10 in $50 out"
    assert plain(render_menu(rows, 0, 36, 2)).split("\n") == [
        *("❯ claude-opus-4-6  $9 in $45 out", "  claude-opus-4-7                ↓ 1")
    ]
    assert plain(render_menu(rows, 0, 12, 3)).split("\n") == ["❯ clau…s-4-6", "  clau…s-4-7", "  clau…net-5"]
    mixed = [("off", "asks nobody at all, whatever comes of that"), *rows]
    assert plain(render_menu(mixed, 0, 36, 4)).split("\n")[:2] == [
        *("❯ off              asks nobody at a…", "  claude-opus-4-6  $9 in $45 out")
    ]
    found = [("one", "yesterday  … the words sought …"), ("two", "today at ten  … other words sought …")]
    assert plain(render_menu(found, 0, 30, 2)).split("\n")[0] == "❯ one  yesterday  … the words…"


async def test_long_list_scrolls_to_selection() -> None:
    picker = Picker([], [Option(number, f"option {number}") for number in range(100)])
    picker.move(-1)
    rows = plain(render_picker(picker, 40, 20)).split("\n")
    assert len(rows) <= 20
    assert rows[-1] == "❯ option 99"


def test_pastes_and_images_are_placeholders() -> None:
    draft = InputBuffer()
    paste, image = draft.keep_text("one\ntwo"), draft.keep_image(Image("image/png", PNG))
    text = f"see {paste} and {image}"
    assert text == "see [Pasted text #1, 2 lines] and [Image #2]"
    assert InputBuffer().keep_text("one\ntwo\n") == "[Pasted text #1, 2 lines]"
    assert draft.whole(text) == "see one\ntwo and [Image #2]"
    assert draft.images(text) == (Image("image/png", PNG),)
    assert draft.images("see [Image #1] [Image #9]") == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "## Notes\n\n- new\n"),
        ("# Rules\n\nOne.", "# Rules\n\nOne.\n\n## Notes\n\n- new\n"),
        ("## Notes\n\n- old\n\n# After\n", "## Notes\n\n- old\n- new\n\n# After\n"),
    ],
)
def test_notes_go_under_their_heading(tmp_path: Path, before: str, after: str) -> None:
    if before:
        (tmp_path / "AGENTS.md").write_text(before)
    path = add_note(tmp_path, "new")
    assert path == tmp_path / "AGENTS.md"
    assert path.read_text() == after


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_note_keeps_encoding_and_line_ends(codec: str, end: str, tmp_path: Path) -> None:
    text = f"# Café, déjà vu{end}{end}## Notes{end}{end}- Où est le garçon né à Besançon ?{end}"
    (tmp_path / "AGENTS.md").write_bytes(text.encode(codec))
    (tmp_path / "AGENTS.md").chmod(0o664)
    (tmp_path / "other.md").hardlink_to(tmp_path / "AGENTS.md")
    path = add_note(tmp_path, "new")
    assert path.read_bytes().decode(codec) == f"{text}- new{end}"
    assert path.stat().st_mode & 0o777 == 0o664
    assert path.samefile(tmp_path / "other.md")


def test_note_in_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(bytes(range(256)))
    with pytest.raises(UsageError, match="was not saved"):
        add_note(tmp_path, "new")
    assert (tmp_path / "AGENTS.md").read_bytes() == bytes(range(256))


def test_note_outside_project_is_refused(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.write_text("mine\n")
    (project / "AGENTS.md").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out of the project"):
        add_note(project, "new")
    assert outside.read_text() == "mine\n"
    (project / "AGENTS.md").unlink()
    (project / "RULES.md").touch()
    (project / "AGENTS.md").symlink_to("RULES.md")
    add_note(project, "new")
    assert "- new" in (project / "RULES.md").read_text()


async def test_shell_output_is_bounded(tmp_path: Path) -> None:
    assert await run_shell("echo out; echo err >&2; exit 3", tmp_path) == (3, "out\nerr\n")
    assert await run_shell(f"wc -c <<'END'\n{'é' * 100_000}\nEND\nexit 4", tmp_path) == (4, "200001\n")
    code, output = await run_shell("echo \0", tmp_path)
    assert code == 127 and "null" in output
    code, output = await run_shell("yes flood | head -c 30000000; echo end", tmp_path)
    assert code == 0
    assert len(output) < 400_000
    assert output.endswith("end\n")


async def test_shell_output_keeps_colours_only(tmp_path: Path) -> None:
    hostile = r"\033[2J\033]0;t\007\033[1;31mred\033[0m\t\033[8munseen\033[m\033[?1049h \033[38;5;200mpink\001\n\033[0m"
    _, output = await run_shell(f"printf '{hostile}'", tmp_path)
    _, row = render_block(Shell("x", output, 0), 60)
    assert row[1:] == (("ansired bold", "red"), ("class:output", " unseen "), ("#ff00d7", "pink�"))
    assert without_colours(output) == "red\tunseen pink\x01\n"
    _, struck = await run_shell(r"printf '\033[31mab\bc\033[m'", tmp_path)
    assert struck == "ac"
    many = "\x1b[31ma\x1b[32mb" * 3_000
    assert plain(render_block(Shell("x", many, 0), 60)).count("ab") > 1_000


async def test_cancelled_shell_kills_children(tmp_path: Path) -> None:
    sleep = f"sleep 33.{os.getpid()}"  # of this run, and not of one beside it
    task = asyncio.create_task(run_shell(f"({sleep}; true) & {sleep}; true", tmp_path))

    def running() -> bytes:
        return subprocess.run(["pgrep", "-f", f"^{sleep}"], capture_output=True, check=False).stdout

    await until(lambda: len(running().split()) == 2, task=task)
    task.cancel()
    await asyncio.wait([task])
    await until(lambda: not running(), "the end of its children")
    assert task.cancelled()


async def test_shell_ends_with_pipe_held_open(tmp_path: Path) -> None:
    code, output = await asyncio.wait_for(run_shell("sleep 34.11 & echo $!", tmp_path), 30)
    os.kill(int(output), signal.SIGKILL)
    assert code == 0


async def test_history_survives_per_file(tmp_path: Path) -> None:
    path = tmp_path / "h" / "project.jsonl"
    first = ProjectHistory()
    first.open(path)
    for text in ("one", "two\nlines", "x" * 30_000):
        first.append_string(text)
    path.write_bytes(path.read_bytes() + b"\xff broken\n")
    second = ProjectHistory()
    second.open(path)
    assert [text async for text in second.load()] == ["two\nlines", "one"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_retry_without_display_names_lost_text() -> None:
    broken = Retrying("root", "It broke.", "cut", 1, 0.31, "First")
    gone = "the text above is discarded"
    assert plain_text(broken) == f"! It broke; trying again in 0.3 s (attempt 2); {gone}"
    assert (
        plain_text(Retrying("root/a", "It broke", "cut", 0, 0.0, "First"))
        == "root/a: ! It broke; the reply starts again"
    )


def test_missing_key_leads_to_login() -> None:
    error = UsageError("No key for groq: set GROQ_API_KEY.")
    told = [block.text for block in guide(error) if isinstance(block, Report)]
    assert told[0] == str(error)
    assert "/login groq," in told[1]


def test_approval_is_shown_whole() -> None:
    content = "\n".join(f"line {number} {'x' * 100}" for number in range(300))
    write = ToolCall("c", "Write", JsonObject({"file_path": "p\u0430y.py", "content": content}))
    shown = plain(render_approval(write, Ask("Why."), lambda _: None, 60))
    assert "p\u0430⟨U+0430⟩y.py" in shown
    assert all(f"line {number}" in shown for number in range(300))
    assert shown.count("x") >= 300 * 100
    odd = JsonObject({f"n{number}": "word " * 200 for number in range(9)} | {"a\u200bb": "x\u202ey\U000e0041"})
    shown = plain(render_approval(ToolCall("c", "mcp__a__b", odd), Ask("Why."), lambda _: None, 60))
    assert shown.count("word") == 9 * 200
    assert "a⟨U+200B⟩b: x⟨U+202E⟩y⟨U+E0041⟩" in shown
    reason = Ask("It writes a\u202etxt.\nIt runs:\n\tgіt\x1b")
    shown = plain(render_approval(ToolCall("c", "Bash", JsonObject({})), reason, lambda _: None, 60))
    assert "  It writes a⟨U+202E⟩txt.\n  It runs:\n" in shown
    assert shown.endswith("gі⟨U+0456⟩t⟨U+001B⟩")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git push", "git push"),
        ("gіt", "gі⟨U+0456⟩t"),
        ("аррӏе.com", "а⟨U+0430⟩р⟨U+0440⟩р⟨U+0440⟩ӏ⟨U+04CF⟩е⟨U+0435⟩.com"),
        ("привет, naïve, 東京", "привет, naïve, 東京"),
        ("gᴏ ꓚat 𝐫m", "gᴏ⟨U+1D0F⟩ ꓚ⟨U+A4DA⟩at 𝐫⟨U+1D42B⟩m"),
        ("ｒm\u00a0x", "ｒ⟨U+FF52⟩m⟨U+00A0⟩x"),
        ("a\udcff", "a⟨U+DCFF⟩"),
        ("🇬🇮x 1\ufe0f\u20e3", "⟨U+1F1EC⟩⟨U+1F1EE⟩x 1⟨U+FE0F⟩⟨U+20E3⟩"),
        ("a\ufe0f ⚠\ufe0f 👍🏽", "a⟨U+FE0F⟩ ⚠\ufe0f 👍⟨U+1F3FD⟩"),
        ("a\ufe00\u180b\U0001d173\ufff0\U000e0fffb", "a⟨U+FE00⟩⟨U+180B⟩⟨U+1D173⟩⟨U+FFF0⟩⟨U+E0FFF⟩b"),
        ("git.com\u2215x\u2024io 𝟙ꓸ", "git.com⟨U+2215⟩x⟨U+2024⟩io ⟨U+1D7D9⟩ꓸ⟨U+A4F8⟩"),
    ],
)
def test_lookalike_letters_are_marked(text: str, shown: str) -> None:
    assert spelled(text) == shown


def test_approval_hides_no_argument() -> None:
    def shown(name: str, **arguments: object) -> str:
        call = ToolCall("c", name, json_freeze_object({**arguments}))
        return plain(render_approval(call, Ask("Why."), lambda _: "x = 1\ny = 2\nx = 1\nz\n", 60))

    everywhere = {"old_string": "x = 1", "new_string": "x = 9", "replace_all": True}
    assert shown("Edit", file_path="a", edits=[everywhere]).count("+ x = 9") == 2
    later = {"old_string": "not there", "new_string": "danger"}
    assert "danger" in shown("Edit", file_path="a", edits=[{"old_string": "y", "new_string": "w"}, later])
    for name in ("content", "old_string", "edits", "reason", "needs", "n" * 100):
        assert "danger" in shown("mcp__a__b", **{"file_path": "a", "command": "ls", "content": "x", name: "danger"})
    assert "⟨U+000C⟩z" in shown("Write", file_path="a", content="x = 1\ny = 2\nx = 1\n\x0cz\n")
    assert "No newline at end of file" in shown("Write", file_path="a", content="x = 1\ny = 2\nx = 1\nz")
    assert "No newline" not in shown("Write", file_path="a", content="x = 1\r\ny = 2\r\nx = 1\r\nw\r\n")
    assert shown("Bash", command=f"echo {'a' * 20_000}b").count("a") > 20_000


def test_diff_of_files_restarts_line_numbers() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -7 +7 @@\n--- one\n+++ two\n--- a/y\n+++ b/y\n@@ -3,0 +4,1 @@\n+three\n"
    shown = plain([*render_diff(diff, 60)]).splitlines()
    assert [line.split() for line in shown] == [
        ["7", "-", "--", "one"],
        ["7", "+", "++", "two"],
        ["y"],
        ["4", "+", "three"],
    ]


def test_replayed_command_shows_exit_code() -> None:
    said = "one\ntwo\n[exit code 3]\n[hidden from commands: KEY. The person can pass a variable on with env.pass]"
    call = ToolCall("c1", "Bash", json_freeze_object({"command": "false"}))
    result = ToolResult("c1", (Text(said),), is_error=True)
    blocks = past_blocks([Message("assistant", (call,)), Message("user", (result,))], "root")
    shown = plain(render_block(blocks[0], 80))
    assert shown.split("\n")[0] == "✗ Bash false · exit 3"


@pytest.mark.parametrize("at", range(-1, 12))
async def test_hidden_options_are_counted(at: int) -> None:
    picker = Picker(((("", "?"),),), [Option(number, f"option{number:02}") for number in range(12)], keys=True)
    picker.at = at
    for height in range(1, 30):
        rows = plain(render_picker(picker, 40, height)).splitlines()
        shown = sum("option" in row for row in rows)
        assert shown + sum(int(number) for row in rows for number in re.findall(r"[↑↓] (\d+)", row)) == 12


def test_clipboard_limit_is_refused() -> None:
    assert osc52("a ☂").startswith("\x1b]52;c;")
    with pytest.raises(UsageError, match="100,001 bytes"):
        osc52("x" * 100_001)
