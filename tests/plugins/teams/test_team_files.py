"""A team's file: what it says, and what is said of one that cannot be."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.errors import ConfigError, UsageError
from sagent.plugins.teams import Role
from sagent.plugins.teams.files import TeamFile, preset_names, preset_text, read_preset, read_team
from tests.chosen import entries

WHOLE = """
name = "desk"
description = "Looks twice."
mode = "parallel"
editor = "chief"
visible_handoffs = 2
budget_usd = 0.10
system = "You work at a desk."

[[roles]]
name = "first"
prompt = "Look."
model = "anthropic/claude-haiku-4-5"
effort = "low"
tools = ["Read", "Grep"]
max_turns = 5
budget_usd = "0.05"
advisor = "openai/gpt-5.5,max_calls=2"

[[roles]]
name = "second"
prompt_file = "prompts/second.md"
tools = "none"
advisor = "none"

[[roles]]
name = "chief"
prompt = "Join."
"""


@pytest.fixture
def write(tmp_path: Path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "second.md").write_text("\ufeffLook again.\n")

    def write(text: str, name: str = "team.toml") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_full_file_read(write):
    assert read_team(write(WHOLE)) == TeamFile(
        name="desk",
        description="Looks twice.",
        mode="parallel",
        editor="chief",
        visible_handoffs=2,
        budget_usd=Decimal("0.10"),
        system="You work at a desk.",
        roles=(
            Role(
                "first",
                "Look.",
                "anthropic/claude-haiku-4-5",
                "low",
                ("Read", "Grep"),
                5,
                Decimal("0.05"),
                ("advisor=openai/gpt-5.5,max_calls=2",),
            ),
            Role("second", "Look again.", tools=()),
            Role("chief", "Join."),
        ),
        unadvised=frozenset({"second"}),
    )


def test_minimal_toml_and_yaml_read(write):
    least = TeamFile("crew", (Role("a", "Look."),))
    assert read_team(write('[[roles]]\nname = "a"\nprompt = "Look."\n', "crew.toml")) == least
    assert read_team(write("roles:\n  - name: a\n    prompt: Look.\n", "crew.yaml")) == least


ROLE = '[[roles]]\nname = "a"\nprompt = "Look."\n'


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('nmae = "x"\n' + ROLE, 1, "there is no key nmae. Did you mean name?"),
        ("visible_handofs = 3\n" + ROLE, 1, "Did you mean visible_handoffs?"),
        (ROLE + 'tool = "Read"\n', 4, "there is no key roles[1].tool. Did you mean tools?"),
        (ROLE + "zzz = 1\n", 4, "accepted are name, prompt, prompt_file, model"),
        ('mode = "paralel"\n' + ROLE, 1, "mode = 'paralel' is not accepted: give one of sequential, parallel. Did you"),
        ("handoff_tokens = 0\n" + ROLE, 1, "handoff_tokens = 0 is not accepted: give a whole"),
        ("handoff_byte = 9\n" + ROLE, 1, "Did you mean handoff_bytes?"),
        ("visible_handoffs = -1\n" + ROLE, 1, "visible_handoffs = -1 is not accepted: give a whole"),
        ('visible_handoffs = "2"\n' + ROLE, 1, "give a whole number, at least 0."),
        ("budget_usd = -2\n" + ROLE, 1, "budget_usd = -2 is not accepted: give USD as a number"),
        ("budget_usd = 1e400\n" + ROLE, 1, "give USD as a number, at least 0 and below 1e+18"),
        (ROLE + "budget_usd = true\n", 4, "roles[1].budget_usd = true is not accepted: give USD"),
        (ROLE + "temperature = 1e400\n", 4, "roles[1].temperature = 1E+400 is not accepted: give a number"),
        (ROLE + 'effort = "hihg"\n', 4, "roles[1].effort = 'hihg' is not accepted: give one of"),
        (ROLE + "max_turns = 0\n", 4, "roles[1].max_turns = 0 is not accepted: give a whole number, at least 1."),
        (ROLE + "tools = 3\n", 4, "roles[1].tools = 3 is not accepted: give a list of strings."),
        (ROLE + 'model = ""\n', 4, "roles[1].model = '' is not accepted: give a string."),
        (ROLE + 'advisor = "openai/gpt-5.5,speed=3"\n', 4, "'speed=3' is not an option"),
        (ROLE + 'prompt_file = "x.md"\n', 1, "needs a prompt or a prompt_file, and not both."),
        ('[[roles]]\nname = "a"\n', 1, "roles[1] needs a prompt or a prompt_file"),
        ('[[roles]]\nprompt = "Look."\n', 1, "roles[1] needs a name."),
        ('[[roles]]\nname = "a"\nprompt_file = "no.md"\n', 3, "prompt_file = 'no.md' cannot be read: No such file"),
        ('[[roles]]\nname = "a"\nprompt_file = "/etc/hostname"\n', 3, "must lie in the directory of the team's file"),
        ('[[roles]]\nname = "a"\nprompt_file = "a\\u0000b"\n', 3, "is not accepted: give a path"),
        ('[[roles]]\nname = "a"\nprompt_file = "."\n', 3, "cannot be read: it is a directory"),
        ('[[roles]]\nname = "a"\nprompt_file = "../team.toml"\n', 3, "must lie in the directory of the team's file"),
        (ROLE + 'advisor = "openai/gpt-5.5,role=/etc/hostname"\n', 4, "must lie in the directory of the team's file"),
        ('[[roles]]\nname = "a b"\nprompt = "Look."\n', 2, "roles[1].name = 'a b' is not accepted: give a name of"),
        (ROLE + ROLE.replace('"a"', '"A"'), 5, "two roles are called 'A'"),
        ('editor = "a"\n' + ROLE, 1, 'it needs mode = "parallel"'),
        ('mode = "parallel"\neditor = "chef"\n' + ROLE.replace('"a"', '"chief"'), 2, "Did you mean chief?"),
        ('name = "x"\n', 1, "a team needs roles"),
        ("roles = [1]\n", 1, "write each role as a table"),
        ("roles = {}\n", 1, "a team needs roles"),
        ("[[roles]\n", 1, "not valid TOML"),
    ],
)  # fmt: skip
def test_error_names_file_line_and_key(write, text, line, told):
    file = write(text)
    with pytest.raises(ConfigError, match=re.escape(told)) as raised:
        read_team(file)
    assert str(raised.value).startswith(f"{file}:{line}: ")


WORDS = ["", " ", "a", "none", "parallel", "Read,Grep", "0.5", "-1", "openai/gpt-5.5", "x\u0000", "..", "~"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.floats(allow_nan=True),
    st.sampled_from(WORDS),
    st.lists(st.one_of(st.integers(), st.sampled_from(["", "Read", "none"])), max_size=3),
    st.dictionaries(st.sampled_from("ab"), st.integers(), max_size=1),
)
TEAM_KEYS = ["name", "mode", "editor", "visible_handoffs", "budget_usd", "system", "y"]
ROLE_KEYS = ["model", "tools", "max_turns", "budget_usd", "advisor", "effort", "x"]
ROLES = st.one_of(
    st.dictionaries(st.sampled_from(ROLE_KEYS), VALUES).map(lambda more: {"name": "b", "prompt": "Look.", **more}),
    VALUES.map(lambda file: {"name": "b", "prompt_file": file}),
    st.dictionaries(st.sampled_from(["name", "prompt"]), VALUES),
    VALUES,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(TEAM_KEYS), VALUES, max_size=2), st.one_of(VALUES, st.lists(ROLES, max_size=2)))
def test_any_file_is_team_or_config_error(write, top, more):
    roles = [{"name": "a", "prompt": "Look."}, *more] if isinstance(more, list) else more
    try:
        said = [role.name for role in read_team(write(json.dumps({**top, "roles": roles}), "team.yaml")).roles]
    except ConfigError as error:
        said = str(error)
    assert said[:1] == ["a"] or "team.yaml:" in said


def test_link_out_of_folder_refused(write, tmp_path: Path):
    outside = tmp_path.parent / f"{tmp_path.name}-secret.md"
    outside.write_text("a secret")
    (tmp_path / "link.md").symlink_to(outside)
    (tmp_path / "circle.md").symlink_to("circle.md")
    for name in ("link.md", "circle.md"):
        with pytest.raises(ConfigError, match=r"must lie in|cannot be read: Too many levels"):  # from 3.13 on
            read_team(write(f'[[roles]]\nname = "a"\nprompt_file = "{name}"\n'))


def test_missing_file_names_presets(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no such file\. `sagent team list` shows"):
        read_team(tmp_path / "no.toml")


def test_presets():
    assert list(preset_names()) == ["code_review", "quant_desk", "research_writer"]
    with pytest.raises(UsageError, match=r"no such preset\. Did you mean code_review\?"):
        read_preset("code_reveiw")
    with pytest.raises(UsageError, match="there are code_review, quant_desk, research_writer"):
        read_preset("../../etc")


@pytest.mark.parametrize("name", preset_names())
def test_presets_valid_and_round_trip(name: str, tmp_path: Path):
    team = read_preset(name)
    assert team.name == name and team.description and len(team.roles) >= 3
    own = [entry.name for entry in entries("default")]
    assert all(set(role.tools or own) <= set(own) for role in team.roles)
    (tmp_path / "mine.toml").write_text(preset_text(name))
    assert read_team(tmp_path / "mine.toml") == team


def test_preset_reviewers_read_only():
    assert all(set(role.tools or ()) == {"Read", "Glob", "Grep", "List"} for role in read_preset("code_review").roles)
    desk = read_preset("quant_desk")
    told = " ".join(role.prompt for role in desk.roles)
    assert "assumption" in told and "source" in told
    assert "Nothing you write is investment advice" in " ".join(desk.system.split())
