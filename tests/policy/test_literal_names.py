"""Deny rules protect what they name, as a pattern or by the letter; allow rules cover what is sure."""

import os
import shlex
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.policy.commands import CommandJudge
from sagent.policy.denial import ignores_case
from sagent.policy.needs import rules_out_host
from sagent.policy.paths import PathJudge
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.places import Places
from sagent.policy.readings import MAX_WAYS, escape, readings, unescape
from sagent.policy.rules import Rule, Rules
from sagent.tool import Effect, Workspace
from tests.depth import deep, later

NAMES = [
    "[admin]", "[...slug]", "[[...opt]]", "(group)", "{a,b}", "{x}", "a*b", "what?", "!x", "#x", "back\\slash",
    "\\[admin\\]", "with space", "trailing ", " leading", "-dash", "~", "~root", "$HOME", "$X", "${X}", "[z-a]",
    "a[!]b", "[]", "[^]", "[", "]", "x[", "[]]", "[a][b][c][d][e][f]", "[[:alpha:]]", "[a-", "**", "***", "caf\u00e9",
    "cafe\u0301", "a\nb", "'q'", '"', "`", "a|b", "(", ")", "+", "^", "..x", "{a,b,{c,d}}", "{,}", "[!x]", "@(a|b)",
    "[é]", "[a]", "[*]", "[?]", "[ ]", "[[]",
]  # fmt: skip
LETTERS = st.sampled_from([*"[]{}()*?!#\\ -~$X,^.ab|+&:é\n'\"", "\u0301", "É"])
NAME = st.text(LETTERS, min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))


@pytest.fixture
def tree(tmp_path: Path) -> Workspace:
    (tmp_path / "home").mkdir()
    (tmp_path / "tree").mkdir()
    return Workspace((tmp_path / "tree").resolve())


