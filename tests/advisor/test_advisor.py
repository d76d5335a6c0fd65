"""An advisor as it is named in a text, and what cannot be one."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.advisor.advisor import READ_ONLY_TOOLS, Advisor, parse_advisor, role_text
from sagent.errors import UsageError
from sagent.model import EFFORTS
from tests.depth import later


@pytest.mark.parametrize(
    ("text", "advisor"),
    [
        ("openai/gpt-5.2", Advisor("advisor", "openai/gpt-5.2")),
        ("critic=ollama/llama3:8b", Advisor("critic", "ollama/llama3:8b")),
        (
            "a=x/y,effort=high,max_calls=3,max_usd=0.50,role=r.md,tools=Read,grep,GLOB",
            Advisor("a", "x/y", "high", 3, Decimal("0.50"), "r.md", ("Read", "Grep", "Glob")),
        ),
        (" a = x/y , tools=Read , max_calls=0", Advisor("a", "x/y", max_calls=0, tools=("Read",))),
    ],
)
def test_text_names_an_advisor(text: str, advisor: Advisor) -> None:
    assert parse_advisor(text) == advisor


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not name the advisor's model"),
        ("a=", "does not name the advisor's model"),
        ("a b=x/y", "is not a valid advisor name"),
        ("=x/y", "is not a valid advisor name"),
        ("x/y,effort=huge", "give one of none, minimal"),
        ("x/y,max_calls=-1", "give a whole number"),
        pytest.param(f"x/y,max_calls={'9' * 5_000}", "give a whole number", id="endless"),
        ("x/y,max_usd=NaN", "at least 0"),
        ("x/y,max_usd=-1", "at least 0"),
        ("x/y,tools=Bash", "the tools that it can have are"),
        ("x/y,tools=Write", "the tools that it can have are"),
        ("x/y,color=red", "the options are effort, temperature, max_calls"),
        ("x/y,Read", "the options are effort, temperature, max_calls"),
    ],
)
def test_invalid_advisor_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_advisor(text)


@later
@given(
    st.builds(
        Advisor,
        st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True),
        st.from_regex(r"[a-z]{1,6}/[a-z0-9.:-]{1,8}", fullmatch=True),
        st.sampled_from(["", *EFFORTS]),
        st.none() | st.integers(0, 99),
        st.none() | st.decimals(0, 99, places=2),
        st.sampled_from(["", "role.md"]),
        st.lists(st.sampled_from(READ_ONLY_TOOLS), unique=True).map(tuple),
    )
)
def test_shown_advisor_reads_the_same(advisor: Advisor) -> None:
    assert parse_advisor(str(advisor)) == advisor


def test_role_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text("Be strict.")
    assert role_text(parse_advisor("x/y,role=r.md"), tmp_path) == "Be strict."
    for codec in ("utf-8-sig", "utf-16", "utf-16-le"):
        (tmp_path / "r.md").write_bytes("Be strict.".encode(codec))
        assert role_text(parse_advisor("x/y,role=r.md"), tmp_path) == "Be strict."
    (tmp_path / "r.md").write_bytes(b"\0\1\2\3" * 99)
    with pytest.raises(UsageError, match="not text"):
        role_text(parse_advisor("x/y,role=r.md"), tmp_path)
    assert role_text(parse_advisor("x/y"), tmp_path) == ""
    with pytest.raises(UsageError, match=r"cannot be read: \S+gone\.md: No such file or directory$"):
        role_text(parse_advisor("x/y,role=gone.md"), tmp_path)
