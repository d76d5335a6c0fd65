"""The text protocol between the engine and any model: what goes out, what comes back, and switching in mid-session."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.codec import decode_message, encode_message
from sagent.context.calls import explain_cut
from sagent.context.prompt import PROMPT_FILE
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.engine.context import specs_of
from sagent.lib.json import JsonObject, canonical_bytes, json_freeze_object, json_load
from sagent.messages import Image, Message, Part, Private, Text, Thinking, ToolCall, ToolResult, assistant, user
from sagent.model import Billed, ModelLimits, Reply, Request, TextPart, ToolSpec, is_same_model
from sagent.plugins.textcalls.blocks import FAMILY, read
from sagent.plugins.textcalls.model import TextModel
from sagent.plugins.textcalls.writing import ANSWER, COUNT, DONE, LOST, NEXT, block_of, enclose, encloses
from sagent.providers import Anthropic, Moonshot, OpenAICompatible
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import agent_tools, coding_tools
from tests.depth import deep

TOOLS = tuple(specs_of([*coding_tools(), *agent_tools()]))
LOOK = (
    "(Do not guess: first write a ```bash block: the command that was asked for, or one that looks at the files "
    "that matter.)"
)


def request(*messages: Message, tools: Sequence[ToolSpec] = TOOLS, system: str = "", name: str = "c") -> Request:
    return Request(name, messages, system, tuple(tools), 100)


def texts_of(written: Request) -> list[str]:
    return [message.content for message in written.messages]


async def reply_of(model: TextModel, asked: Request) -> tuple[str, Reply]:
    shown, reply = "", None
    async for item in model.stream(asked):
        if isinstance(item, TextPart):
            shown += item.text
        elif isinstance(item, Reply):
            reply = item
    assert reply is not None
    return shown, reply


def result(call: ToolCall, text: str, *, is_error: bool = False, denied: bool = False) -> ToolResult:
    return ToolResult(call.id, (Text(text),), is_error, denied)


async def test_blocks_become_calls() -> None:
    said = "I look.\n\n```bash\nls\n```\n\nThe output is:\n\n```\na.py\n```\n"
    inner = ScriptedModel(tuple(said))
    shown, reply = await reply_of(TextModel(inner), request(user("What is here?"), system="S"))
    message = reply.message
    assert message.stop == "tool_use"
    assert [part.text for part in message.parts if isinstance(part, Text)] == ["I look."]
    (call,) = message.calls
    assert (call.name, dict(call.arguments)) == ("Bash", {"command": "ls"})
    assert call.private == Private(FAMILY, "\n\n```bash\nls\n```\n")
    assert shown == "I look.\n\n```bash\nls\n```\n"
    (sent,) = inner.requests
    assert (sent.tools, sent.output_schema) == ((), None)
    assert texts_of(sent) == [f"What is here?\n\n{LOOK}"]


async def test_reply_without_block_unchanged() -> None:
    said = "Use `ls`:\n\n```python\nx\n```\n"
    inner = ScriptedModel(tuple(said))
    shown, reply = await reply_of(TextModel(inner), request(user("hi")))
    assert shown == reply.message.content == said
    assert reply.message.stop == "end"


async def test_cut_reply() -> None:
    cut = Message("assistant", (Text("```bash\nls\n```\na.py\n```\nx = 1"),), stop="max_tokens")
    after = Message("assistant", (Text("```bash\nls\n```\nIt prin"),), stop="max_tokens")
    refused = Message("assistant", (Text("```bash\nls\n```\n"),), stop="refusal")
    model = TextModel(ScriptedModel("Hello.", cut, after, refused))
    await reply_of(model, request(user("hi")))
    _, reply = await reply_of(model, request(user("hi")))
    assert [(call.name, call.whole) for call in reply.message.calls] == [("Bash", True), ("Write", False)]
    assert reply.message.stop == "max_tokens"
    _, reply = await reply_of(model, request(user("hi")))
    assert [call.whole for call in reply.message.calls] == [True]
    assert reply.message.stop == "tool_use"
    _, reply = await reply_of(model, request(user("hi")))
    assert [call.whole for call in reply.message.calls] == [False]
    assert reply.message.stop == "refusal"


async def test_cut_reply_makes_no_open_call() -> None:
    text = "Maybe:\n```bash\nrm -rf x\n```\nNo, first\n```bash\nls\n```\nand"
    cut = Message("assistant", (Text(text),), stop="max_tokens")
    model = TextModel(ScriptedModel(cut, "```bash\nls\n```\n", cut))
    _, first = await reply_of(model, request(user("hi")))
    assert [call.whole for call in first.message.calls] == [False, False]
    assert first.message.stop == "max_tokens"
    answers = [result(call, explain_cut(call, "max_tokens"), is_error=True) for call in first.message.calls]
    history = [user("hi"), first.message, Message("user", tuple(answers))]
    sent = texts_of(model.written(request(*history)))
    assert sent[1] == text.rpartition("and")[0]
    assert "may have been a thought" in sent[2] and "no end" not in sent[2]
    _, second = await reply_of(model, request(*history))
    assert [call.whole for call in second.message.calls] == [True]
    history += [second.message, Message("user", (result(second.message.calls[0], "a.py"),))]
    for one in (model, TextModel(ScriptedModel(cut))):  # the other one has the history alone
        _, reply = await reply_of(one, request(*history))
        assert [call.whole for call in reply.message.calls] == [True, True]


@pytest.mark.parametrize(
    "parts",
    [(Thinking("It is a file."), Text("```bash\nls\n```\nIt")), (Text("<think>x</think>\n```bash\nls\n```\nIt"),)],
)
async def test_cut_reply_with_thinking_makes_calls(parts: tuple[Part, ...]) -> None:
    cut = Message("assistant", parts, stop="max_tokens")
    _, reply = await reply_of(TextModel(ScriptedModel(cut)), request(user("hi")))
    assert [(call.name, call.whole) for call in reply.message.calls] == [("Bash", True)]


def test_unclosed_block_retried_once() -> None:
    cut = Message(
        "assistant", read("a.py\n```\nx = 1\nx = 1\n", {tool.name: tool for tool in TOOLS}, "max_tokens", "1")
    )
    cut = replace(cut, stop="max_tokens", model="llamacpp/m")
    answer = Message("user", (result(cut.calls[0], explain_cut(cut.calls[0], cut.stop), is_error=True),))
    asked = user("Write a.py.")
    own = OpenAICompatible.from_env(environ={"OPENAI_COMPATIBLE_BASE_URL": "http://127.0.0.1:1"})
    model = TextModel(own.model("m"))
    first = model.written(request(asked))
    again = model.written(request(asked, cut, answer))
    assert texts_of(again) == texts_of(first)
    assert first.options.get("presence_penalty") is None and again.options["presence_penalty"]
    assert TextModel(ScriptedModel()).written(request(asked, cut, answer)).options == first.options
    told = [asked, cut, answer, user("Go on.", sender="root")]
    assert texts_of(model.written(request(*told))) == [*texts_of(first), "Go on."]
    second = model.written(request(asked, cut, answer, cut, answer))
    assert len(second.messages) == 3 and "presence_penalty" not in second.options
    assert "has no end" in second.messages[-1].content
    whole = assistant("Done.")
    assert texts_of(model.written(request(asked, cut, answer, whole, user("x"))))[:2] == [*texts_of(first), "Done."]


@pytest.mark.parametrize("resumed", [False, True])
async def test_cut_thinking_first_makes_no_call(*, resumed: bool) -> None:
    whole = "I could list it.\n</think>\n```bash\nls\n```\n"
    cut = Message("assistant", (Text("Maybe:\n```bash\nrm -rf x\n```\nNo, be"),), stop="max_tokens")
    model = TextModel(ScriptedModel(whole, cut))
    _, first = await reply_of(model, request(user("hi")))
    assert [call.arguments["command"] for call in first.message.calls] == ["ls"]
    if resumed:  # by another process, which has the history alone
        model = TextModel(ScriptedModel(cut))
    answer = Message("user", (ToolResult(first.message.calls[0].id, (Text("a.py"),)),))
    shown, reply = await reply_of(model, request(user("hi"), first.message, answer))
    assert reply.message.calls == ()
    assert shown == reply.message.content == cut.content
    assert reply.message.stop == "max_tokens"


async def test_thinking_marks_in_text_kept() -> None:
    about = "It ends so:\n```\n</think>\n```\nand `</think>` in a line."
    cut = Message("assistant", (Text("```bash\nls\n```\nIt prin"),), stop="max_tokens")
    model = TextModel(ScriptedModel(about, cut))
    _, first = await reply_of(model, request(user("hi")))
    _, reply = await reply_of(model, request(user("hi"), first.message, user("list it")))
    assert [call.arguments["command"] for call in reply.message.calls] == ["ls"]


async def test_blocks_in_thinking_ignored() -> None:
    line = (Thinking("```bash\nrm -rf x\n```\n"), "```bash\nls\n```", Thinking("x"), "a.py\n```\n```")
    _, reply = await reply_of(TextModel(ScriptedModel(line)), request(user("hi")))
    assert [dict(call.arguments).get("command", "") for call in reply.message.calls] == ["ls", ""]
    assert [type(part) for part in reply.message.parts] == [Thinking, ToolCall, Thinking, ToolCall]
    assert len({call.id for call in reply.message.calls}) == 2


async def test_no_tools_means_no_calls() -> None:
    inner = ScriptedModel("```bash\nls\n```", "```bash\nls\n```\n")
    model = TextModel(inner)
    schema = json_freeze_object({"type": "object"})
    _, reply = await reply_of(model, replace(request(user("hi"), tools=()), output_schema=schema))
    assert reply.message.content == "```bash\nls\n```"
    assert inner.requests[0].output_schema == schema
    assert texts_of(inner.requests[0]) == ["hi"]
    _, reply = await reply_of(model, request(user("Sum it up.", sender="sagent"), name="c:compactor"))
    assert reply.message.stop == "end"  # a summary may quote a block


def test_only_default_prompt_replaced() -> None:
    model, default = TextModel(ScriptedModel()), PROMPT_FILE.read_text("utf-8").strip()
    written = model.written(request(user("hi"), system=f"{default}\n\nDate: today")).system
    assert default not in written
    assert written.endswith("\n\nDate: today")
    own = model.written(request(user("hi"), system="You are a pirate.")).system
    assert own.endswith("You are a pirate.")
    assert own.removesuffix("You are a pirate.") == written.removesuffix("Date: today").replace(default, "")


def test_prompt_lists_tools() -> None:
    model = TextModel(ScriptedModel())

    def prompt(*names: str) -> str:
        return model.written(request(user("hi"), tools=[tool for tool in TOOLS if tool.name in names])).system

    both = prompt("Bash", "Write", "Read", "Grep", "Edit")
    assert "```bash" in both
    assert "hello.py" in both
    assert "tools too" not in both
    reading = prompt("Read", "Grep", "Glob")
    assert "```bash" not in reading
    assert "hello.py" not in reading
    assert "```Read\nfile_path\n```" in reading
    assert "- Grep (text: pattern):" in reading
    assert "AgentSpawn" not in prompt("Bash", "AgentSpawn", "AgentSend")
    model = TextModel(ScriptedModel(), described=("AgentSpawn",))
    asked = prompt("Bash", "AgentSpawn", "AgentSend")
    assert "- AgentSpawn (text: prompt):" in asked and "AgentSend" not in asked
    assert len(both) < 190 * 4


def test_edits_described_when_requested() -> None:
    def prompt(*asked: str, tools: Sequence[ToolSpec] = TOOLS) -> str:
        return TextModel(ScriptedModel(), asked).written(request(user("hi"), tools=tools)).system

    assert "<<<<<<< SEARCH\n" not in prompt()
    told = prompt("Edit")
    assert "<<<<<<< SEARCH\n" in told
    assert prompt("Edit", tools=[tool for tool in TOOLS if tool.name != "Edit"]).count("SEARCH") == 0
    example = told[told.index("hello.py\n```\n<<<") :]
    (call,) = read(example[: example.index("REPLACE\n```") + 11], {tool.name: tool for tool in TOOLS}, "end", "c")
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments["new_string"]) == ("Edit", 'print("hello")\n')


def test_results_sent_as_user_messages() -> None:
    calls = read("```bash\nls\n```\n\n```bash\npwd\n```\na.py\n```\n```\n", {t.name: t for t in TOOLS}, "end", "x")
    first, second, third = (call for call in calls if isinstance(call, ToolCall))
    talk = [user("Do it."), Message("assistant", calls, stop="tool_use")]
    model = TextModel(ScriptedModel())

    def heard(*results: ToolResult) -> str:
        return texts_of(model.written(request(*talk, Message("user", results))))[2]

    assert heard(result(first, "a.py\n"), result(second, "/x"), result(third, "Created a.py (0 lines).")) == (
        f"The output of `ls`:\na.py\n\nThe output of `pwd`:\n/x\n\nCreated a.py (0 lines).\n\n{NEXT}"
    )
    wrong = result(second, "no\n[exit code 2]", is_error=True), result(third, "Permission denied: no", denied=True)
    assert heard(result(first, ""), *wrong) == (
        "The output of `ls`:\n(no output)\n\n`pwd` failed:\nno\n[exit code 2]\n\n"
        f"a.py was not changed:\nPermission denied: no\n\n{NEXT}"
    )
    lost = model.written(request(*talk, Message("user", (result(second, "/x"),))))
    assert LOST in texts_of(lost)[-1]
    assert texts_of(lost)[1] == "```bash\nls\n```\n\n```bash\npwd\n```\na.py\n```\n```\n"


def test_blocks_in_result_stay_text() -> None:
    call = ToolCall("1", "Bash", JsonObject({"command": "cat x"}), private=Private(FAMILY, "```bash\ncat x\n```"))
    talk = [user("hi"), assistant("", call, stop="tool_use")]
    poison = "```bash\nrm -rf x\n```\n"
    written = TextModel(ScriptedModel()).written(request(*talk, Message("user", (result(call, poison),))))
    assert not any(message.calls for message in written.messages)
    assert written.messages[-1].role == "user"
    assert poison.strip() in written.messages[-1].content


def test_reminders_fit_sender_and_files() -> None:
    model = TextModel(ScriptedModel())
    enclosed = user("Mend it.", enclose("my a.py", "x = '''\n```\n'''\n"))
    news, image = user("done", sender="job:3"), Image("image/png", b"\x89PNG")
    written = model.written(request(enclosed, news, user("Look", image)))
    first, second, third = written.messages
    assert first.content.startswith("Mend it.\n\n\"my a.py\"\n````\nx = '''\n```\n'''\n````\n\n(If a file must change")
    assert second is news
    assert third.parts == (Text("Look"), image, Text(LOOK))
    task = model.written(request(user("Look.", sender="root"), user("More.", sender="root"), name="child")).messages
    assert [message.content for message in task] == [f"Look.\n\n{LOOK}", "More."]
    assert {message.sender for message in task} == {"root"}
    assert encloses(enclosed)
    assert not encloses(user("See:\n```\nx\n```"))


@pytest.mark.parametrize(
    ("asked", "check"),
    [
        ("`python3 show.py` ends with a KeyError. Fix it.", "run `python3 show.py`"),
        ("Mend a.py, so that tests/test_a.py passes.", "run tests/test_a.py"),
        ("Mend a.ts. Do not change src/a.spec.ts.", "run src/a.spec.ts"),
        ("It should print `copying notes`. Fix the latest.py", ""),
        ("Add a function to a.py", ""),
    ],
)
def test_write_checked_by_named_command(asked: str, check: str) -> None:
    written, looked = (
        ToolCall("1", "Write", {"file_path": "a.py", "content": "x\n"}),
        ToolCall("2", "Bash", {"command": "ls"}),
    )

    def last_words(call: ToolCall, *, is_error: bool = False, tools: Sequence[ToolSpec] = TOOLS) -> str:
        answered = Message("user", (result(call, "It was so.", is_error=is_error),))
        said = request(user(asked), assistant("", call, stop="tool_use"), answered, tools=tools)
        return TextModel(ScriptedModel()).written(said).messages[-1].content.rpartition("\n\n")[2]

    assert last_words(looked) == NEXT
    assert last_words(written, tools=[tool for tool in TOOLS if tool.name != "Bash"]) == DONE
    assert (check in last_words(written)) if check else (last_words(written) == DONE)
    assert last_words(written, is_error=True) == NEXT


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("Which file has changes that are not committed yet? Answer with its name.", ANSWER),
        ("Run `python3 sum.py` and tell me the total.", ANSWER),
        ("What does fix.py print?", ANSWER),
        ("What is wrong in a.py? Fix it.", NEXT),
        ("Could you fix a.py?", NEXT),
        ("Run `make`.", NEXT),
    ],
)
def test_question_is_answered_after_a_look(asked: str, words: str) -> None:
    """A small model that reads "if something is left to do" after `git status` commits what it was only asked about."""
    looked = ToolCall("1", "Bash", {"command": "git status"})
    for later in ((), (user("Thanks. Now run `make`."), assistant("", looked, stop="tool_use"))):
        answers = [Message("user", (result(looked, "modified: a.py"),)) for _ in range(1 + bool(later))]
        history = [user(asked), assistant("", looked, stop="tool_use"), answers[0], *later, *answers[1:]]
        written = TextModel(ScriptedModel()).written(request(*history)).messages
        assert written[2].content.endswith(f"\n\n{words}")
        assert not later or written[-1].content.endswith(f"\n\n{NEXT}")


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("Rename the file a.txt to b.txt.", True),
        ("Delete a.txt", True),
        ("Move the script `a.txt` into old/", True),
        ("Remove .gitignore and Makefile", True),
        ("Delete the last line of a.txt", False),
        ("Rename the function f in a.txt", False),
        ("Remove a.txt's first line", False),
    ],
)
def test_file_renamed_by_command(text: str, *, moved: bool) -> None:
    asked = user(text, enclose("a.txt", "x\n"))
    (reminded,) = TextModel(ScriptedModel()).written(request(asked)).messages
    assert ("Do not write the file anew" in reminded.content) == moved
    unable = tuple(tool for tool in TOOLS if tool.name != "Bash")
    (reminded,) = TextModel(ScriptedModel()).written(request(asked, tools=unable)).messages
    assert "command" not in reminded.content


@pytest.mark.parametrize("name", ["a.txt", ".gitignore", ".github/workflows/ci.yml", ".env.local", "docker/Dockerfile"])
def test_named_file_may_be_written(name: str) -> None:
    (reminded,) = TextModel(ScriptedModel()).written(request(user(f"Create {name} with two lines."))).messages
    assert f"Write the path {name} on a line of its own" in reminded.content


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Fix a.txt", "If a file must"),
        ("What does a.txt say?", "If a command can"),
        ("Fix a.txt so that asyncio.run works", "If a file must"),
        ("Create c.txt and d.txt", "If a file must"),
        ("Write the number of lines of a.txt into c.txt", "If a file must"),
        ("Write the first line of a.txt into c.txt", "Write the path c.txt on a line"),
        ("Create a file named c.txt for all files that end with .log", "Write the path c.txt on a line"),
        ("Write a summary of c.txt to a.txt", "If a file must"),
    ],
)
def test_new_file_is_named(text: str, named: str) -> None:
    asked = user(text, *(enclose(name, "x\n") for name in ("a.txt", "b.txt") if name in text))
    (reminded,) = TextModel(ScriptedModel()).written(request(asked)).messages
    assert f"({named}" in reminded.content


def test_command_to_be_run_is_named() -> None:
    (reminded,) = TextModel(ScriptedModel()).written(request(user("Run `sh a.sh` and tell me what it says."))).messages
    assert reminded.content.endswith("(Do not guess: first write a ```bash block with `sh a.sh`.)")


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("How many lines has a.txt?", True),
        ("Count the words of a.txt.", True),
        ("Tell me the number of lines of a.txt", True),
        ("Write the number of lines into b.txt", False),
        ("Move the counter of a.txt", False),
        ("What is the account number in a.txt?", False),
    ],
)
def test_counting_done_by_command(text: str, counted: bool) -> None:
    asked = user(text, enclose("a.txt", "count\n"))
    (reminded,) = TextModel(ScriptedModel()).written(request(asked)).messages
    assert ("by eye" in reminded.content) == counted
    unable = tuple(tool for tool in TOOLS if tool.name != "Bash")
    (reminded,) = TextModel(ScriptedModel()).written(request(asked, tools=unable)).messages
    assert "by eye" not in reminded.content


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("1", "Bash", JsonObject({"command": "cat <<E\n```\nx\n```\nE"})),
        ToolCall("1", "Bash", JsonObject({"command": "ls", "timeout": 5})),
        ToolCall("1", "Write", JsonObject({"file_path": "a b.md", "content": "# x\n```sh\nls\n```\n"})),
        ToolCall("1", "Write", JsonObject({"file_path": "/x/a", "content": "no end"})),
        ToolCall("1", "Write", JsonObject({"file_path": "a", "content": "x\n\\ No newline at end of file"})),
        ToolCall("1", "Write", JsonObject({"file_path": "a", "content": "x\n\\ No newline at end of file\n"})),
        ToolCall("1", "Edit", JsonObject({"file_path": "a", "old_string": "x\n", "new_string": "\n\ny"})),
        ToolCall("1", "Write", JsonObject({"file_path": "odd\nname", "content": ""})),
        ToolCall("1", "Write", JsonObject({"file_path": "a.py", "content": ""})),
        ToolCall("1", "Edit", JsonObject({"file_path": "a.py", "old_string": "a\n", "new_string": ""})),
        ToolCall("1", "Edit", JsonObject({"file_path": "a.py", "old_string": "a", "new_string": "b"})),
        ToolCall("1", "Edit", JsonObject({"file_path": "a.py", "old_string": "a\n=======\n", "new_string": "b\n"})),
        ToolCall("1", "AgentSpawn", JsonObject({"prompt": "do ```this```"})),
    ],
)
def test_native_call_written_as_block(call: ToolCall) -> None:
    (again,) = read(block_of(call), {tool.name: tool for tool in TOOLS}, "end", "c")
    assert isinstance(again, ToolCall)
    assert (again.name, again.arguments, again.malformed) == (call.name, call.arguments, None)


# -- as a model --------------------------------------------------------------------------------------------------------


def test_text_model_equals_wrapped_model() -> None:
    provider = Moonshot.from_key("k" * 8)
    inner = provider.model("kimi-k2")
    model = TextModel(inner)
    assert (model.provider, model.id, model.limits) == (inner.provider, inner.id, inner.limits)
    assert is_same_model(model, TextModel(inner))
    assert is_same_model(model, inner)
    model.resize(ModelLimits(9_000, 90))  # pyright: ignore[reportCallIssue] -- the inner model's
    assert model.limits.window == 9_000
    native, text = inner.max_input_tokens(request(user("hi"))), model.max_input_tokens(request(user("hi")))
    assert text < native
    body = model.prepare(request(user("hi"), system="S")).body.data  # pyright: ignore[reportCallIssue] -- the inner model's
    assert b'"tools"' not in body


async def test_cancelled_reply_billed_in_full() -> None:
    model = TextModel(ScriptedModel(("```bash\nls\n```\n", "invented", math.inf)))
    items: list[object] = []
    begun = asyncio.Event()

    async def listen() -> None:
        async for item in model.stream(request(user("hi"))):
            items.append(item)
            begun.set()

    task = asyncio.create_task(listen())
    await begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [item.unshown for item in items if isinstance(item, Billed)] == [len("invented")]


async def test_agent_works_with_blocks(tmp_path: Path) -> None:
    inner = ScriptedModel(
        "src/hello.py\n```python\nprint(6 * 7)\n```\n",
        "```bash\npython3 src/hello.py\n```\nIt prints 41.",
        "It prints 42.",
    )
    agent = Agent(TextModel(inner), tools=coding_tools(), resources=Resources(workspace=Workspace(tmp_path)))
    async with agent:
        answer = await agent.run("Write a program.")
    assert answer.content == "It prints 42."
    assert (tmp_path / "src/hello.py").read_text() == "print(6 * 7)\n"
    told = [message.content for message in inner.requests[-1].messages]
    assert told[-1] == f"The output of the command:\n42\n\n{NEXT}"
    for before, after in pairwise(inner.requests):
        assert all(one is other for one, other in zip(before.messages, after.messages, strict=False))


# -- switching ---------------------------------------------------------------------------------------------------------

words = st.sampled_from(["hello", "I look.\n", "```python\nx\n```", "Größe 🌍", " \n", ""])
blocks = st.sampled_from(
    [
        *("```bash\nls\n```", "a.py\n```\nx\n```\n", "\n\n```sh\n$ ls\n```\n\n", "```AgentSpawn\nx\n```"),
        "```diff\n--- a/x\n+++ b/x\n@@\n-1\n+2\n--- a/y\n+++ /dev/null\n@@\n-3\n```",
        "a.py\n```\nx\n\\ No newline at end of file\n```",
        "```Read\n{\n```",
        "```bash\nls",
    ]
)
native = st.sampled_from(
    [
        ("Bash", JsonObject({"command": "ls"})),
        ("Write", JsonObject({"file_path": "a.py", "content": "x\n"})),
        ("Edit", JsonObject({"file_path": "a.py", "old_string": "x", "new_string": "y"})),
        ("Read", JsonObject({"file_path": "a.py"})),
    ]
)
turns = st.one_of(
    st.tuples(st.just("text"), st.lists(st.one_of(words, blocks), min_size=1, max_size=4).map("\n".join)),
    st.tuples(st.just("native"), words, st.lists(native, max_size=3)),
    st.tuples(st.just("user"), words),
    st.tuples(st.just("job"), words),
    st.tuples(st.just("file"), words),
    st.tuples(st.just("image"), words),
)


def history_of(drawn: Sequence[tuple[object, ...]]) -> list[Message]:
    """A session in which some turns were written as text and others natively, as agents log it."""
    history = [user("Begin.")]
    for number, turn in enumerate(drawn):
        match turn:
            case ("text", str(text)):
                parts = read(text, {tool.name: tool for tool in TOOLS}, "end", f"text_{number}")
                calls = any(isinstance(part, ToolCall) for part in parts)
                message = Message("assistant", parts, model="local/small", stop="tool_use" if calls else "end")
            case ("native", str(text), list(calls)):
                made = [ToolCall(f"call_{number}_{at}", name, given) for at, (name, given) in enumerate(calls)]
                message = assistant(text, *made, model="anthropic/a", stop="tool_use" if made else "end")
            case ("file", text):
                history += [user(str(text)), Message("user", (enclose("a.py", "x = 1\n"),), "sagent:a.py")]
                continue
            case ("image", text):
                history.append(user(str(text), Image("image/png", b"\x89PNG")))
                continue
            case (kind, text):
                history.append(user(str(text), sender="job:3" if kind == "job" else ""))
                continue
            case _:
                raise AssertionError(turn)
        history.append(decode_message(json_load(canonical_bytes(encode_message(message, None))), None))
        if message.calls:
            history.append(Message("user", tuple(result(call, f"result {call.id}") for call in message.calls)))
        else:
            history.append(user("And now?"))
    return history


@settings(max_examples=deep(80, 500), deadline=None)
@given(st.lists(turns, max_size=7))
def test_history_has_each_result_once(drawn: list[tuple[object, ...]]) -> None:
    history = history_of(drawn)
    written = TextModel(ScriptedModel()).written(request(*history))
    told = "\n".join(message.content for message in written.messages)
    assert not any(message.calls or message.results for message in written.messages)
    for message in history:
        for each in message.results:
            assert told.count(f"{each.text}\n") == 1
        if message.model == "local/small":
            whole = "".join(
                part.text if isinstance(part, Text) else str(part.private and part.private.data)
                for part in message.parts
                if isinstance(part, Text | ToolCall)
            )
            assert sum(one.content == whole for one in written.messages if one.role == "assistant") >= 1
        else:
            assert all(block_of(call) in told for call in message.calls)
            assert message.content.strip() in told


@settings(max_examples=deep(80, 500), deadline=None)
@given(st.lists(turns, max_size=7))
def test_requests_extend_the_one_before(drawn: list[tuple[object, ...]]) -> None:
    history = history_of(drawn)
    model = TextModel(ScriptedModel())
    asked = (place for place, each in enumerate(history, 1) if each.role == "user")
    ends = [
        place for place in asked if not history[place : place + 1] or not history[place].sender.startswith("sagent:")
    ]
    sent = [model.written(request(*history[:end])) for end in ends]
    for before, after in pairwise(sent):
        assert all(one is other for one, other in zip(before.messages, after.messages, strict=False))
        assert len(before.messages) <= len(after.messages)
        assert before.system == after.system
    fresh = TextModel(ScriptedModel()).written(request(*history))
    assert [*fresh.messages] == [*sent[-1].messages]
    compacted = model.written(request(user("Summary."), *history[-1:]))
    assert texts_of(compacted)[0].startswith("Summary.")


@settings(max_examples=deep(40, 250), deadline=None)
@given(st.lists(turns, max_size=7))
@pytest.mark.parametrize("kind", [Anthropic, Moonshot])
def test_native_model_reads_text_history(kind: type, drawn: list[tuple[object, ...]]) -> None:
    history = history_of(drawn)
    model = kind.from_key("k" * 8).model("claude-sonnet-4-6")
    native = model.prepare(request(*history)).body.data.decode()
    text = TextModel(kind.from_key("k" * 8).model("claude-sonnet-4-6"))
    words = text.prepare(request(*history)).body.data.decode()  # pyright: ignore[reportCallIssue] -- the inner model's
    for message in history:
        for each in message.results:
            assert native.count(each.text + '"') == 1
            assert words.count(each.text) == 1
    assert FAMILY not in native + words
    assert '"tool_use"' not in words
    assert '"tool_calls"' not in words


async def test_agents_and_advisors_called_by_block(tmp_path: Path) -> None:
    inner = ScriptedModel(
        "```advisor\nWhat first?\n```",
        "VERDICT: proceed\nNEXT: count the files",
        "```AgentSpawn\nCount the files.\n```",
        "```bash\nls | wc -l\n```\nThere are 7.",
        "There are 2.",
        "Two files.",
    )
    for name in ("a", "b"):
        (tmp_path / name).touch()
    advisory = advise(["critic=scripted/critic"], Setup(rules=Rules(triggers=()), mode="client"))
    resources = Resources(
        workspace=Workspace(tmp_path),
        advisory=advisory,
        resolve=lambda _: TextModel(inner),
        ledger=Ledger(None, PriceBook({})),
    )
    model = TextModel(inner, ("AgentSpawn", "advisor"))
    async with Agent(model, tools=[*coding_tools(), *agent_tools()], resources=resources) as agent:
        result = await agent.run("How many files are there?")
    assert result.content == "Two files."
    first, advised, second, task, counted, last = inner.requests
    assert "- advisor (text: question):" in first.system
    assert "- AgentSpawn (text: prompt):" in first.system
    assert "Do not guess" not in advised.messages[-1].content
    assert "count the files" in second.messages[-1].content
    assert second.messages[-1].content.startswith("The result of advisor:\n")
    assert task.messages[-1].content.endswith(f"Count the files.\n\n{COUNT}")
    assert counted.messages[-1].content == f"The output of the command:\n2\n\n{ANSWER}"
    assert "There are 2." in last.messages[-1].content