def policy(tree: Workspace, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> PermissionPolicy:
    return PermissionPolicy("edit", Rules.parse(allow, deny), home=tree.cwd.parent / "home")


async def judge(
    tree: Workspace, path: str, tool: str = "Edit", *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> Verdict:
    kind = "read" if tool == "Read" else "write"
    effect = Effect(kind, (tree.cwd / path,))
    return await policy(tree, allow=allow, deny=deny).before_tool(ToolCall("1", tool), effect, tree)


def command(tree: Workspace, line: str, *deny: str) -> Verdict | None:
    paths = PathJudge("edit", Rules.parse((), deny), Places(tree.cwd.parent / "home"), tree)
    return CommandJudge(paths, line).denied()


def make(tree: Workspace, name: str) -> Path:
    (tree.cwd / "app" / name).mkdir(parents=True, exist_ok=True)
    file = tree.cwd / "app" / name / "f"
    file.write_text("")
    return file


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["", "/", "/**", "/f", "/*"])
async def test_literal_name_is_protected_everywhere(tree: Workspace, name: str, end: str) -> None:
    file = make(tree, name)
    deny = (f"Edit(app/{name}{end})", f"Read(app/{name}{end})")
    for tool in ("Edit", "Read"):
        assert isinstance(await judge(tree, f"app/{name}/f", tool, deny=deny), Deny)
    assert isinstance(command(tree, f"cat {shlex.quote(f'app/{name}/f')}", *deny), Deny)
    assert isinstance(command(tree, f"echo > {shlex.quote(str(file))}", *deny), Deny)
    profile = policy(tree, deny=deny).profile(tree)
    assert not profile.can_write(str(file))
    assert not profile.can_read(str(file))
    assert policy(tree, deny=deny).hidden(tree)("Grep", tree.cwd)(f"app/{name}/f")


@settings(max_examples=deep(40, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAME, min_size=1, max_size=3), end=st.sampled_from(["", "/", "/**"]))
def test_any_name_in_deny_rule_protects_it(names: list[str], end: str, tmp_path: Path) -> None:
    tree = Workspace(tmp_path.resolve())
    for start in ("", "./", f"{escape(str(tree.cwd))}/", "~/", "**/"):
        path = "/".join(names)
        if start + path == "~" or (not start and (path.startswith(("~", "**/")) or "/" not in path)):
            continue  # these mean something before they are names
        rule = Rule.parse(f"Edit({start}{path}{end})")
        paths = PathJudge("full", Rules((), (rule,)), Places(tree.cwd), tree)
        assert paths.denying(f"{tree.cwd}/{path}/f", ("Edit",)) == rule


@given(path=st.text(LETTERS, max_size=12).map(lambda text: f"/{text}"))
def test_escaped_path_is_allowed_alone(path: str) -> None:
    path = os.path.normpath(path)
    rule = Rule.parse(f"Edit({escape(path)})")
    assert unescape(escape(path)) == path
    assert rule.matches_path(path, (), "/home", anywhere=False) or path == "/"
    for other in (path.swapcase(), f"{path[:-1]}x", path.rstrip(" \n"), path.replace("\\", "")):
        below = other == path or other.startswith(f"{path.rstrip('/')}/") or not other
        assert below or not rule.matches_path(other, (), "/home", anywhere=False)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("Edit(src/{a,b}/**)", "src/b/f"),
        ("Edit(src/\\[admin\\]/**)", "src/[admin]/f"),
        ("Edit(src/[[:alpha:]])", "src/x"),
        ("Edit( src/x )", "src/x"),
        ("Edit(secrets/)", "deep/er/secrets/k"),
        ("Edit(**/./x//y)", "a/x/y"),
        ("Edit(./src/../lib/x)", "lib/x"),
        ("Edit(caf\u00e9/**)", "cafe\u0301/f"),
        ("Edit(cafe\u0301/**)", "caf\u00e9/f"),
        ("Write([admin])", "a/[admin]/b"),
        ("Edit(k{1..3}/**)", "k2/f"),
        ("Edit(k{03..01..1}/**)", "k02/f"),
        ("Edit(k{a..d}/**)", "kc/f"),
        ("Edit(k{1..3}/**)", "k{1..3}/f"),
        ("Edit(k{0..99999}/**)", "k5000/f"),
        ("Edit(@(x|y)/**)", "y/f"),
        ("Edit(k+(x|y)/**)", "kxyx/f"),
        ("Edit(/nowhere-at-the-root/**)", "nowhere-at-the-root/f"),
        ("Edit(src/!(public)/**)", "src/private/f"),
        ("Edit(src/+(a))", "src/aa"),
        ("Edit(src/?(a)b)", "src/b"),
        ("Edit(src/@(a))", "src/a"),
        ("Edit('src/a b')", "src/a b"),
        ("Edit($'src/caf\\xc3\\xa9')", "src/caf\u00e9"),
        ("Edit(src/a, src/b)", "src/b"),
        ("Edit(src/:*)", "src/a"),
        ("Edit(src/a:*)", "src/abc"),
        *((r"Edit(src/[a\-c])", f"src/{each}") for each in ("a", "-", "c", "[a-c]", r"[a\-c]")),
        *((r"Edit(src/[a\]b]x)", f"src/{each}x") for each in ("a", "]", "b", "[a]b]")),
        *(("Edit(src/[^]a])", f"src/{each}") for each in ("b", "[^]a]")),
        *(("Edit(src/[[:digit:][.hyphen.][=a=]])", f"src/{each}") for each in ("1", "-", "\u00e1")),
        ("Edit(src/[[:digit:]a-c])", "src/b"),
        ("Edit(src/[z-a])", "src/m"),
        ("Edit(%5Badmin%5D/**)", "[admin]/f"),
        ("Edit(%5Badmin%5D/**)", "%5Badmin%5D/f"),
        ("Edit(src%2Fa%20b)", "src/a b"),
        ("Edit(src/{a, b}/**)", "src/b/f"),
        ("Edit(src/{ a , b }/**)", "src/ b /f"),
        ("Edit({src/a, src/[bc]})", "src/c"),
        ("Edit(src/{a;b|c})", "src/c"),
        ("Edit(src/{a|b})", "src/b"),
        ("Edit(src/{a b}/{c,d})", "src/{a b}/d"),
        ("Edit(src/{a b}/{c,d})", "src/b/d"),
        ("Edit(src/{a})", "src/a"),
        ("Edit(src/(a|b))", "src/b"),
        ("Edit(src/(a|b)/{c,d})", "src/(a|b)/d"),
        ("Edit(src/a.py src/b.py)", "src/b.py"),
        ("Edit(src/{a,b}/**; src/c|src/d)", "src/c"),
        ("Edit(src/a\nsrc/b)", "src/b"),
        ("Edit(\u201csrc/a\u201d)", "src/a"),
        ("Edit(\ufeffsrc/\u200ba)", "src/a"),
    ],
)
async def test_other_pattern_meanings_are_denied_too(tree: Workspace, rule: str, path: str) -> None:
    assert isinstance(await judge(tree, path, deny=(rule,)), Deny)
    assert isinstance(await judge(tree, "other/f", deny=(rule,)), Allow)


