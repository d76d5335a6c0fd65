"""RepoMap: maps of real files, the same bytes for the same files, within their room; hostile files stop nobody."""

import os
import re
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.plugins.code import RepoMap
from sagent.plugins.code.map import parsing, render
from sagent.plugins.code.map.languages import GRAMMARS, language_of
from sagent.plugins.code.map.parsing import Source, Tags, parse
from sagent.plugins.code.map.ranking import link, rank, rank_near
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.rules import Rules
from sagent.tool import Workspace
from tests.depth import WHOLE, later, slow
from tests.tools.conftest import Call

pytestmark = pytest.mark.skipif(find_spec("tree_sitter") is None, reason="needs the extra code")

SHOP: Mapping[str, str] = {
    "shop/cart.py": (
        "from shop.prices import PriceBook, apply_discount\n\n"
        "class ShoppingCart:\n    def __init__(self, book: PriceBook):\n"
        "        self.book = book\n    def total_price(self) -> int:\n        return apply_discount(self.book)\n"
    ),
    "shop/prices.py": (
        "LARGEST_DISCOUNT = 5\n\nclass PriceBook:\n    def price_of(self, what): ...\n\n"
        "def apply_discount(book: PriceBook):\n    return LARGEST_DISCOUNT\n\ndef unused_helper():\n    pass\n"
    ),
    "shop/checkout.py": (
        "from shop.cart import ShoppingCart\nfrom shop.prices import PriceBook, apply_discount\n\n"
        "def check_out(cart: ShoppingCart):\n    return cart.total_price(), apply_discount(PriceBook())\n"
    ),
    "web/page.ts": (
        "export interface PageProps { title: string }\nexport const renderPage = (p: PageProps) => p.title\n"
    ),
    "tools/build.lua": "print('hello')\n",
    "README.md": "# ShoppingCart\n",
}


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8", errors="surrogateescape")


@pytest.fixture
def shop(workspace: Workspace) -> Path:
    write(workspace.cwd, SHOP)
    return workspace.cwd


def text_of(output: object) -> str:
    return output.content[0].text  # pyright: ignore[reportAttributeAccessIssue] -- a result of one text


async def test_most_used_files_first(shop: Path, call: Call) -> None:
    text = text_of(await call(RepoMap()))
    assert text.startswith("shop/prices.py:\n")
    assert "    3 class PriceBook:\n" in text
    assert "    6 def apply_discount(book: PriceBook):" in text
    assert "export interface PageProps" in text
    assert "(By name only: tools/build.lua.)" in text
    assert "README" not in text


async def test_focus_ranks_near_files_first(shop: Path, call: Call) -> None:
    unfocused = text_of(await call(RepoMap()))
    for focus in (["web/page.ts"], ["renderPage"], [str(shop / "web")], ["page.ts"]):
        text = text_of(await call(RepoMap(), focus=focus))
        assert text.startswith("web/page.ts:\n"), focus
        assert "renderPage" in text
    assert not unfocused.startswith("web/")
    assert "called nix, no/such.py" in text_of(await call(RepoMap(), focus=["nix", "no/such.py"]))


async def test_empty_files_take_no_room(shop: Path, call: Call) -> None:
    makers = {f"made/m{number}.py": f"def made_{number}(): ...\n" for number in range(20)}
    users = {f"use/u{number}.py": "made_0()\n" for number in range(100)}
    write(shop, {**makers, **users})
    assert text_of(await call(RepoMap(), tokens=300, path=".")).count("def made_") > 10


async def test_map_of_folder_and_single_file(shop: Path, call: Call) -> None:
    text = text_of(await call(RepoMap(), path="web"))
    assert text.startswith("web/page.ts:\n")
    assert "shop" not in text
    outline = text_of(await call(RepoMap(), path="shop/cart.py"))
    assert outline.splitlines() == [
        "    3 class ShoppingCart:",
        "    4   def __init__(self, book: PriceBook):",
        "    6   def total_price(self) -> int:",
    ]


async def test_ignored_and_hidden_files_left_out(shop: Path, workspace: Workspace, call: Call) -> None:
    write(
        shop, {".gitignore": "built/\n", "built/made.py": "def made(): ...\n", "secret/key.py": "def hidden(): ...\n"}
    )
    policy = PermissionPolicy("ask", Rules.parse((), ("Read(secret/**)",)))
    workspace.hidden = policy.hidden(workspace)
    text = text_of(await call(RepoMap(), tokens=5_000))
    assert "made" not in text
    assert "hidden" not in text
    assert "apply_discount" in text


@later
async def test_changed_new_and_deleted_files_noticed(shop: Path, tmp_path: Path, call: Call) -> None:
    tool = RepoMap(tmp_path / "maps")
    before = text_of(await call(tool))
    assert text_of(await call(RepoMap(tmp_path / "maps"))) == before == text_of(await call(RepoMap()))
    (shop / "shop/prices.py").write_text("class Renamed:\n    pass\n")
    (shop / "web/page.ts").unlink()
    write(shop, {"new.go": "package main\n\nfunc Fresh() {}\n"})
    after = text_of(await call(tool))
    assert "class Renamed:" in after
    assert "func Fresh() {}" in after
    assert "PageProps {" not in after
    assert after == text_of(await call(RepoMap())), "what was kept changes nothing"


