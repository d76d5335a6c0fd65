"""Advisors, their rules and the seeds' words in settings: who may say what, and where a model is reached."""

from decimal import Decimal

import pytest

from sagent.advisor.advisor import Advisor
from sagent.advisor.rules import TRIGGERS, Rules
from sagent.config import Address
from sagent.config.report import show
from sagent.errors import ConfigError, UsageError


@pytest.fixture
def user(config):
    """Write the person's file, YAML by default."""

    def write(text: str, name: str = "config.yaml"):
        (config / name).write_text(text)
        return config / name

    return write


def test_no_advisor_by_default(settings):
    found = settings()
    assert (found.advisors, found.advisor_rules, found.advisor_addresses) == ((), None, {})
    assert (found.advisor_mode, found.advisor_stop, found.panel) == ("auto", "pass", "first")


def test_advisors_by_flag_variable_file(user, settings):
    first = Advisor("advisor", "openai/gpt-5.5")
    critic = Advisor("critic", "anthropic/claude-opus-4-6", effort="high", max_calls=3, max_usd=Decimal("0.50"))
    assert settings(advisor=["openai/gpt-5.5"]).advisors == (first,)
    spec = "critic=anthropic/claude-opus-4-6,effort=high,max_calls=3,max_usd=0.50"
    assert settings(advisor=["openai/gpt-5.5", spec]).advisors == (first, critic)
    assert settings(environ={"SAGENT_ADVISORS": f"openai/gpt-5.5; {spec}"}).advisors == (first, critic)
    user(f"advisors:\n  - openai/gpt-5.5\n  - {spec}\n")
    assert settings().advisors == (first, critic)
    user(
        "advisor:\n- model: openai/gpt-5.5\n- {name: critic, model: anthropic/claude-opus-4-6, effort: high, "
        "max_calls: 3, max_usd: 0.50}"
    )
    assert settings().advisors == (first, critic)
    assert settings(advisor=["x/y"]).advisors == (Advisor("advisor", "x/y"),)
    assert settings(advisor=["none"]).advisors == ()
    assert settings(environ={"SAGENT_ADVISORS": "off"}).advisors == ()
    user("advisor: openai/gpt-5.5")
    assert settings().advisors == (first,)
    user("advisor: off")  # a boolean, as YAML has it
    with pytest.raises(ConfigError, match="give an advisor"):
        settings()


def test_advisors_in_toml(user, settings):
    text = 'advisor_mode = "client"\n[[advisors]]\nmodel = "openai/gpt-5.5"\nmax_usd = 0.10\n'
    text += (
        '[[advisors]]\nname = "critic"\nmodel = "x/y"\ntools = ["read", "Grep"]\n[advisor_rules]\ncooldown_turns = 7\n'
    )
    user(text, "config.toml")
    found = settings()
    assert found.advisors == (
        Advisor("advisor", "openai/gpt-5.5", max_usd=Decimal("0.10")), Advisor("critic", "x/y", tools=("Read", "Grep")),
    )  # fmt: skip
    assert (found.advisor_mode, found.advisor_rules) == ("client", Rules(cooldown_turns=7))


def test_advisor_settings_by_flag_and_variable(user, settings):
    found = settings(advisor_mode="native", advisor_stop="end", advisor_panel="all")
    assert (found.advisor_mode, found.advisor_stop, found.panel) == ("native", "end", "all")
    environ = {
        "SAGENT_ADVISOR_STOP": "end",
        "SAGENT_PANEL": "all",
        "SAGENT_ADVISOR_MODE": "client",
    }
    found = settings(environ=environ)
    assert (found.advisor_mode, found.advisor_stop, found.panel) == ("client", "end", "all")
    assert found.warnings == ()


