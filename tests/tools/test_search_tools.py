"""Finding files and text: what is found, in which order, and the same with ripgrep and without."""

import asyncio
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import sagent
from sagent.errors import ToolError
from sagent.lib.json import JsonObject
from sagent.lib.regular import read_regular
from sagent.tools import Glob, Grep, List, Read
from sagent.tools import walk as walk_module
from sagent.tools.dialect import PatternError, translate
from tests.depth import deep, later
from tests.waiting import until, wait_until

SOURCE = str(Path(sagent.__file__).parents[1])


@contextmanager
def searching(engine: str) -> Iterator[None]:
    """Searches go by ripgrep or without it."""
    with pytest.MonkeyPatch.context() as patch:
        if engine == "python":
            patch.setattr("sagent.tools.listing.system_path", lambda: "/nonexistent")
        yield


def text_of(output):
    return "".join(getattr(part, "text", "") for part in output.content)


@pytest.fixture(params=["python", pytest.param("rg", marks=pytest.mark.needs("rg"))])
def engine(request) -> Iterator[str]:
    """Both ways of searching; every promise holds for either."""
    with searching(request.param):
        yield request.param


def make(root, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def test_walk_with_too_many_open_files_raises(root) -> None:
    """What cannot be looked at for want of a descriptor is not left out as if it were closed to us."""
    (root / "a.txt").write_text("x")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    closed: list[str] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            list(walk_module.walk(str(root), lambda: False, closed=closed))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not closed


PROJECT = {
    ".gitignore": "*.log\n/build/\n!keep.log\nsecret.txt\n",
    "src/app.py": "import os\n\ndef main():\n    return os.name\n",
    "src/web/view.ts": "export const main = () => 1\n",
    "src/web/.gitignore": "gen*\n!gen-keep.ts\n",
    "src/web/gen.ts": "main\n",
    "src/web/gen-keep.ts": "main kept\n",
    "build/out.py": "main\n",
    "debug.log": "main\n",
    "keep.log": "main log\n",
    ".hidden/conf.py": "main = 1\n",
    ".git/HEAD": "main\n",
    ".git/info/exclude": "local.txt\n",
    "local.txt": "main\n",
    "secret.txt": "main\n",
    "bin.dat": b"main\0\1\2",
    "only.bin": b"rare\0",
    "README.md": "# Main\nrun main\r\nend\n",
}


NONE_FITS = "(No file was searched: none there has a name that fits the glob or type.)"


async def test_grep_skips_what_git_ignores(call, root, engine) -> None:
    make(root, PROJECT)
    assert text_of(await call(Grep(), pattern="main")).split("\n") == [
        ".hidden/conf.py:1:main = 1",
        "README.md:2:run main",
        "keep.log:1:main log",
        "src/app.py:3:def main():",
        "src/web/gen-keep.ts:1:main kept",
        "src/web/view.ts:1:export const main = () => 1",
    ]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "main$"}, ["README.md:2:run main"]),
        ({"pattern": "MAIN", "ignore_case": True, "glob": "*.md"}, ["README.md:1:# Main", "README.md:2:run main"]),
        ({"pattern": "(?i)# main"}, ["README.md:1:# Main"]),
        ({"pattern": "main", "type": "py"}, [".hidden/conf.py:1:main = 1", "src/app.py:3:def main():"]),
        (
            {"pattern": "main", "glob": "src/**/*.{ts,tsx}", "output_mode": "files_with_matches"},
            ["src/web/gen-keep.ts", "src/web/view.ts"],
        ),
        ({"pattern": "main", "glob": "!*.ts", "path": "src"}, ["src/app.py:3:def main():"]),
        ({"pattern": "o", "output_mode": "count", "path": "src/app.py"}, ["src/app.py:2", "(In all 2 in 1 files.)"]),
        (
            {"pattern": "import os\n\ndef", "multiline": True},
            ["src/app.py:1:import os", "src/app.py:2:", "src/app.py:3:def main():"],
        ),
        ({"pattern": "main\nend", "multiline": True}, ["README.md:2:run main", "README.md:3:end"]),
        (
            {"pattern": "def", "context": 1},
            ["src/app.py-2-", "src/app.py:3:def main():", "src/app.py-4-    return os.name"],
        ),
        ({"pattern": "^(import|def)", "context": 0}, ["src/app.py:1:import os", "src/app.py:3:def main():"]),
        (
            {"pattern": "main", "limit": 1, "offset": 2},
            ["keep.log:1:main log", "(There are more. Go on with offset 3.)"],
        ),
        ({"pattern": "main", "offset": 99}, ["No matches from offset 99 on; there are 6."]),
        ({"pattern": "nowhere"}, ["No matches."]),
        ({"pattern": "rare"}, ["No matches."]),
        ({"pattern": "main", "path": "debug.log"}, ["debug.log:1:main"]),
        ({"pattern": "out", "path": "build"}, ["No matches."]),
        ({"pattern": "main", "path": "build"}, ["build/out.py:1:main"]),
        ({"pattern": "main", "glob": "*.md *.log"}, ["README.md:2:run main", "keep.log:1:main log"]),
        ({"pattern": "main", "type": "", "glob": "", "path": "src/app.py"}, ["src/app.py:3:def main():"]),
        ({"pattern": "main", "glob": "*.go"}, ["No matches.", NONE_FITS]),
        ({"pattern": "main", "type": "go"}, ["No matches.", NONE_FITS]),
        ({"pattern": "main", "path": "src/app.py", "glob": "*.ts"}, ["No matches.", NONE_FITS]),
        ({"pattern": "main(?= kept)"}, ["src/web/gen-keep.ts:1:main kept"]),
        ({"pattern": r"(e)\1", "path": "src"}, ["src/web/.gitignore:2:!gen-keep.ts"]),
        ({"pattern": "main", "path": "bin.dat"}, ["No matches.", "(Not searched, because they are binary: bin.dat.)"]),
    ],
)  # fmt: skip
async def test_grep_options(call, root, engine, arguments, lines) -> None:
    make(root, PROJECT)
    assert text_of(await call(Grep(), **arguments)).split("\n") == lines


