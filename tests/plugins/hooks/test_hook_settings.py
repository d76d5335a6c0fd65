"""`[hooks]` in the person's file and in a project's: what is read, refused, and asked about."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sagent.config import Settings
from sagent.config.report import show
from sagent.config.trust import recall, remember
from sagent.errors import ConfigError
from sagent.plugins.hooks.hook import Hook
from sagent.plugins.hooks.table import hooks_in

BOTH = """
[[hooks.PreToolUse]]
matcher = "Edit|Write"
hooks = [{ type = "command", command = "./check ${HOME}", timeout = 5 }, { type = "http", url = "${HOOKS}/x" }]

[[hooks.Stop]]
command = "./tests"
needs = ["network:pypi.org"]
"""
PROJECT = '[[hooks.PreToolUse]]\nmatcher = "Bash"\ncommand = "./check.sh"\n'


def test_both_shapes_are_read(config: Path, settings: Callable[..., Settings]) -> None:
    (config / "config.toml").write_text(BOTH)
    found = hooks_in(settings(environ={"HOOKS": "http://127.0.0.1:9"}))
    assert [(hook.event, hook.matcher, hook.what, hook.timeout) for hook in found] == [
        ("PreToolUse", "Edit|Write", "./check ${HOME}", 5),
        ("PreToolUse", "Edit|Write", "http://127.0.0.1:9/x", 60),
        ("Stop", "", "./tests", 60),
    ]
    assert {hook.source for hook in found} == {"person"}
    assert list(map(str, found[2].needs)) == ["network:pypi.org"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[hooks.PreToolUze]]\ncommand = "x"', "PreToolUse"),
        ('[hooks]\nStop = "x"', "must be a list"),
        ('[[hooks.Stop]]\ncomand = "x"', "command"),
        ('[[hooks.Stop]]\nmatcher = "x"', "a command or a url"),
        ('[[hooks.Stop]]\ncommand = "x"\nurl = "http://a"', "not both"),
        ('[[hooks.Stop]]\ntype = "prompt"\ncommand = "x"', "command or http"),
        ('[[hooks.Stop]]\ntype = "http"\ncommand = "x"', "must have a url"),
        ('[[hooks.Stop]]\ncommand = "x"\ntimeout = 0', "timeout"),
        ('[[hooks.Stop]]\ncommand = "x"\ntimeout = 1e9', "timeout"),
        ('[[hooks.PreToolUse]]\nmatcher = "(x"\ncommand = "x"', "not a valid pattern"),
        ('[[hooks.Stop]]\nurl = "ftp://a"', "http://"),
        ('[[hooks.Stop]]\nurl = "${NOWHERE}"', "NOWHERE is not set"),
        ('[[hooks.Stop]]\ncommand = "x"\nheaders = {a = "b"}', "headers"),
        ('[[hooks.Stop]]\ncommand = "x"\nneeds = ["sudo"]', "needs"),
    ],
)
def test_invalid_hook_names_line(text: str, why: str, config: Path, settings: Callable[..., Settings]) -> None:
    (config / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.toml:[12]: ") as error:
        settings()
    assert why in str(error.value)


def test_project_hooks_wait_for_trust(home: Path, settings: Callable[..., Settings]) -> None:
    found = settings(project=PROJECT)
    assert hooks_in(found) == () and found.wish is not None
    assert found.wish.wanted[0].value == ("PreToolUse Bash: ./check.sh",)
    assert any("./check.sh" in text and "--trust-project" in text for text in found.warnings)
    assert any("waits for your trust" in row.origin for row in show(found) if row.name == "hooks")
    assert [hook.source for hook in hooks_in(settings(project=PROJECT, trust_project=True))] == ["project"]

    remember(found.wish, found.state_dir, trusted=True)
    assert recall(found.wish, found.state_dir) is True
    assert len(hooks_in(settings(project=PROJECT))) == 1
    assert hooks_in(settings(project=PROJECT.replace("check.sh", "other.sh"))) == (), "it wants something else now"


def test_project_hook_has_no_needs(settings: Callable[..., Settings]) -> None:
    for text in ('url = "http://a/${OPENAI_API_KEY}"', 'command = "x"\nneeds = ["all"]'):
        with pytest.raises(ConfigError, match=r"project"):
            settings(project=f"[[hooks.Stop]]\n{text}", environ={"OPENAI_API_KEY": "k"}, trust_project=True)


def test_project_hooks_added_to_own(config: Path, settings: Callable[..., Settings]) -> None:
    (config / "config.toml").write_text('[[hooks.Stop]]\ncommand = "mine"')
    found = hooks_in(settings(project=PROJECT, trust_project=True))
    assert [(hook.what, hook.source) for hook in found] == [("mine", "person"), ("./check.sh", "project")]


def test_trust_question_ascii_only() -> None:
    odd, plain = Hook("Stop", "\u0440m\n-rf \u202e/").wanted, Hook("Stop", "\\u0440m\\n-rf \\u202e/").wanted
    assert odd.isascii() and odd.isprintable() and odd != plain


@pytest.mark.parametrize(
    ("event", "matcher", "hint"),
    [
        ("PreToolUse", "Baash", "'Baash' of PreToolUse is about nothing there is. Did you mean Bash?"),
        ("PostToolUse", "^Wriite$", "'^Wriite$' of PostToolUse"),
        (
            "PermissionRequest",
            "Edit|Writ",
            "'Writ' of PermissionRequest is about nothing there is. Did you mean Write?",
        ),
        ("PreToolUse", "MultiEdit", "Did you mean Edit?"),
        ("SessionStart", "strtup", "Did you mean startup?"),
        ("PreCompact", "atuo", "Did you mean auto?"),
    ],
)
def test_matcher_without_match_warned(
    config: Path, settings: Callable[..., Settings], event: str, matcher: str, hint: str
) -> None:
    file = config / "config.toml"
    file.write_text(f'[[hooks.{event}]]\nmatcher = "{matcher}"\ncommand = "true"\n')
    [warning] = settings().warnings
    assert warning.startswith(f"{file}:") and hint in warning


@pytest.mark.parametrize(
    ("event", "matcher"),
    [
        *(("PreToolUse", each) for each in ("", "*", ".*", "bash", "Task", "Agent|LS", "Edit|MultiEdit", "Web.*")),
        *(("PreToolUse", each) for each in ("mcp__github", "mcp__.*__write", "ExitPlan", "Notebook", "ToolSearch")),
        ("SubagentStart", "whatever"),
        ("SessionStart", "resume"),
        ("PreCompact", "manual|auto"),
    ],
)
def test_possible_matcher_not_warned(config: Path, settings: Callable[..., Settings], event: str, matcher: str) -> None:
    (config / "config.toml").write_text(f'[[hooks.{event}]]\nmatcher = "{matcher}"\ncommand = "true"\n')
    assert not settings().warnings
