"""Blocks that a reply writes over and over are cut at the third; text that only looks alike is not."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent import Agent, tool
from sagent.context.repeated_blocks import RepeatedBlocks
from sagent.testing import ScriptedModel
from tests.depth import deep

LS = "```bash\nls -la\n```\n"
CALL = '<tool_call>\n{"name": "look", "arguments": {"path": "a"}}\n</tool_call>\n'


def cut_at(text: str, size: int = 1_000_000, alone: Sequence[str] = ()) -> str | None:
    """Return what is kept of a text that comes in pieces of this size; None if it is not cut."""
    said = RepeatedBlocks(alone)
    for at in range(0, len(text), size):
        if said.repeat(text[at : at + size]):
            return text[: said.kept]
    return None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (LS * 3, LS),
        (f"Look:\n{LS * 3}", f"Look:\n{LS}"),
        (f"I look.\n{LS}\nAgain.\n{LS}\nAgain.\n{LS}", f"I look.\n{LS}"),
        (CALL * 3, CALL),
        ("<tool_call>{}</tool_call>\n" * 3, "<tool_call>{}</tool_call>\n"),
        (f"{LS}{CALL}" * 3, f"{LS}{CALL}"),
        ("~~~~\nabc\n~~~~\n" * 3, "~~~~\nabc\n~~~~\n"),
        ("  ```\n  abc\n  ```\n" * 3, "  ```\n  abc\n  ```\n"),
        (f"```\nother\n```\n{LS * 3}", f"```\nother\n```\n{LS}"),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_third_block_is_cut(text: str, kept: str, size: int) -> None:
    assert cut_at(text, size) == kept


def test_command_counts_whatever_is_said() -> None:
    text = "".join(f"Step {number}:\n{LS}" for number in range(3))
    assert (cut_at(text), cut_at(text, 1_000, ["bash"])) == (None, f"Step 0:\n{LS}")


ROW = json.dumps({"id": 1, "value": 0})
ORDINARY = {
    "two": LS * 2,
    "other block between": f"{LS}{LS}```bash\npwd\n```\n{LS}",
    "numbered": "".join(f"```bash\nls {number}\n```\n" for number in range(50)),
    "other words": "".join(f"On {name}:\n```\npip install x\n```\n" for name in ("Linux", "macOS", "Windows", "BSD")),
    "files of equal content": "".join(f"{name}/__init__.py\n```\nimport os\n```\n" for name in "abcdef"),
    "table": "| a | b |\n|---|---|\n" + "| 1 | 1 |\n" * 60,
    "equal rows": f"```json\n[\n{f'  {ROW},' * 1}\n" + f"  {ROW},\n" * 60 + "]\n```\n",
    "code": "```python\n" + "    x += 1\n" * 60 + "```\n",
    "list": "- the same point\n" * 60,
    "inner blocks": "````markdown\n" + LS * 5 + "````\n",
    "inline": "Use `ls`, `ls`, `ls`, `ls`.\n" * 20,
    "empty": "```\n```\n" * 9,
    "one line": "```ls``` ```ls``` ```ls```\n" * 5,
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
@pytest.mark.parametrize("size", [3, 1_000])
def test_ordinary_text_is_not_cut(text: str, size: int) -> None:
    assert cut_at(text, size) is None


LINES = st.text("ab-|` {}[]:0\t", max_size=8)
BODY = st.lists(st.text("abc |-{}", max_size=8), min_size=1, max_size=3).map("\n".join)


@given(st.lists(st.tuples(st.lists(LINES, max_size=2), BODY), max_size=12), st.integers(1, 40))
@settings(max_examples=deep(40, 500))
def test_different_blocks_are_not_cut(parts: list[tuple[list[str], str]], size: int) -> None:
    """Each block has a number of its own, whatever stands around it."""
    text = "".join(
        "".join(f"{line.replace('```', '')}\n" for line in lines) + f"```py\n{body}\n{number}\n```\n"
        for number, (lines, body) in enumerate(parts)
    )
    assert cut_at(text, size) is None


@given(st.lists(LINES, max_size=5), st.lists(BODY, min_size=1, max_size=4), st.integers(1, 40))
@settings(max_examples=deep(40, 500))
def test_repeated_blocks_are_cut(before: list[str], bodies: list[str], size: int) -> None:
    start = "".join(f"{line.replace('```', '')}\n" for line in before)
    unit = "".join(f"Now:\n```py\n{body}\n```\n" for body in bodies)
    kept = cut_at(start + unit * 5, size)
    assert kept is not None
    assert (start + unit).startswith(kept)
    assert kept.endswith("```\n")


async def test_native_reply_ends_with_one() -> None:
    made = list[str]()

    @tool
    def look(path: str) -> str:
        """Look."""
        made.append(path)
        return "nothing"

    agent = Agent(ScriptedModel((f"I look.\n{LS}",) + (LS,) * 24), tools=[look])
    result = await agent.run("go")
    assert (result.stop_reason, result.content, made) == ("max_tokens", f"I look.\n{LS}", [])
    assert result.error is not None and "over and over" in result.error.message
    await agent.aclose()
