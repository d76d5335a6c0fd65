"""What a session's logs say of its advisors."""

from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.events import Advice, AdviceStatus
from sagent.plugins.exports.advice import Review, last_answer, review
from sagent.providers import Anthropic
from sagent.session.contents import AdviceRated, ChargeEntry, Unknown
from sagent.session.entries import show_advice
from sagent.session.folds import contents
from sagent.session.log import MemoryLog
from sagent.testing.server import Call, Fail, FakeProviderServer, Received, Step, Turn, Usage
from sagent.usage import Charge
from sagent.usage import Usage as Tokens

ADVISOR = "claude-opus-4-6"


def note(log: MemoryLog, advisor: str = "advisor", status: AdviceStatus = "answered", **told: str) -> str:
    """Log a consultation as the engine does."""
    members = {"trigger": "asked", **told}
    advice = Advice(advisor, f"openai/{advisor}", status=status, **members)  # pyright: ignore[reportArgumentType]
    return log.append(Unknown("advice", {**show_advice(advice), "usd": "0"})).id


def became(log: MemoryLog, of: str, outcome: str, advisor: str = "advisor", reason: str = "") -> None:
    """Log what became of it."""
    log.append(Unknown("advice", {"advisor": advisor, "of": of, "outcome": outcome, "reason": reason}))


def bill(log: MemoryLog, role: str, usd: str | None, usage: Tokens = Tokens(input=10, output=2)) -> None:  # noqa: B008
    """Log a charge."""
    price = None if usd is None else Decimal(usd)
    log.append(ChargeEntry(Charge("m", usage, usd=price, role=role, provider="openai", agent=log.agent)))


def of(log: MemoryLog) -> Review:
    """The review of one agent's log."""
    return review({log.agent: log.entries()})


def test_calls_counted_by_outcome() -> None:
    log = MemoryLog()
    note(log, verdict="adjust", trigger="failures")
    note(log, status="cut", verdict="proceed")
    note(log, status="declined", reason="it refused (refusal)")
    note(log, status="failed", reason="its provider is overloaded: HTTP 529")
    for left in ("0.0412", "0.0398", "0.0100"):
        note(log, status="withheld", reason=f"it may cost $0.0500, but ${left} of its $1 are left")
    note(log, status="withheld", reason="it is muted")
    found = of(log).standings["advisor"]
    tally = found.tally
    assert (tally.calls, tally.answered, tally.declined, tally.failed, tally.withheld) == (4, 2, 1, 1, 4)
    assert found.cut == 1
    assert found.triggers == {"asked": 3, "failures": 1}
    assert found.verdicts == {"adjust": 1, "proceed": 1}
    assert list(found.withheld.items()) == [
        ("it may cost $0.0500, but $0.0412 of its $1 are left", 3),
        ("it is muted", 1),
    ]
    assert found.unanswered == {"it refused (refusal)": 1, "its provider is overloaded: HTTP 529": 1}
    assert found.models == ("openai/advisor",)


def test_hit_rate_of_known_outcomes() -> None:
    log = MemoryLog()
    entries = [note(log) for _ in range(5)]
    became(log, entries[0], "followed")
    became(log, entries[1], "followed")
    became(log, entries[2], "rejected", reason="it is not Python 2")
    became(log, entries[3], "contradicted", reason="the test is green")
    bill(log, "advisor:advisor", "0.25")
    bill(log, "advisor:advisor", "0.05")
    found = of(log)
    standing = found.standings["advisor"]
    assert (standing.known, standing.hit_rate) == (4, 0.5)
    assert standing.usd_per_followed == Decimal("0.15")
    assert standing.objections == {"it is not Python 2": 1, "the test is green": 1}
    assert [one.outcome for one in found.consultations] == ["followed", "followed", "rejected", "contradicted", ""]
    assert found.consultations[2].why == "it is not Python 2"


def test_unknown_price_not_averaged() -> None:
    log = MemoryLog()
    became(log, note(log), "followed")
    bill(log, "advisor:advisor", "0.25")
    bill(log, "advisor:advisor", None)
    standing = of(log).standings["advisor"]
    assert (standing.tally.usd, standing.usd_per_followed) == (None, None)
    assert standing.tally.usage == Tokens(input=20, output=4)
    log = MemoryLog()
    note(log)
    bill(log, "advisor:advisor", "0.25")
    assert (of(log).standings["advisor"].usd_per_followed, of(log).standings["advisor"].hit_rate) == (None, None)