@later
async def test_large_project_reuses_ranks(
    shop: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked: list[int] = []

    def count(*args: Any) -> Any:
        ranked.append(1)
        return link(*args)

    monkeypatch.setattr(render, "link", count)
    monkeypatch.setattr(render, "MAX_EXACT_FILES", 10)
    monkeypatch.setattr(render, "MAX_STALE_SHARE", 0.1)
    write(shop, {f"more/m{number}.py": f"def made_{number}(): ...\n" for number in range(30)})
    tool, focus = RepoMap(tmp_path / "maps"), {"focus": ["NewlyMade"], "tokens": 5_000}
    before = text_of(await call(tool))
    old = (shop / "shop/prices.py").read_text()
    write(shop, {"shop/prices.py": old + "class NewlyMade:\n    pass\n", "more/m1.py": "def renamed(): ...\n"})
    text = text_of(await call(tool, **focus))
    assert "class NewlyMade:" in text and "Nothing here is called" not in text
    assert "def renamed()" in text and "made_1()" not in text
    assert text.index("shop/prices.py:") < text.index("shop/checkout.py:")
    assert len(ranked) == 1
    write(shop, {"shop/prices.py": old, "more/m1.py": "def made_1(): ...\n"})
    assert text_of(await call(tool)) == before
    assert "Nothing here is called NewlyMade" in text_of(await call(tool, **focus))
    assert len(ranked) == 1
    write(shop, {f"more/m{number}.py": f"def other_{number}(): ...\n" for number in range(4)})
    assert text_of(await call(tool)) == text_of(await call(RepoMap()))
    write(shop, {"more/new.py": "def come(): ...\n"})
    assert text_of(await call(tool)) == text_of(await call(RepoMap()))
    (shop / "more/new.py").unlink()
    assert text_of(await call(tool)) == text_of(await call(RepoMap()))


@later
@pytest.mark.costly
@pytest.mark.parametrize("damage", [b"no database", b"SQLite format 3\0" + b"x" * 9_000, None])
async def test_damaged_store_not_needed(damage: bytes | None, shop: Path, tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "maps"
    before = text_of(await call(RepoMap(folder)))
    (file,) = folder.glob("*.sqlite")
    if damage is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(damage)
    assert text_of(await call(RepoMap(folder))) == before
    assert text_of(await call(RepoMap(folder))) == before


@later
async def test_parallel_and_killed_runs_keep_store(shop: Path, tmp_path: Path, call: Call) -> None:
    import asyncio

    folder = tmp_path / "maps"
    texts = await asyncio.gather(*(call(RepoMap(folder)) for _ in range(4)))
    assert len({text_of(each) for each in texts}) == 1
    (file,) = folder.glob("*.sqlite")
    held = sqlite3.connect(file)
    held.execute("BEGIN IMMEDIATE")
    held.execute("DELETE FROM tags")
    held.close()  # as kill -9 would: nothing was committed
    assert text_of(await call(RepoMap(folder))) == text_of(texts[0])


@later
async def test_cancelled_call_keeps_store(shop: Path, tmp_path: Path, call: Call) -> None:
    import asyncio

    whole = text_of(await call(RepoMap()))
    for delay in (0, 0.01, 0.05, 0.15, 0.3):
        write(shop, {"changing.py": f"def name_{str(delay)[2:]}(): ...\n"})
        task = asyncio.ensure_future(call(RepoMap(tmp_path / "maps")))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (shop / "changing.py").unlink()
    assert text_of(await call(RepoMap(tmp_path / "maps"))) == whole


@settings(max_examples=15)
@given(tokens=st.integers(100, 3_000))
def test_map_fits_its_size(tokens: int) -> None:
    from sagent.plugins.code.map.render import BYTES, MapRequest, render
    from sagent.plugins.code.map.store import open_store

    with closing(open_store(None, "/")) as store:
        files = {f"d/f{number}.py": (str(number), str(number)) for number in range(60)}
        named = " ".join(f"name_of_{number}" for number in range(0, 60, 7))
        rows = '[["name_of_%s", 1, 2, "def name_of_%s(\u00e9): ..."]]'
        store.add(files, {str(number): (rows % (number, number), named) for number in range(60)})
        wish = MapRequest("", ("name_of_3", "./d/f9.py", "unknown"), tokens)
        others = [f"x{number}.lua" for number in range(400)]
        text = text_of(render(store, wish, others, []))
        assert text == text_of(render(store, wish, others, []))
    extra = len("(And 60 more files. Give more tokens, a focus or a path.)\n(Nothing here is called unknown.)") + 60
    assert len(text.encode()) <= tokens * BYTES + extra


SAMPLES = {
    "a.py": "class A:\n    def b(self): ...\nC = 1\nasync def d(): ...\n",
    "a.js": "class A { b() {} }\nfunction c() {}\nconst d = () => 1\n",
    "a.ts": "interface A { b(): void }\ntype B = A\nenum C { X }\nabstract class D {}\n",
    "a.tsx": "export function A() { return <p/> }\n",
    "a.go": "package p\ntype A struct{}\nfunc (a A) B() {}\nconst C = 1\nvar D = 2\n",
    "a.rs": "struct A;\nimpl A { fn b() {} }\ntrait C {}\nmacro_rules! d { () => {} }\n",
    "a.java": "class A { A() {} void b() {} }\ninterface C {}\nrecord D(int x) {}\n",
    "a.c": "struct A { int x; };\nint *b(void) { return 0; }\ntypedef int C;\n#define D(x) x\n",
    "a.hpp": "namespace A { class B { void c(); }; }\nusing D = int;\n",
    "a.rb": "module A\n  class B\n    def c; end\n  end\nend\nD = 1\n",
    "a.sh": "A() { :; }\n",
}


@pytest.mark.costly
@pytest.mark.parametrize("name", SAMPLES)
async def test_definitions_found_in_all_languages(name: str) -> None:
    language = language_of(name) or ""
    (found,) = await parse([Source(language, SAMPLES[name].encode())])
    assert found is not None
    names = {each.name for each in Tags.load(*found).defined}
    wanted = {*re.findall(r"\b([A-D]|[b-d])\b", SAMPLES[name])} - {"x"}
    assert names == wanted - ({"X"} & names)


def test_every_grammar_has_sample() -> None:
    assert {language_of(name) for name in SAMPLES} == {*GRAMMARS}


HOSTILE = {
    "deep": b"(" * (50_000 if WHOLE else 20_000),  # twice as many take four times as long
    "deep, closed": b"[" * 30_000 + b"]" * 30_000,
    "one line": b"x = " + b"1 + " * 100_000 + b"1\n",
    "no text": os.urandom(200_000 if WHOLE else 50_000),
    "zeros": bytes(200_000),
    "many": b"def f(): ...\n" * 5_000,
    "long name": b"def " + b"a" * 300_000 + b"(): ...\n",
    "surrogates": "def f\ud800(): ...\n".encode("utf-8", "surrogatepass") * 100,
    "line separators": "# \u2028\u2029\x0b\x0c\x85\ndef f(): ...\r\n".encode() * 100,
}


@later
@pytest.mark.parametrize("what", HOSTILE)
async def test_hostile_file_stops_nothing(what: str) -> None:
    sound = Source("python", b"def sound(): ...\n")
    found = await parse([sound, *(Source(language, HOSTILE[what]) for language in ("python", "cpp")), sound])
    assert [each and Tags.load(*each).defined[0].name for each in (found[0], found[-1])] == ["sound", "sound"]
    for each in filter(None, found):
        assert len(each[0]) < 1_000_000


async def test_crashing_or_slow_files_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each such file costs one process; the files between are read."""
    end = "import os, signal; os.kill(os.getpid(), signal.SIGVTALRM)"
    stand_in = (
        "import sys, json; head = json.loads(sys.stdin.buffer.readline())\n"
        "for language, size in head:\n"
        f"    data = sys.stdin.buffer.read(size)\n    if data == b'bad': {end}\n"
        "    print(json.dumps(['[]', data.decode()]), flush=True)\n"
    )
    monkeypatch.setattr(parsing.isolated, "command", lambda *_: [sys.executable, "-c", stand_in])
    files = [b"a", b"bad", b"b", b"bad", b"bad", b"c"]
    found = await parse([Source("python", data) for data in files])
    assert [each and each[1] for each in found] == ["a", None, "b", None, None, "c"]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=4), st.lists(st.sampled_from("abcdefgh"), max_size=6)),
        max_size=12,
    )
)
def test_ranks_sum_to_one(files: list[tuple[list[str], list[str]]]) -> None:
    defined, named = [each for each, _ in files], [each for _, each in files]
    graph, weights = link(defined, named)
    ranks = rank(graph)
    assert graph.size == len(files) == len(weights) == len(ranks)
    assert not files or abs(sum(ranks) - 1) < 1e-6
    assert ranks == rank(link(defined, named)[0])
    if files:
        near = rank_near(graph, [0])
        assert near[0] > 0
        assert sum(near.values()) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("folder", "file", "line"),
    [
        pytest.param("sagent", "tool.py:", "class ToolOutput:", marks=slow),
        ("sagent/session", "log.py:", "def read_log("),
    ],
)
async def test_whole_repository_mapped(call: Call, workspace: Workspace, folder: str, file: str, line: str) -> None:
    workspace.cwd = Path(__file__).parents[3] / folder
    workspace.roots = (workspace.cwd,)
    text = text_of(await call(RepoMap(), tokens=1_500))
    assert file in text
    assert line in text
    assert len(text) < 1_500 * 4
