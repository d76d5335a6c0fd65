"""What programs other than git would obey in any directory is taken out when a command made it."""

import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sagent.policy.permissions import PermissionPolicy
from sagent.sandbox import Sandbox
from sagent.sandbox.obeyed import Obeyed, harmless_lines
from sagent.sandbox.places import known_places
from sagent.sandbox.plants import Plants, ProtectedPaths
from sagent.sandbox.probe import Confinement
from sagent.tool import Workspace
from tests.depth import later

MADE = {
    # name: what a command does in an empty tree; what it wrote has "evil" in it, and is obeyed at the path
    "mercurial": ("mkdir -p sub/.hg; printf '[hooks]\\nupdate = evil\\n' > sub/.hg/hgrc", "sub/.hg/hgrc"),
    "mercurial, shared": (
        "mkdir -p sub/.hg x; echo ../../x > sub/.hg/sharedpath; printf '[alias]\\nst = !evil\\n' > x/hgrc",
        "x/hgrc",
    ),
    "mercurial, by a link": (
        "mkdir -p sub x; printf '[alias]\\nst = !evil\\n' > x/hgrc; ln -s ../x sub/.hg",
        "sub/.hg/hgrc",
    ),
    "mercurial, renamed": ("mkdir -p sub x; printf '[alias]\\nst = !evil\\n' > x/hgrc; mv x sub/.hg", "sub/.hg/hgrc"),
    "sapling": ("mkdir -p d/sub/.sl; printf '[alias]\\nst = !evil\\n' > d/sub/.sl/config", "d/sub/.sl/config"),
    "sapling in git": (
        "git init -q sub; mkdir sub/.git/sl; printf '[alias]\\nst = !evil\\n' > sub/.git/sl/config",
        "sub/.git/sl/config",
    ),
    "jujutsu": (
        "mkdir -p sub/.jj/repo; printf '[ui]\\npager = [\"evil\"]\\n' > sub/.jj/repo/config.toml",
        "sub/.jj/repo/config.toml",
    ),
    "jujutsu, elsewhere": (
        "mkdir -p sub/.jj x; printf ../../x > sub/.jj/repo; printf '[ui]\\neditor = \"evil\"\\n' > x/config.toml",
        "x/config.toml",
    ),
    "darcs": (
        "mkdir -p sub/_darcs/prefs; echo 'ALL prehook evil' > sub/_darcs/prefs/defaults",
        "sub/_darcs/prefs/defaults",
    ),
    "pijul": (
        "mkdir -p sub/.pijul; printf '[hooks]\\nrecord = [\"evil\"]\\n' > sub/.pijul/config",
        "sub/.pijul/config",
    ),
    "breezy": (
        "mkdir -p sub/.bzr/branch; echo 'gpg_signing_command = evil' > sub/.bzr/branch/branch.conf",
        "sub/.bzr/branch/branch.conf",
    ),
    "direnv": ("mkdir -p a/b; echo evil > a/b/.envrc", "a/b/.envrc"),
    "direnv, by a link": ("mkdir -p a/b; echo evil > a/b/x; ln -s x a/b/.envrc", "a/b/.envrc"),
    "direnv, renamed": ("mkdir -p a/b; echo evil > a/b/x; mv a/b/x a/b/.envrc", "a/b/.envrc"),
    "direnv, another name of a file": ("mkdir -p a/b; echo evil > a/b/x; ln a/b/x a/b/.envrc", "a/b/.envrc"),
    "an editor": ('mkdir -p a/.vscode; echo \'{"x": "evil"}\' > a/.vscode/tasks.json', "a/.vscode/tasks.json"),
    "an editor, renamed": ("mkdir -p a/x; echo evil > a/x/settings.json; mv a/x a/.vscode", "a/.vscode/settings.json"),
    "mise": ("mkdir a; printf '[hooks]\\nenter = \"evil\"\\n' > a/mise.toml", "a/mise.toml"),
    "mise, a version": (
        "mkdir -p a/.config/mise; echo 'x = \"evil()\"' > a/.config/mise/config.toml",
        "a/.config/mise/config.toml",
    ),
    "asdf": ("mkdir a; echo python path:evil > a/.tool-versions", "a/.tool-versions"),
    "mise, without a dot": ("mkdir -p a/mise; echo 'x = \"evil()\"' > a/mise/config.toml", "a/mise/config.toml"),
    "R": ("mkdir a; echo 'system(\"evil\")' > a/.Rprofile", "a/.Rprofile"),
    "old times": ("mkdir a; echo evil > a/.envrc; touch -d 2001-01-01 a/.envrc a", "a/.envrc"),
    "closed": ("mkdir -p a/b; echo evil > a/b/.envrc; chmod 111 a/b a", "a/b/.envrc"),
    "an agent": ("mkdir -p a/.claude/hooks; echo evil > a/.claude/settings.json", "a/.claude/settings.json"),
}