async def test_grep_context_merges_and_marks_gaps(call, root, engine) -> None:
    make(root, {"f": "\n".join(f"{n} hit" if n in (2, 4, 9) else str(n) for n in range(1, 11)) + "\n"})
    assert text_of(await call(Grep(), pattern="hit", context=1)).split("\n") == [
        "f-1-1", "f:2:2 hit", "f-3-3", "f:4:4 hit", "f-5-5", "--", "f-8-8", "f:9:9 hit", "f-10-10",
    ]  # fmt: skip
    make(root, {"g": "1 hit\n", "h": "0\n1 hit\n"})
    shown = text_of(await call(Grep(), pattern="1 hit", context=1)).split("\n")
    assert shown == ["g:1:1 hit", "--", "h-1-0", "h:2:1 hit"]


async def test_grep_is_bounded_and_pages_meet(call, root, engine) -> None:
    make(root, {f"d{n % 7}/f{n}.txt": "".join(f"hit {n} {i} {'y' * 90}\n" for i in range(60)) for n in range(20)})
    offset, seen = 0, []
    while True:
        text = text_of(await call(Grep(), pattern=r"hit \d", limit=1000, offset=offset))
        assert len(text) < 45_000
        seen += [line for line in text.split("\n") if not line.startswith("(")]
        if "Go on" not in text:
            break
        offset = int(text.rpartition("offset ")[2].rstrip(".)"))
    assert len(seen) == len(set(seen)) == 1200
    (root / "long.js").write_text("x" * 5000 + "NEEDLE" + "y" * 5000)
    line = text_of(await call(Grep(), pattern="NEEDLE"))
    assert "NEEDLE" in line
    assert len(line) < 500


async def test_grep_reads_utf16_and_broken_utf8(call, root, engine) -> None:
    make(root, {"w.txt": "größe\r\nzwei\r\n".encode("utf-16"), "b.txt": "größe\n".encode("utf-8-sig")})
    make(root, {"l.txt": b"caf\xe9 here\n"})
    assert text_of(await call(Grep(), pattern="^größe$")).split("\n") == ["b.txt:1:größe", "w.txt:1:größe"]
    assert text_of(await call(Grep(), pattern="caf")).startswith("l.txt:1:café here\n")
    assert text_of(await call(Grep(), pattern="café here")).startswith("l.txt:1:café here\n")


