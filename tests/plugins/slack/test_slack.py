"""Threads of Slack as sessions: by the SDK's own client, to a Slack on loopback."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_api import CHANNEL, Slack, fake_slack, text_of

from sagent import tools
from sagent.agent import Agent, Resources
from sagent.agent.tree import Tree
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ConfigError, ModelError
from sagent.messages import Image
from sagent.plugins.slack.budget import DayBudget
from sagent.plugins.slack.conversation import Opening
from sagent.plugins.slack.host import ChatHost
from sagent.plugins.slack.reply import split
from sagent.plugins.slack.rules import ChatRules, PlaceRules, read_rules
from sagent.plugins.slack.seen import MESSAGE_LIFE_SECONDS, SeenMessages
from sagent.plugins.slack.socket_mode import open_slack
from sagent.plugins.slack.surface import Attachment, ChatError
from sagent.policy.permissions import PermissionPolicy
from sagent.session.lock import in_use
from sagent.session.store import delete
from sagent.testing import ScriptedModel
from sagent.testing.scripted import Line
from sagent.tool import Workspace
from sagent.tools.ask import AskUser
from sagent.tools.pdf import encode_png
from sagent.usage import Usage
from tests.messages import call
from tests.waiting import until

PRICES = {"scripted/scripted": {"input": "10", "output": "10"}}
KEY = "sk-ant-api03-" + "a1B2" * 12
PNG = encode_png(b"\xff\0\0" * 6, 3, 2, 9, 3)


@dataclass
class Rig:
    """A host, its Slack, and the models that answer, one for each thread by its turn."""

    slack: Slack
    work: Path
    scripts: list[Sequence[Line]]
    models: list[ScriptedModel] = field(default_factory=list)
    opened: list[Path] = field(default_factory=list)
    sessions: dict[Path, ScriptedModel] = field(default_factory=dict)
    ledgers: dict[Path, Ledger] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, opening: Opening) -> AsyncGenerator[Agent]:
        """Each session has its model; what is open is closed between two prompts."""
        self.opened.append(opening.session)
        if opening.session not in self.sessions:
            self.models.append(ScriptedModel(*self.scripts.pop(0)))
            self.sessions[opening.session] = self.models[-1]
        ledger = self.ledgers[opening.session] = Ledger(opening.rules.usd_per_thread, PriceBook(PRICES))
        workspace = Workspace(opening.rules.cwd)
        agent = Agent(
            self.sessions[opening.session],
            tools=[tools.Bash(), tools.Read(), AskUser(opening.answer), *opening.tools],
            policy=PermissionPolicy(opening.rules.mode),
            session=opening.session,
            resources=Resources(ledger=ledger, ask=opening.ask, tree=Tree(), workspace=workspace),
        )
        agent.listen(opening.listener)
        try:
            yield agent
        finally:
            await agent.aclose()


@asynccontextmanager
async def served(tmp_path: Path, *scripts: Sequence[Line], day: float = 5, **given: object) -> AsyncGenerator[Rig]:
    """A host at work."""
    rules = PlaceRules(**{"cwd": tmp_path, "users": None, "approvers": frozenset({"U1"}), "mode": "ask", **given})
    async with fake_slack() as slack, open_slack("xapp-1", "xoxb-1", f"{slack.url}/api/") as surface:
        surface.pause = 0.01  # Slack here has no such limit
        rig = Rig(slack, tmp_path, list(scripts))
        host = ChatHost(surface, ChatRules({CHANNEL: rules}, Decimal(str(day))), tmp_path / "state", rig.open)
        serving = asyncio.create_task(host.run())
        try:
            yield rig
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def test_mention_starts_session_in_thread(tmp_path: Path) -> None:
    async with served(tmp_path, ["It is *blue*.", "And green."]) as rig:
        rig.slack.limit = 1
        await rig.slack.say("<@UBOT> what is it?", "1.0")
        await rig.slack.until(lambda: any("blue" in text and "$" in text for text in rig.slack.texts("1.0")))
        await rig.slack.say("and what else?", "1.1", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("green" in text and "$" in text for text in rig.slack.texts("1.0")))
        await rig.slack.say("not for you", "2.0", kind="message")
        await rig.slack.say("stop that", "1.2", kind="message", thread_ts="1.0", subtype="message_changed")
        await rig.slack.say("I am a bot", "1.3", kind="message", thread_ts="1.0", bot_id="B1")
        assert [each.content for each in rig.models[0].requests[-1].messages if each.role == "user"] == [
            "what is it?", "and what else?",
        ]  # fmt: skip
        assert len(rig.slack.texts()) == 2
        await rig.slack.until(lambda: len(set(rig.slack.acked)) == 5)


@pytest.mark.parametrize("restarted", [True, False])
async def test_deleted_session_of_thread_is_said(tmp_path: Path, restarted: bool) -> None:
    async def ask(rig: Rig, number: int) -> None:
        await rig.slack.say("<@UBOT> go", f"1.{number}", **({"thread_ts": "1.0"} if number else {}))
        await rig.slack.until(
            lambda: any(f"answer {number}" in text and "$" in text for text in rig.slack.texts("1.0"))
        )

    async with served(tmp_path, ["answer 0", "answer 1"]) as rig:
        await ask(rig, 0)
        assert not any("deleted" in text for text in rig.slack.texts("1.0"))
        await until(lambda: not in_use(rig.opened[0]))
        delete(rig.opened[0])
        if not restarted:
            await ask(rig, 1)
            assert any("deleted" in text for text in rig.slack.texts("1.0"))
    if restarted:
        async with served(tmp_path, ["answer 1"]) as rig:
            await ask(rig, 1)
            assert any("deleted" in text for text in rig.slack.texts("1.0"))
            await rig.slack.say("<@UBOT> a thread of others", "2.1", thread_ts="2.0")
            assert not any("deleted" in text for text in rig.slack.texts("2.0"))


async def test_quick_answer_posted_once(tmp_path: Path) -> None:
    async with served(tmp_path, ["quick"]) as rig:
        rig.slack.slow = 0.3
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("quick" in text and "$" in text for text in rig.slack.texts()))
        assert len(rig.slack.texts()) == 1


async def test_repeated_event_answered_once(tmp_path: Path) -> None:
    async with served(tmp_path, ["one"]) as rig:
        event = {"type": "app_mention", "user": "U1", "channel": CHANNEL, "ts": "1.0", "text": "<@UBOT> hi"}
        await rig.slack.send("events_api", {"team_id": "T1", "event": event}, twice=True)
        await rig.slack.send("events_api", {"team_id": "T1", "event": {**event, "type": "message"}})
        await rig.slack.until(lambda: any("one" in text for text in rig.slack.texts()))
        await rig.slack.until(lambda: len(rig.slack.acked) == 3)
    assert len(rig.slack.texts()) == 1
    assert not SeenMessages(tmp_path / "state/seen").take(f"{CHANNEL} 1.0")


async def test_long_answer_streamed_in_parts(tmp_path: Path) -> None:
    words = [f"{'word ' * 300}\n" for _ in range(12)]
    async with served(tmp_path, [tuple(piece for word in words for piece in (word, 0.02))]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("$" in text for text in rig.slack.texts()))
        texts = rig.slack.texts()
        assert len(texts) == 3
        assert "".join(texts).split().count("word") == 3_600
        assert rig.slack.edits >= 3


async def test_restarted_reply_not_doubled(tmp_path: Path) -> None:
    lost = ModelError("overloaded", "x", provider="scripted", retry_after=0.0)
    async with served(tmp_path, [("half of it ", 0.05, lost), "whole"]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("whole" in text and "$" in text for text in rig.slack.texts()))
        assert "half" not in "".join(rig.slack.texts())


async def test_approval_needs_right_and_scope(tmp_path: Path) -> None:
    script = [
        call("a", "Bash", command="echo one > one.txt"),
        call("b", "Bash", command="echo one > one.txt"),
        call("c", "Bash", command="echo two > two.txt"),
        "done",
    ]
    async with served(tmp_path, script) as rig:
        await rig.slack.say("<@UBOT> go", "1.0", user="U2")
        await rig.slack.press("Again in this thread", user="U2")  # who may write, and may not approve
        await rig.slack.press("Again in this thread", user="U1", team="T9")  # of another workspace
        await rig.slack.until(lambda: len(rig.slack.acked) == 3)
        assert not (tmp_path / "one.txt").exists()
        await rig.slack.press("Again in this thread")
        await rig.slack.until(lambda: any("two.txt" in text for text in rig.slack.texts()))
        assert (tmp_path / "one.txt").exists()
        await rig.slack.press("No")
        await rig.slack.until(lambda: any("done" in text for text in rig.slack.texts()))
        assert not (tmp_path / "two.txt").exists()
        asked = [each for each in rig.slack.messages.values() if "wants to call" in text_of(each)]
        assert len(asked) == 2
        assert not any(block["type"] == "actions" for each in asked for block in each["blocks"])
        assert [text_of(each).splitlines()[-1] for each in asked] == ["_U1: thread_", "_U1: no_"]


async def test_question_answered_by_button_or_words(tmp_path: Path) -> None:
    script = [
        call("a", "AskUser", question="Which?", options=["red", "blue"]),
        call("b", "AskUser", question="How many?"),
        "done",
    ]
    async with served(tmp_path, script) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.press("blue", user="U2")
        await rig.slack.until(lambda: any("How many" in text for text in rig.slack.texts()))
        await rig.slack.say("seven", "1.1", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("done" in text for text in rig.slack.texts()))
        results = [each.text for message in rig.models[0].requests[-1].messages for each in message.results]
        assert results == ["blue", "seven"]


@pytest.mark.parametrize(
    ("given", "more"),
    [({"users": frozenset({"U9"})}, {}), ({}, {"user_team": "T9"}), ({}, {"team": "T9"})],
    ids=["not named", "a guest", "of another workspace"],
)
async def test_strangers_are_refused(tmp_path: Path, given: dict, more: dict) -> None:
    async with served(tmp_path, **given) as rig:
        await rig.slack.say("<@UBOT> go", "1.0", **more)
        await rig.slack.until(lambda: rig.slack.texts())
        assert "not allowed" in rig.slack.texts()[0]
        await rig.slack.say("<@UBOT> go", "3.0", channel="C2")
        await rig.slack.send("slash_commands", {"team_id": "T1", "user_id": "U9", "channel_id": "C2", "text": "cost"})
        await rig.slack.until(lambda: rig.slack.ephemeral)
        assert "not allowed" in rig.slack.ephemeral[0]
        assert rig.opened == []


async def test_thread_and_day_budgets_hold(tmp_path: Path) -> None:
    usage = Usage(input=1_000, output=1_000)  # 0.02 USD
    scripts = [(("one", usage), ("two", usage)), (("three", usage),), (), (), (), ()]
    async with served(tmp_path, *scripts, day=0.069, usd_per_thread=Decimal("0.06")) as rig:
        await rig.slack.say("<@UBOT> 1", "1.0")
        await rig.slack.until(lambda: any("thread $0.02" in text for text in rig.slack.texts("1.0")))
        await rig.slack.say("2", "1.1", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: len(rig.slack.texts("1.0")) == 2 and "$" in rig.slack.texts("1.0")[1])
        await rig.slack.say("<@UBOT> 3", "2.0")
        await rig.slack.until(lambda: any("$" in text for text in rig.slack.texts("2.0")))
        spent = sum(ledger.cost().total for ledger in rig.ledgers.values())
        assert Decimal("0.06") <= spent <= Decimal("0.069")
        await rig.slack.say("!cost", "1.2", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("This thread" in text for text in rig.slack.texts("1.0")))
        for place in range(4):
            await rig.slack.say("<@UBOT> 4", f"{place + 4}.0")
        await rig.slack.until(lambda: sum("used up" in text for text in rig.slack.texts()) == 4)


async def test_work_stopped_and_steered(tmp_path: Path) -> None:
    script = [call("a", "Bash", command="date > began.txt; sleep 30"), "never mind"]
    async with served(tmp_path, script, ["x"]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.press("Once")
        await rig.slack.say("!status", "1.1", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("Working." in text for text in rig.slack.texts()))
        await rig.slack.send(
            "slash_commands", {"team_id": "T1", "user_id": "U1", "channel_id": CHANNEL, "text": "stop"}
        )
        await rig.slack.until(lambda: rig.slack.ephemeral == ["Threads that were stopped: 1."])
        await rig.slack.until(lambda: any("interrupted" in text for text in rig.slack.texts("1.0")))


async def test_stop_while_reading_files(tmp_path: Path) -> None:
    async with served(tmp_path, ["never", "after"]) as rig:
        rig.slack.files, rig.slack.slow_files = {"b.txt": b"text"}, 0.3
        files = [{"name": "b.txt", "size": 4, "url_private": f"{rig.slack.url}/files/b.txt"}]
        await rig.slack.say("<@UBOT> see", "1.0", files=files, subtype="file_share")
        await rig.slack.until(lambda: any("thinking" in text for text in rig.slack.texts()))
        await rig.slack.say("!stop", "1.1", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("Stopped" in text for text in rig.slack.texts()))
        await rig.slack.until(lambda: any("nothing was begun" in text for text in rig.slack.texts()))
        assert not rig.models[0].requests
        await rig.slack.say("<@UBOT> go on", "1.2", kind="message", thread_ts="1.0")
        await rig.slack.until(lambda: any("never" in text for text in rig.slack.texts()))


async def test_message_at_any_moment_answered(tmp_path: Path) -> None:
    """Many messages while a run begins, works, ends and its session is closed: each is read, and none is left."""
    async with served(tmp_path, [*[lambda request: ("seen", 0.005) for _ in range(200)]]) as rig:
        await rig.slack.say("<@UBOT> 0", "1.0")
        for number in range(1, 25):
            await rig.slack.say(f"<@UBOT> {number}", f"1.{number}", thread_ts="1.0")
            await asyncio.sleep(0.013 * (number % 4))

        def read() -> set[str]:
            said = rig.models[0].requests[-1].messages if rig.models and rig.models[0].requests else ()
            return {each.content for each in said if each.role == "user"}

        await rig.slack.until(lambda: {str(number) for number in range(25)} <= read())


async def test_files_go_both_ways(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(f"all well {KEY}\n")
    async with served(tmp_path, [call("a", "SendFile", file_path="report.txt"), f"sent, {KEY}"]) as rig:
        rig.slack.files = {"a.png": PNG, "b.txt": "é".encode(), "c.bin": b"\xff\0"}
        files = [
            {"name": name, "size": len(data), "url_private": f"{rig.slack.url}/files/{name}"}
            for name, data in rig.slack.files.items()
        ]
        files.append({"name": "evil", "size": 1, "url_private": "http://127.0.0.2/evil"})
        await rig.slack.say("<@UBOT> see", "1.0", files=files, subtype="file_share")
        await rig.slack.until(lambda: any("sent" in text and "$" in text for text in rig.slack.texts()))
        parts = rig.models[0].requests[0].messages[0].parts
        assert any(isinstance(part, Image) for part in parts)
        assert any("é" in getattr(part, "text", "") for part in parts)
        said = "".join(rig.slack.texts())
        assert "c.bin could not be read" in said
        assert "evil is not at Slack" in said
        assert rig.slack.uploads["report.txt"].startswith(b"all well [redacted")
        assert KEY not in said


async def test_day_budget_holds_for_parallel_files(tmp_path: Path) -> None:
    async with served(tmp_path, ["one"], ["two"], usd_per_thread=Decimal(1), day=1) as rig:
        rig.slack.files = {"b.txt": b"text"}
        rig.slack.slow_files = 0.2
        files = [{"name": "b.txt", "size": 4, "url_private": f"{rig.slack.url}/files/b.txt"}]
        for place in range(2):
            await rig.slack.say("<@UBOT> see", f"{place + 1}.0", files=files, subtype="file_share")
        await rig.slack.until(lambda: any("used up" in text for text in rig.slack.texts()))
        await rig.slack.until(lambda: any("$0.00" in text for text in rig.slack.texts()))


async def test_file_read_whole_or_refused(tmp_path: Path) -> None:
    async with fake_slack() as slack, open_slack("xapp", "xoxb", f"{slack.url}/api/") as surface:
        slack.files = {"a.txt": b"a" * 300_000}
        attached = Attachment("a.txt", f"{slack.url}/files/a.txt")
        assert await surface.download(attached, 300_000) == slack.files["a.txt"]
        with pytest.raises(ChatError, match="more than"):
            await surface.download(attached, 299_999)


async def test_whole_call_shown_for_approval(tmp_path: Path) -> None:
    lines = "\n".join(f"echo line {number}" for number in range(1_500))
    command = f"{lines}\ntouch hidden.txt # \u202ereversed"
    async with served(tmp_path, [call("a", "Bash", command=command), "done"]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.press("No")
        await rig.slack.until(lambda: any("done" in text for text in rig.slack.texts()))
        shown = "\n".join(rig.slack.texts())
        assert all(f"echo line {number}\n" in shown for number in range(1_500))
        assert "touch hidden.txt # ⟨U+202E⟩reversed" in shown


async def test_oversized_call_refused(tmp_path: Path) -> None:
    script = [call("a", "Bash", command="touch x " + "y" * 200_000), "done"]
    async with served(tmp_path, script, day=500, usd_per_thread=Decimal(500), usd_per_day=Decimal(500)) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("done" in text for text in rig.slack.texts()))
        assert "too long" in rig.models[0].requests[-1].messages[-1].results[0].text


async def test_unpostable_question_denied(tmp_path: Path) -> None:
    def block(request: object) -> Line:
        rig.slack.fail["chat.postMessage"] = "is_archived"
        return call("a", "Bash", command="touch x")

    def unblock(request: object) -> Line:
        rig.slack.fail.clear()
        return "done"

    async with served(tmp_path, [block, unblock]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("done" in text for text in rig.slack.texts()))
        assert "is_archived" in rig.models[0].requests[-1].messages[-1].results[0].text
        assert not (tmp_path / "x").exists()


async def test_two_hosts_cannot_share_folder(tmp_path: Path) -> None:
    async with served(tmp_path, []) as rig, open_slack("xapp", "xoxb", f"{rig.slack.url}/api/") as surface:
        with pytest.raises(ChatError, match="another process"):
            await ChatHost(surface, ChatRules(), tmp_path / "state", rig.open).run()


async def test_closed_socket_reopened(tmp_path: Path) -> None:
    async with served(tmp_path, ["one"], ["two"]) as rig:
        await rig.slack.say("<@UBOT> 1", "1.0")
        await rig.slack.until(lambda: any("one" in text for text in rig.slack.texts()))
        await rig.slack.sockets[0].send_str('{"type": "disconnect", "reason": "refresh_requested"}')
        await rig.slack.until(lambda: len(rig.slack.sockets) == 2)
        await rig.slack.say("<@UBOT> 2", "2.0")
        await rig.slack.until(lambda: any("two" in text for text in rig.slack.texts()))


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
async def test_invalid_token_reported_at_once(method: str) -> None:
    async with fake_slack() as slack:
        slack.fail[method] = "invalid_auth"
        with pytest.raises(ChatError, match="invalid_auth"):
            async with open_slack("xapp", "xoxb", f"{slack.url}/api/"):
                pass


async def test_model_cannot_mention_people(tmp_path: Path) -> None:
    async with served(tmp_path, ["<!channel> <@U2> @here ok"]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("$" in text for text in rig.slack.texts()))
        said = "".join(rig.slack.texts())
        assert not any(mark in said for mark in ("<!channel", "<@U2", "@here"))


# -- the parts ---------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("ab \n`é"), max_size=400), st.integers(40, 80))
def test_pieces_fit_and_lose_nothing(text: str, most: int) -> None:
    pieces = split(text, most)
    assert all(len(piece) <= most for piece in pieces)
    assert "".join("".join(pieces).split()).replace("`", "") == "".join(text.split()).replace("`", "")


def test_day_budget_over_restarts(tmp_path: Path) -> None:
    rules = ChatRules({"C1": PlaceRules(tmp_path, usd_per_day=Decimal(3))}, Decimal(4))
    day = ["2026-01-01"]
    first = DayBudget(tmp_path / "spent.json", rules, lambda: day[0])
    first.reserve("C1", Decimal(1))(Decimal("0.25"))
    first.reserve("C1", Decimal(2))  # and then the process is killed
    later = DayBudget(tmp_path / "spent.json", rules, lambda: day[0])
    assert later.room("C1") == Decimal("0.75")
    day[0] = "2026-01-02"
    assert later.room("C1") == Decimal(3)


def test_seen_messages_expire(tmp_path: Path) -> None:
    now = [1_000_000.0]
    seen = SeenMessages(tmp_path / "seen", lambda: now[0])
    assert seen.take("a 1")
    assert not seen.take("a 1")
    now[0] += MESSAGE_LIFE_SECONDS + 1
    assert SeenMessages(tmp_path / "seen", lambda: now[0]).take("a 1")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "at least one channel"),
        ("[channels.C1]", "users is missing"),
        ('[channels.C1]\nusers = "members"\nmode = "full"', "one of plan, ask, edit"),
        ('[channels.C1]\nusers = ["U1"]\nmod = "ask"', "Did you mean"),
        ('[channels.C1]\nusers = ["U1"]\ncwd = "nowhere"', "is not a directory"),
        ('[channels.C1]\nusers = "U1"', "a list of ids"),
        ('[channels.C1]\nusers = ["U1"]\nusd_per_day = 0', "above 0"),
        ("usd_per_day = [", "not TOML"),
    ],
)
def test_unclear_rules_refused(tmp_path: Path, text: str, wrong: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(ConfigError, match=wrong):
        read_rules(tmp_path / "rules.toml")


def test_rules_grant_rights(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('[channels.C1]\nusers = ["U1"]\napprovers = ["U2"]\n')
    rules = read_rules(tmp_path / "rules.toml").places["C1"]
    assert (rules.mode, rules.cwd, rules.users) == ("plan", tmp_path.resolve(), {"U1"})


async def test_split_characters_posted_whole(tmp_path: Path) -> None:
    pieces = ("a\ud83d", "\ude00 e", "\u0301 \ud83d", "\udc69\u200d", "\ud83d\udc69 b\ud83d")
    async with served(tmp_path, [pieces]) as rig:
        await rig.slack.say("<@UBOT> go", "1.0")
        await rig.slack.until(lambda: any("$" in text for text in rig.slack.texts("1.0")))
        posted = "\n".join(rig.slack.texts("1.0"))
        posted.encode()
        assert "a😀 e\u0301 👩\u200d👩 b\ufffd" in posted
        assert json.dumps([*rig.slack.messages.values()], ensure_ascii=False).encode()