def test_role_path_is_relative_and_must_exist(home, user, settings):
    file = user("advisor: {model: x/y, role: critic.md}")
    with pytest.raises(ConfigError, match=rf"^{file}:1: advisor: .*critic\.md"):
        settings()
    (file.parent / "critic.md").write_text("Be strict.")
    assert settings().advisors[0].role == str(file.parent / "critic.md")
    (home / "mine.md").write_text("Be kind.")
    assert settings(advisor=["x/y,role=~/mine.md"]).advisors[0].role == str(home / "mine.md")
    with pytest.raises(ConfigError, match=r"^--advisor: .*gone\.md"):
        settings(advisor=["x/y,role=gone.md"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["a/b", "c/d"], "two advisors are called 'advisor'"),
        (["x=a/b", "x=c/d"], "two advisors are called 'x'"),
        (["a/b,efort=high"], "efort=high"),
        (["a/b,tools=Bash"], "cannot have Bash"),
        (["a/b,max_calls=-1"], "whole number"),
        (["x="], "does not name the advisor's model"),
    ],
)
def test_bad_advisors_are_told(given, says, settings):
    with pytest.raises(UsageError) as caught:
        settings(advisor=given)
    assert str(caught.value).startswith("--advisor: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("advisors:\n- a/b\n- c/d\n", 3, "two advisors are called 'advisor'"),
        ("advisors:\n- a/b\n- {name: x, efort: high, model: c/d}\n", 3, "Did you mean effort?"),
        ("advisor:\n  model: a/b\n  max_calls: many\n", 3, "whole number"),
        ("advisor:\n  model: a/b\n  max_usd: -1\n", 3, "USD"),
        ("advisor:\n  model: a/b\n  tools: Bash\n", 1, "cannot have Bash"),
        ("advisor:\n  model: a/b\n  tools: 3\n", 3, "list of names"),
        ("advisor:\n  api_base: http://x\n", 1, "give a string as `model`"),
        ("advisor:\n  model: a/b,effort=high\n", 2, "keys of their own"),
        ("advisor:\n  model: a/b\n  name: x=y\n", 3, "= cannot be in"),
        ("advisor:\n  model: a/b\n  api_base: localhost\n", 3, "http://"),
        ("advisor:\n  model: a/b\n  api_key: ${NO_SUCH_KEY}\n", 3, "the variable NO_SUCH_KEY is not set"),
        ("advisor: a/b\nadvisors: [c/d]\n", 2, "are the same setting"),
        ("advisor: 3\n", 1, "give an advisor as a string"),
        ("executor:\n  api_base: http://x\n", 1, "executor.model is missing"),
        ("executor:\n  model: a/b\n  api_key: 3\n", 3, "give a string as `api_key`"),
        ("executor:\n  model: nobody-knows\n  api_key: k\n", 2, "name the provider of executor.api_key"),
        ("executor:\n  model: openai/x\n  key: k\n", 3, "Did you mean api_key?"),
        ("executor: [a/b]\n", 1, "must be a table"),
        ("executor: a/b\nmodel: c/d\n", 2, "are the same setting"),
        ("executor: {model: a/b}\nmodel: c/d\n", 2, "are the same setting"),
        ("policy: {max_turns: 3}\nmax_turns: 4\n", 2, "are the same setting"),
        ("policy: {cooldown_turns: 3}\nadvisor_rules: {cooldown_turns: 4}\n", 2, "are the same setting"),
        ("policy:\n  confidence_threshold: 1.5\n", 2, "from 0 to 1"),
        ("policy:\n  triggers: [failure]\n", 2, "Did you mean failures?"),
        ("policy:\n  max_calls: 3\n", 2, "there is no setting policy.max_calls"),
        ("advisor_rules:\n  max_turns: 3\n", 2, "there is no setting advisor_rules.max_turns"),
    ],
)
def test_bad_file_is_told_with_its_line(text, line, says, user, settings):
    file = user(text)
    with pytest.raises(ConfigError) as caught:
        settings()
    message = str(caught.value)
    assert message.startswith(f"{file}:{line}: "), message
    assert says in message
    assert message.endswith((".", "?"))


