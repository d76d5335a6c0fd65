"""What a project's file asks for: not used until the person trusts the folder with it, and only with just that."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.config import Settings, load
from sagent.config.report import show
from sagent.config.trust import answer_file, remember
from sagent.errors import ConfigError
from sagent.lib.text import printable
from sagent.model import EFFORTS

USER = 'model = "anthropic/claude-sonnet-4-6"'
WANTS = '# ours\nmodel = "openai/gpt-5.5"\nfallback = ["google/gemini-3", "openai/gpt-5.5"]'


class Folder:
    """A project in a home."""

    def __init__(self, base: Path) -> None:
        self.home, self.tree = base / "home", base / "tree"
        self.state = base / "state/sagent"
        self.environ = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.state.parent),
        }
        (self.tree / ".sagent").mkdir(parents=True)
        (self.home / ".config/sagent").mkdir(parents=True)

    def load(self, project: str, user: str = USER, cwd: Path | None = None, environ=None, **flags: object) -> Settings:
        (self.home / ".config/sagent/config.toml").write_text(user)
        (self.tree / ".sagent/config.toml").write_text(project)
        return load(flags, {**self.environ, **(environ or {})}, cwd or self.tree)

    def answer(self, project: str, *, trusted: bool, user: str = USER) -> None:
        wish = self.load(project, user).wish
        assert wish is not None
        remember(wish, self.state, trusted=trusted)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path.resolve())


def origin(settings: Settings, name: str) -> str:
    return next(row.origin for row in show(settings) if row.name == name)


def test_untrusted_wish_is_unused_and_told(folder):
    found = folder.load(WANTS + '\nprovider = "openai"\neffort = "max"')
    assert (found.model, found.provider, found.fallback, found.effort) == (
        "anthropic/claude-sonnet-4-6", None, (), None
    )  # fmt: skip
    (warning,) = found.warnings
    assert warning.startswith(f"{folder.tree}/.sagent/config.toml:2: ignored")
    for told in ("model = openai/gpt-5.5", "fallback = google/gemini-3, openai/gpt-5.5", "effort = max"):
        assert told in warning
    assert "--trust-project" in warning
    assert "config.toml:2 wants openai/gpt-5.5" in origin(found, "model")


def test_trust_is_granted_by_flag_only(folder):
    found = folder.load(WANTS, trust_project=True)
    assert (found.model, found.fallback, found.warnings) == (
        "openai/gpt-5.5", ("google/gemini-3", "openai/gpt-5.5"), ()
    )  # fmt: skip
    assert origin(found, "model") == f"{folder.tree}/.sagent/config.toml, trusted"
    assert folder.load(WANTS, environ={"SAGENT_TRUST_PROJECT": "1"}).model == "anthropic/claude-sonnet-4-6"
    for name in ("trust_project", "trust-project"):
        with pytest.raises(ConfigError, match="there is no setting"):
            folder.load(f"{name} = true\n{WANTS}")


def test_trust_holds_for_folder_and_wish(folder, tmp_path):
    folder.answer(WANTS, trusted=True)
    found = folder.load(WANTS)
    assert (found.model, found.wish, found.warnings) == ("openai/gpt-5.5", None, ())
    assert folder.load(WANTS.replace("gpt-5.5", "gpt-6")).model == "anthropic/claude-sonnet-4-6"
    assert folder.load(f'effort = "max"\n{WANTS}').model == "anthropic/claude-sonnet-4-6"
    assert folder.load(f"{WANTS}\nmax_turns = 3").model == "openai/gpt-5.5", "what it may set anyway is no wish"
    (tmp_path / "link").symlink_to(folder.tree)
    assert folder.load(WANTS, cwd=tmp_path / "link").model == "openai/gpt-5.5"
    other = Folder(tmp_path / "other")
    other.state = folder.state
    assert (
        other.load(WANTS, environ={"XDG_STATE_HOME": str(folder.state.parent)}).model == "anthropic/claude-sonnet-4-6"
    )


def test_redirected_link_is_another_folder(folder, tmp_path):
    folder.answer(WANTS, trusted=True)
    other = Folder(tmp_path / "other")
    other.load(WANTS)
    (tmp_path / "link").symlink_to(other.tree)
    found = load({}, folder.environ, tmp_path / "link")
    assert found.model == "anthropic/claude-sonnet-4-6"
    assert found.wish is not None


def test_declined_is_quiet_tampered_is_none(folder):
    folder.answer(WANTS, trusted=False)
    found = folder.load(WANTS)
    assert (found.model, found.warnings) == ("anthropic/claude-sonnet-4-6", ())
    assert found.wish is not None and found.wish.refused
    assert "you declined it" in origin(found, "model")
    kept = answer_file(found.wish, folder.state)
    assert kept.stat().st_mode & 0o777 == 0o600
    text = kept.read_text()
    for damaged in ("", "[" * 100_000, "true", text.replace("gpt-5.5", "gpt-6"), text.replace("no", "1")):
        kept.write_text(damaged)
        assert "--trust-project" in folder.load(WANTS).warnings[0]
    kept.unlink()
    os.mkfifo(kept)
    assert folder.load(WANTS).warnings


NAMES = st.sampled_from(["openai/a", "openai/b", "google/c", "anthropic/d"])
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "model": NAMES,
        "provider": st.sampled_from(["openai", "google"]),
        "fallback": st.lists(NAMES, max_size=3, unique=True),
        "effort": st.sampled_from(EFFORTS),
    },
)


@given(said=WISHES, wanted=WISHES)
@example(said={"model": "openai/a", "fallback": []}, wanted={"model": "openai/a"})
@example(said={"model": "openai/a"}, wanted={"model": "openai/a", "fallback": ["openai/b"]})
def test_trust_in_one_wish_is_not_anothers(said, wanted):
    with TemporaryDirectory() as base:
        folder = Folder(Path(base).resolve())
        first, second = ("\n".join(f"{name} = {json.dumps(wish[name])}" for name in wish) for wish in (said, wanted))
        own = folder.load("")
        if (wish := folder.load(first).wish) is not None:
            remember(wish, folder.state, trusted=True)
            assert folder.load(first) == wish.granted
        found = folder.load(second)
        same = {**said, "fallback": said.get("fallback", [])} == {**wanted, "fallback": wanted.get("fallback", [])}
        for name in ("model", "provider", "fallback", "effort"):
            assert same or getattr(found, name) == getattr(own, name)


def test_unchanging_wish_is_not_asked(folder):
    nothing: tuple[dict[str, object], ...] = (
        {"user": 'model = "openai/gpt-5.5"'},
        {"model": "openai/gpt-5.5"},
        {"model": "mine/own"},
        {"environ": {"SAGENT_MODEL": "mine/own"}},
        {"provider": "google"},  # which has a model of its own
    )
    for layers in nothing:
        found = folder.load('model = "openai/gpt-5.5"', **layers)
        assert (found.wish, found.warnings) == (None, ()), layers
    assert folder.load(WANTS, model="mine/own").wish is not None, "of two, one is not said otherwise"


def test_stricter_wish_is_used_unasked(folder):
    user = f'{USER}\neffort = "high"\nfallback = ["a/b", "c/d"]\nlog_level = "info"'
    found = folder.load('effort = "low"\nfallback = ["c/d"]\nlog_level = "debug"', user)
    assert (found.effort, found.fallback, found.log_level, found.warnings) == ("low", ("c/d",), "debug", ())
    found = folder.load('effort = "max"', user)
    assert (found.effort, found.wish is not None) == ("high", True)
    found = folder.load('log_level = "error"', trust_project=True)
    assert found.log_level == "warning"
    assert "may only show more than warning" in found.warnings[0]


def test_trusted_provider_beats_model_not_flags(folder):
    assert folder.load('provider = "openai"').provider is None
    found = folder.load('provider = "openai"', trust_project=True)
    assert (found.provider, found.model) == ("openai", None)
    found = folder.load('provider = "openai"', trust_project=True, model="anthropic/x")
    assert found.model == "anthropic/x"
    assert folder.load(WANTS, trust_project=True, model="mine/own").model == "mine/own"


def test_wish_is_shown_whole_and_escaped(folder):
    found = folder.load(f'model = "{"x" * 201}"')
    assert found.wish is None
    assert "too long to be shown" in found.warnings[0]
    wish = folder.load('model = "оpenai/gpt"').wish  # the first letter is Cyrillic
    assert wish is not None
    assert wish.wanted[0].text == "\\u043epenai/gpt"
    for hidden in ("\\u202e", "\\u001b[2J", "\\u200b"):
        with pytest.raises(ConfigError) as caught:
            folder.load(f'model = "a{hidden}b"')
        assert str(caught.value).isprintable()
    strange = Folder(folder.home / "a\u202eb\x1b[2J\n")
    found = strange.load(WANTS)
    (warning,) = found.warnings
    assert warning.isprintable() and "a⟨U+202E⟩b⟨U+001B⟩[2J⟨U+000A⟩" in warning
    assert printable(warning) == warning


@pytest.mark.parametrize("name", ["config.yaml", "config.yml"])
def test_yaml_of_a_project_is_named_as_unread(folder, name):
    (folder.tree / ".sagent" / name).write_text("model: openai/gpt-5.5\n")
    found = folder.load("")
    (warning,) = found.warnings
    assert name in warning and "not read" in warning and "config.toml" in warning
    assert found.model == "anthropic/claude-sonnet-4-6"


def test_unusable_state_directory_asks_again(folder):
    folder.state.parent.mkdir(parents=True)
    folder.state.write_text("a file")
    with pytest.raises(NotADirectoryError):
        folder.answer(WANTS, trusted=True)
    found = folder.load(WANTS)
    assert found.model == "anthropic/claude-sonnet-4-6"
    assert found.wish is not None and not found.wish.refused
    assert found.wish.granted.model == "openai/gpt-5.5"
