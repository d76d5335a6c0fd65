"""Blocks in a reply become calls, and nothing else does."""

import itertools
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sagent.lib.json import as_str, json_freeze_object, json_thaw
from sagent.messages import StopReason, Text, ToolCall
from sagent.model import ToolSpec
from sagent.plugins.textcalls.blocks import BlockReader, own_text, read
from sagent.plugins.textcalls.paths import path_in
from sagent.tools.replacement import read_replacements, replace_all
from tests.depth import deep, later

Tree: TypeAlias = dict[str, tuple[list[str], bool]]


def spec(name: str, /, *required: str, **properties: str) -> ToolSpec:
    kinds = {each: {"type": "string"} for each in required} | {
        each: {"type": kind} for each, kind in properties.items()
    }
    return ToolSpec(name, f"{name}.", json_freeze_object({"type": "object", "properties": kinds, "required": required}))


TOOLS = {
    tool.name: tool
    for tool in (
        spec("Bash", "command", timeout="number"),
        spec("Write", "file_path", "content"),
        spec("Edit", "file_path", old_string="string", new_string="string"),
        spec("AgentSpawn", "prompt", name="string"),
        spec("advisor", question="string", name="string"),
        spec("mcp__db__query", "sql", "base"),
    )
}


def calls_of(text: str, stop: StopReason | None = "end") -> list[tuple[str, object]]:
    parts = read(text, TOOLS, stop, "c")
    calls = [part for part in parts if isinstance(part, ToolCall)]
    assert all(call.whole and call.malformed is None for call in calls)
    return [(call.name, json_thaw(call.arguments)) for call in calls]


def bash(command: str) -> tuple[str, object]:
    return "Bash", {"command": command}


def write(path: str, content: str) -> tuple[str, object]:
    return "Write", {"file_path": path, "content": content}