@pytest.mark.parametrize(
    ("codec", "text", "pattern"),
    [
        ("latin-1", "Größe, Öl, Übung\n", "Größe"),
        ("cp1251", "/* Открыть файл */\n", "откр.ть"),
        ("gbk", "# 中文注释，测试\nx = 1\n", "注释"),
        ("shift_jis", "x = 1  # 日本語のテスト\n", r"本語\w"),
        ("koi8-r", "настройки сервера\n", "сервера$"),
        ("utf-16-le", "größe und mehr\n", "größe"),
        ("utf-16-be", "größe und mehr\n", "größe"),
    ],
)
async def test_grep_reads_older_encodings(call, root, engine, codec, text, pattern) -> None:
    make(root, {"old.txt": text.encode(codec), "new.txt": "nothing\n", "b.bin": b"\x00\x01\x02\xff" * 50})
    line = text.split("\n")[0]
    found = text_of(await call(Grep(), pattern=pattern, ignore_case=True)).split("\n")
    assert found[0] == f"old.txt:1:{line}"
    assert found[1].startswith("(Not UTF-8, read as ")
    assert found[2:] == []


@pytest.mark.costly
async def test_grep_finds_beyond_one_block(call, root, engine) -> None:
    line = "filler " * 20 + "\n"
    count = 9_000_000 // len(line)
    (root / "big.txt").write_text("first\n" + line * count + "needle here\nafter\n")
    text = text_of(await call(Grep(), pattern="needle h.*e", context=1))
    assert text.split("\n")[1:] == [f"big.txt:{count + 2}:needle here", f"big.txt-{count + 3}-after"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", r"missing \)"),
        ("[a", "never closed"),
        ("*a", "nothing to repeat"),
        (r"\y", r"\\y is not an escape"),
        ("a\\", "single backslash"),
        ("a\nb", "line break"),
        (r"a\nb", "line break"),
        ("(?x)a", "must be followed by a kind of group"),
        (r"\p{Greek}", "general category"),
        ("(?<=a+)b", "fixed-width"),
        ("a{2,1}", "min repeat greater than max"),
    ],
)
async def test_wrong_pattern_is_told_the_same(call, root, engine, pattern, why) -> None:
    with pytest.raises(ToolError, match=why):
        await call(Grep(), pattern=pattern)


@pytest.mark.parametrize("pattern", ["a\0b", "a\ud800"])
async def test_odd_patterns_are_searched_for(call, root, engine, pattern: str) -> None:
    make(root, {"f": "plain\n"})
    assert text_of(await call(Grep(), pattern=pattern)) == "No matches."


async def test_wrong_places_and_types_are_told(call, root, engine) -> None:
    make(root, PROJECT)
    with pytest.raises(ToolError, match=r"Did you mean src\?"):
        await call(Grep(), pattern="x", path="scr")
    with pytest.raises(ToolError, match=r"no file type 'cobol'.*py"):
        await call(Grep(), pattern="x", type="cobol")
    with pytest.raises(ToolError, match="not a directory"):
        await call(Glob(), pattern="*", path="README.md")
    with pytest.raises(ToolError, match="There is no file"):
        await call(Glob(), pattern="nowhere/*.py")


@pytest.mark.needs("linux")
async def test_backtracking_search_can_be_cancelled(call, root, engine) -> None:
    make(root, {"f": "a" * 40 + "!\n"})
    before = _children(os.getpid())
    task = asyncio.create_task(call(Grep(), pattern="^(a+)+$(?<!b)"))
    children = await until(lambda: _children(os.getpid()) - before, "the search runs", task=task)
    await asyncio.sleep(0.2)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _children(os.getpid()).isdisjoint(children)


