"""A team's session, asked again of another model."""

# Parts of recordings, JSON and SDK objects are read as what they must be; a wrong one fails the test.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportOptionalIterable=false, reportOptionalSubscript=false

import pytest

from sagent.session.contents import Handoff
from sagent.session.folds import contents
from sagent.session.log import read_log
from sagent.testing.server import Call, Received, Step, Turn
from tests.cli.program import Shell
from tests.depth import later
from tests.plugins.teams.test_team_command import MODEL, USAGE, crew, sessions, team, who

__all__ = ["crew"]  # a fixture


@later
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_team_rerun_keeps_hand_offs(shell: Shell, crew, mode: str) -> None:
    (shell.cwd / "a.txt").write_text("as it was\n")

    def reads(request: Received) -> Step:
        if who(request) == "two" and "as it was" not in request.body.decode():
            return Turn(calls=(Call("Read", {"file_path": "a.txt"}),), usage=USAGE)
        model = "Opus" if "opus" in str(request.json["model"]) else "Sonnet"
        return Turn(text=f"What {who(request)} found by {model}.", usage=USAGE)

    server = shell.serve(reads)
    more = 'editor = "three"' if mode == "parallel" else "visible_handoffs = 1\nhandoff_bytes = 900"
    assert team(shell, crew(mode, more), *MODEL, "The task.").code == 0
    (shell.cwd / "a.txt").write_text("changed since\n")
    before, source = len(server.requests), sessions(shell)[0].name
    flags = ("--model", "anthropic/claude-opus-4-8", "--max-budget-usd", "5", "--output-format", "json")
    done = shell.run("replay", source, *flags, model="")
    assert done.code == 0, done.err
    assert done.json["result"] == "What three found by Opus."
    first, again = server.requests[:before], server.requests[before:]
    assert sorted(map(who, again)) == sorted(map(who, first)) and len(again) == 4
    for one, other in zip(sorted(first, key=who), sorted(again, key=who), strict=True):
        assert other.json["model"] == "claude-opus-4-8"
        said = one.body.decode().replace("sonnet-4-6", "opus-4-8").replace("by Sonnet", "by Opus")
        assert [said.count(part) for part in ("Your part", "The task.", "handoff from", "left out")] == [
            other.body.decode().count(part) for part in ("Your part", "The task.", "handoff from", "left out")
        ]
        assert [tool["name"] for tool in one.json.get("tools", ())] == [
            tool["name"] for tool in other.json.get("tools", ())
        ]
        assert one.json["system"][0]["text"] == other.json["system"][0]["text"]
    assert "as it was" in str([request.body for request in again])
    assert "changed since" not in str([request.body for request in again])
    assert (shell.cwd / "a.txt").read_text() == "changed since\n"
    assert "team crew, " + mode in done.err
    assert "1 calls were answered" in done.err and "0 are not in it" in done.err
    rounds = [
        [(each.giver, each.taker, each.given and (each.given.visible, each.given.left_out, each.given.handoff_bytes))
         for each in contents(read_log(path / "root.jsonl"), Handoff)]
        for path in sessions(shell)
    ]  # fmt: skip
    assert len(rounds) == 2 and sorted(map(str, rounds[0])) == sorted(map(str, rounds[1]))
    compared = shell.run("compare", source, *flags, model="")
    assert compared.code == 0, compared.err
    assert compared.json["actions"] == {"a": 1, "b": 1, "same": 1, "share": 1.0}
    assert {row["agent"] for row in compared.json["turns"]} == {"root/one", "root/two", "root/three"}
    assert all(row["a"] and row["b"] for row in compared.json["turns"])
    results = [compared.json[side]["result"] for side in "ab"]
    assert results == ["What three found by Sonnet.", "What three found by Opus."]