@pytest.mark.parametrize("rule", ["Edit(.)", "Edit(./)", "Edit(./**)", "Edit(*)", "Edit(..)"])
async def test_rule_of_whole_tree_denies_it(tree: Workspace, rule: str) -> None:
    assert isinstance(await judge(tree, "deep/f", deny=(rule,)), Deny)
    assert not policy(tree, deny=(rule,)).profile(tree).can_write(f"{tree.cwd}/deep/f")


async def test_home_and_double_slash_are_resolved(tree: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", f"{tree.cwd}/place")
    for rule in ("Edit($PLACE/**)", "Edit(${PLACE})", f"Edit(/{tree.cwd}/place)"):
        assert isinstance(await judge(tree, "place/f", deny=(rule,)), Deny)


async def test_link_in_brackets_protects_target(tree: Workspace) -> None:
    (tree.cwd / "real").mkdir()
    (tree.cwd / "app").mkdir()
    (tree.cwd / "app/[id]").symlink_to("../real")
    assert isinstance(await judge(tree, "real/f", deny=("Edit(app/[id]/**)",)), Deny)
    assert not policy(tree, deny=("Edit(app/[id]/**)",)).profile(tree).can_write(f"{tree.cwd}/real/f")


async def test_dots_after_link_are_resolved(tree: Workspace) -> None:
    (tree.cwd / "real/inner").mkdir(parents=True)
    (tree.cwd / "link").symlink_to("real/inner")
    for path in ("real/x", "x"):
        assert isinstance(await judge(tree, path, deny=("Edit(link/../x)",)), Deny)


async def test_allow_covers_documented_reading_only(tree: Workspace) -> None:
    make(tree, "[id]")
    for rule, path in (("Edit(/o/[ab]/**)", "/o/[ab]/f"), ("Edit(/o/{a,b}/**)", "/o/a/f"), ("Edit(/o/\\x)", "/o/x")):
        assert isinstance(await judge(tree, path, allow=(rule,)), Ask)
    assert isinstance(await judge(tree, "/o/a/f", allow=("Edit(/o/[ab]/**)",)), Allow)
    for pattern in (r"[a\-c]", "{a, b}", "[[:alpha:]]", "[[=a=]]", "[z-a]", "%61", "(a|b)", "{a}"):
        assert isinstance(await judge(tree, "/o/a/f", allow=(f"Edit(/o/{pattern}/**)",)), Ask)


@later
async def test_offered_rule_for_name_allows_it(tree: Workspace) -> None:
    for name in NAMES[:: deep(1, 1)]:
        path = f"/elsewhere/{name}/f{name}"
        verdict = await judge(tree, path, "Edit")
        assert isinstance(verdict, Ask)
        rule = f"Edit({escape(path)})"
        assert isinstance(await judge(tree, path, "Edit", allow=(rule,)), Allow)
        assert policy(tree, allow=(rule,)).profile(tree).can_write(os.path.normpath(path))


async def test_brackets_in_workspace_path_protect(tmp_path: Path) -> None:
    tree = Workspace((tmp_path / "a[b]*c").resolve())
    tree.cwd.mkdir()
    make(tree, "[id]")
    for rule in ("Edit(app/[id]/**)", "Edit(app/**)", "Edit(app)", f"Edit({tree.cwd}/app)"):
        assert isinstance(await judge(tree, "app/[id]/f", deny=(rule,)), Deny)
        assert not policy(tree, deny=(rule,)).profile(tree).can_write(f"{tree.cwd}/app/[id]/f")


def test_project_rule_protects_literal_name(tmp_path: Path) -> None:
    for name in NAMES:
        rule = Rule.parse(f"Edit(app/{name}/**)").anchored(tmp_path)
        again = Rule.parse(str(rule))
        paths = PathJudge("full", Rules((), (again,)), Places(tmp_path), Workspace(tmp_path / "other"))
        assert paths.denying(f"{tmp_path.resolve()}/app/{name}/f", ("Edit",)), name


@pytest.mark.parametrize(
    ("rule", "denied"),
    [
        (r"Edit(app\secret\**)", "app/secret/a"),
        (r"Edit(.\app\*.env)", "app/x.env"),
        (r"Edit(app\[admin]\a)", "app/[admin]/a"),
        (r"Edit(app\secret)", "app/secret/deep/a"),
    ],
)
def test_backslashes_separate_directories(tmp_path: Path, rule: str, denied: str) -> None:
    rules = Rules((), (Rule.parse(rule),))
    paths = PathJudge("full", rules, Places(tmp_path), Workspace(tmp_path))
    assert paths.denying(f"{tmp_path.resolve()}/{denied}", ("Edit",))
    assert not paths.denying(f"{tmp_path.resolve()}/other", ("Edit",))


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Bash(cat app/[id]/x:*)", "cat 'app/[id]/x'"),
        ("Bash(cat app/[id]/x:*)", "cat app/[id]/x"),
        ("Bash([ -f x ]:*)", "[ -f x ]"),
        ("Bash(rm a*b:*)", "rm 'a*b'"),
        ("Bash(cat caf\u00e9:*)", "cat cafe\u0301"),
        ("Bash(rm:*)", "RM -rf x"),
        ("Bash(./[x]/run:*)", "'./[x]/run' now"),
    ],
)
def test_command_words_are_denied_literally(tree: Workspace, rule: str, line: str) -> None:
    assert isinstance(command(tree, line, rule), Deny)


