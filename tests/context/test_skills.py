"""Skills that are found, and what the prompt says of them."""

import os
from pathlib import Path

from sagent.context.skills import find_skills, skills_text


def skill(place: Path, name: str, text: str) -> None:
    (place / name).mkdir(parents=True)
    (place / name / "SKILL.md").write_text(text)


def test_persons_skill_wins_empty_is_left_out(tmp_path: Path) -> None:
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
    left = [notice for notice in notices if "are left out: it has no description" in notice]
    assert len(left) == 1 and all(f"/{name}/SKILL.md" in left[0] for name in ("silent", "odd", "binary"))
    unread, said = sorted({*notices} - {*left}, key=lambda notice: "is not used" in notice)
    assert unread.startswith(f"{project}/.sagent/skills/pipe/SKILL.md could not be read:")
    assert f"skill review ({project}/.sagent/skills/review/SKILL.md) is not used" in said
    text = skills_text(found)
    assert f"- deploy: How it is put on the machines. ({own}/skills/deploy/SKILL.md)" in text
    assert skills_text(()) == ""
    assert find_skills(tmp_path / "nowhere", tmp_path / "neither") == ()


def test_skill_texts_are_short_and_printable(tmp_path: Path) -> None:
    loud = f"---\nname: {'n' * 500}\x1b[2J\ndescription: \x1b]0;title\x07{'d' * 900}\n---\n"
    skill(tmp_path / ".agents/skills", "loud", loud)
    (found,) = find_skills(tmp_path, tmp_path / "neither")
    assert len(found.name) <= 64
    assert len(found.description) <= 300
    assert (found.name + found.description).isprintable()


def test_left_out_skills_are_said(tmp_path: Path) -> None:
    user = tmp_path / "user"
    for folder, text in (
        ("bare", "No head."),
        ("endless", "---\ndescription: x\n" + "a: b\n" * 2_000),
        ("first", "---\nname: one\ndescription: a\n---\n"),
        ("second", "---\nname: one\ndescription: b\n---\n"),
        ("typo", "---\ndescription: c\nuser-invocable: maybe\n---\n"),
    ):
        (user / "skills" / folder).mkdir(parents=True)
        (user / "skills" / folder / "SKILL.md").write_text(text)
    notices: list[str] = []
    assert [skill.name for skill in find_skills(tmp_path / "work", user, notices)] == ["one", "typo"]
    for words in (
        "bare/SKILL.md is left out: it has no description",
        "endless/SKILL.md is left out: its head has no end",
        "second/SKILL.md) is not used: ",
        "typo/SKILL.md: user-invocable is 'maybe', which is ignored",
    ):
        assert len([text for text in notices if words in text]) == 1, (words, notices)


def test_too_many_skills_are_named(tmp_path: Path) -> None:
    for number in range(66):
        folder = tmp_path / f"user/skills/s{number:02}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\ndescription: x\n---\n")
    notices: list[str] = []
    assert len(find_skills(tmp_path / "work", tmp_path / "user", notices)) == 64
    assert len(notices) == 1 and "64 skills" in notices[0] and "s64, s65" in notices[0]