@pytest.fixture(params=["bubblewrap", "landlock"])
async def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
    if request.param == "landlock":
        monkeypatch.setattr("sagent.sandbox.probe.probe", lambda cache: Confinement("landlock"))
    sandbox = Sandbox()
    if sandbox.means.name != request.param:
        pytest.skip(sandbox.means.why)
    yield sandbox
    await sandbox.aclose()


async def confined(sandbox: Sandbox, line: str, cwd: Path) -> list[str]:
    profile = PermissionPolicy("edit").profile(Workspace(cwd))
    confined = await sandbox.confine(["bash", "-c", line], profile, cwd)
    argv, environment = confined.launched(os.environ)
    subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, check=False)
    return list(confined.finish())


@pytest.mark.costly
@pytest.mark.parametrize("name", MADE)
async def test_planted_program_files_are_removed(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    line, obeyed = MADE[name]
    said = await confined(sandbox, line, tmp_path)
    place = tmp_path / obeyed
    assert not place.exists() or b"evil" not in place.read_bytes()
    assert any("would obey" in each and str(tmp_path) in each for each in said)


@pytest.mark.parametrize("name", MADE)
def test_same_line_makes_it_without_sandbox(tmp_path: Path, name: str) -> None:
    line, obeyed = MADE[name]
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    subprocess.run(["chmod", "-R", "u+rwx", "."], cwd=tmp_path, check=True)
    assert b"evil" in (tmp_path / obeyed).read_bytes()


ORDINARY = {
    "a clone of mercurial": (
        ".hg/hgrc",
        "# example\n[paths]\ndefault = https://example.org/x\n\n[ui]\n# username = a\n",
    ),
    "a clone of jujutsu": (".jj/repo/config.toml", '[revset-aliases]\n"trunk()" = "main@origin"\n'),
    "versions": (".tool-versions", "nodejs 20.11.0\npython 3.12.1 system # both\nelixir ref:v1.2\n"),
    "tools": ("mise.toml", '[tools]\nnode = "20"\npython = "3.12.1"\n'),
    "suggested extensions": (".vscode/extensions.json", '{"recommendations": ["a.b"]}\n'),
    "what was installed": ("node_modules/x/.vscode/settings.json", "{}\n"),
    "what terraform fetched": (".terraform/modules/x/.vscode/settings.json", "{}\n"),
    "a name like it": (".envrc.example", "export A=1\n"),
    "a repository of darcs": ("_darcs/prefs/prefs", "boringfile .boring\n"),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", ORDINARY)
async def test_ordinary_files_stay(sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    path, text = ORDINARY[name]
    (tmp_path / "source").write_text(text)
    assert await confined(sandbox, f"mkdir -p $(dirname sub/{path}); cp source sub/{path}", tmp_path) == []
    assert (tmp_path / "sub" / path).read_text() == text


@pytest.mark.costly
async def test_copy_of_what_the_person_has_stays(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/settings.json").write_text("{}")
    (tmp_path / ".envrc").write_text("layout python\n")
    assert await confined(sandbox, "mkdir w; cp -r .vscode .envrc w", tmp_path) == []
    assert (tmp_path / "w/.vscode/settings.json").exists()
    said = await confined(sandbox, "mkdir v; cp -r .vscode v; echo 1 > v/.vscode/tasks.json", tmp_path)
    assert str(tmp_path / "v/.vscode") in said[0]
    assert not (tmp_path / "v/.vscode/tasks.json").exists()


@pytest.mark.costly
async def test_persons_files_between_commands_stay(sandbox: Sandbox, tmp_path: Path) -> None:
    await confined(sandbox, "mkdir -p a/b", tmp_path)
    (tmp_path / "a/b/.envrc").write_text("layout python\n")
    assert await confined(sandbox, "touch a/b/c; mv a d", tmp_path) == []
    assert (tmp_path / "a/b/.envrc").exists() or (tmp_path / "d/b/.envrc").exists()


@pytest.mark.costly
@pytest.mark.parametrize("has_unnamed_files", [True, False])
def test_persons_files_around_commands_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_unnamed_files: bool
) -> None:
    if not has_unnamed_files:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    plants, work = Plants(tmp_path / "aside"), tmp_path / "work"

    def write(name: str) -> Path:
        place = work / name / ".envrc"
        place.parent.mkdir(parents=True)
        place.write_text("echo")
        return place

    own: list[Path] = []
    for number in range(20):
        own.append(write(f"{number}-before"))
        assert plants.begin([str(work)], ProtectedPaths()) == []
        planted = write(f"{number}-command")
        assert plants.end(ProtectedPaths(), goes_on=False) == [str(planted)]
        own.append(write(f"{number}-after"))
        assert not planted.exists()
    assert plants.begin([str(work)], ProtectedPaths()) == []
    assert all(place.exists() for place in own)


def obeyed_in(place: Path) -> Path:
    (place / ".vscode").mkdir(parents=True)
    (place / ".vscode/tasks.json").write_text("evil")
    (place / ".envrc").write_text("evil")
    return place


@pytest.mark.costly
@pytest.mark.parametrize("name", [".envrc", "d/.envrc", "d/.mise.toml"])
def test_plant_is_not_kept_as_protected(tmp_path: Path, name: str) -> None:
    """A command that still runs writes it time and again, and the next one finds it among what is protected."""
    plant, plants = tmp_path / "work" / name, Plants(tmp_path / "aside")
    plant.parent.mkdir(parents=True)
    assert plants.begin([str(tmp_path / "work")], ProtectedPaths()) == []
    for places in (ProtectedPaths(), ProtectedPaths(frozenset({str(plant)}))):
        plant.write_text("evil")
        assert plants.begin([str(tmp_path / "work")], places, [str(plant)]) == [str(plant)]
    plant.write_text("evil")
    assert plants.end(places, goes_on=False) == [str(plant)]
    assert not plant.exists()


@pytest.mark.costly
@pytest.mark.parametrize("moved", ["node_modules", "node_modules/a", "node_modules/a/b"])
def test_plant_in_skipped_directory_is_not_moved(tmp_path: Path, moved: str) -> None:
    work, plants = tmp_path / "work", Plants(tmp_path / "aside")
    obeyed_in(work / "node_modules/a/b/c")
    assert plants.begin([str(work)], ProtectedPaths()) == []
    assert plants.end(ProtectedPaths(), goes_on=False) == []
    assert plants.begin([str(work)], ProtectedPaths()) == []
    (work / moved).rename(work / "sub")
    assert len(plants.end(ProtectedPaths(), goes_on=False)) == 2
    assert not [*(work / "sub").rglob("tasks.json"), *(work / "sub").rglob(".envrc")]


def test_moved_file_of_the_person_stays(tmp_path: Path) -> None:
    work, plants = tmp_path / "work", Plants(tmp_path / "aside")
    own = obeyed_in(work / "own")
    protected = [str(own / ".vscode"), str(own / ".envrc")]
    for _ in range(2):
        assert plants.begin([str(work)], ProtectedPaths(), protected) == []
        assert plants.end(ProtectedPaths(), goes_on=False) == []
    assert plants.begin([str(work)], ProtectedPaths(), protected) == []
    own.rename(work / "moved")
    (work / "moved/made").touch()
    assert plants.end(ProtectedPaths(), goes_on=False) == []
    assert (work / "moved/.vscode/tasks.json").exists() and (work / "moved/.envrc").exists()


async def test_allowed_edit_beside_command_stays(sandbox: Sandbox, tmp_path: Path) -> None:
    profile = PermissionPolicy("edit").profile(Workspace(tmp_path))
    command = await sandbox.confine(["bash", "-c", "mkdir a; read"], profile, tmp_path)
    argv, environment = command.launched(os.environ)
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdin=subprocess.PIPE) as running:
        place = tmp_path / "a/.vscode/settings.json"
        with sandbox.changing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("{}")
        running.communicate(b"\n")
    assert list(command.finish()) == []
    assert place.read_text() == "{}"


@pytest.fixture
def warned(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of a sandbox that looks at one directory for each command, and at the others by and by."""
    monkeypatch.setattr("sagent.sandbox.plants._SLICE_SECONDS", 0.0)
    monkeypatch.setattr("sagent.sandbox.survey._NEAR_DIRECTORIES", 1)
    monkeypatch.setattr("sagent.sandbox.survey._FAR_DIRECTORIES", 60)  # bubblewrap's time is the square of the files
    said: list[str] = []
    sandbox.warn = said.append
    return said


@pytest.mark.costly
async def test_plant_found_first_by_others_is_removed(sandbox: Sandbox, tmp_path: Path, warned: list[str]) -> None:
    line = "git init -q a/b/c; git -C a/b/c config alias.up '!true'; mkdir -p d/e/f; echo evil > d/e/f/.envrc"
    await confined(sandbox, line, tmp_path)
    said = await confined(sandbox, "true", tmp_path)
    await sandbox.aclose()
    assert "!true" not in (tmp_path / "a/b/c/.git/config").read_text()
    assert not (tmp_path / "d/e/f/.envrc").exists()
    assert len([each for each in (*said, *warned) if "d/e/f/.envrc" in each]) == 1


@pytest.mark.costly
@pytest.mark.parametrize("inside", [".git/x", ".git/refs/x/y", ".git/modules/x"])
async def test_nested_repository_names_no_program(sandbox: Sandbox, tmp_path: Path, inside: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    line = f"git init -q --bare {inside}; git -C {inside} config core.fsmonitor ./evil; ls .git"
    said = await confined(sandbox, line, tmp_path)
    assert b"evil" not in (tmp_path / inside / "config").read_bytes()
    assert any("core.fsmonitor" in each for each in said)


@pytest.mark.parametrize(
    ("name", "text", "left"),
    [
        (".hg/hgrc", b"[paths]\ndefault = x\n%include y\n", b"[paths]\ndefault = x\n"),
        (".hg/hgrc", b"[hooks]\ndefault = evil\n evil2\n[paths]\ndefault = x\n", b"[paths]\ndefault = x\n"),
        ("mise.toml", b'[tools.node]\npostinstall = "./evil"\n', b""),
        ("mise.toml", b'[tools]\nx = """\n[env]\n"""\n', b"[tools]\n"),
        (".tool-versions", b"python path:/x\nnodejs 20\n", b"nodejs 20\n"),
        (".envrc", b"# nothing\n", b""),
    ],
)
def test_lines_naming_a_program_are_left_out(tmp_path: Path, name: str, text: bytes, left: bytes) -> None:
    (tmp_path / "file").write_bytes(text)
    assert harmless_lines(Obeyed(str(tmp_path / "file"), name)) == left


def test_protected_files_keep_harmless_lines() -> None:
    places = known_places()
    for name in places.harmless:
        assert any(name == each or name.startswith(f"{each}/") for each in places.protected), name


@pytest.mark.costly
@pytest.mark.parametrize(
    "line",
    [
        r"mkdir s; printf 'gitdir: a\0b' > s/.git",
        r"git init -q s; printf 'a\0b' > s/.git/commondir",
        r"git init -q s; printf '[include]\n\tpath = a\0b\n' >> s/.git/config",
        r"mkdir -p s/.hg; printf 'a\0b' > s/.hg/sharedpath",
        r"mkdir -p s/.jj; printf 'a\0b' > s/.jj/repo",
        r"mkdir -p s/.hg; printf '%5000s' x | tr ' ' a > s/.hg/sharedpath",
        r"mkdir -p s; ln -s .hg s/.hg; ln -s . s/.vscode",
        r"mkdir -p s; printf '\377\376' > s/.tool-versions; mkdir s/$'\377'; printf '\377' > s/$'\377'/.envrc",
    ],
)
async def test_impossible_paths_do_not_stop_search(sandbox: Sandbox, tmp_path: Path, line: str) -> None:
    said = await confined(sandbox, f"{line}; mkdir t; echo evil > t/.envrc", tmp_path)
    assert not (tmp_path / "t/.envrc").exists()
    assert str(tmp_path / "t/.envrc") in "".join(said)
    await confined(sandbox, "true", tmp_path)


@pytest.mark.costly
async def test_git_path_ends_at_nul(sandbox: Sandbox, tmp_path: Path) -> None:
    line = r"git init -q s; mkdir -p x/y; mv s/.git x/y/g; printf 'gitdir: ../x/y/g\0z' > s/.git"
    await confined(
        sandbox, f"{line}; printf '[core]\n\tfsmonitor = evil\n' >> x/y/g/config; rm -r x/y/g/refs", tmp_path
    )
    assert b"evil" not in (tmp_path / "x/y/g/config").read_bytes()


@pytest.mark.costly
async def test_branches_are_not_taken_for_files(sandbox: Sandbox, tmp_path: Path) -> None:
    name = "-c user.name=a -c user.email=a@b"
    line = f"git init -q s; cd s; git {name} commit -q --allow-empty -m x; git branch mise.toml; git tag opencode.json"
    assert await confined(sandbox, line, tmp_path) == []
    assert (tmp_path / "s/.git/refs/heads/mise.toml").exists()


GROWN = {
    "its head": ("mkdir -p s/objects s/refs", "echo ref: refs/heads/x > s/HEAD", "s/config"),
    "its objects": ("mkdir -p s/refs x; echo ref: refs/heads/x > s/HEAD", "mv x s/objects", "s/config"),
    "a name": ("mkdir s", "mkdir t; mv s t/.hg", "t/.hg/hgrc"),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", GROWN)
async def test_earlier_plant_is_no_part_of_new_file(tmp_path: Path, name: str) -> None:
    before, now, config = GROWN[name]
    evil = "printf '[alias]\\n\\tst = !evil\\n' > s/config; cp s/config s/hgrc"
    for line in (f"{before}; {evil}", now):
        sandbox = Sandbox()
        if not sandbox.stands:
            pytest.skip(sandbox.means.why)
        await confined(sandbox, line, tmp_path)
        await sandbox.aclose()
    assert not (tmp_path / config).exists() or b"evil" not in (tmp_path / config).read_bytes()


@later
@pytest.mark.costly
async def test_many_unseen_files_stop_no_command(sandbox: Sandbox, tmp_path: Path, warned: list[str]) -> None:
    for number in range(60):
        (tmp_path / f"own/{number}").mkdir(parents=True)
        (tmp_path / f"own/{number}/.envrc").write_text("layout python\n")
    await confined(
        sandbox, "mkdir many; cd many; for i in $(seq 60); do mkdir $i; echo evil > $i/.envrc; done", tmp_path
    )
    with ExitStack() as opened:
        for _ in range(1_100):  # as for as many mounts
            opened.enter_context(Path(os.devnull).open())
        await confined(sandbox, "touch made", tmp_path)
    assert (tmp_path / "made").exists()
    assert not list((tmp_path / "many").glob("*/.envrc"))
    assert len(list((tmp_path / "own").glob("*/.envrc"))) == 60
    assert re.search(r"\d+ more\b", warned[0])
    assert len(warned[0]) < 20_000


@later
@pytest.mark.costly
async def test_persons_files_stay_in_command_places(sandbox: Sandbox, tmp_path: Path) -> None:
    own = "[alias]\n\tup = !true\n"
    line = "git init -q . && mkdir -p .vscode d/.hg && echo '{}' > .vscode/settings.json && echo layout > .envrc"
    subprocess.run(["bash", "-c", f"{line} && echo node 20 > .tool-versions"], cwd=tmp_path, check=True)
    for place in (tmp_path / ".git/config", tmp_path / "d/.hg/hgrc"):
        with place.open("a") as file:
            file.write(own)
    warned: list[str] = []
    sandbox.warn = warned.append
    commit = (
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git checkout -q -b y; touch d/.hg/x d/x"
    )
    said = await confined(sandbox, commit, tmp_path)
    said += await confined(sandbox, "git worktree add -q w; mkdir e; cp -r .vscode .envrc e/", tmp_path)
    said += await confined(sandbox, "true", tmp_path)
    await sandbox.aclose()
    assert (said, warned) == ([], [])
    assert own in (tmp_path / ".git/config").read_text()
    assert own in (tmp_path / "d/.hg/hgrc").read_text()
    assert (tmp_path / "e/.vscode/settings.json").exists()