def test_each_advisor_and_agent_counted() -> None:
    root = MemoryLog()
    child, adviser = root.child("root/review"), root.child("root/advisor-critic")
    for log, role in ((root, "executor"), (child, "executor"), (adviser, "advisor:critic")):
        for _ in range(2):
            log.append(Unknown("request", {"model": "m"}))
            bill(log, role, "0.01")
    root.append(Unknown("request", {"model": "m", "role": "advisor:advisor"}))
    bill(root, "advisor:advisor", "0.02")
    note(root)
    became(child, note(child, "critic"), "followed", "critic")
    found = review({log.agent: log.entries() for log in (root, child, adviser)})
    assert found.turns == 4  # those of the advisor that looks for itself are none
    assert (found.calls, found.consult_rate) == (2, 0.5)
    assert [one.agent for one in found.consultations] == ["root", "root/review"]
    assert found.standings["critic"].tally.usd == Decimal("0.02")
    assert found.standings["advisor"].tally.usd == Decimal("0.02")


def test_rating_applies_to_last_answer() -> None:
    log = MemoryLog()
    note(log, "critic")
    note(log)
    note(log, status="failed")
    log.append(AdviceRated("advisor", 1))
    log.append(AdviceRated("critic", -1))
    log.append(AdviceRated("critic", -1))
    found = of(log)
    assert [one.rated for one in found.consultations] == [-2, 1, 0]
    critic = found.standings["critic"]
    assert (critic.good, critic.bad, critic.tally.rated) == (0, 2, -2)
    last, named = last_answer(found.consultations), last_answer(found.consultations, "critic")
    assert last is not None
    assert named is not None
    assert (last.advisor, named.advisor) == ("advisor", "critic")
    assert last_answer(found.consultations, "nobody") is None


@settings(suppress_health_check=[HealthCheck.too_slow])  # where all else runs beside it
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["advisor", "outcome", "of", "by", "status", "trigger", "usd", "usage", "gaps"]),
            st.one_of(
                st.none(), st.integers(), st.text(max_size=5), st.sampled_from(["rated", "followed", "answered"])
            ),
        ),
        max_size=6,
    )
)
def test_no_body_is_too_odd(found: list[dict[str, object]]) -> None:
    log = MemoryLog()
    for body in found:
        log.append(Unknown("advice", body))
    seen = of(log)
    assert len(seen.consultations) <= len(found)
    assert all(standing.tally.calls >= standing.tally.answered for standing in seen.standings.values())


async def test_same_figures_as_agent_tally() -> None:
    """The same figures as the agent's own tally has, and its own rating, to the last digit."""
    asked = Turn(text="Hm.", calls=(Call("advisor", {}),))
    steps = iter([asked, asked, asked, Turn(text="[REJECTED: no time] Done."), asked, Turn(text="So be it.")])
    answers = iter(
        [
            Turn(text="VERDICT: adjust\nNEXT: look", usage=Usage(input=500, cache_read=40, output=30)),
            Fail(400, message="no"),
            Turn(text="VERDICT: proceed\nNEXT: go on", usage=Usage(input=70, cache_write=5, output=11)),
        ]
    )

    def script(request: Received) -> Step:
        return next(answers if request.json["model"] == ADVISOR else steps, Turn(text="Enough."))

    async with FakeProviderServer(script) as server:
        provider = Anthropic.from_key("k", base_url=server.url)
        ledger = Ledger(None, PriceBook())
        agent = Agent(
            provider.model("claude-sonnet-4-6"),
            resources=Resources(
                ledger=ledger,
                resolve=lambda name: provider.model(name.partition("/")[2]),
                advisory=advise([f"anthropic/{ADVISOR}"], Setup(mode="client", rules=Rules(triggers=()))),
            ),
        )
        result = await agent.run("go")
        await agent.run("again")
        assert agent.advisory is not None
        agent.advisory.rate(1)  # pyright: ignore[reportAttributeAccessIssue]
        tally = agent.advisory.report().tallies
        entries = list(agent.log.entries())
        await agent.aclose()
        await provider.aclose()
    found = review({"root": entries})
    assert found.standings["advisor"].tally == tally["advisor"]
    assert tally["advisor"].calls >= 2
    assert tally["advisor"].failed >= 1
    assert found.turns == sum(request.json["model"] != ADVISOR for request in server.requests)
    assert result.cost.advisor > 0
    assert contents(entries, AdviceRated)[-1] == AdviceRated("advisor", 1)