def edit(path: str, old: str, new: str) -> tuple[str, object]:
    return "Edit", {"file_path": path, "old_string": old, "new_string": new}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("```bash\nls -l\n```", [bash("ls -l")]),
        ("I look.\n\n~~~~sh\nls\n\npwd\n~~~~\n", [bash("ls\n\npwd")]),
        ('```bash\n{"command": "ls -l"}\n```', [bash("ls -l")]),
        ("```bash\n{ ls; }\n```", [bash("{ ls; }")]),
        ("```console\n$ ls \\\n> -l\na.py\n$ pwd\n/x\n```", [bash("ls \\\n-l\npwd")]),
        ("```bash\nls\n```\n\n```zsh\npwd\n```\n", [bash("ls"), bash("pwd")]),
        ("hello.py\n```\nprint(1)\n```", [write("hello.py", "print(1)\n")]),
        ("hello.py\n```\n```", [write("hello.py", "")]),
        ("hello.py\r\n```python\r\na\r\n\r\nb\r\n```\r\n", [write("hello.py", "a\n\nb\n")]),
        ("a.py\nb.py\n```\nx\n```", [write("b.py", "x\n")]),
        ("a.py\n\n\n```\nx\n```", [write("a.py", "x\n")]),
        ("```python src/größe.py\nx\n```", [write("src/größe.py", "x\n")]),
        ("```python\na.py\n```\n\n```python\nx\n```", [write("a.py", "x\n")]),
        ("Now:\n\n```\n**src/a.py**\n```\n~~~\nx\n~~~\n", [write("src/a.py", "x\n")]),
        ("```text\na.py\n```\n```diff\n-x\n+y\n```", [edit("a.py", "x\n", "y\n")]),
        ("```\na.py\n```\n```bash\npython3 a.py\n```", [bash("python3 a.py")]),
        ("```hello.py\nx\n```", [write("hello.py", "x\n")]),
        ("```python:src/a.py\nx\n```", [write("src/a.py", "x\n")]),
        ('```python title="my app.py"\nx\n```', [write("my app.py", "x\n")]),
        ("run.sh\n```bash\nls\n```", [write("run.sh", "ls\n")]),
        ("bin/run\n```bash\n#!/bin/sh\nls\n```", [write("bin/run", "#!/bin/sh\nls\n")]),
        ("hello.py\n```bash\npython3 hello.py\n```", [bash("python3 hello.py")]),
        ("Makefile\n```bash\nmake test\n```", [bash("make test")]),
        ("1. `a.py`\n\n   ```python\n   if x:\n     y\n   ```\n2. Then\n   ```sh\n   ls\n   ```\n",
         [write("a.py", "if x:\n  y\n"), bash("ls")]),
        ("- ```bash\n  ls\n  ```\n", [bash("ls")]),
        ("10. Do:\n\n    ```bash\n    ls\n    ```\n", [bash("ls")]),
        ("\t- x\n", []),
        ("x.py\n```\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", [edit("x.py", "a\n", "b\n")]),
        ("```python\nx.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n```", [edit("x.py", "a\n", "b\n")]),
        ("x.py\n<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE\n", [edit("x.py", "a\n", "")]),
        ("x.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nc\n=======\nd\n>>>>>>> REPLACE\n",
         [edit("x.py", "a\n", "b\n"), edit("x.py", "c\n", "d\n")]),
        ("```diff\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n```", [edit("x.py", "a\nc\n", "b\nc\n")]),
        ("```diff\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+a\n```", [write("new.py", "a\n")]),
        ("```diff\n--- a/x\n+++ b/x\n-a\n+b\n--- y\t2020\n+++ y\t2021\n@@\n-c\n+d\n```",
         [edit("x", "a\n", "b\n"), edit("y", "c\n", "d\n")]),
        ("x.py\n```diff\n-a\n+b\n```", [edit("x.py", "a\n", "b\n")]),
        ("```diff\n--- a/x y\n+++ /dev/null\n@@\n-a\n```", [bash("rm -- 'x y'")]),
        ("```diff\ndiff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n```", [bash("rm -- x")]),
        ("```diff\ndiff --git a/x b/y/z\nsimilarity index 100%\nrename from x\nrename to y/z\n```",
         [bash("test ! -e y/z && mkdir -p -- y && mv -- x y/z")]),
        ("```diff\nrename from x\nrename to z\n--- a/x\n+++ b/z\n@@\n-a\n+b\n```",
         [edit("x", "a\n", "b\n"), bash("test ! -e z && mv -- x z")]),
        ("x\n```diff\ndiff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@\n+a\n```",
         [write("y", "a\n")]),
        # last lines without an end
        ("a.py\n```\nx\n\\ No newline at end of file\n```", [write("a.py", "x")]),
        ("a.py\n```\nx\n\\ No newline at end of file\ny\n```", [write("a.py", "x\n\\ No newline at end of file\ny\n")]),
        ("x.py\n<<<<<<< SEARCH\na\n=======\nb\n\\ No newline at end of file\n>>>>>>> REPLACE\n",
         [edit("x.py", "a\n", "b")]),
        ("x.py\n```diff\n c\n-a\n\\ No newline at end of file\n+a\n```", [edit("x.py", "c\na", "c\na\n")]),
        ("x.py\n```diff\n-c\n+d\n a\n\\ No newline at end of file\n```", [edit("x.py", "c\na", "d\na")]),
        ("```AgentSpawn\nLook at it.\nAll of it.\n```", [("AgentSpawn", {"prompt": "Look at it.\nAll of it."})]),
        ('```AgentSpawn\n{"prompt": "x", "name": "y"}\n```', [("AgentSpawn", {"prompt": "x", "name": "y"})]),
        ("```advisor\nIs it right?\n```", [("advisor", {"question": "Is it right?"})]),
        ('```mcp__db__query\n{"sql": "select 1",\n "base": "x"}\n```',
         [("mcp__db__query", {"sql": "select 1", "base": "x"})]),
        ('```mcp__db__qury\n{"sql": "select 1"}\n```', [("mcp__db__qury", {"sql": "select 1"})]),
        ('```Bash\n{"command": "ls", "timeout": 5}\n```', [("Bash", {"command": "ls", "timeout": 5})]),
        ('```agent_spawn\n{"prompt": "x"}\n```', [("AgentSpawn", {"prompt": "x"})]),
        ("```agentspawn\nLook.\n```", [("AgentSpawn", {"prompt": "Look."})]),
        ("```Advisor\nIs it right?\n```", [("advisor", {"question": "Is it right?"})]),
        ('```AgentSpwan\n{"prompt": "x"}\n```', [("AgentSpwan", {"prompt": "x"})]),
        ('```ReadFile\n{"path": "x"}\n```', [("ReadFile", {"path": "x"})]),
        # blocks within blocks
        ("README.md\n````markdown\n# T\n```bash\nrm -rf x\n```\n````\n",
         [write("README.md", "# T\n```bash\nrm -rf x\n```\n")]),
        ("README.md\n```markdown\n# T\n```bash\nls\n```\nend\n```\n",
         [write("README.md", "# T\n```bash\nls\n```\nend\n")]),
        ("README.md\n```\n# T\n\n```\nls\n```\n\nend\n```\n\nDone.",
         [write("README.md", "# T\n\n```\nls\n```\n\nend\n")]),
        ("README.md\n```\n# T\n```\n```bash\nls\n```\n", [write("README.md", "# T\n"), bash("ls")]),
        ("```bash\ncat > R.md <<'E'\n```sh\nls\n```\nE\n```\n", [bash("cat > R.md <<'E'\n```sh\nls\n```\nE")]),
        ("a.py\n~~~\nx = '''\n```\n'''\n~~~\n", [write("a.py", "x = '''\n```\n'''\n")]),
        ("a.py\n```python\ndef f():\n    '''\n    ```\n    x\n    ```\n    '''\n```\n",
         [write("a.py", "def f():\n    '''\n    ```\n    x\n    ```\n    '''\n")]),
        # a first fence written twice
        ("a.txt\n```\n```\nHello, world!\n```", [write("a.txt", "Hello, world!\n")]),
        ("a.txt\n```\n```\nHello\n\nworld\n```\n", [write("a.txt", "Hello\n\nworld\n")]),
        ("a.txt\n```\n```\nIt is empty.", [write("a.txt", "")]),
        # thinking
        ("<think>\n```bash\nrm -rf x\n```\n</think>\n\n```bash\nls\n```\n", [bash("ls")]),
        ("I could:\n```bash\nrm -rf x\n```\n</think>\n\n```bash\nls\n```\n", [bash("ls")]),
        ("Hm.\n```bash\nrm -rf x\n</think>```bash\nls\n```\n", [bash("ls")]),
        ("[THINK]Or:\n```bash\nrm\n```\n[/THINK]\n```bash\nls\n```\n", [bash("ls")]),
        ("```bash\nls\n```\n<think>\n```bash\nrm\n```\n</think>\n```bash\npwd\n```", [bash("ls"), bash("pwd")]),
        ("It ends with `</think>`:\n```bash\nls\n```\nas `</think>` says", [bash("ls")]),
        ("a.py\n```\nx\n</think>\n```\n", [write("a.py", "x\n</think>\n")]),
        # no calls
        ('```JavaScript\n{"a": 1}\n```', []),
        ("```OpenQasm\nqreg q[2];\n```", []),
        ('```write\n{"file_path": "x", "content": "y"}\n```', []),
        ("```json\n{}\n```\n```edit\nx\n```\n```c++\n{}\n```\n```F#\n{}\n```", []),
        ("<think>\n```bash\nrm -rf x\n```\n", []),
        ("<think>\n```bash\nrm -rf x", []),
        ("I could:\n```bash\nrm -rf x\n```\n</think>\n\nNo.", []),
        ("````markdown\n```bash\nrm -rf x\n```\n````\n", []),
        ("````\nhello.py\n```\nx\n```\n````\n", []),
        ("> ```bash\n> rm -rf x\n> ```\n", []),
        ("```\n```bash\nrm -rf x\n```\n```\n", []),
        ("````\n```bash\nrm -rf x\n```\n", []),
        ("    ```bash\n    rm -rf x\n    ```\n", []),
        ("Use ```bash ls``` there.\n```bash `x`\nls\n", []),
        ("```python\nprint(1)\n```", []),
        ('```json\n{"a": 1}\n```', []),
        ("See hello.py\n```\nx\n```", []),
        ("hello.py\n\nIt says:\n```\nx\n```", []),
        ("```\nhello.py\n```\n\nIt says:\n```\nx\n```", []),
        ("```output\nhello.py\n```\n```\nx\n```", []),
        ("```\nhello.py\nb.py\n```\n```\nx\n```", []),
        ("```\nhello.py\n```", []),
        ("hello.py\n\n\n\n```\nx\n```", []),
        ("hello.py\n```output\nx\n```", []),
        ("### Node.js\n```js\nx\n```", []),
        ("`ls -l a.py`:\n```\nx\n```", []),
        ("```12:15:src/a.py\nx\n```", []),
        ("```text/x-python\nx\n```", []),
        ("```diff\n-a\n+b\n```", []),
        ("```diff\n--- a.orig\n+++ a\n@@\n-a\n+b\n```", []),
        ("```diff\ndiff --git a/x b/x\nold mode 100644\nnew mode 100755\n```", []),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", []),
        ("```agents\nx\n```\n```advice\nx\n```", []),
    ],
)  # fmt: skip
def test_blocks_are_read(text: str, calls: list[tuple[str, object]]) -> None:
    assert calls_of(text) == calls
    assert calls_of(text.replace("\r\n", "\n").replace("\n", "\r\n")) == calls


