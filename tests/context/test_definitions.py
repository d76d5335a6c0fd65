"""What is left out of the files that a person brings, or not understood, is said once, with file and reason."""

import os
from pathlib import Path

import pytest

from sagent.context.agents import find_agents
from sagent.context.commands import find_commands
from sagent.context.frontmatter import read_document
from sagent.context.instructions import gather
from sagent.context.skills import find_skills
from sagent.context.styles import find_style
from sagent.errors import UsageError

HEAD = "---\nname: {0}\ndescription: it works\n---\nText.\n"


def said(kind: str, project: Path) -> list[str]:
    notices: list[str] = []
    nobody = project / "nobody"
    match kind:
        case "skills":
            find_skills(project, nobody, notices)
        case "agents":
            find_agents(project, nobody, notices)
        case "commands":
            find_commands(project, nobody, notices)
        case _:
            with pytest.raises(UsageError):
                find_style("missing", project, nobody, notices)
    return notices


def put(folder: Path, kind: str, name: str, data: bytes) -> Path:
    """Write a definition where files of its kind lie."""
    path = folder / name / "SKILL.md" if kind == "skills" else folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["skills", "agents", "commands", "output-styles"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is left out: it is empty"),
        (b"\x00\x01\x02\xff" * 40, "is left out: it is not text"),
        (b"---\nname: x\ndescription: a\ndescripton: b\n---\nText", "no key descripton, description may be meant"),
        (b"---\nname: x\ndescription: a\nzebra: b\n---\nText", "have no effect here: zebra"),
        (b"---\nname: x\ndescription:a\n---\nText", "line 3 is ignored, 'description:a'"),
        (b"---\nname: x\ndescription: a\nname: y\n---\nText", "line 4 gives name again"),
        (b'---\nname: x\ndescription: "a\n---\nText', "the quotes of description are not closed"),
        (b"---\nname: x\ndescription: 'a\n---\nText", "the quotes of description are not closed"),
        (b"---\nname: x\n\tdescription: a\n---\nText", r"line 3 is ignored, '\tdescription: a'"),
        (b"<!-- note -->\n---\nname: x\ndescription: a\n---\nText", "its head is not between two lines of ---"),
        (b"+++\nname = 'x'\ndescription = 'a'\n+++\nText", "its head is not between two lines of ---"),
        (b"-----\nname: x\ndescription: a\n-----\nText", "its head is not between two lines of ---"),
        (b"---\nname: x\ndescription: a\n...\nText", "its head is not between two lines of ---"),
        (b"```yaml\nname: x\ndescription: a\n```\nText", "its head is not between two lines of ---"),
        (b"%YAML 1.2\n---\nname: x\ndescription: a\n---\nText", "its head is not between two lines of ---"),
        (b"---\nname: x\ndescription: &d a\n---\nText", "line 3 is read as it is written, '&d a'"),
        (b"---\nname: x\ndescription: *d\n---\nText", "line 3 is read as it is written, '*d'"),
        (b"---\nname: x\ndescription: !!str a\n---\nText", "line 3 is read as it is written, '!!str a'"),
        (b"---\nname: x\ndescription: a\n1: b\n---\nText", "line 4 is ignored, '1: b'"),
    ],
)
def test_faulty_file_is_named(kind: str, data: bytes, words: str, tmp_path: Path) -> None:
    path = put(tmp_path / ".sagent" / kind, kind, "broken", data)
    found = [text for text in said(kind, tmp_path) if str(path) in text and words in text]
    assert len(found) == 1, said(kind, tmp_path)


@pytest.mark.parametrize("kind", ["skills", "agents"])
@pytest.mark.parametrize("head", [b"name: x\ndescripton: b", b"name: x\ndescription:b"])
def test_dropping_fault_is_in_same_notice(kind: str, head: bytes, tmp_path: Path) -> None:
    path = put(tmp_path / ".sagent" / kind, kind, "broken", b"---\n%s\n---\nText" % head)
    (notice,) = (text for text in said(kind, tmp_path) if str(path) in text)
    assert "is left out" in notice
    assert head.decode().split("\n")[1].partition(":")[0] in notice


@pytest.mark.parametrize("kind", ["skills", "agents", "commands", "output-styles"])
def test_good_files_are_silent(kind: str, tmp_path: Path) -> None:
    put(tmp_path / ".sagent" / kind, kind, "good", HEAD.format("good").encode())
    latin = HEAD.format("latin").replace("it works", "déjà vu, où ça?").encode("latin-1")
    put(tmp_path / ".sagent" / kind, kind, "latin", latin)
    put(tmp_path / ".sagent" / kind, kind, "long", HEAD.format("long").encode() + "é".encode() * 9_000)
    licensed = HEAD.format("licensed").replace("\nname", "\nlicense: MIT\nmetadata:\n  author: me\nname")
    put(tmp_path / ".sagent" / kind, kind, "licensed", licensed.encode())
    (tmp_path / ".sagent" / kind / ".hidden.txt").write_text("x")
    (tmp_path / ".sagent" / kind / "script.py").write_text("x")
    assert said(kind, tmp_path) == []


