"""Heads of files, and where skills and agents are looked for."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.context.agents import find_agents, tools_named
from sagent.context.frontmatter import read_document
from sagent.context.instructions import gather
from sagent.context.skills import find_skills, skill_text, skills_text
from sagent.context.styles import Style, find_style
from sagent.errors import UsageError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_heads_as_people_write_them() -> None:
    text = """---
name: "a name"
description: >-
  goes on
  here
tools: Read, Bash(git diff:*, git log), Grep # few
allowed-tools:
  - Read
  - 'Edit'
flag: True
url: http://a#b
---
Body
---
more
"""
    found = read_document(text)
    assert found.fields["name"] == "a name" and found.fields["description"] == "goes on here"
    assert found.words("tools") == ("Read", "Bash(git diff:*, git log)", "Grep")
    assert found.words("allowed-tools") == ("Read", "Edit") and found.words("nothing") is None
    assert found.flag("flag", default=False) and found.fields["url"] == "http://a#b"
    assert found.body == "Body\n---\nmore\n"


@pytest.mark.parametrize("text", ["", "no head", "---\nno end", "\ufeff---\nname: x\n", "--\n---"])
def test_headless_file_is_all_body(text: str) -> None:
    assert not read_document(text).fields


@given(st.text(max_size=300))
def test_no_text_is_too_odd(text: str) -> None:
    assert isinstance(read_document(f"---\n{text}\n---\nbody").body, str)


def test_skills_found_up_to_root_once(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    below = root / "a" / "b"
    below.mkdir(parents=True)
    head = "---\nname: {0}\ndescription: {0} {1}\n---\nIn ${{CLAUDE_SKILL_DIR}}"
    write(root / ".agents/skills/one/SKILL.md", head.format("one", "root"))
    write(below / ".claude/skills/one/SKILL.md", head.format("one", "near"))
    write(root / ".claude/skills/group/two/SKILL.md", head.format("two", ""))
    (root / ".sagent").mkdir()
    os.symlink("../.claude/skills", root / ".sagent/skills")
    write(tmp_path / "outside/three/SKILL.md", head.format("three", ""))
    os.symlink(tmp_path / "outside/three", root / ".agents/skills/three")
    notices: list[str] = []
    found = {skill.name: skill for skill in find_skills(below, tmp_path / "none", notices)}
    assert sorted(found) == ["one", "two"] and found["one"].description == "one near"
    assert any("leads out of the project" in notice for notice in notices)
    assert f"In {root}/" in skill_text(found["two"])


def test_other_programs_skills_count_hidden_not(tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    write(home / ".claude/skills/x/SKILL.md", "---\ndescription: theirs\ndisable-model-invocation: true\n---\n")
    write(home / ".agents/skills/y/SKILL.md", "---\ndescription: shared\nuser-invocable: false\n---\n")
    found = find_skills(tmp_path, tmp_path / "none")
    assert [(skill.name, skill.offered, skill.command) for skill in found] == [("x", False, True), ("y", True, False)]
    assert "theirs" not in skills_text(found) and "- y: shared" in skills_text(found)


def test_agents_are_read_and_never_widen(tmp_path: Path) -> None:
    write(
        tmp_path / ".claude/agents/review.md",
        "---\nname: review\ndescription: Looks.\ntools: Read, Bash(git diff:*), Task, Nonsense\n"
        "disallowedTools: [Write]\nmodel: inherit\nmaxTurns: 7\npermissionMode: bypassPermissions\n---\nBe strict.\n",
    )
    write(tmp_path / ".claude/agents/silent.md", "nothing")
    long = "\n".join(("---", "name: long", "description: For ever.", f"maxTurns: {'9' * 5_000}", "---"))
    write(tmp_path / ".claude/agents/long.md", long)
    os.mkfifo(tmp_path / ".claude/agents/pipe.md")
    notices: list[str] = []
    endless, kind = find_agents(tmp_path, tmp_path / "none", notices)
    assert (endless.name, endless.max_turns) == ("long", None)
    assert kind.tools == ("Read", "Bash", "AgentSpawn", "Nonsense") and kind.without == ("Write",)
    assert (kind.model, kind.max_turns, kind.prompt) == ("", 7, "Be strict.")
    assert len(notices) == 4, notices
    for words in (
        "silent.md is left out",
        "pipe.md could not",
        "maxTurns is '9999",
        "no effect here: permissionMode",
    ):
        assert len([text for text in notices if words in text]) == 1, (words, notices)
    assert tools_named(["LS", "MultiEdit", "Edit", "Bash(a"]) == ("List", "Edit", "Bash(a")


def test_which_instructions_count(tmp_path: Path) -> None:
    write(tmp_path / "GEMINI.md", "gemini @extra.md")
    write(tmp_path / "extra.md", "extra")
    write(tmp_path / ".claude/rules/all.md", "always <b>\n<!-- hidden\nnote -->\nend")
    write(tmp_path / ".claude/rules/some.md", "---\npaths: src/**\n---\nsometimes")
    write(tmp_path / "CLAUDE.local.md", "mine")
    text = gather(tmp_path, tmp_path / "none").text
    assert all(said in text for said in ("gemini", "extra", "always", "mine")), text
    assert "hidden" not in text and "sometimes" not in text
    write(tmp_path / "AGENTS.md", "agents")
    assert "gemini" not in gather(tmp_path, tmp_path / "none").text
    write(tmp_path / "AGENTS.override.md", "over")
    text = gather(tmp_path, tmp_path / "none").text
    assert "over" in text and "# Instructions from" in text and "agents\n" not in text


@pytest.mark.parametrize("name", ["concise", "explain", "learn"])
def test_style_of_sagent_and_its_replacement(name: str, tmp_path: Path) -> None:
    notices: list[str] = []
    style = find_style(name, tmp_path, tmp_path, notices)
    assert style.text and not style.replaces
    write(tmp_path / f".sagent/output-styles/{name}.md", "Mine.")
    assert find_style(name.upper(), tmp_path, tmp_path, notices) == Style("Mine.", replaces=True)
    assert notices == []


def test_output_style_by_name_or_file(tmp_path: Path) -> None:
    write(tmp_path / ".claude/output-styles/short.md", "---\nname: Short Answers\n---\nBe short.")
    write(tmp_path / ".claude/output-styles/teach.md", "---\nkeep-coding-instructions: true\n---\nTeach.")
    assert find_style("short answers", tmp_path, tmp_path) == Style("Be short.", replaces=True)
    assert find_style("short", tmp_path, tmp_path) == Style("Be short.", replaces=True)
    assert find_style("teach", tmp_path, tmp_path) == Style("Teach.", replaces=False)
    with pytest.raises(UsageError, match="there are Short Answers, teach"):
        find_style("loud", tmp_path, tmp_path)


def test_outward_link_is_not_walked(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    write(outside / "x/SKILL.md", "---\ndescription: out\n---\n")
    write(outside / "x.md", "---\nname: x\ndescription: out\n---\n")
    (project / ".claude").mkdir(parents=True)
    for name in ("skills", "agents", "rules", "output-styles"):
        (project / ".claude" / name).symlink_to(outside)
    notices: list[str] = []
    assert find_skills(project, tmp_path / "none", notices) == () and find_agents(project, tmp_path / "none") == ()
    assert gather(project, tmp_path / "none").text == ""
    assert notices == [f"{project}/.claude/skills is not read: it leads out of {project}."]
    with pytest.raises(UsageError, match="there are concise"):
        find_style("x", project, tmp_path / "none")