@pytest.mark.parametrize(
    ("rule", "tool"),
    [
        ("mcp__files", "mcp__files__read"),
        ("mcp__files__*", "mcp__files__read"),
        ("mcp__files__read.all", "mcp__files__read_all"),
        ("mcp__files__read.all", "mcp__files__read_all_2"),
        ("MCP__Files__Read", "mcp__files__read"),
        ("bash", "Bash"),
        ("write", "Edit"),
        ("webfetch", "WebFetch"),
    ],
)
async def test_tool_names_are_denied_in_any_spelling(tree: Workspace, rule: str, tool: str) -> None:
    effect = Effect("write", (tree.cwd / "x",)) if tool == "Edit" else Effect("execute", command="ls")
    verdict = await policy(tree, deny=(rule,)).before_tool(ToolCall("1", tool), effect, tree)
    assert isinstance(verdict, Deny)
    allowed = policy(tree, allow=("mcp__files",))
    asked = await allowed.before_tool(ToolCall("1", "mcp__files__read"), Effect("execute"), tree)
    assert isinstance(asked, Ask)  # an allowance is about what it names and nothing else


@later
def test_rule_with_many_ways_denies_quickly(tree: Workspace) -> None:
    patterns = ("{a,b}" * 40, "[ab]" * 200, "[" * deep(400, 1500), "{a,[b]}" * 30, "{" * 500)
    for pattern in patterns[:: deep(1, 1)]:
        found = readings(f"x/{pattern}")
        assert len(found) <= 4 * MAX_WAYS
        paths = PathJudge("full", Rules.parse((), [f"Edit(x/{pattern})"]), Places(tree.cwd), tree)
        assert paths.denying(f"{tree.cwd}/x/{pattern}/f", ("Edit",))


def test_case_follows_the_file_system(tmp_path: Path) -> None:
    place = tmp_path.resolve() / "Mixed"
    place.mkdir()
    paths = PathJudge("full", Rules.parse((), ["Edit(mixed/**)"]), Places(tmp_path), Workspace(tmp_path))
    is_same = (tmp_path / "mIXED").exists()
    assert ignores_case(f"{place}/new") == is_same
    assert (paths.denying(f"{place}/f", ("Edit",)) is not None) == is_same
    (place / "a").write_text("")
    if not (place / "A").exists():
        (place / "A").hardlink_to(place / "a")
    paths = PathJudge("full", Rules.parse((), ["Edit(Mixed/A)"]), Places(tmp_path), Workspace(tmp_path))
    assert paths.denying(f"{place}/a", ("Edit",))  # one file by two names that differ in their case


def test_brackets_match_both_unicode_forms(tree: Workspace) -> None:
    name = unicodedata.normalize("NFD", "[é]")
    paths = PathJudge("full", Rules.parse((), ["Edit(app/[é]/**)"]), Places(tree.cwd), tree)
    assert paths.denying(f"{tree.cwd}/app/{name}/f", ("Edit",))


def test_denied_address_is_denied_inside_ipv6() -> None:
    for one, other in (("192.0.2.1", "[::ffff:192.0.2.1]"), ("[::ffff:c000:201]", "192.0.2.1")):
        assert rules_out_host(Rule.parse(f"Network({one})"), other)
    assert not rules_out_host(Rule.parse("Network(192.0.2.1)"), "[::ffff:192.0.2.2]")