@pytest.mark.parametrize("kind", ["agents", "commands", "output-styles"])
def test_wrong_places_and_kinds_are_named(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / ".sagent" / kind
    for name in ("deep/deeper/deepest/x.md", "plain.txt", "upper.MD", "bare"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(HEAD.format("x"))
    (folder / "folder.md").mkdir()
    (folder / "gone.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "secret").mkdir()
    notices = said(kind, tmp_path)
    for words in (
        "plain.txt is left out: its name must end in .md",
        "upper.MD is left out: its name must end in .md",
        "bare is left out: its name must end in .md",
        "folder.md could not be read: it is a directory",
        "gone.md could not be read: it is a link that leads nowhere",
    ):
        assert len([text for text in notices if words in text]) == 1, (words, notices)


def test_misplaced_skills_are_named(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/skills"
    for name in ("deploy.md", "lower/skill.md", "a/b/c/d/SKILL.md", "other/notes.md", "packed.skill", "group/notes.md",
                 "group/own/SKILL.md", "docs/README.md"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(HEAD.format("x"))
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    notices = said("skills", tmp_path)
    for words in (
        f"deploy.md is left out: a skill is a folder: name the file {folder}/deploy/SKILL.md",
        "skill.md is left out: it must be called SKILL.md",
        "a/b/c is left out: a SKILL.md in it lies too deep",
        "gone is left out: it is a link that leads nowhere",
        "other/notes.md is left out: a skill is in SKILL.md",
        "packed.skill is left out: it is packed",
    ):
        assert len([text for text in notices if words in text]) == 1, (words, notices)
    assert not [text for text in notices if "group" in text or "README" in text]


@pytest.mark.parametrize("kind", ["skills", "agents", "commands", "output-styles"])
def test_non_folder_and_reused_names_are_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / ".sagent").mkdir()
    (tmp_path / ".sagent" / kind).write_text("a file")
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / kind).symlink_to(tmp_path / "nowhere")
    home = Path(os.environ["HOME"]) / ".claude" / kind
    first = put(home, kind, "same", HEAD.format("same").encode())
    second = put(tmp_path / ".claude" / kind, kind, "same", HEAD.format("same").encode())
    notices = said(kind, tmp_path)
    assert f"{tmp_path}/.sagent/{kind} is not read: it is not a directory." in notices
    assert f"{tmp_path}/.agents/{kind} is not read: it is a link that leads nowhere." in notices
    assert len([text for text in notices if f"({second}) is not used: {first} has" in text]) == 1, notices
    assert len(notices) == 3, notices


HEADS = {
    "skills": "allowed-tools: Read\ncontext: fork\nhooks: x\nagent: Explore",
    "agents": "permissionMode: plan\nhooks: x\nbackground: true\nskills: y",
    "commands": "allowed-tools: Bash(git:*)\nmodel: haiku\ncontext: fork",
}


@pytest.mark.parametrize("kind", ["skills", "agents", "commands"])
def test_foreign_files_cost_one_line_a_reason(kind: str, tmp_path: Path) -> None:
    for folder in (".sagent", ".claude"):
        for number in range(9):
            name = f"n{number}/SKILL.md" if kind == "skills" else f"n{number}.md"
            file = tmp_path / folder / kind / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"---\nname: n{number}\ndescription: d\n{HEADS[kind]}\ndescripton: d\n---\nText\n")
    notices = said(kind, tmp_path)
    twins = [text for text in notices if "are not used: others have their names" in text]
    idle = [text for text in notices if text.startswith("Keys of ")]
    typos = [text for text in notices if "there is no key descripton, description may be meant" in text]
    assert [len(twins), len(idle), len(typos), len(notices)] == [1, 1, 1, 3], notices
    assert "n0, n1, n2 and 6 more" in twins[0] and "and 15 more" in typos[0] and "and 17 more" in idle[0]


def test_excess_names_and_wrong_types_are_named(tmp_path: Path) -> None:
    folder = tmp_path / ".sagent"
    for number in range(34):
        put(folder / "agents", "agents", f"a{number:02}", HEAD.format(f"a{number:02}").encode())
    put(folder / "agents", "agents", "odd", b"---\ndescription: x\nmaxTurns: many\neffort: hgih\n---\n")
    put(folder / "commands", "commands", "two words", b"Do it.")
    put(folder / "commands", "commands", "hollow", b"---\ndescription: x\n---\n")
    put(folder / "output-styles", "output-styles", "flag", b"---\nkeep-coding-instructions: often\n---\nx")
    agents, commands = said("agents", tmp_path), said("commands", tmp_path)
    assert any("32 agents" in text and "a32, a33, odd" in text for text in agents)
    assert any("maxTurns is 'many'" in text for text in agents)
    assert any("effort is 'hgih': give " in text for text in agents)
    assert any("two words.md is left out" in text for text in commands)
    assert any("hollow.md is left out" in text for text in commands)
    assert any("keep-coding-instructions is 'often'" in text for text in said("output-styles", tmp_path))


def test_unused_instructions_are_named(tmp_path: Path) -> None:
    (tmp_path / "Agents.md").write_text("Be kind.")
    assert gather(tmp_path, tmp_path / "none").notices == (f"{tmp_path}/Agents.md is not used: name it AGENTS.md.",)
    (tmp_path / "Agents.md").rename(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").write_text("<!-- note -->\n@AGENTS.md\n")
    assert gather(tmp_path, tmp_path / "none").notices == ()  # it says no more
    (tmp_path / "CLAUDE.md").write_text("@AGENTS.md\nBe quick.")
    (said,) = gather(tmp_path, tmp_path / "none").notices
    assert said.startswith(f"{tmp_path}/CLAUDE.md is not used: {tmp_path}/AGENTS.md counts.")
    (tmp_path / "AGENTS.md").write_text("Be kind.\n@CLAUDE.md")
    assert gather(tmp_path, tmp_path / "none").notices == ()
    (tmp_path / "AGENTS.md").write_text("\n")
    assert f"{tmp_path}/AGENTS.md is empty." in gather(tmp_path, tmp_path / "none").notices


@pytest.mark.parametrize("kind", ["skills", "agents", "commands", "output-styles"])
@pytest.mark.parametrize(("old", "new"), [(b"\n", b"\r"), (b"\n", b"\r\n"), (b"---\nname", b"\n\n---\nname"),
                                          (b"name", b"\ttags:\n\t- a\nname")])  # fmt: skip
def test_other_line_ends_and_blanks_first(kind: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    data = HEAD.format("good").encode().replace(old, new.replace(b"\ttags", b"tags"))
    put(tmp_path / ".sagent" / kind, kind, "good", data)
    assert said(kind, tmp_path) == []


@pytest.mark.parametrize("nothing", [b"null", b"~", b"", b"~  # none"])
def test_empty_description_is_none(nothing: bytes, tmp_path: Path) -> None:
    for kind in ("skills", "agents"):
        put(tmp_path / ".sagent" / kind, kind, "empty", b"---\nname: x\ndescription: %s\n---\nText" % nothing)
        (notice,) = said(kind, tmp_path)
        assert "is left out" in notice


@pytest.mark.parametrize("name", ["x/SKILL.mkd", "x/SKILL.md.txt", "x/skills.Markdown", "x.markdown", "x.mkdn"])
def test_skill_called_otherwise_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / ".sagent/skills" / name
    path.parent.mkdir(parents=True)
    path.write_text(HEAD.format("x"))
    (notice,) = said("skills", tmp_path)
    assert f"{path} is left out" in notice
    assert "SKILL.md" in notice


@pytest.mark.parametrize("kind", ["skills", "agents", "commands", "output-styles"])
def test_folder_called_otherwise_is_named(kind: str, tmp_path: Path) -> None:
    names = {kind.title(), kind.upper(), kind.removesuffix("s"), f"{kind} "} | {kind.replace("-", "_")} - {kind}
    for folder in (".sagent", ".claude"):
        for name in names:
            put(tmp_path / folder / name, kind, "x", HEAD.format("x").encode())
    found = {text.partition(" is not read: its name must be ")[0] for text in said(kind, tmp_path)}
    assert {f"{tmp_path}/{folder}/{name}" for folder in (".sagent", ".claude") for name in names} <= found
    (tmp_path / ".sagent" / kind).symlink_to(tmp_path / ".sagent" / kind.upper())  # as where capitals do not count
    assert not any(text.startswith(f"{tmp_path}/.sagent/{kind.upper()} is") for text in said(kind, tmp_path))


@pytest.mark.parametrize("name", ["x.mdown", "x.rst", "x.md ", "x.mkd", "x.md.txt", "x.Markdown"])
def test_text_with_other_ending_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / ".sagent/agents").mkdir(parents=True)
    (tmp_path / ".sagent/agents" / name).write_text(HEAD.format("x"))
    assert [text for text in said("agents", tmp_path) if "its name must end in .md" in text]


def test_quoted_text_over_lines_is_one() -> None:
    document = read_document('---\ndescription: "one\n  two"\nother: >\n  "a" b\n---\nbody')
    assert (document.fields["description"], document.fault) == ("one two", "")
