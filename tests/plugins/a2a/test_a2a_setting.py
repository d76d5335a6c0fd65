"""The setting that names agents elsewhere, in every form in which it is given."""

from pathlib import Path

import pytest

from sagent.config.layers import load
from sagent.errors import ConfigError
from sagent.plugin import RefusedError
from sagent.plugins.a2a import AGENTS, agents_of

TWO = ("a=http://a.test", "b=https://b.test/x")
FORMS = {
    "a table": '[a2a]\na = "http://a.test/"\nb = "https://b.test/x"\n',
    "a list": 'a2a = ["a=http://a.test", "b=https://b.test/x"]\n',
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_file_names_agents(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    found = load({}, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "config.toml")
    assert found.of(AGENTS) == TWO


def test_flags_add_to_variable(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "SAGENT_A2A": TWO[0], "SAGENT_A2A_TOKEN_B": "x"}
    found = load({"a2a": [TWO[1]]}, environ, tmp_path)
    assert found.of(AGENTS) == TWO
    assert not found.warnings


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('\na2a = ["reviewer"]', "2: a2a = ['reviewer'] is not accepted: give NAME=URL, as in reviewer=https://host"),
        ('[a2a]\n"two words" = "http://a.test"', "a name of at most 32 letters"),
        ('[a2a]\na = "ftp://a.test"', "http://"),
    ],
)
def test_invalid_agent_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load({}, {"HOME": str(tmp_path)}, tmp_path, file=tmp_path / "config.toml")
    assert says in str(caught.value)


def test_agent_setting_needs_name_and_url() -> None:
    assert (
        agents_of({"peer": "https://a.example/"}) == agents_of("peer=https://a.example") == ("peer=https://a.example",)
    )
    for wrong in ("https://a.example", "a b=https://a.example", "peer=ftp://a.example", "peer="):
        with pytest.raises(RefusedError):
            agents_of(wrong)
