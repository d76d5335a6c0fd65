"""YAML files say the same as TOML files, and what is wrong in them is told with its line."""

from decimal import Decimal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sagent.config.yaml import YamlError, parse_yaml
from sagent.errors import ConfigError
from tests.depth import later

BOTH = (
    (
        "config.toml",
        """
model = "acme/large"
max_budget_usd = 0.1
tools = ["Read", "Grep"]
ephemeral = true
[permissions]
deny = ["Edit(secrets/**)"]
[providers.acme]
base_url = "http://localhost:${PORT:-8080}/v1"
api_key = "${KEY}"
[prices."acme/large"]
input = 1.10
output = 4
""",
    ),
    (
        "config.yaml",
        """
model: acme/large
max_budget_usd: 0.1
tools: [Read, Grep]
ephemeral: yes
permissions:
  deny:
    - Edit(secrets/**)
providers:
  acme:
    base_url: http://localhost:${PORT:-8080}/v1
    api_key: ${KEY}
prices:
  acme/large: {input: 1.10, output: 4}
""",
    ),
)


@pytest.mark.parametrize(("name", "text"), BOTH)
def test_both_forms_say_the_same(name, text, config, settings):
    (config / name).write_text(text)
    found = settings(environ={"KEY": "s3cret"})
    assert (found.model, found.max_budget_usd, found.tools, found.ephemeral) == (
        "acme/large", Decimal("0.1"), ("Read", "Grep"), True,
    )  # fmt: skip
    assert found.deny == ("Edit(secrets/**)",)
    acme = found.providers["acme"]
    assert (acme.base_url, acme.api_key) == ("http://localhost:8080/v1", "s3cret")
    assert found.prices["acme/large"] == {"input": Decimal("1.10"), "output": 4}
    assert found.origins["model"] == str(config / name)
    assert found.warnings == ()


@pytest.mark.parametrize("name", ["config.yml", "config.yaml"])
def test_either_ending_will_do(name, config, settings):
    (config / name).write_text("effort: high")
    assert settings().effort == "high"


def test_one_of_several_files_is_used(config, settings):
    for name in ("config.yml", "config.yaml", "config.toml"):
        (config / name).write_text('effort: "low"' if name != "config.toml" else 'effort = "high"')
    found = settings()
    assert found.effort == "high"
    (warning,) = found.warnings
    assert "config.toml is used" in warning
    assert "config.yaml" in warning
    assert "config.yml" in warning
    (config / "config.toml").unlink()
    assert "config.yaml is used" in settings().warnings[0]


def test_named_file_replaces_the_persons(home, config, settings):
    (config / "config.toml").write_text('effort = "low"')
    (home / "mine.yml").write_text("model: a/b")
    found = settings(file=home / "mine.yml", environ={"SAGENT_CONFIG": "gone"})
    assert (found.model, found.effort) == ("a/b", None)
    assert settings(environ={"SAGENT_CONFIG": str(home / "mine.yml")}).model == "a/b"
    assert settings(file="~/mine.yml").model == "a/b"
    with pytest.raises(ConfigError, match=r"^--config: no such file: .*gone\.yaml"):
        settings(file="gone.yaml")
    with pytest.raises(ConfigError, match=r"^--config: give a path"):
        settings(file="")


def test_empty_file_and_keys_set_nothing(config, settings):
    for text in ("", "# nothing\n", "---\n", "model:\nadvisor:\npolicy:\n  max_turns:\n"):
        (config / "config.yaml").write_text(text)
        found = settings()
        assert (found.model, found.advisors, found.max_turns) == (None, (), None)


def test_anchors_are_followed(config, settings):
    (config / "config.yaml").write_text("model: &m a/b\nfallback: [*m]\n")
    assert settings().fallback == ("a/b",)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("model: a\nmodel: b\n", 2, "is there twice"),
        ("policy:\n  max_turns: 1\n  max_turns: 2\n", 3, "is there twice"),
        ("policy:\n\tmax_turns: 1\n", 2, "indent with spaces"),
        ("model: [a\n", 2, "not valid YAML"),
        ("executor: {model: a/b, api_key: ${KEY}}\n", 1, "needs quotes"),
        ("model: 'a\n\n", 3, "not valid YAML"),
        ("- a\n", 1, "must be a table"),
        ("a/b\n", 1, "must be a table"),
        ("model: a\n---\nmodel: b\n", 2, "single document"),
        ("model: !!python/object/apply:os.system [echo]\n", 1, "not a type"),
        ("max_turns: !!python/name:os.system x\n", 1, "not a type"),
        ("max_turns: !!int x\n", 1, "not a valid int"),
        ("1: x\n", 1, "key must be a string"),
        ("on: x\n", 1, "key must be a string"),
        ("model: a\n\n? [a]\n: b\n", 3, "key must be a string"),
        ("model: a\nfallback: &x\n  - *x\n", 2, "contains itself"),
        ("model: \x01\n", 1, "character"),
        ("model: a\nmodle: b\n", 2, "Did you mean model?"),
        ("\npolicy:\n  # why\n  max_turn: 3\n", 4, "Did you mean max_turns?"),
        ("max_turns: many\n", 1, "whole number"),
        ("policy:\n  max_turns: 1.5\n", 2, "whole number"),
        ("logging:\n  level: loud\n", 2, "debug, info, warning, error"),
        ("logging: debug\n", 1, "must be a table"),
        ("providers:\n  x:\n    base_url: http://x\n    famliy: openai\n", 4, "Did you mean family?"),
        ("system: 3\n", 1, "give a string"),
    ],
)
def test_wrong_yaml_tells_file_and_line(text, line, says, config, settings):
    file = config / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        settings()
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: "), message
    assert says in message
    assert message.endswith((".", "?"))


def test_yaml_bomb_is_refused():
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for name, before in zip("bcdefghij", "abcdefghi", strict=True):
        text += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    with pytest.raises(YamlError, match="more than 10000 values"):
        parse_yaml(text)


@later
def test_deep_nesting_is_no_crash():
    with pytest.raises(YamlError, match="nests too deeply"):
        parse_yaml("a: " + "[" * 1000 + "]" * 1000)


PLAIN = st.recursive(
    st.booleans() | st.integers(-(10**12), 10**12) | st.text("aZ0é: -#'\"\n~.{}[]&*!%", max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text("abcdef", min_size=1), PLAIN, max_size=5), st.booleans())
def test_written_yaml_reads_back(data, flow):
    found, lines = parse_yaml(yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True))
    assert found == data
    assert {(key,) for key in data} <= set(lines)


@given(st.text(st.sampled_from("a: -[]{}&*!|>'\"%@`#,?\t\n${}é0"), max_size=40))
def test_written_yaml_is_read_or_refused(text):
    try:
        found, _ = parse_yaml(text)
    except YamlError as error:
        found = {str(error): error.line}
        assert error.line >= 1  # noqa: PT017 -- most texts are refused, some are read
    assert all(isinstance(key, str) for key in found)