def test_toml_tells_the_line_of_an_item(user, settings):
    file = user(
        '[[advisors]]\nmodel = "a/b"\n\n[[advisors]]\nname = "x"\nmodel = "c/d"\napi_key = "${NONE_SUCH}"\n',
        "config.toml",
    )
    with pytest.raises(ConfigError, match=rf"^{file}:7: advisors\.1\.api_key: the variable NONE_SUCH is not set"):
        settings()


SEED = """
executor:
  model: ollama/llama3
  api_base: http://localhost:11434
advisor:
  model: openai/gpt-4o
  api_key: ${MY_KEY}
policy:
  max_advisor_calls: 3
  failure_threshold: 4
  confidence_threshold: 0.25
  stagnation_turns: 6
  cooldown_turns: 1
  max_turns: 15
logging:
  level: DEBUG
  trace_file: traces/run.jsonl
"""


def test_seed_file_is_understood(user, settings):
    file = user(SEED)
    found = settings(environ={"MY_KEY": "sk-0123456789abcdefghij"})
    assert found.model == "ollama/llama3"
    assert found.providers["ollama"].base_url == "http://localhost:11434/v1"
    assert found.advisors == (Advisor("advisor", "openai/gpt-4o"),)
    assert found.advisor_addresses == {"advisor": Address("", "sk-0123456789abcdefghij")}
    assert found.advisor_rules == Rules(
        max_advisor_calls=3, failure_threshold=4, confidence_threshold=0.25, stagnation_turns=6, cooldown_turns=1
    )
    assert (found.max_turns, found.log_level) == (15, "debug")
    rows = {row.name: row.value for row in show(found)}
    assert rows["advisors"] == "advisor=openai/gpt-4o"
    assert rows["advisor_rules.failure_threshold"] == "4"
    assert rows["advisors.advisor.api_key"] == "****ghij"
    assert "0123456789" not in repr(found) + str(rows)
    with pytest.raises(ConfigError, match=rf"^{file}:7: advisor\.api_key: the variable MY_KEY is not set"):
        settings()


def test_tables_of_other_tools_are_no_mistake(user, settings):
    user("model: a/b\nsearch:\n  enabled: false\n")
    assert settings().warnings == ()
    file = user("model: a/b\nsearch:\n  enabled: true\n")
    assert settings().warnings == (f"{file}:2: search has no effect: set searches in [web], see docs/web.md.",)


@pytest.mark.parametrize("table", ["policy", "advisor_rules"])
def test_useless_threshold_is_warned_of(table, user, settings):
    user(f"{table}: {{failure_threshold: 3, confidence_threshold: 0.2, stagnation_turns: 5}}")
    rules = settings().advisor_rules
    assert {"failures", "confidence", "stagnation"} <= set(rules.fired_by("llama-3.1-70b"))
    assert settings().warnings == ()
    file = user(f"{table}: {{triggers: [done], failure_threshold: 3}}")
    assert settings().warnings == (f"{file}: failure_threshold does nothing: triggers leaves out failures.",)
    environ = {"SAGENT_ADVISOR_STAGNATION_TURNS": "6", "SAGENT_ADVISOR_TRIGGERS": "done,failures"}
    assert settings(environ=environ).warnings == (
        "SAGENT_ADVISOR_STAGNATION_TURNS: stagnation_turns does nothing: triggers leaves out stagnation.",
    )


def test_executor_and_advisor_are_aliases(user, settings):
    user("model: mine/own")
    found = settings(environ={"SAGENT_EXECUTOR": "a/b", "SAGENT_ADVISOR": "c/d"})
    assert (found.model, found.advisors) == ("a/b", (Advisor("advisor", "c/d"),))
    assert (found.origins["model"], found.warnings) == ("SAGENT_EXECUTOR", ())
    found = settings(executor="e/f", advisor="g/h")
    assert (found.model, found.origins["model"], found.advisors) == ("e/f", "--executor", (Advisor("advisor", "g/h"),))
    with pytest.raises(ConfigError, match="--executor and --model are the same setting"):
        settings(model="a/b", executor="c/d")
    with pytest.raises(ConfigError, match="SAGENT_EXECUTOR and SAGENT_MODEL are the same setting"):
        settings(environ={"SAGENT_EXECUTOR": "a/b", "SAGENT_MODEL": "c/d"})


