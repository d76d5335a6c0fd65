"""Ends of runs: answers stay answers, and words in place of what was asked for do not pass for it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.cli.headless import EXIT_DONE, EXIT_FAILED
from sagent.context.prompt import SHOWN
from sagent.lib.json import json_freeze_object
from sagent.messages import Message, Text, ToolCall, ToolResult, user
from sagent.plugins.textcalls.endings import Ending, Fault
from sagent.plugins.textcalls.task import commands_to_run, demanded_checks
from sagent.plugins.textcalls.writing import NEXT, OUTPUT, enclose
from sagent.testing.script import Call, Listed, Turn
from tests.cli.program import Shell
from tests.depth import deep, later
from tests.eval.suites import Say, Task
from tests.eval.tasks import TASKS

Step = tuple[str, str, bool]
"""A command, or the path of a written file; the result; and whether it failed."""
FILES = {"cart.py": "def shipping(items):\n    return 0 if items > 50 else 5\n", "server.log": "14:07 ERROR E5512\n"}
GUESS = "You can use the `grep` command to find it."


def ending(request: str, steps: Sequence[Step], reply: str, *, files: Sequence[str] = tuple(FILES)) -> Fault | None:
    """Return the fault of a run in a directory that has these files."""
    shown = [Message("user", (enclose(name, FILES[name]),), f"{SHOWN}{name}") for name in FILES if name in request]
    history = [user(request), *shown]
    for at, (what, result, failed) in enumerate(steps):
        written = what in FILES
        arguments = {"file_path": what, "content": "x"} if written else {"command": what}
        call = ToolCall(f"c{at}", "Write" if written else "Bash", json_freeze_object(arguments))
        history.append(Message("assistant", (call,)))
        history.append(Message("user", (ToolResult(call.id, (Text(result),), is_error=failed),)))
    history.append(Message("assistant", (Text(reply),)))
    return Ending(history, ("",), ("Bash", "Write").__contains__, files.__contains__).fault()


WROTE, SAME = ("cart.py", "Wrote cart.py.", False), ("cart.py", "It holds exactly this already.", True)
PASSED, FAILED = ("python3 test.py", "ok", False), ("python3 test.py", "AssertionError", True)
LOOKED = ("cat cart.py", FILES["cart.py"], False)
PASS = "Fix cart.py so that `python test.py` passes."

FAULTS: Sequence[tuple[str, Sequence[Step], str, str]] = [
    ("Fix the bug in cart.py.", (), GUESS, "undone"),
    ("Fix the bug in cart.py.", (), "The comparison must be >=.", "undone"),
    ("Fix the bug in cart.py.", (LOOKED,), FILES["cart.py"], "undone"),
    ("Fix the bug in cart.py.", (SAME,), "Yes, the task is done.", "undone"),
    ("Fix the bug in cart.py.", (("sh no.sh", "not found", True),), "I cannot do that.", "undone"),
    ("Rename subtotal to total in cart.py and server.log.", (), "Here is how:", "undone"),
    ("Run `python3 report.py` and tell me the number that it prints.", (), "It prints 42.", "undone"),
    ("Which error code does server.log report at 14:07?", (), GUESS, "undone"),
    (
        "Count the lines of cart.py, and write the number into lines.txt.",
        (("wc -l cart.py", "2", False),),
        "2",
        "undone",
    ),
    ("The total of the shop is wrong. Please mend that.", (), "Sure. Let me look at the code first.", "undone"),
    ("Fix the bug in cart.py.", (), "I will now edit the file:\n```python\nx = 1\n```", "undone"),
    ("Fix the bug in cart.py.", (LOOKED,), "I\u2019m going to fix it.", "undone"),
    (
        "Count the lines of cart.py, and write the number into lines.txt.",
        (("# for lines.txt\nn=$(wc -l cart.py)\necho $n", "2", False),),
        "It is in lines.txt.",
        "undone",
    ),
    ("In cart.py, change 50 to 51.", (), "It must be 51.", "undone"),
    ("In cart.py, make total([]) return 0.", (), "It returns 0.", "undone"),
    ("Make the search ignore case.", (("sh no.sh", "not found", True),), "It does.", "undone"),
    ("Could you please fix the bug in cart.py?", (), "Sure, it must be >=.", "undone"),
    ("Hi, can you rename shipping to postage in cart.py?", (), "Here it is.", "undone"),
    ("Will you run `make`?", (), "It prints 4.", "undone"),
    ("I want you to correct cart.py.", (), "It must be >=.", "undone"),
    ("Your task is to fix cart.py. Keep the tests.", (), "It must be >=.", "undone"),
    ("Let's improve the names in cart.py.", (), "Use better ones.", "undone"),
    ("Can you make `python test.py` pass?", (WROTE,), "Done.", "unchecked"),
    ("Please clean up.", (), "Please *clean up*!", "undone"),
    ("What is in cart.py?", (LOOKED,), f"[From sagent] {NEXT}", "echo"),
    ("In cart.py change 50 to 51. Keep everything else.", (), "In cart.py, change 50 to 51.", "undone"),
    ("Sort the lines of server.log, in the same file.", (("sort server.log", "x", False),), "It is sorted.", "undone"),
    ("Fix the bug in cart.py.", (WROTE,), f"The output of the command:\n(no output)\n\n{NEXT}", "echo"),
    ("What is in cart.py?", (LOOKED,), f"{OUTPUT}\n{FILES['cart.py']}\n{NEXT}", "echo"),
    (
        "Which file is the longest?",
        (("ls | tail -n 0", "", False),),
        "The command did not produce any output.",
        "undone",
    ),
    ("Which file is the longest?", (("ls | tail -n 0", "(no output)", False),), "It did not print anything.", "undone"),
    ("Replace 50 in all files.", (("sh no.sh", "not found", True),), "It is busy.", "undone"),
    ("`python test.py` fails. Find out why and repair cart.py.", (WROTE, FAILED), "Done.", "unmended"),
    (PASS, (), "It passes.", "undone"),
    ("Work on it until pytest passes.", (), "It passes.", "unchecked"),
    (PASS, (WROTE,), "Done.", "unchecked"),
    (PASS, (WROTE, PASSED, WROTE), "Done.", "unchecked"),
    (PASS, (PASSED, ("sed -i s/a/b/ cart.py", "", False)), "Done.", "unchecked"),
    (PASS, (WROTE, FAILED), "Done.", "unmended"),
    (PASS, (WROTE, FAILED, LOOKED), "Done.", "unmended"),
    (PASS, (WROTE, ("python3 test.py | tail -3", "FAILED (failures=1)", False)), "Done.", "unmended"),
    ("`python test.py` fails. Fix cart.py and server.log.", (WROTE, FAILED), "Done.", "unmended"),
    ("Make test_cart.py pass. Change cart.py only.", (WROTE,), "Done.", "unchecked"),
    ("Fix cart.py. pytest must pass again.", (WROTE, ("python -m pytest -q", "1 failed", True)), "It is.", "unmended"),
]


@pytest.mark.parametrize(("request_", "steps", "reply", "kind"), FAULTS)
def test_words_in_place_of_work(request_: str, steps: Sequence[Step], reply: str, kind: str) -> None:
    fault = ending(request_, steps, reply)
    assert fault is not None
    assert fault.kind == kind
    assert fault.reason == ("unfinished" if kind in ("undone", "echo") else "failed_check")


ANSWERS: Sequence[tuple[str, Sequence[Step], str]] = [
    ("Is there a TODO in cart.py?", (("grep TODO cart.py", "", False),), "No, there is no TODO."),
    ("What does `true` print?", (LOOKED,), "It printed nothing."),
    ("Find out why `python test.py` fails and tell me.", (FAILED,), "The comparison is wrong."),
    ("Which error code does server.log report at 14:07?", (), "E5512"),
    (
        "Which error code does server.log report?",
        (("grep E server.log", FILES["server.log"], False),),
        "14:07 ERROR E5512",
    ),
    ("What is in cart.py?", (LOOKED,), f"{OUTPUT}\n{FILES['cart.py']}\nIt adds up prices."),
    ("What would you change in cart.py?", (), "I will change the comparison."),
    ("Can you explain how to fix cart.py?", (), "Use >= instead."),
    ("Could you fix cart.py? What is wrong with it?", (), "The comparison."),
    ("Can you run Python code?", (), "Yes."),
    ("Would you change cart.py or leave it?", (), "I would leave it, it is fine."),
    ("Can cart.py be fixed?", (), "Yes, with >=."),
    ("Do you want to fix cart.py?", (), "Yes."),
    ("Explain your next step.", (), "First, I will run the tests."),
    ("Tell me a story.", (), "Let me find my way, said the fox."),
    ("Hello", (), "Hello! Let me know what to change."),
    ("Thanks, that was all.", (), "I will not change anything else."),
    ("Fix the bug in cart.py.", (WROTE,), "Done. I will run the tests if you want."),
    ("What does cart.py do?", (), "You can use it to add up prices."),
    ("How do I find the errors in server.log?", (), GUESS),
    ("Show me cart.py", (LOOKED,), FILES["cart.py"]),
    ("Print the last line of server.log", (("tail -1 server.log", FILES["server.log"], False),), FILES["server.log"]),
    ("Add up the numbers in server.log.", (), "42"),
    ("Sort the lines of server.log and print them.", (("sort server.log", "a\nb\nc", False),), "a\nb\nc"),
    ("Explain how to fix cart.py.", (), "Use >= instead."),
    ("Fix the bug in cart.py.", (), "Which bug do you mean?"),
    ("Fix the bug in cart.py.", (), "There is no bug in cart.py."),
    ("Set RETRIES to 5 in cart.py.", (SAME,), "It is 5 already."),
    ("Fix the bug in cart.py.", (WROTE,), "Done."),
    ("Fix the bug in cart.py.", (("sed -i s/a/b/ cart.py", "", False),), "Done."),
    ("Rename cart.py to kart.py.", (("git mv cart.py kart.py", "", False),), "Done."),
    ("Fix the types of cart.py.", (("ruff check --fix", "Fixed 3.", False),), "Done."),
    ("Run `python3 report.py` and tell me the number that it prints.", (("python3 report.py", "7", False),), "7"),
    ("Run `python3 report.py` and tell me what is wrong.", (("python3 report.py", "No", True),), "It fails: No"),
    ("If the test fails, run `python3 report.py`.", (), "It does not fail."),
    ("Do not run `python3 report.py`. What does it print?", (), "7"),
    ("How do I run `python3 report.py`?", (), GUESS),
    ("Write the number of lines into lines.txt.", (("wc -l < cart.py > out/lines.txt", "", False),), "Done."),
    (PASS, (WROTE, PASSED), "Done."),
    (PASS, (FAILED, WROTE, ("cd . && python3 ./test.py -v", "ok", False)), "Done."),
    (PASS, (WROTE, PASSED, LOOKED), "Done."),
    ("How do I make `python test.py` pass?", (FAILED,), "Use >= instead."),
    ("Run `python test.py` and tell me which test fails. Change nothing.", (FAILED,), "test_cart"),
    ("Why does `python test.py` fail?", (FAILED,), "The comparison is wrong."),
    ("Explain why `python test.py` fails.", (FAILED,), "The comparison is wrong."),
    ("`make` works. Describe cart.py.", (), "It computes shipping."),
]


@pytest.mark.parametrize(("request_", "steps", "reply"), ANSWERS)
def test_answers_stay_answers(request_: str, steps: Sequence[Step], reply: str) -> None:
    assert ending(request_, steps, reply) is None


QUESTIONS = [
    "What is the value of CACHE in cart.py? Answer with the number.",
    "Which file defines the class TokenBucket? Answer with its path.",
    "How many functions does cart.py define?",
    "What does cart.py do?",
    "Is server.log long?",
    "Summarise server.log.",
]


@given(
    st.sampled_from(QUESTIONS),
    st.one_of(
        st.sampled_from(
            ["E5512", "cart.py", "42", *FILES.values(), "`test_cart`", '["a", "b"]', "| a | b |\n|---|---|"]
        ),
        st.text(max_size=60),
    ),
    st.lists(st.sampled_from([LOOKED, FAILED, PASSED, ("ls", "cart.py\n", False)]), max_size=3),
)
@settings(max_examples=deep(40, 400))
def test_no_answer_to_question_is_fault(question: str, reply: str, steps: list[Step]) -> None:
    assert ending(question, steps, reply) is None


RUNS = {
    "run-script": "checksum.py",
    "run-tests": "-m unittest",
    "write-test": "test_slugs.py",
    "fix-syntax": "invoice.py",
    "fix-key": "show.py",
}
UNSEEN = {"add-parameter", "translate-constant"}  # their verbs may also ask for words


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_tasks_of_suite(task: Task) -> None:
    """Done the right way there is no fault; not done there is one, unless it is a question."""
    shown = [
        Message("user", (enclose(*file),), f"{SHOWN}{file[0]}") for file in task.files.items() if file[0] in task.prompt
    ]
    changed = [step.path for step in task.right if not isinstance(step, Say)]
    calls = [ToolCall(path, "Write", json_freeze_object({"file_path": path})) for path in changed]
    if task.name in RUNS:
        calls.append(ToolCall("run", "Bash", json_freeze_object({"command": f"python3 {RUNS[task.name]}"})))
    done = [Message("assistant", tuple(calls)), Message("user", tuple(ToolResult(call.id, ()) for call in calls))]
    answer = Message("assistant", (Text("Yes, the task is done."),))
    right = Ending(
        [user(task.prompt), *shown, *done, answer], ("",), ("Bash", "Write").__contains__, {*changed}.__contains__
    )
    assert right.fault() is None
    fault = Ending(
        [user(task.prompt), *shown, answer], ("",), ("Bash", "Write").__contains__, {*task.files}.__contains__
    ).fault()
    assert (fault is not None) == (bool(calls) and task.name not in UNSEEN)


def test_refused_call_excuses() -> None:
    call = ToolCall("c", "Bash", json_freeze_object({"command": "python test.py"}))
    result = ToolResult("c", (Text("Permission denied: no"),), is_error=True, denied=True)
    history = [
        user(PASS),
        Message("assistant", (call,)),
        Message("user", (result,)),
        Message("assistant", (Text("No."),)),
    ]
    assert Ending(history, ("",), ("Bash", "Write").__contains__, FILES.__contains__).fault() is None


def test_no_judgement_without_tools() -> None:
    history = [user(PASS), Message("assistant", (Text("No."),))]
    assert Ending(history, ("",), ("Read",).__contains__, FILES.__contains__).fault() is None


@pytest.mark.parametrize(
    ("request_", "checks"),
    [
        ("Get `npm test` to pass.", ["`npm test`"]),
        ("Write a.py, so that `python3 a.py` prints 5.", ["`python3 a.py`"]),
        ("Change it until `make check` and `x` work", []),
        ("`make check` must pass, and `cargo build` should work.", ["`make check`", "`cargo build`"]),
        ("The test test_a.py fails. Fix a.py.", ["test_a.py"]),
        ("Run `make check`.", []),
        ("`value` should work", []),
        ("`make check` fails.", []),
    ],
)
def test_checks_of_request(request_: str, checks: list[str]) -> None:
    assert demanded_checks(user(request_)) == checks


def test_shown_cause_is_file_to_mend() -> None:
    call = ToolCall("c", "Bash", json_freeze_object({"command": "pytest"}))
    shown = [Message("user", (enclose(name, "x = 1\n"),), f"{SHOWN}{name}") for name in ("test_cart.py", "cart.py")]
    result = Message("user", (ToolResult("c", (Text("1 failed"),), is_error=True),))
    before = [user("Run `pytest` and repair what fails."), Message("assistant", (call,)), result]
    history = [*before, *shown, Message("assistant", (Text("The sum is wrong."),))]
    fault = Ending(history, ("",), ("Bash", "Write").__contains__, FILES.__contains__).fault()
    assert fault is not None and "Write the path cart.py" in fault.told


def test_orders_to_run() -> None:
    assert commands_to_run(user("First run `make a`, then run `b`. When done, run `make c`.")) == ["`make a`"]


SMALL = [Listed("tiny-q4", window=16_384, owner="llamacpp", weights=1_777_088_000)]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("said", "code", "kind"),
    [
        ([GUESS, GUESS], EXIT_FAILED, "unfinished"),
        ([GUESS, "cart.py\n```\nx = 1\n```", "Done.", "```bash\nsh test.sh\n```", "Done."], EXIT_DONE, ""),
        (["cart.py\n```\nx = 2\n```", "Done.", "Done."], EXIT_FAILED, "failed_check"),
    ],
)
def test_exit_of_run(shell: Shell, said: list[str], code: int, kind: str) -> None:
    (shell.cwd / "cart.py").write_text("x = 0\n")
    Path(shell.cwd / "test.sh").write_text("grep -q 1 cart.py\n")
    server = shell.serve([Turn(text=each) for each in said], models=SMALL, require_key=False)
    flags = ("--base-url", f"{server.url}/v1", "--permission-mode", "full", "--output-format", "json")
    request = "Fix cart.py." if kind == "unfinished" else "Fix cart.py so that `sh test.sh` passes."
    done = shell.run(*flags, request, model="")
    assert (done.code, len([each for each in server.requests if each.method == "POST"])) == (code, len(said))
    assert kind in done.out


@later
def test_native_model_that_only_announces(shell: Shell) -> None:
    (shell.cwd / "cart.py").write_text("x = 0\n")
    says = Turn(text="I will now edit cart.py.")
    writes = Turn(calls=(Call("Bash", {"command": "echo 'x = 1' > cart.py"}),))
    large = [Listed("large", window=65_536, weights=70_000_000_000)]
    for turns, code in (
        ([says, Turn(text="Let me change the file.")], EXIT_FAILED),
        ([says, writes, Turn(text="Done. I will run the tests next.")], EXIT_DONE),
        ([Turn(text="The value of x must be 1.")], EXIT_DONE),
    ):
        server = shell.serve(turns, models=large, require_key=False)
        flags = ("--base-url", f"{server.url}/v1", "--permission-mode", "full", "--output-format", "json")
        done = shell.run(*flags, "Fix cart.py.", model="")
        posts = [each for each in server.requests if each.method == "POST"]
        assert all(each.json.get("tools") for each in posts), "in the native protocol"
        assert (done.code, len(posts), "unfinished" in done.out) == (code, len(turns), code == EXIT_FAILED)