NAMES = ("a.txt", "b c.txt", "d/e.txt")
FILES = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.lists(st.sampled_from([f"line {number}" for number in range(9)]), unique=True), st.booleans()),
)


@settings(max_examples=deep(25, 200), deadline=None)
@given(FILES, FILES)
def test_git_diffs_apply_as_shown(before: Tree, after: Tree) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        first, second = _tree_of(before, root / "a"), _tree_of(after, root / "b")
        shown = _git(f"diff --no-color -M {first} {second}", root / "a")
        for name, given in calls_of(f"```diff\n{shown}```\n") if shown else ():
            _make(name, cast("dict[str, str]", given), root / "a")
        left, right = ({name: p.read_text() for name in NAMES if (p := root / side / name).exists()} for side in "ab")
        assert left == right


def _tree_of(files: Tree, folder: Path) -> str:
    """Write files; return what git calls their tree."""
    folder.mkdir()
    for name, (lines, ended) in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(lines) + ("\n" if ended and lines else ""))
    for command in ("init -q", "add -A"):
        _git(command, folder)
    return _git("write-tree", folder).strip()


def _git(command: str, folder: Path) -> str:
    words = ["git", "--git-dir", folder.parent / "git", "--work-tree", folder, *command.split()]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout


def _make(name: str, given: dict[str, str], root: Path) -> None:
    if name == "Bash":
        subprocess.run(["sh", "-c", given["command"]], cwd=root, check=True)
        return
    path = root / given["file_path"]
    path.parent.mkdir(exist_ok=True)
    if name == "Write":
        path.write_text(given["content"])
    else:
        path.write_text(replace_all(path.read_text(), read_replacements(json_freeze_object(given)), name)[0])


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("hello.py", "hello.py"),
        ("**`src/hello.py`**:", "src/hello.py"),
        ("### `hello.py` (new file)", "hello.py"),
        ("File: my notes.txt", "my notes.txt"),
        ("File `a.py`:", "a.py"),
        ("file a.py", ""),
        ('"my notes.txt"', "my notes.txt"),
        ("**Filename:** `a.py`", "a.py"),
        ("C:\\work\\a.py:", "C:\\work\\a.py"),
        ("/etc/hosts", "/etc/hosts"),
        ("~/.bashrc", "~/.bashrc"),
        ("__init__.py", "__init__.py"),
        ("1. a.py:", "a.py"),
        ("größe/日本.txt", "größe/日本.txt"),
        (".gitignore", ".gitignore"),
        ("Dockerfile", "Dockerfile"),
        ("hello", ""),
        ("hello.py.", ""),
        ("https://example.com/a.py", ""),
        ("src/", ""),
        ("...", ""),
        ("1/2", ""),
        ("python3 hello.py", ""),
        ("`python3 hello.py`", ""),
        ("> a.py", ""),
        ("-a.py", ""),
        ("x" * 400 + ".py", ""),
    ],
)
def test_path_only_line(line: str, path: str) -> None:
    assert path_in(line) == path
    assert path_in(f"  {line}\r\n") == path


