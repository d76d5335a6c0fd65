"""Executor and advisor on two providers of two families, in real processes."""

import json
from collections.abc import Callable
from decimal import Decimal

from program import Shell

from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Stall, Step, Turn
from tests.depth import later
from tests.waiting import wait_until

ADVISOR = ("--advisor", "openai/gpt-5.2")
Play = Callable[[Received], Step] | list[Step]


def advise(shell: Shell, script: Play) -> FakeProviderServer:
    """A second provider, for the advisor."""
    server = shell.stack.enter_context(FakeProviderServer(script).in_thread())
    shell.environment |= {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    return server


def asking(text: str = "done") -> list[Step]:
    """An executor that asks once, beside another call."""
    return [Turn(calls=(Call("advisor", {"junk": True}), Call("Bash", {"command": "echo hi"}))), Turn(text=text)]


def texts(request: Received) -> list[str]:
    """What an advisor was told and has said, message by message."""
    messages = request.json["input"]
    assert isinstance(messages, list)
    return [json.dumps(message) for message in messages]


def test_advice_shown_with_price_billed_apart(shell: Shell) -> None:
    executor = shell.serve(asking())
    advisor = advise(shell, [Turn(text="VERDICT: adjust\nNEXT: stop guessing")])
    done = shell.run(*ADVISOR, "--output-format", "json", "go")
    assert (done.code, done.err) == (0, "")
    cost = done.json["cost_usd"]
    assert isinstance(cost, dict)
    assert set(cost["by_role"]) == {"executor", "advisor:advisor"}
    assert cost["advisor"] > 0
    assert Decimal(str(cost["total"])) == Decimal(str(cost["executor"])) + Decimal(str(cost["advisor"]))
    assert json.dumps(done.json["advisors"]).startswith('{"advisor": {"calls": 1, "answered": 1,')
    results = executor.requests[1].json["messages"][2]["content"]  # pyright: ignore[reportIndexIssue,reportOptionalSubscript,reportArgumentType,reportCallIssue]
    assert [str(result["content"]).splitlines()[0] for result in results] == ["advisor advises:", "hi"]  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    assert len(advisor.requests) == 1
    shown = shell.run("--advisor", "none", "--log-level", "info", "--continue", "go on")
    assert "╭" not in shown.err


@later
def test_second_process_continues_byte_for_byte(shell: Shell) -> None:
    shell.serve(asking())
    first = advise(shell, [Turn(text="VERDICT: proceed")])
    assert shell.run(*ADVISOR, "go").code == 0
    shell.serve(asking())
    second = advise(shell, [Turn(text="VERDICT: proceed")])
    assert shell.run(*ADVISOR, "--continue", "and more").code == 0
    before, after = texts(first.requests[0]), texts(second.requests[0])
    assert after[: len(before)] == before
    assert "VERDICT: proceed" in after[1]
    assert "and more" in after[2]
    assert second.requests[0].body.startswith(first.requests[0].body.partition(b'],"model"')[0])


@later
def test_stop_ends_the_turn_where_wanted(shell: Shell) -> None:
    shell.serve(asking("all the same"))
    advise(shell, [Turn(text="VERDICT: stop\nGAP: it deletes the data")])
    passed = shell.run(*ADVISOR, "go")
    assert (passed.code, passed.out) == (0, "all the same\n")
    shell.serve(asking("never"))
    advise(shell, [Turn(text="VERDICT: stop\nGAP: it deletes the data")])
    ended = shell.run(*ADVISOR, "--advisor-stop", "end", "--output-format", "json", "go")
    assert ended.code == 1
    assert (ended.json["stop_reason"], ended.json["is_error"]) == ("advisor_stop", True)


@later
def test_failing_advisor_costs_one_line(shell: Shell) -> None:
    executor = shell.serve(asking())
    advise(shell, [Fail(401, message="wrong key")] * 3)  # pyright: ignore[reportArgumentType]
    done = shell.run(*ADVISOR, "--log-level", "info", "go")
    assert (done.code, done.out) == (0, "done\n")
    said = " ".join(done.err.replace("│", "").split())
    assert all(part in said for part in ("asked failed", "does not accept the key"))
    assert "does not accept the key" in json.dumps(executor.requests[1].json)


@later
def test_killed_consultation_session_continues(shell: Shell) -> None:
    shell.serve(asking())
    stalled = advise(shell, [Stall(Turn(text="VERDICT: proceed"), 1)])
    child = shell.start(*ADVISOR, "go")
    wait_until(lambda: stalled.requests, "the advisor is asked", child=child)
    child.kill()
    child.wait()
    shell.serve(asking("here again"))
    advisor = advise(shell, [Turn(text="VERDICT: proceed")])
    done = shell.run(*ADVISOR, "--continue", "go on")
    assert (done.code, done.out) == (0, "here again\n")
    assert len(texts(advisor.requests[0])) == 1


def test_cap_covers_executor_and_advisor(shell: Shell) -> None:
    shell.serve(asking(), bill="worst")
    advise(shell, [Turn(text="VERDICT: proceed")])
    done = shell.run(*ADVISOR, "--max-budget-usd", "0.09", "--output-format", "json", "go")
    cost = done.json["cost_usd"]
    assert isinstance(cost, dict)
    assert cost["total"] <= 0.09


def test_model_mutes_and_unmutes_its_advisor(shell: Shell) -> None:
    def switch(advisor: str) -> Turn:
        return Turn(calls=(Call("AgentSelf", {"switch": {"advisor": advisor}}),))

    ask = Turn(calls=(Call("advisor", {"question": "is it?"}),))
    executor = shell.serve([switch("off"), ask, switch("on"), ask, Turn(text="done")])
    advisor = advise(shell, [Turn(text="VERDICT: proceed")])
    assert shell.run(*ADVISOR, "go").code == 0
    assert "was not asked: it is muted" in json.dumps(executor.requests[2].json)
    assert "advisor advises:" in json.dumps(executor.requests[4].json)
    assert len(advisor.requests) == 1
    assert len({json.dumps(request.json["tools"]) for request in executor.requests}) == 1


@later
def test_continued_session_keeps_advisor(shell: Shell) -> None:
    shell.serve([Turn(text="Hello."), *asking("one"), *asking("two"), Turn(text="three"), Turn(text="four")])
    advisor = advise(shell, [Turn(text="VERDICT: adjust\nNEXT: look"), Turn(text="VERDICT: proceed")])
    assert shell.run(*ADVISOR, "go").code == 0
    assert shell.run("--continue", "--log-level", "info", "go on").out == "one\n"
    assert len(advisor.requests) == 1, "it was not named again"
    assert shell.run("--continue", "--advisor", "none", "and on").code == 0
    assert shell.run("--continue", "and on").code == 0
    assert len(advisor.requests) == 1, "there is none since"