@later
@pytest.mark.needs("linux")
def test_search_dies_with_killed_agent(root) -> None:
    (root / "f").write_text("a" * 40 + "!\n")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from sagent.lib.json import JsonObject\nfrom sagent.tool import RunContext, Workspace\n"
        "from sagent.tools import Grep\n"
        "run = RunContext('root', '1', Workspace(Path(sys.argv[1])), None, print)\n"
        "asyncio.run(Grep()(JsonObject({'pattern': '^(a+)+$(?<!b)'}), run))\n"
    )
    agent = subprocess.Popen([sys.executable, "-c", script, str(root)], env={**os.environ, "PYTHONPATH": SOURCE})
    try:
        searches = wait_until(lambda: _children(agent.pid), "the search runs", child=agent)
    finally:
        agent.kill()
        agent.wait()
    deadline = time.monotonic() + 20
    while any(_is_running(search) for search in searches):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_running(process: str) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _children(parent: int) -> set[str]:
    """Python processes that a process has started."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if "python" in name and rest.split()[1] == str(parent):
            found.add(stat.parent.name)
    return found


async def test_threaded_search_ends_when_cancelled(call, root) -> None:
    from sagent.tools.walk import walk

    make(root, {f"d{n}/f": "x" for n in range(50)})
    stop = threading.Event()
    found = walk(str(root), stop.is_set)
    next(found)
    stop.set()
    assert len(list(found)) < 49


@pytest.mark.costly
async def test_glob_patterns(call, root, engine) -> None:
    make(root, PROJECT)
    for arguments, names in (
        ({"pattern": "**/*.ts"}, ["src/web/gen-keep.ts", "src/web/view.ts"]),
        ({"pattern": "src/**/*.{py,ts}"}, ["src/app.py", "src/web/gen-keep.ts", "src/web/view.ts"]),
        ({"pattern": "*.md"}, ["README.md"]),
        ({"pattern": "**/conf.*"}, [".hidden/conf.py"]),
        ({"pattern": "web/*", "path": "src"}, ["src/web/.gitignore", "src/web/gen-keep.ts", "src/web/view.ts"]),
        ({"pattern": "src/[a-m]*.p?"}, ["src/app.py"]),
        ({"pattern": "src/[!a]*"}, ['No files match. "**/[!a]*" would match 3.']),
        ({"pattern": "build/*.py"}, ["build/out.py"]),
        ({"pattern": "view.ts"}, ['No files match. "**/view.ts" would match 1.']),
        ({"pattern": f"{root}/src/*.py"}, ["src/app.py"]),
        ({"pattern": "nothing*"}, ["No files match."]),
        ({"pattern": "src"}, ['No files match. "**/src/**" would match 4.']),
        ({"pattern": "**/web"}, ['No files match. "**/web/**" would match 3.']),
        ({"pattern": "src/"}, ["src/app.py", "src/web/.gitignore", "src/web/gen-keep.ts", "src/web/view.ts"]),
    ):
        assert text_of(await call(Glob(), **arguments)).split("\n") == names, arguments


@pytest.mark.parametrize("name", ["[admin]", "[...slug]", "{a,b}", "{x}", "(g)", "a*b", "a,b", "b\\c", "[z-a]", "x y"])
async def test_glob_by_letter_finds_and_excludes(call, root, engine, name: str) -> None:
    make(root, {f"app/{name}/f.ts": "hit\n", f"{name}.ts": "hit\n", "other/f.ts": "hit\n"})
    assert text_of(await call(Glob(), pattern=f"app/{name}/*")) == f"app/{name}/f.ts"
    assert text_of(await call(Glob(), pattern=f"{name}.ts")) == f"{name}.ts"
    assert text_of(await call(Grep(), pattern="hit", glob=f"app/{name}/**")) == f"app/{name}/f.ts:1:hit"
    assert text_of(await call(Grep(), pattern="hit", glob=f"{name}.ts")) == f"{name}.ts:1:hit"
    rest = text_of(await call(Grep(), pattern="hit", glob=f"!app/{name}/**", output_mode="files_with_matches"))
    assert rest.split("\n") == sorted([f"{name}.ts", "other/f.ts"])


async def test_ignore_files_read_as_by_git(call, root, engine) -> None:
    make(root, {".gitignore": "[ab]\n", "a": "", "[ab]": "", "c": ""})
    assert text_of(await call(Glob(), pattern="*")).split("\n") == [".gitignore", "[ab]", "c"]


async def test_glob_is_bounded_and_counts_rest(call, root, engine) -> None:
    make(root, {f"f{n:04}.txt": "" for n in range(250)})
    lines = text_of(await call(Glob(), pattern="*.txt")).split("\n")
    assert lines[0] == "f0000.txt"
    assert lines[-1].startswith("(And 50 more. Narrow the pattern")
    assert len(lines) == 201


async def test_symlinks_are_not_followed(call, root, engine, tmp_path) -> None:
    make(root, {"real/f.txt": "hit\n"})
    (root / "loop").symlink_to(root)
    (root / "link.txt").symlink_to("real/f.txt")
    assert text_of(await call(Grep(), pattern="hit")) == "real/f.txt:1:hit"
    assert text_of(await call(Glob(), pattern="**/*.txt")) == "real/f.txt"


async def test_outside_paths_are_absolute(call, root, engine, tmp_path) -> None:
    make(tmp_path, {"other/f.txt": "hit\n"})
    assert text_of(await call(Grep(), pattern="hit", path=str(tmp_path / "other"))) == f"{tmp_path}/other/f.txt:1:hit"
    assert text_of(await call(Glob(), pattern=f"{tmp_path}/other/*")) == f"{tmp_path}/other/f.txt"


async def test_list_shows_all_of_a_directory(call, root) -> None:
    make(root, {"b.txt": "12345", "a/x": "", ".hid": "", "ignored.log": "x", ".gitignore": "*.log"})
    (root / "link").symlink_to("b.txt")
    os.mkfifo(root / "pipe")
    assert text_of(await call(List())).split("\n") == [
        ".git/", ".gitignore  5", ".hid  0", "a/", "b.txt  5", "ignored.log  1", "link -> b.txt",
        "pipe  (not a regular file)",
    ]  # fmt: skip
    make(root, {f"many/{n:04}": "" for n in range(510)})
    assert "(And 10 more. Use Glob" in text_of(await call(List(), path="many"))
    with pytest.raises(ToolError, match="Use Read"):
        await call(List(), path="b.txt")
    with pytest.raises(ToolError, match="Did you mean many"):
        await call(List(), path="mony")
    (root / "none").mkdir()
    assert text_of(await call(List(), path="none")).endswith("is empty.")


IGNORE_LINES = r"a,b/,/a,*.x,!a,!*.x,a/b,**/b,a/**,a/*,/*,!/b,[ab],[!a]*,?,a/**/b,\!a,# c,b ,!b/,*"
IGNORE_LINE = st.sampled_from(IGNORE_LINES.split(","))
PATHS = "a b c.x a.x !a b/a b/c.x a/b a/a/b a/b/c.x c/a c/b/a c/a.x"
NAMES = st.sampled_from(PATHS.split())


@later
@pytest.mark.needs("rg")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(
    ignores=st.dictionaries(st.sampled_from(["", "a/", "b/", "c/"]), st.lists(IGNORE_LINE, max_size=4), max_size=3),
    names=st.sets(NAMES, min_size=1, max_size=8),
    start=st.sampled_from([".", "a", "c"]),
)
async def test_both_engines_see_the_same_files(call, workspace, tmp_path_factory, ignores, names, start) -> None:
    root = tmp_path_factory.mktemp("tree").resolve()
    workspace.cwd = root
    (root / ".git").mkdir()
    (root / start).mkdir(exist_ok=True)
    files = {f"{place}.gitignore": "\n".join(lines) + "\n" for place, lines in ignores.items()}
    for name in sorted(names):
        if not any((root / parent).is_file() for parent in _parents(name)) and not (root / name).is_dir():
            make(root, {name: "x"})
    for name, content in files.items():
        if not any((root / parent).is_file() for parent in _parents(name)):
            make(root, {name: content})
    results = []
    for engine in ("python", "rg"):
        with searching(engine):
            results.append(text_of(await call(Glob(), pattern="**", path=start)))
    assert results[0] == results[1], (ignores, sorted(names), start)


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


@pytest.mark.needs("git")
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(lines=st.lists(IGNORE_LINE, max_size=5), names=st.sets(NAMES, min_size=1, max_size=8))
async def test_git_ignored_files_are_ignored(call, workspace, tmp_path_factory, lines, names) -> None:
    root = tmp_path_factory.mktemp("repo").resolve()
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / ".git" / "info" / "exclude").write_text("")
    workspace.cwd = root
    make(root, {".gitignore": "\n".join(lines) + "\n"})
    for name in sorted(names):
        if not any((root / parent).is_file() for parent in _parents(name)) and not (root / name).is_dir():
            make(root, {name: "x"})
    git = subprocess.run(
        ["git", "-C", root, "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    with searching("python"):
        found = text_of(await call(Glob(), pattern="**"))
    assert sorted(git.stdout.split("\n")[:-1]) == ([] if found.startswith("No files") else found.split("\n"))


@pytest.mark.needs("git")
def test_ignore_classes_as_in_git(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    subprocess.run(["git", "init", "-q", root], check=True)
    names = [
        "a",
        "b",
        "c",
        "-",
        "]",
        "[",
        "\\",
        "^",
        "!",
        "1",
        "_",
        "A",
        "[a]",
        "{a,b}",
        "d]",
        "a]b",
        "x[",
        ":",
        "&",
        "~",
    ]
    make(root, dict.fromkeys(names, "x"))
    lines = r"""[a\-c] [a\]b] [\]a] [\!a] [!\]] [^\^a] [[:digit:]] [[:alpha:]_] [![:digit:]] [^[:alpha:]] [[:DIGIT:]]
        [[:x:]] [[=a=]] [[.a.]] []a] [!]a] [^]a] [z-a] [z-ab] [a-] [-a] [a a] [] [!] x[ []-a] [a-c-e] [\\] [\] \ \\
        [a&&b] [a~~b] {a,b} [[] [[a] [a[] [[:digit:] [[:] [:alpha:] [[:alpha:][:digit:]] [\w] [a-\d] [\a-\c] [!^] [^!]
        [*] [?] a[/]b"""
    for line in lines.split():
        make(root, {".gitignore": f".gitignore\n{line}\n"})
        git = ["git", "-C", root, "ls-files", "--others", "--exclude-standard", "-z"]
        shown = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
        assert sorted(walk_module.walk(str(root), lambda: False)) == sorted(shown), line


ATOMS = r"""a b . \w \d \s \S \b [ab] [^a] [[:alpha:]_-] é \. { } (a|b) (?:a) ^ $ \x61 a{2} \" \< []a] [a&&b] \p{Lu}"""
REPEATS = st.sampled_from(["", "", "*", "+", "?", "{1,2}", "+?"])
PATTERN = st.lists(st.tuples(st.sampled_from(ATOMS.split()), REPEATS).map("".join), min_size=1, max_size=4)
LINES = st.lists(st.text('ab é1_.{}"]&A\t\x1f\0', max_size=6), max_size=5)


@later
@pytest.mark.needs("rg")
@settings(max_examples=deep(12, 40), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@example(parts=["$"], contents=[["1"]], end="\n", multiline=True, ignore_case=False)
@example(parts=[r"\b", "$"], contents=[["1"]], end="\n", multiline=True, ignore_case=False)
@given(
    parts=PATTERN,
    contents=st.lists(LINES, min_size=1, max_size=3),
    end=st.sampled_from(["\n", "\r\n"]),
    multiline=st.booleans(),
    ignore_case=st.booleans(),
)
async def test_both_engines_find_the_same(call, root, workspace, parts, contents, end, multiline, ignore_case) -> None:
    pattern = "".join(parts)
    try:
        translate(pattern, multiline=multiline)
    except PatternError:
        return
    if any(f"{boundary}^" in pattern for boundary in (r"\b", r"\B", r"\<")):
        return  # ripgrep 13 finds no `\b^` in a line that follows an empty one
    for index in range(3):
        (root / f"f{index}").unlink(missing_ok=True)
    make(root, {f"f{index}": end.join(lines) for index, lines in enumerate(contents)})
    results = []
    for engine in ("python", "rg"):
        with searching(engine):
            output = await call(Grep(), pattern=pattern, multiline=multiline, ignore_case=ignore_case, context=1)
        results.append(text_of(output))
    assert results[0] == results[1]


def test_ripgrep_gets_only_what_it_can_do() -> None:
    assert translate("foo.*bar$", multiline=False).rust == r"foo.*bar(?:\r?$)"
    assert translate("interface{}", multiline=False).rust == r"interface\{\}"
    for pattern in ("a(?=b)", r"(a)\1", "a++", "(?<!x)y", "(?>a)"):
        assert translate(pattern, multiline=False).rust is None
    assert translate("plain|text", multiline=False).steady
    assert not translate("a+", multiline=False).steady


def test_effects_name_the_place(workspace, root) -> None:
    assert Glob().effect(JsonObject({"pattern": "src/**/*.py"}), workspace).paths == (root / "src",)
    assert Glob().effect(JsonObject({"pattern": "/etc/*"}), workspace).paths == (type(root)("/etc"),)
    assert Grep().effect(JsonObject({"pattern": "x", "path": "../y"}), workspace).paths == (root / "../y",)
    assert List().effect(JsonObject(), workspace).kind == "read"


async def test_strange_names_can_be_read_back(call, root, engine) -> None:
    names = [b"line\nbreak.txt", b"caf\xe9.txt", b"tab\t'quote'.txt"]
    try:
        make(root / "sub", {os.fsdecode(name): "needle\n" for name in names})
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    (root / "sub" / "plain").symlink_to("line\nbreak.txt")
    by_grep = text_of(await call(Grep(), pattern="needle", output_mode="files_with_matches")).split("\n")
    by_glob = text_of(await call(Glob(), pattern="**/*.txt")).split("\n")
    lines = text_of(await call(List(), path="sub")).split("\n")
    by_list = [f"sub/{line.rpartition('  ')[0]}" for line in lines if "->" not in line]
    assert len(by_grep) == len(by_glob) == len(by_list) == 3
    for name in (*by_grep, *by_glob, *by_list):
        assert "�" not in name
        assert text_of(await call(Read(), file_path=name)) == "1\tneedle"
    assert [line for line in lines if "->" in line] == [r"plain -> $'line\nbreak.txt'"]
    assert r"$'sub/line\nbreak.txt':1:needle" in text_of(await call(Grep(), pattern="needle")).split("\n")


def veil(*names: str):
    """A judgement that hides these names, and notes what it was asked about."""

    def hidden(tool: str, root: Path):
        return lambda path: path.rpartition("/")[2] in names

    return hidden


async def test_hidden_files_skipped_and_counted(call, root, workspace, engine) -> None:
    make(root, {"a.py": "KEY = 1\n", ".env": "KEY=secret\n", "sub/.env": "nothing\n", "sub/b.py": "no\n"})
    workspace.hidden = veil(".env")
    note = "(2 files not searched: they are denied, or may hold keys.)"
    assert text_of(await call(Grep(), pattern="KEY")).split("\n") == ["a.py:1:KEY = 1", note]
    assert text_of(await call(Grep(), pattern="secret")).split("\n") == ["No matches.", note]
    assert text_of(await call(Grep(), pattern="(K)EY(?==)")).split("\n") == ["No matches.", note]
    assert text_of(await call(Grep(), pattern="KEY", glob="*.py")) == "a.py:1:KEY = 1"
    assert text_of(await call(Glob(), pattern="**/*")).split("\n") == [
        "a.py",
        "sub/b.py",
        "(2 files not shown: they are denied, or may hold keys.)",
    ]
    assert text_of(await call(Glob(), pattern="**/.env")).split("\n") == [
        "No files match.",
        "(2 files not shown: they are denied, or may hold keys.)",
    ]
    assert text_of(await call(Glob(), pattern="*.py")) == "a.py"


async def test_hidden_notice_tells_no_contents(call, root, workspace, engine) -> None:
    make(root, {".env": "KEY=secret\n", "a.txt": "x\n"})
    workspace.hidden = veil(".env")
    for pattern in ("secret", "other", r"(?<==)s", r"(?<==)t"):
        found = text_of(await call(Grep(), pattern=pattern))
        assert found == "No matches.\n(1 file not searched: it is denied, or may hold keys.)"


async def test_named_file_is_judged_by_itself(call, root, workspace, engine) -> None:
    make(root, {".env": "KEY=1\n"})
    workspace.hidden = veil(".env")
    assert text_of(await call(Grep(), pattern="KEY", path=".env")) == ".env:1:KEY=1"


@later
@pytest.mark.parametrize("place", [".gitignore", "a/.gitignore", ".git/info/exclude"])
@pytest.mark.parametrize("kind", ["fifo", "endless", "huge"])
async def test_no_ignore_file_delays_a_search(call, root, engine, monkeypatch, place, kind) -> None:
    monkeypatch.setattr("sagent.tools.listing._RIPGREP_SECONDS", 0.3)
    make(root, {"a/b/found.txt": "hello\n", ".git/info/x": ""})
    if kind == "fifo":
        os.mkfifo(root / place)
    elif kind == "endless":
        (root / place).symlink_to("/dev/zero")
    else:
        with (root / place).open("wb") as file:
            file.truncate(900 << 30)
    async with asyncio.timeout(90):
        assert text_of(await call(Grep(), pattern="hel+o")) == "a/b/found.txt:1:hello"
        assert "a/b/found.txt" in text_of(await call(Glob(), pattern="**/*"))


@later
@pytest.mark.costly
async def test_no_large_file_delays_a_search(call, root, engine, monkeypatch) -> None:
    make(root, {"found.txt": "hello\n", "text.log": b"hello\n" * 20_000, "zeros": ""})
    for name in ("text.log", "zeros"):
        with (root / name).open("rb+") as file:
            file.truncate(900 << 30)
    async with asyncio.timeout(90):
        for pattern in ("hel+o", "(?=hel)hello"):
            text = text_of(await call(Grep(), pattern=pattern))
            assert text == "found.txt:1:hello\n(Not searched, because they are larger than 1 GB: text.log.)"
        monkeypatch.setattr("sagent.tools.search.MAX_SEARCH_SECONDS", 0.1)
        text = text_of(await call(Grep(), pattern="nothing", path="text.log"))
        assert text.startswith("No matches.\n(Stopped after 0.1 s at text.log.")
        monkeypatch.setattr("sagent.tools.view._SCAN_SECONDS", 0.1)
        with pytest.raises(ToolError, match="could not be counted"):
            await call(Read(), file_path="text.log", offset=30_000)


@later
@pytest.mark.costly
async def test_large_text_is_searched(call, root, engine, monkeypatch) -> None:
    monkeypatch.setattr("sagent.tools.search.MAX_SEARCH_SECONDS", 600)  # on a busy machine, too
    with (root / "a.log").open("wb") as file:
        file.write(b"one\n" * 20_000)
        file.truncate(80_000_000)
        file.seek(0, os.SEEK_END)
        file.write(b"\nneedle\n")
    assert "needle" in text_of(await call(Grep(), pattern="needle"))


async def test_tmp_of_commands_found_by_links(call, root, workspace, tmp_path) -> None:
    shared, own = tmp_path / "tmp", tmp_path / "own"
    make(shared, {"theirs": ""})
    make(own, {"made/deep/f.txt": "hello\n"})
    workspace.temporary = {str(shared): own}
    (root / "link").symlink_to(shared / "made")
    (own / "inner").symlink_to(shared / "made" / "deep")
    (own / "round").symlink_to(shared / "round")
    for path in (f"{shared}/made", "link"):
        assert text_of(await call(List(), path=path)) == "deep/"
        assert text_of(await call(Glob(), pattern=f"{path}/**")) == f"{path}/deep/f.txt"
        assert text_of(await call(Grep(), pattern="hello", path=path)).endswith("deep/f.txt:1:hello")
        assert text_of(await call(Read(), file_path=f"{path}/deep/f.txt")) == "1\thello"
    assert text_of(await call(Read(), file_path=f"{shared}/inner/f.txt")) == "1\thello"
    with pytest.raises(ToolError, match="leads"):
        await call(Read(), file_path=f"{shared}/round")
    note = f"(What commands made there lies in {own}.)"
    assert text_of(await call(List(), path=str(shared))) == f"theirs  0\n{note}"
    assert text_of(await call(Glob(), pattern=f"{shared}/*")) == f"{shared}/theirs\n{note}"
    assert text_of(await call(Grep(), pattern="x", path=str(shared))) == f"No matches.\n{note}"
    assert "made/" in text_of(await call(List(), path=str(own)))


def whole(output):
    return "".join(part.text for part in output.content)


async def test_glob_says_ignored_were_skipped(call, root, engine) -> None:
    make(root, {".gitignore": "build/\n*.log\n", "build/out.js": "x", "a.log": "x", "src/a.py": "x"})
    assert whole(await call(Glob(), pattern="**/*.js")).endswith(
        "(1 file that git ignores matches, as build/out.js. It was skipped: use List.)"
    )
    assert "git ignores" in whole(await call(Glob(), pattern="*.log"))
    assert "git ignores" not in whole(await call(Glob(), pattern="**/*.py"))
    assert "git ignores" not in whole(await call(Glob(), pattern="**/*.go"))
    assert "git ignores those that fit the glob or type: build/out.js" in whole(
        await call(Grep(), pattern="x", glob="*.js")
    )
    assert "git ignores" not in whole(await call(Grep(), pattern="x", glob="*.go"))
    assert "git ignores" not in whole(await call(Grep(), pattern="zzz", glob="*.py"))


def test_ignore_files_looked_for_where_seen(tmp_path, monkeypatch):
    deep = tmp_path / "/".join("d" * 60)
    (deep / "e").mkdir(parents=True)
    (deep / ".gitignore").write_text("*.log\n")
    for name in ("a.py", "a.log", "e/b.log", "e/b.py"):
        (deep / name).write_text("")
    asked = []
    monkeypatch.setattr(walk_module, "read_regular", lambda path: asked.append(path) or read_regular(path))
    found = list(walk_module.walk(str(tmp_path), lambda: False))
    assert sorted(name.removeprefix("d/" * 60) for name in found) == [".gitignore", "a.py", "e/b.py"]
    assert [path for path in asked if path.startswith(f"{tmp_path.resolve()}/")] == [f"{deep.resolve()}/.gitignore"]


async def test_text_with_shifts_is_searched(call, root):
    (root / "mail.txt").write_bytes("件名: 設定\n".encode("iso2022_jp"))
    found = (await call(Grep(), pattern="設定")).content[0].text
    assert found.startswith("mail.txt:1:件名: 設定")
    assert (await call(Grep(), pattern="@", path="mail.txt")).content[0].text == "No matches."