@pytest.mark.parametrize(
    ("text", "name", "came"),
    [
        ("x\n```bash\nls\n", "Bash", "ls"),
        ("a.py\n```\nx\n", "Write", "x"),
        ("a.py\n```\n<<<<<<< SEARCH\nx\n```\n", "Edit", "<<<<<<< SEARCH\nx"),
        ("a.py\n<<<<<<< SEARCH\nx\n=======\n", "Edit", "<<<<<<< SEARCH\nx\n======="),
        ("```AgentSpawn\nx", "AgentSpawn", "x"),
        ("````bash\nls\n```\n", "Bash", "ls\n```"),
        ("```python\nx\n\n```bash\nls\n```\n", "Bash", "x\n\n```bash\nls\n```"),
        ("a.md\n```markdown\n```sh\nls\n```\n", "Write", "```sh\nls\n```"),
    ],
)
def test_unclosed_block_not_whole(text: str, name: str, came: str) -> None:
    last = read(text, TOOLS, "end", "c")[-1]
    assert isinstance(last, ToolCall)
    assert (last.name, last.whole, last.malformed, dict(last.arguments)) == (name, False, came, {})


def test_cut_reply_keeps_whole_blocks() -> None:
    text = "```bash\nls\n```\n\nIt prints: a"
    (call,) = read(text, TOOLS, "max_tokens", "c")
    assert isinstance(call, ToolCall)
    assert call.whole
    last = read("```bash\nls\n```", TOOLS, "max_tokens", "c")[-1]
    assert isinstance(last, ToolCall)
    assert not last.whole  # more might have stood on that line
    first, second = read("```bash\nls\n```\na.py\n```\nx = ", TOOLS, "max_tokens", "c")
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.whole, second.whole, second.malformed) == (True, False, "x = ")


