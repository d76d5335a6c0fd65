"""Who advises is part of a session: its log says it, and whoever goes on with it has the same advisors."""

from pathlib import Path

import pytest

from sagent.advisor.roster import recall
from sagent.app.parts.advisors import remember_advisors
from sagent.config import load
from sagent.errors import UsageError


@pytest.mark.parametrize(
    ("changes", "who", "off"),
    [
        ((), [], []),
        (("advisors advisor=a/b; critic=c/d,max_calls=2",), ["advisor=a/b", "critic=c/d,max_calls=2"], []),
        (
            ("advisors advisor=a/b", "advisor critic=c/d,tools=Read,Grep"),
            ["advisor=a/b", "critic=c/d,tools=Read,Grep"],
            [],
        ),
        (("advisors advisor=a/b", "advisor advisor=e/f"), ["advisor=e/f"], []),
        (("advisors advisor=a/b", "advisor all off"), ["advisor=a/b"], ["advisor"]),
        (("advisors advisor=a/b; x=c/d", "advisor x off", "advisor all on"), ["advisor=a/b", "x=c/d"], []),
        (("advisors advisor=a/b", "advisor all off", "advisors x=c/d"), ["x=c/d"], []),
        (("advisors advisor=a/b", "advisors none"), [], []),
    ],
)
def test_log_changes_say_who_advises(changes: tuple[str, ...], who: list[str], off: list[str]) -> None:
    found, silent = recall(changes)
    assert not any(found.values())
    assert ([str(one) for one in found], list(silent)) == (who, off)


def test_logged_address_leads_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"HOME": str(tmp_path)}
    flags = {"advisor": ["openai/gpt-5.5"], "advisor_api_base": ["http://me:secret@127.0.0.1:1"]}
    notices: list[str] = []
    _, _, told = remember_advisors(load(flags, environment, tmp_path), (), notices)
    assert told == "advisors advisor=openai/gpt-5.5 at http://127.0.0.1:1/v1"
    settings, _, again = remember_advisors(load({}, environment, tmp_path), (told,), notices)
    assert (settings.advisors, again) == ((), ""), "neither there, nor where its provider is"
    assert "was at http://127.0.0.1:1/v1" in notices[0]
    settings, _, again = remember_advisors(load(flags, environment, tmp_path), (told,), notices)
    assert ([one.name for one in settings.advisors], again) == (["advisor"], "")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    settings, _, _ = remember_advisors(load({}, environment, tmp_path), (told,), notices)
    assert [one.name for one in settings.advisors] == ["advisor"]
    assert len(notices) == 1


def test_nameless_advisor_is_refused() -> None:
    with pytest.raises(UsageError):
        recall(["advisor =,"])


MUTED = ("advisors advisor=openai/gpt-5.5; critic=anthropic/claude-opus-4-8", "advisor all off")


def test_advisor_by_flag_is_not_muted(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    settings, off, told = remember_advisors(load({"advisor": ["openai/gpt-5.5"]}, environment, tmp_path), MUTED, [])
    assert [one.name for one in settings.advisors] == ["advisor"]
    assert not off
    assert told == "advisors advisor=openai/gpt-5.5", "the log says so, or the next run would mute it again"
    _, silent = recall((*MUTED, told))
    assert not silent


def test_both_by_flags_are_not_muted(tmp_path: Path) -> None:
    flags = {"advisor": ["openai/gpt-5.5", "critic=anthropic/claude-opus-4-8"]}
    _, off, told = remember_advisors(load(flags, {"HOME": str(tmp_path)}, tmp_path), MUTED, [])
    assert not off
    assert not recall((*MUTED, told))[1]


def test_without_flag_the_mute_stays(tmp_path: Path) -> None:
    for environment in ({}, {"SAGENT_ADVISOR": "openai/gpt-5.5"}):
        settings = load({}, {"HOME": str(tmp_path), **environment}, tmp_path)
        _, off, _ = remember_advisors(settings, MUTED, [])
        assert "advisor" in off


def test_unchanging_flag_is_not_logged(tmp_path: Path) -> None:
    settings = load({"advisor": ["openai/gpt-5.5"]}, {"HOME": str(tmp_path)}, tmp_path)
    assert remember_advisors(settings, ("advisors advisor=openai/gpt-5.5",), [])[2] == ""
