"""Advice is read leniently: in the form asked for, in markdown, as JSON, as prose; and never for more than it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.advisor.reading import MAX_GAPS, Reading, read_advice


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("VERDICT: proceed", Reading("proceed")),
        (
            "VERDICT: adjust\nGAP: no lock\nGAP: no test\nNEXT: add the lock\nCHECK: pytest -k lock",
            Reading("adjust", ("no lock", "no test"), "add the lock", "pytest -k lock"),
        ),
        (
            "**Verdict:** *adjust*\n\n**Gaps:**\n1. first\n2. second\n\n**Next:** do it\n**Check:** `make test`\n",
            Reading("adjust", ("first", "second"), "do it", "make test"),
        ),
        ("## Verdict: STOP\nGap: the table is the customer's", Reading("stop", ("the table is the customer's",))),
        (
            "GAP: the parser\n  ignores quotes\nNEXT: read\nthe spec",
            Reading("", ("the parser ignores quotes",), "read the spec"),
        ),
        ("VERDICT: proceed\nGAP: none\nCHECK: n/a", Reading("proceed")),
        ("VERDICT: adjust\nGAP: a\nGAP: b\nGAP: c\nGAP: d", Reading("adjust", ("a", "b", "c"))),
        ("VERDICT: no need to stop, proceed", Reading("proceed")),
        ("VERDICT: don't stop; continue", Reading("proceed")),
        ("VERDICT: there is nothing to adjust, so proceed.", Reading("proceed")),
        ("VERDICT: proceed | adjust | stop", Reading()),
        ("VERDICT: ok", Reading("proceed")),
        ("VERDICT: the change is correct", Reading()),
        ('{"status": "revise", "risks": ["a"], "next_step": "b"}', Reading("adjust", ("a",), "b")),
        ('```json\n{"verdict": "stop", "gaps": "a"}\n```', Reading("stop", ("a",))),
        (
            'VERDICT: adjust\nCHECK: curl -d \'{"status": "ok"}\' localhost',
            Reading("adjust", (), "", 'curl -d \'{"status": "ok"}\' localhost'),
        ),
        ("CHECK:\n```sh\nmake\nmake test\n```", Reading("", (), "", "make\nmake test")),
        ("Proceed. Nothing is missing.", Reading("proceed")),
        ("STOP: this deletes the data.", Reading("stop")),
        ("Stop using globals here and pass the path.", Reading()),
        ("I would look at the lock first.", Reading()),
        pytest.param("*" * 100_000, Reading(), id="a line of marks"),
        pytest.param(f"check{' ' * 100_000}", Reading(), id="a line of blanks"),
        ("", Reading()),
    ],
)
def test_advice_is_taken_apart(text: str, reading: Reading) -> None:
    assert read_advice(text) == reading


@given(
    st.lists(
        st.sampled_from(
            ["VERDICT:", "GAP:", "NEXT:", "CHECK:", "stop", "proceed", "- x", "{", "}", '"verdict"', "```", "", "not"]
        )
        | st.text(max_size=12)
    ).map("\n".join)
)
def test_no_answer_is_too_odd_to_be_read(text: str) -> None:
    found = read_advice(text)
    assert found.verdict in ("", "proceed", "adjust", "stop")
    assert len(found.gaps) <= MAX_GAPS
    assert found == read_advice(text)