def test_invalid_json_arguments_kept() -> None:
    for text, came in (
        ("```mcp__db__query\nselect 1\n```", "select 1"),
        ('```AgentSpawn\n{"prompt": }\n```', '{"prompt": }'),
        ("```AgentSpwan\nLook at it.\n```", "Look at it."),
    ):
        (call,) = read(text, TOOLS, "end", "c")
        assert isinstance(call, ToolCall)
        assert call.malformed == came


LINES = st.sampled_from(
    [
        *("```", "```bash", "```python", "````", "````markdown", "~~~", "~~~sh", "   ```", "    ```bash", "```diff"),
        *("hello.py", "**`a b.py`**:", "README.md", "x = 1", "", "  ", "\t", "> ```bash", "- ```sh", "1. x", "$ ls"),
        *(
            "```python\nx.py\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n```",
            "<<<<<<< SEARCH",
            "=======",
            ">>>>>>> REPLACE",
            "--- a/x",
            "+++ b/x",
            "@@ -1 +1 @@",
            "-a",
            "+b",
            "\r",
        ),
        *("<think>", "</think>", "x</think>y", "[THINK]", "</think>```bash"),
        *("```AgentSpawn", '{"prompt": "x"}', "```hello.py", "größe 🌍", "\ud800", "`", "```bash `x"),
    ]
)
REPLIES = st.lists(LINES, max_size=14).map("\n".join)
STOPS = st.sampled_from(["end", "max_tokens", None])


def written(parts: tuple[Text | ToolCall, ...]) -> str:
    return "".join(
        part.text if isinstance(part, Text) else as_str(part.private.data if part.private else "") for part in parts
    )


@settings(max_examples=deep(300, 3000), deadline=None)
@given(REPLIES, STOPS)
@example("hello.py\n```diff\n```", "end")
def test_text_before_last_call_kept(text: str, stop: StopReason | None) -> None:
    parts = read(text, TOOLS, stop, "c")
    valid = text.replace("\ud800", "\ufffd")
    assert valid.startswith(written(parts))
    if not any(isinstance(part, ToolCall) for part in parts):
        assert written(parts) == valid
    else:
        assert isinstance(parts[-1], ToolCall)
    for one, other in itertools.pairwise(parts):
        assert isinstance(one, ToolCall) or isinstance(other, ToolCall)
    assert all(part.text.strip() for part in parts if isinstance(part, Text)) or len(parts) == 1


@settings(max_examples=deep(200, 2000), deadline=None)
@given(REPLIES, STOPS)
def test_written_calls_parse_back(text: str, stop: StopReason | None) -> None:
    parts = read(text, TOOLS, stop, "c")
    again = read(written(parts), TOOLS, stop, "c")
    calls, found = ([part for part in each if isinstance(part, ToolCall)] for each in (parts, again))
    assert [(call.name, call.arguments) for call in found if call.whole] == [
        (call.name, call.arguments) for call in calls if call.whole
    ] or stop == "max_tokens"


