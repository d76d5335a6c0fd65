"""A session is searched, compacted and rewound from the shell, without a prompt."""

from sagent.context.compaction import HEADINGS
from sagent.testing.script import Call, Turn
from tests.cli.program import Shell
from tests.depth import later

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)


def test_search_compact_and_rewind(shell: Shell) -> None:
    write = Call("Write", {"file_path": "made.txt", "content": "by the second request\n"})
    words = "word ".join(map(str, range(2000)))  # one word for ever would be cut
    long = [Turn(text=f"{'needle word ' if number == 1 else ''}{words}") for number in range(3)]
    server = shell.serve([long[0], Turn(calls=(write,)), long[1], long[2], Turn(text=SUMMARY), Turn(text="Later.")])
    shell.environment["SAGENT_MODEL"] = "anthropic/claude-sonnet-4-6"
    for number in range(3):
        flags = ("--continue",) if number else ()
        assert shell.run("--permission-mode", "edit", *flags, f"request {number}").code == 0
    found = shell.run("sessions", "search", "NEEDLE", "word", model="")
    assert found.code == 0, found.err
    (row,) = found.out.splitlines()
    session = row.split()[0]
    assert "needle word" in row
    assert shell.run("sessions", "search", "nobody", "said", model="").code == 1

    before = len(server.requests)
    done = shell.run("sessions", "compact", session, "keep", "the", "needle", model="")
    assert done.code == 0, done.err
    assert "The context has" in done.out
    assert "were summarized" in done.err
    assert len(server.requests) == before + 1
    assert b"keep the needle" in server.requests[-1].body
    assert shell.run("sessions", "list", "--costs", model="").out.count(" saved ") == 1

    key = shell.environment.pop("ANTHROPIC_API_KEY")  # nothing is asked of a model
    listed = shell.run("sessions", "rewind", session, model="")
    assert "request 1" in listed.out, listed.err
    assert (shell.cwd / "made.txt").exists()
    back = shell.run("sessions", "rewind", session, "2", "both", model="")
    assert back.code == 0, back.err
    assert "back to before: request 1" in back.out
    assert not (shell.cwd / "made.txt").exists()
    missing = shell.run("sessions", "rewind", session, "9", model="")
    assert missing.code == 2
    assert "There is no prompt 9" in missing.err
    shell.environment["ANTHROPIC_API_KEY"] = key
    assert shell.run("--continue", "on").code == 0
    assert b"request 1" not in server.requests[-1].body


@later
def test_printed_session_hides_secrets(shell: Shell) -> None:
    key, padding = "ghp_" + "aB3dE5fG7h" * 3, "word " * 12
    command = Call("Bash", {"command": f"true {padding}TOKEN={key}"})
    shell.serve([Turn(calls=(command,)), Turn(text=f"{padding}The key that you gave me is {key}, and it works.")])
    shell.environment["SAGENT_MODEL"] = "anthropic/claude-sonnet-4-6"
    assert shell.run("--permission-mode", "full", f"use {key} and no other").code == 0
    for words in (["show"], ["list"], ["search", "key", "gave"], ["search", "gave"], ["search", key[:9]]):
        done = shell.run("sessions", *words, model="")
        assert done.code == 0, done.err
        assert "[redacted: token]" in done.out
        assert key[:8] not in done.out
    assert "3 token" in shell.run("sessions", "show", model="").err
    listed = shell.run("sessions", "rewind", shell.run("sessions", "list", "--ids", model="").out.strip(), model="")
    assert key[:8] not in listed.out


@later
def test_unrestorable_file_named_once(shell: Shell) -> None:
    (shell.cwd / "large").write_bytes(b"x" * (2 << 20))
    shell.serve([Turn(calls=(Call("Bash", {"command": "echo more >> large"}),)), Turn(text="Done.")])
    assert shell.run("--permission-mode", "full", "go").code == 0
    (session,) = shell.run("sessions", "list", "--ids", model="").out.split()
    back = shell.run("sessions", "rewind", session, "1", "files", model="")
    assert [line for line in back.out.splitlines() if "large" in line] == [
        "  left alone large: it is larger than 1 MiB"
    ]