def test_rules_by_variable(settings):
    environ = {
        "SAGENT_ADVISOR_MAX_CALLS": "9",
        "SAGENT_ADVISOR_MAX_USD": "0.2",
        "SAGENT_ADVISOR_TRIGGERS": "failures, done",
    }
    found = settings(environ=environ)
    assert found.advisor_rules == Rules(max_advisor_calls=9, max_usd=Decimal("0.2"), triggers=("failures", "done"))
    assert found.warnings == ()
    assert settings(environ={"SAGENT_ADVISOR_TRIGGERS": "none"}).advisor_rules == Rules(triggers=())
    assert settings(environ={"SAGENT_ADVISOR_TRIGGERS": "all"}).advisor_rules == Rules(triggers=TRIGGERS)
    assert settings(environ={"SAGENT_ADVISOR_MAX_CALLS": "none"}).advisor_rules == Rules(max_advisor_calls=None)
    with pytest.raises(ConfigError, match=r"^SAGENT_ADVISOR_MAX_SHARE: .*from 0 to 1"):
        settings(environ={"SAGENT_ADVISOR_MAX_SHARE": "2"})


# -- what a project may say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'advisor = "evil/spy"',
        'advisors = ["evil/spy"]',
        '[[advisors]]\nmodel = "evil/spy"',
        '[advisor]\nmodel = "evil/spy"\napi_base = "http://evil.example"',
        'advisor_mode = "native"',
        'advisor_stop = "end"',
        'panel = "all"',
        "[policy]\nmax_advisor_calls = 9",
        "[policy]\nmax_turns = 99",
        "[policy]\ncooldown_turns = 0",
        '[advisor_rules]\ntriggers = ["done"]',
        "[advisor_rules]\nfailure_threshold = 1",
        "[advisor_rules]\nmax_usd = 5",
        '[executor]\nmodel = "openai/x"\napi_base = "http://evil.example"',
        pytest.param('[logging]\ntrace_file = "/tmp/x"', marks=pytest.mark.plugin("exports")),
        pytest.param('trace = "/tmp/x"', marks=pytest.mark.plugin("exports")),
    ],
)
def test_project_cannot_add_advice(text, user, settings):
    user("max_turns: 10\nadvisor_rules: {max_usd: 1}\nadvisor: mine/own")
    without = {row.name: (row.value, row.origin) for row in show(settings())}
    found = settings(project=text)
    (warning,) = found.warnings
    assert "is ignored: " in warning
    assert ".sagent/config.toml:" in warning
    if "advisor = " in text or "[advisor]" in text or "advisors" in text:
        assert "could send the conversation" in warning
        assert warning.endswith("--advisor.")
    assert {row.name: (row.value, row.origin) for row in show(found)} == without


def test_project_may_lower_advice_bounds(user, settings):
    user("advisor_rules: {max_advisor_calls: 4, max_share: 0.5}\nadvisor: mine/own")
    project = "[policy]\nmax_advisor_calls = 1\nmax_share = 0.1\nmax_usd = 0.05\nmax_turns = 3"
    found = settings(project=project + '\n[logging]\nlevel = "info"')
    assert found.warnings == ()
    assert found.advisor_rules == Rules(max_advisor_calls=1, max_share=0.1, max_usd=Decimal("0.05"))
    assert (found.max_turns, found.log_level) == (3, "info")


def test_project_may_name_executor_as_model(settings):
    found = settings(project='executor = "openai/gpt-5.5"')
    assert found.model is None and "model = openai/gpt-5.5" in found.warnings[0]
    found = settings(project='executor = "openai/gpt-5.5"', trust_project=True)
    assert (found.model, found.warnings) == ("openai/gpt-5.5", ())