@settings(max_examples=deep(150, 1500), deadline=None)
@example("```python\nx.py\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n```\n</think>", "end", [1])
@given(REPLIES, STOPS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_any_chunking_gives_same_result(text: str, stop: StopReason | None, sizes: list[int]) -> None:
    text = text.replace("\ud800", "\ufffd")
    reader, shown, at = BlockReader(TOOLS), "", 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        shown += reader.feed(text[at : at + size])
        assert text.startswith(shown)
        at += size
    shown += reader.finish(cut=stop == "max_tokens")
    parts = read(text, TOOLS, stop, "c")
    assert reader.parts("c") == parts
    assert text.startswith(shown)
    assert shown.startswith(written(parts).rstrip())
    if not any(isinstance(part, ToolCall) for part in parts):
        assert shown == text


@settings(max_examples=deep(100, 1000), deadline=None)
@given(REPLIES, st.booleans())
def test_cut_reply_makes_no_other_call(text: str, crlf: bool) -> None:
    text = text.replace("</think>", "")  # where thinking begins in the prompt, nobody knows before its end
    data = (text.replace("\n", "\r\n") if crlf else text).encode("utf-8", "replace")
    every = _whole(data.decode(), "end")
    for end in range(len(data)):
        made = _whole(data[:end].decode("utf-8", "replace"), "max_tokens")
        assert made == every[: len(made)]


def _whole(text: str, stop: StopReason) -> list[tuple[str, object]]:
    parts = read(text, TOOLS, stop, "c")
    calls = (part for part in parts if isinstance(part, ToolCall))
    return [(call.name, call.arguments) for call in calls if call.whole and call.malformed is None]


@settings(max_examples=deep(100, 1000), deadline=None)
@given(REPLIES)
def test_longer_fence_quotes_calls(text: str) -> None:
    quoted = f"Look:\n\n``````\n{text}\n``````\n\nSo."
    assert not any(isinstance(part, ToolCall) for part in read(quoted, TOOLS, "end", "c"))
    whole = f"doc.txt\n``````\n{text}\n``````\n"
    (call,) = read(whole, TOOLS, "end", "c")
    assert isinstance(call, ToolCall)
    assert call.name == ("Edit" if text.lstrip().startswith("<<<<<<< SEARCH") else "Write")


@pytest.mark.parametrize(
    "unit", ["x", "x\n", "```\n", "```bash\n", "> \n", " ", "- ", "hello.py\n", "`", "1. ", "\n", "*"]
)
def test_parsing_steps_grow_linearly(unit: str) -> None:
    """Twice the text, twice the steps: counted, for time depends on the machine."""
    import sys

    def steps(size: int) -> int:
        count = 0

        def trace(*_: object) -> object:
            nonlocal count
            count += 1
            return trace

        text = f"```bash\n{unit * (size // len(unit))}"
        sys.settrace(trace)  # pyright: ignore[reportArgumentType] -- it is its own local trace
        try:
            read(text, TOOLS, "end", "c")
        finally:
            sys.settrace(None)
        return count

    assert steps(40_000) < 3 * steps(20_000) + 2_000


@later
def test_megabyte_reply_read() -> None:
    content = "x = 1\n" * 180_000
    assert calls_of(f"a.py\n```\n{content}```\n") == [write("a.py", content)]
    assert calls_of("`" * 1_000_000) == []
    assert calls_of("- " * 500_000 + "\n" + "**" * 300_000 + "\n```\nx\n```") == []


@pytest.mark.parametrize(
    ("text", "command"),
    [("bash\npython test_range.py\n```", "python test_range.py"), ("\nSH\n\nls\npwd\n```\n\n", "\nls\npwd")],
)
def test_bare_shell_block_is_command(text: str, command: str) -> None:
    assert calls_of(text) == [bash(command)]
    assert calls_of(text, "max_tokens") == []
    (call,) = read(text, TOOLS, "end", "c")
    assert isinstance(call, ToolCall)
    assert own_text(call) == text


@pytest.mark.parametrize(
    "text",
    [
        "bash",
        "bash\n```",
        "bash\nis what the script needs:\n```\nls\n```",
        "bash\nis what the script needs:\n```\nls",
        "It is bash\nls\n```",
        "python\nprint(1)\n```",
        "bash\nls\n```python",
    ],
)
def test_other_lines_before_fence_are_text(text: str) -> None:
    assert calls_of(text) == []
