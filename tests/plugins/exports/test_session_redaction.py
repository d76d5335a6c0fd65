"""A redaction that remembers texts takes out what one without memory does, however often a text comes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.plugins.exports.memory import SessionRedaction
from sagent.session.contents import Unknown
from sagent.session.log import MemoryLog
from sagent.transcript.redaction import Redaction
from tests.depth import deep

KEY = "sk-ant-api03-" + "Zq8" * 31 + "AA"
TEXTS = st.sampled_from([
    "root", KEY, f"the key is {KEY}.", "password=hunter2", "a plain line of output " * 9, f"{'long ' * 40}{KEY}",
    '{"api_key": "0123456789abcdef0123"}', '["a", 1]', "\ud800 alone " * 9, "",
])  # fmt: skip
NAMES = st.sampled_from(["text", "api_key", "arguments", "data", "token", "at", KEY])
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=deep(100, 500), deadline=None)
@given(st.lists(VALUES, max_size=6), st.booleans())
def test_remembered_texts_change_nothing(values: list[object], keep: bool) -> None:
    plain, quick = Redaction(keep), SessionRedaction(keep)
    for value in (*values, *values):
        assert quick.value(value) == plain.value(value)
    assert quick.found == plain.found
    again = quick.apart()
    assert [again.value(value) for value in values] == [Redaction(keep).value(value) for value in values]
    assert again.found == plain.found[: len(plain.found) // 2]


@settings(max_examples=deep(30, 200), deadline=None)
@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=5))
def test_entries_are_redacted_alike(bodies: list[dict[str, object]]) -> None:
    log, findings = MemoryLog(), Redaction()
    quick, plain = SessionRedaction.of(findings), Redaction()
    for body in bodies:
        try:
            entry = log.append(Unknown("message", body))
        except ValueError:  # lone surrogates
            continue
        assert quick.entry(entry) == plain.entry(entry)
    assert findings.found == plain.found