# -- where a model is reached ------------------------------------------------------------------------------------------


def test_executor_key_and_address_set_provider(user, settings):
    user("executor: {model: openai/local, api_base: 'http://localhost:8000/v1', api_key: key-1}")
    found = settings()
    openai = found.providers["openai"]
    assert (found.model, openai.base_url, openai.api_key, openai.family) == (
        "openai/local", "http://localhost:8000/v1", "key-1", "responses",
    )  # fmt: skip
    assert "key-1" not in repr(found)
    user("executor: {model: gpt-5.5, api_key: key-1}")
    openai = settings().providers["openai"]
    assert (openai.base_url, openai.api_key) == ("", "key-1")
    user("executor: {model: strange, api_base: 'http://localhost:8000/v1'}")
    found = settings()
    assert (found.model, found.providers["openai-compatible"].base_url) == (
        "openai-compatible/strange", "http://localhost:8000/v1",
    )  # fmt: skip


def test_key_of_one_server_stays_there(user, settings):
    user(
        "providers: {openai: {base_url: 'https://gateway.example/v1', api_key: gate}}\n"
        "executor: {model: openai/local, api_base: 'http://localhost:8000/v1'}\n"
        "advisors: [openai/gpt-4o, {name: own, model: openai/x, api_key: mine}, {name: far, model: openai/y, "
        "api_base: 'http://far.example/v1'}, other=anthropic/claude-opus-4-6]"
    )
    found = settings()
    assert (found.providers["openai"].base_url, found.providers["openai"].api_key) == ("http://localhost:8000/v1", "")
    assert found.advisor_addresses == {
        "advisor": Address("https://gateway.example/v1", "gate"),
        "own": Address("https://gateway.example/v1", "mine"),
        "far": Address("http://far.example/v1", ""),
    }


def test_executor_address_is_for_it_alone(settings):
    both = {"model": "openai/local", "advisor": ["openai/gpt-4o"]}
    found = settings(**both, executor_api_base="http://localhost:8000")
    assert (found.base_url, found.origins["base_url"]) == ("http://localhost:8000/v1", "--executor-api-base")
    assert found.advisor_addresses == {"advisor": Address("https://api.openai.com/v1")}
    environ = {"OPENAI_BASE_URL": "https://proxy.example/v1"}
    found = settings(**both, executor_api_base="http://localhost:8000", environ=environ)
    assert found.advisor_addresses == {"advisor": Address("https://proxy.example/v1")}
    shared = settings(**both, base_url="http://localhost:8000/v1")
    assert shared.advisor_addresses == {}
    with pytest.raises(ConfigError, match="--base-url and --executor-api-base"):
        settings(**both, base_url="http://a/v1", executor_api_base="http://b/v1")
    with pytest.raises(ConfigError, match=r"^--executor-api-base: .*http://"):
        settings(**both, executor_api_base="localhost")


def test_advisor_addresses_pair_in_order(user, settings):
    flags = {"advisor": ["openai/a", "critic=ollama/b"]}
    found = settings(**flags, advisor_api_base=["http://one.example/v1", "http://localhost:1"])
    assert found.advisor_addresses == {
        "advisor": Address("http://one.example/v1"), "critic": Address("http://localhost:1/v1"),
    }  # fmt: skip
    with pytest.raises(ConfigError, match="advisors: 2, addresses: 1"):
        settings(**flags, advisor_api_base=["http://one.example/v1"])
    with pytest.raises(ConfigError, match="advisors: 0"):
        settings(advisor_api_base=["http://one.example/v1"])
    user("advisor: {model: openai/a, api_base: 'http://one.example/v1', api_key: k}")
    found = settings(advisor_api_base=["http://two.example/v1"])
    assert found.advisor_addresses == {"advisor": Address("http://two.example/v1")}
