"""`sagent share` and `--format cast`: a session for a web server, and for asciinema."""

import json

from sagent.testing.script import Call
from sagent.testing.server import Turn
from tests.cli.program import Shell

KEY = "sk-ant-api03-" + "a1B2" * 12
SCRIPT = [Turn(text="Let me see.", calls=(Call("Bash", {"command": f"echo {KEY}"}),)), Turn(text="It is *blue*.")]


def test_page_text_and_recording_shared(shell: Shell) -> None:
    shell.serve([*SCRIPT, Turn(text="Again.")])
    assert shell.run("--allow", "Bash(echo:*)", "--sandbox", "off", "look").code == 0
    done = shell.run("share", "--out", "public", model="")
    assert done.code == 0, done.err
    assert "taken out" in done.err
    assert shell.run("again").code == 0
    assert shell.run("share", "--out", "public", model="").code == 0
    folders = [each for each in (shell.cwd / "public").iterdir() if each.is_dir()]
    assert len(folders) == 2
    files = [file for folder in (shell.cwd / "public", *folders) for file in folder.iterdir() if file.is_file()]
    assert len(files) == 1 + 2 * 4
    assert not any(KEY in file.read_text() for file in files)
    index = (shell.cwd / "public/index.html").read_text()
    assert all(folder.name in index for folder in folders)


def test_recording_to_stdout(shell: Shell) -> None:
    shell.serve(SCRIPT)
    assert shell.run("--allow", "Bash(echo:*)", "--sandbox", "off", "look").code == 0
    done = shell.run("export", "--format", "cast", "--out", "-", model="")
    head, *pieces = done.lines
    assert head["version"] == 2
    assert "blue" in json.dumps(pieces)


def test_unwritable_path_named(shell: Shell) -> None:
    shell.serve(SCRIPT)
    assert shell.run("--allow", "Bash(echo:*)", "--sandbox", "off", "look").code == 0
    (shell.cwd / "file").write_text("mine")
    done = shell.run("share", "--out", "file", model="")
    assert done.code == 2
    assert "file" in done.err
