"""Modes, rules and paths, as the dispatcher asks about them."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.errors import ConfigError, UsageError
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Verdict
from sagent.policy.permissions import MODES, Mode, PermissionPolicy
from sagent.policy.rules import Rules
from sagent.sandbox.places import known_places
from sagent.tool import Effect, Workspace
from tests.depth import deep, later


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def tree(tmp_path: Path) -> Workspace:
    (tmp_path / "tree" / "src").mkdir(parents=True)
    (tmp_path / "tree" / ".git" / "hooks").mkdir(parents=True)
    return Workspace(tmp_path / "tree")


async def judge(policy: PermissionPolicy, tool: str, effect: Effect, tree: Workspace) -> Verdict:
    return await policy.before_tool(ToolCall("1", tool), effect, tree)


def policy(mode: Mode, home: Path, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> PermissionPolicy:
    return PermissionPolicy(mode, Rules.parse(allow, deny), home=home)


def written(path: Path | str) -> Effect:
    return Effect("write", (Path(path),))


def read(path: Path | str) -> Effect:
    return Effect("read", (Path(path),))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_unnameable_path_is_denied(home, tree, text):
    for effect in (read(text), written(text), Effect("execute", command=f"cat '{text}'", confined=True)):
        for mode in MODES:
            verdict = await judge(policy(mode, home, deny=("Read(secrets/**)", "Edit(secrets/**)")), "x", effect, tree)
            assert isinstance(verdict, Deny)


async def test_modes_of_read_write_and_run(home, tree):
    effects = {
        "read": ("Read", read(tree.cwd / "a")),
        "read outside": ("Read", read("/usr/include/stdio.h")),
        "write": ("Write", written(tree.cwd / "a")),
        "run": ("Bash", Effect("execute", command="make all")),
        "look": ("Bash", Effect("execute", command="git status")),
        "unknown": ("deploy", Effect("execute")),
    }
    found = {
        mode: {
            name: type(await judge(policy(mode, home), tool, effect, tree)) for name, (tool, effect) in effects.items()
        }
        for mode in MODES
    }
    free = {"read": Allow, "read outside": Allow, "look": Allow}
    assert found == {
        "plan": {**free, "write": Deny, "run": Deny, "unknown": Deny},
        "ask": {**free, "write": Ask, "run": Ask, "unknown": Ask},
        "edit": {**free, "write": Allow, "run": Ask, "unknown": Ask},
        "full": {**free, "write": Allow, "run": Allow, "unknown": Allow},
    }


async def test_question_names_allowing_rule(home, tree):
    asked = await judge(policy("edit", home), "Bash", Effect("execute", command="npm test -- --watch"), tree)
    assert isinstance(asked, Ask)
    assert "--permission-mode full" in asked.remedy
    assert "--allow 'Bash(npm test:*)'" in asked.remedy
    again = policy("edit", home, allow=("Bash(npm test:*)",))
    assert await judge(again, "Bash", Effect("execute", command="npm test -- --watch"), tree) == Allow()

    outside = await judge(policy("edit", home), "Write", written("/opt/data/x.txt"), tree)
    assert isinstance(outside, Ask)
    assert "--add-dir /opt/data" in outside.remedy
    assert "Edit(/opt/data/x.txt)" in outside.remedy
    there = Workspace(tree.cwd, (tree.cwd, Path("/opt/data")))
    assert await judge(policy("edit", home), "Write", written("/opt/data/x.txt"), there) == Allow()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("rule", "tool", "effect"),
    [
        ("Write", "Edit", Effect("write", (Path("/t/x"),))),
        ("Edit(secrets/**)", "Write", Effect("write", (Path("secrets/a/b"),))),
        ("Write(*.lock)", "Edit", Effect("write", (Path("deep/er/uv.lock"),))),
        ("Read(~/.ssh/**)", "Grep", Effect("read", (Path("~/.ssh"),))),
        ("Read(private)", "Read", Effect("read", (Path("a/private/b"),))),
        ("Grep(/var/log/**)", "Grep", Effect("read", (Path("/var/log/syslog"),))),
        ("mcp__db__*", "mcp__db__query", Effect("execute")),
        ("Bash", "Bash", Effect("execute", command="ls")),
        ("Bash(git push:*)", "Bash", Effect("execute", command="git push --force")),
        ("*", "Read", Effect("read", (Path("x"),))),
    ],
)
async def test_deny_beats_modes_and_allow(mode, rule, tool, effect, home, tree):
    paths = tuple(home / str(path)[2:] if str(path).startswith("~") else tree.cwd / path for path in effect.paths)
    effect = Effect(effect.kind, paths, effect.command)
    judged = await judge(policy(mode, home, allow=(tool, rule), deny=(rule,)), tool, effect, tree)
    assert isinstance(judged, Deny)
    assert rule in judged.reason


async def test_deny_rules_follow_symlinks_both_ways(home, tree):
    (tree.cwd / "secrets").mkdir()
    (tree.cwd / "innocent").symlink_to("secrets")
    (tree.cwd / "door").symlink_to(home)
    denying = policy("full", home, deny=("Edit(secrets/**)", "Read(door/**)"))
    assert isinstance(await judge(denying, "Write", written(tree.cwd / "innocent" / "new" / "x"), tree), Deny)
    assert isinstance(await judge(denying, "Read", read(home / "file"), tree), Deny)
    assert await judge(denying, "Write", written(tree.cwd / "src" / "x"), tree) == Allow()


async def test_rule_from_linked_home_covers_target(tmp_path, home, tree):
    (tmp_path / "link").symlink_to(home)
    denying = policy("full", tmp_path / "link", deny=("Read(~/.ssh/**)",))
    assert isinstance(await judge(denying, "Read", read(home / ".ssh" / "id"), tree), Deny)
    assert isinstance(await judge(policy("edit", tmp_path / "link"), "Read", read(home / ".ssh" / "id"), tree), Ask)


async def test_allow_rules_are_about_real_paths(home, tree, tmp_path):
    (tree.cwd / "src" / "out").symlink_to(tmp_path)
    allowing = policy("ask", home, allow=("Edit(src/**)",))
    assert await judge(allowing, "Write", written(tree.cwd / "src" / "new" / "a.py"), tree) == Allow()
    assert isinstance(await judge(allowing, "Write", written(tree.cwd / "src" / "out" / "a.py"), tree), Ask)
    assert isinstance(await judge(allowing, "Write", written(tree.cwd / "src" / ".." / "a.py"), tree), Ask)
    assert isinstance(await judge(allowing, "Write", written(tree.cwd / "srcs" / "a.py"), tree), Ask)
    everywhere = policy("ask", home, allow=("Write",))
    assert await judge(everywhere, "Edit", written(tree.cwd / "a.py"), tree) == Allow()
    assert isinstance(await judge(everywhere, "Edit", written(tmp_path / "a.py"), tree), Ask)


async def test_patterns_follow_glob_rules(home, tree):
    allowing = policy("ask", home, allow=("Edit(src/*.py)", "Edit(docs/**/index.md)", "Edit(*.txt)", "Edit(x[!a]z)"))
    accepted = ["src/a.py", "docs/index.md", "docs/a/b/index.md", "a.txt", "deep/b.txt", "xbz"]
    refused = ["src/sub/a.py", "src/apy", "docs/index.mdx", "xaz", "x/z", "a.txt2"]
    for name in accepted:
        assert await judge(allowing, "Write", written(tree.cwd / name), tree) == Allow(), name
    for name in refused:
        assert isinstance(await judge(allowing, "Write", written(tree.cwd / name), tree), Ask), name


@pytest.mark.parametrize("place", [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/sagent/config.toml"])
async def test_reading_keys_asks_unless_named(place, home, tree):
    for mode in ("plan", "ask", "edit"):
        asked = await judge(policy(mode, home), "Read", read(home / place), tree)
        assert isinstance(asked, Ask)
        assert f"Read({home / place})" in asked.remedy
    assert await judge(policy("full", home), "Read", read(home / place), tree) == Allow()
    assert isinstance(
        await judge(policy("edit", home, allow=("Read", "Read(/**)")), "Read", read(home / place), tree), Ask
    )
    named = policy("edit", home, allow=(f"Read(~/{place})",))
    assert await judge(named, "Read", read(home / place), tree) == Allow()


async def test_env_files_and_environ_are_keys(home, tree):
    edit = policy("edit", home)
    (tree.cwd / "plain").symlink_to(".env")
    for name in (".env", "a/.env.local", ".env_prod", ".env-old", ".env~", ".env.sample.local", "plain"):
        assert isinstance(await judge(edit, "Read", read(tree.cwd / name), tree), Ask), name
    assert isinstance(await judge(edit, "Read", read(Path("/proc/self/environ")), tree), Ask)
    for name in (".env.example", ".env-sample", ".envrc", ".environment"):
        assert await judge(edit, "Read", read(tree.cwd / name), tree) == Allow(), name


async def test_writing_autorun_files_asks(home, tree):
    at_home = Workspace(home)
    edit = policy("edit", home)
    for place in (".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", ".sagent/config.toml"):
        assert isinstance(await judge(edit, "Write", written(tree.cwd / place), tree), Ask), place
    for place in (".bashrc", ".ssh/authorized_keys", ".config/systemd/user/x.service", ".local/bin/ls"):
        assert isinstance(await judge(edit, "Write", written(home / place), at_home), Ask), place
    (tree.cwd / "hooks").symlink_to(".git/hooks")
    assert isinstance(await judge(edit, "Write", written(tree.cwd / "hooks" / "pre-push"), tree), Ask)
    assert await judge(edit, "Write", written(tree.cwd / ".gitignore"), tree) == Allow()
    wide = policy("edit", home, allow=("Edit(**)", "Edit"))
    assert isinstance(await judge(wide, "Write", written(tree.cwd / ".git/config"), tree), Ask)
    named = policy("edit", home, allow=("Edit(.git/info/**)",))
    assert await judge(named, "Write", written(tree.cwd / ".git/info/exclude"), tree) == Allow()
    assert isinstance(await judge(named, "Write", written(tree.cwd / ".git/config"), tree), Ask)


@later
async def test_obeyed_files_are_asked_unless_full(home, tree):
    planted = (
        ".vscode/tasks.json",
        "sub/.idea/x.xml",
        ".envrc",
        ".husky/pre-commit",
        ".mcp.json",
        ".Claude/a",
        ".jj/x",
    )
    for place in (*planted, *known_places().protected[:: deep(1, 1)]):
        for mode in ("ask", "edit"):
            asked = await judge(policy(mode, home), "Edit", written(tree.cwd / place), tree)
            assert isinstance(asked, Ask), place
            assert "may run by itself" in asked.reason, place
        assert isinstance(await judge(policy("plan", home), "Write", written(tree.cwd / place), tree), Deny), place
        assert await judge(policy("full", home), "Write", written(tree.cwd / place), tree) == Allow(), place
        assert await judge(policy("edit", home), "Read", read(tree.cwd / place), tree) == Allow(), place
    for name in (".vscode.md", "x.envrc", ".clauded/a", ".github/workflows/ci.yml", "vscode/a"):
        assert await judge(policy("edit", home), "Write", written(tree.cwd / name), tree) == Allow(), name


async def test_one_outside_path_spoils_a_call(home, tree):
    effect = Effect("write", (tree.cwd / "a", Path("/etc/hosts")))
    assert isinstance(await judge(policy("edit", home), "Edit", effect, tree), Ask)


segments = st.lists(
    st.sampled_from(["..", ".", "src", "link", "up", "loop", "new", "", "root", ".git", "x y", "é"]),
    min_size=1,
    max_size=7,
)


@settings(max_examples=deep(60, 150), deadline=None)
@given(parts=segments, absolute=st.booleans())
def test_edit_mode_allows_no_outside_path(parts, absolute, tmp_path_factory):
    base = tmp_path_factory.getbasetemp() / "spelled"
    root = base / "root"
    if not root.exists():
        (root / "src").mkdir(parents=True)
        (root / "link").symlink_to(base)
        (root / "src" / "up").symlink_to("../..")
        (root / "loop").symlink_to("loop")
    path = Path("/".join([str(base) if absolute else str(root), *parts]))
    judging = PermissionPolicy("edit", home=base / "home").before_tool(
        ToolCall("1", "Write"), written(path), Workspace(root)
    )
    with pytest.raises(StopIteration) as stopped:
        judging.send(None)
    real = os.path.realpath(os.path.realpath(path))  # once is not enough after a loop
    inside = real == str(root) or real.startswith(f"{root}/")
    assert isinstance(stopped.value.value, Allow) == (inside and ".git" not in Path(os.path.normpath(path)).parts)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("", "is not a rule"),
        ("Bash(", "is not a rule"),
        ("Bash()", "empty pattern"),
        ("Bash(git add . && git commit)", "one command"),
        ("Bash(ls > x)", "one command"),
        ("Bash('unclosed)", "one command"),
        ("Raed(x)", "Did you mean Read?"),
        ("mcp__x__y(z)", "Write mcp__x__y"),
    ],
)
def test_bad_rule_is_refused_with_accepted(rule, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        Rules.parse([rule])


@pytest.mark.parametrize("mode", ["yolo", None, "FULL"])
def test_unknown_mode_lists_the_modes(mode):
    with pytest.raises(UsageError, match=f"there is no permission mode {mode!r}: give plan, ask, edit or full"):
        PermissionPolicy(mode)
