"""Skills that are found, and what the prompt says of them."""

import os
from pathlib import Path

from sagent.context.skills import find_skills, skills_text


def skill(place: Path, name: str, text: str) -> None:
    (place / name).mkdir(parents=True)
    (place / name / "SKILL.md").write_text(text)


def test_the_persons_wins_and_what_says_nothing_is_left_out(tmp_path: Path) -> None:
    own, project = tmp_path / "config", tmp_path / "project"
    skill(own / "skills", "deploy", "---\nname: deploy\ndescription: How it is put\n  on the machines.\n---\n1.")
    skill(own / "skills", "review", "---\nname: review\ndescription: mine\n---\n")
    skill(project / ".sagent/skills", "review", "---\nname: review\ndescription: 'the project''s'\n---\n")
    skill(project / ".claude/skills", "silent", "---\nname: silent\n---\n")
    skill(project / ".agents/skills", "odd", "no head at all")
    (project / ".sagent/skills/binary").mkdir()
    (project / ".sagent/skills/binary/SKILL.md").write_bytes(b"---\nname: \xff\xfe\n---")
    (project / ".sagent/skills/pipe").mkdir()
    os.mkfifo(project / ".sagent/skills/pipe/SKILL.md")
    notices: list[str] = []
    found = find_skills(project, own, notices)
    assert [(each.name, each.description) for each in found] == [
        ("deploy", "How it is put on the machines."),
        ("review", "mine"),
    ]
    unread, said = sorted(notices, key=lambda notice: "is not used" in notice)
    assert unread.startswith(f"{project}/.sagent/skills/pipe/SKILL.md could not be read:")
    assert f"skill review ({project}/.sagent/skills/review/SKILL.md) is not used" in said
    text = skills_text(found)
    assert f"- deploy: How it is put on the machines. ({own}/skills/deploy/SKILL.md)" in text
    assert skills_text(()) == ""
    assert find_skills(tmp_path / "nowhere", tmp_path / "neither") == ()


def test_names_and_descriptions_are_short_and_cannot_drive_the_terminal(tmp_path: Path) -> None:
    loud = f"---\nname: {'n' * 500}\x1b[2J\ndescription: \x1b]0;title\x07{'d' * 900}\n---\n"
    skill(tmp_path / ".agents/skills", "loud", loud)
    (found,) = find_skills(tmp_path, tmp_path / "neither")
    assert len(found.name) <= 64
    assert len(found.description) <= 300
    assert (found.name + found.description).isprintable()
