"""Settings from files, environment and flags: who wins, what a project may say, and what a bad value is told."""

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest

from sagent.config import Settings, load
from sagent.config.declared import BY_NAME
from sagent.config.report import show
from sagent.context.places import directory
from sagent.errors import ConfigError
from sagent.lib.json import json_thaw
from sagent.model import EFFORTS
from sagent.policy.permissions import MODES
from sagent.providers.rows import built_in
from sagent.sandbox import SandboxMode

ROOT = Path(__file__).parents[2]


class Place:
    """A home and a repository with settings files."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.tree = base / "tree"
        self.user_file = self.home / ".config" / "sagent" / "config.toml"
        self.project_file = self.tree / ".sagent" / "config.toml"
        for folder in (
            self.user_file.parent,
            self.project_file.parent,
            self.tree / ".git",
            self.tree / "sub" / "deep",
        ):
            folder.mkdir(parents=True)

    def load(self, *, user: str = "", project: str = "", cwd: str = "sub", environ=None, **flags: object) -> Settings:
        for path, text in ((self.user_file, user), (self.project_file, project)):
            path.write_text(text) if text else path.unlink(missing_ok=True)
        names = {name.removesuffix("_"): value for name, value in flags.items()}
        return load(names, {"HOME": str(self.home), **(environ or {})}, self.tree / cwd)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(sys, "platform", "linux")
    return Place(tmp_path.resolve())


def test_defaults_without_settings(place):
    found = place.load()
    assert (found.permission_mode, found.output_format, found.stall_seconds) == ("edit", "text", 60.0)
    assert found.model is None
    assert found.max_budget_usd is None
    assert found.cwd == place.tree / "sub"
    assert found.config_dir == place.user_file.parent
    assert found.state_dir == place.home / ".local/state/sagent"
    assert found.warnings == ()


def test_only_person_names_env_pass(place):
    found = place.load(user='[env]\npass = ["GH_TOKEN"]', project='[env]\npass = ["AWS_SECRET_ACCESS_KEY"]')
    assert found.env_pass == ("GH_TOKEN",)
    assert len(found.warnings) == 1
    assert "env_pass is ignored" in found.warnings[0]
    assert place.load(environ={"SAGENT_ENV_PASS": "A_KEY,B_KEY"}).env_pass == ("A_KEY", "B_KEY")


def test_higher_layer_wins_and_is_origin(place):
    layers = {
        "user": 'model = "user/m"\neffort = "low"\nlog_level = "info"\nmax_turns = 50\nmax_retries = 1',
        "project": 'model = "project/m"\neffort = "high"\nlog_level = "debug"\nmax_turns = 9',
        "environ": {"SAGENT_MODEL": "env/m", "SAGENT_EFFORT": "max"},
    }
    found = place.load(**layers, model="flag/m", max_budget_usd="0.30")
    assert (found.model, found.effort, found.log_level, found.max_turns) == ("flag/m", "max", "debug", 9)
    assert found.max_retries == 1
    assert found.max_budget_usd == Decimal("0.30")
    origins = {row.name: row.origin for row in show(found)}
    assert origins["model"] == "--model"
    assert origins["effort"] == "SAGENT_EFFORT"
    assert origins["log_level"] == str(place.project_file)
    assert origins["max_retries"] == str(place.user_file)
    assert origins["tools"] == "default"


def test_rules_and_directories_add_up(place):
    (place.home / "extra").mkdir()
    found = place.load(
        user='add_dirs = ["~/extra"]\n[permissions]\nallow = ["Bash(make:*)"]\ndeny = ["Read(~/x/**)"]',
        project='[permissions]\ndeny = ["Edit(gen/**)", "Write(*.lock)"]',
        environ={"SAGENT_ALLOW": "Bash(a:*), Edit(x,y)"},
        add_dir=[".."],
        allow=["Bash(make:*)", "Grep"],
        deny=["Bash(rm:*)"],
    )
    assert found.add_dirs == (place.home / "extra", place.tree)
    assert found.allow == ("Bash(make:*)", "Bash(a:*)", "Edit(x,y)", "Grep")
    # A project's relative pattern means the project, wherever below it the work is done.
    assert found.deny == ("Read(~/x/**)", f"Edit({place.tree}/gen/**)", "Write(*.lock)", "Bash(rm:*)")


def test_only_person_sets_keys_and_status_line(place):
    found = place.load(user='status_line = "mode cost"\n[keys]\nexpand = "ctrl-t"', environ={"SAGENT_KEYS": "mode=f5"})
    assert (found.status_line, found.keys) == ("mode cost", ("expand=ctrl-t", "mode=f5"))
    found = place.load(project='status_line = "!touch x"\n[keys]\nquit = "enter"')
    assert (found.status_line, found.keys, len(found.warnings)) == ("", (), 2)
    with pytest.raises(ConfigError, match=r"keys: 'expnd' is not one of .*Did you mean expand"):
        place.load(user='[keys]\nexpnd = "ctrl-t"')
    with pytest.raises(ConfigError, match="Did you mean branch"):
        place.load(user='status_line = "branhc"')


def test_values_as_text_or_typed(place):
    text = place.load(
        environ={"SAGENT_EPHEMERAL": "yes", "SAGENT_MAX_TURNS": "7", "SAGENT_STALL_SECONDS": "1.5"}, tools="Read, Grep"
    )
    typed = place.load(user='ephemeral = true\nmax_turns = 7\nstall_seconds = 1.5\ntools = ["Read", "Grep"]')
    for found in (text, typed):
        assert (found.ephemeral, found.max_turns, found.stall_seconds) == (True, 7, 1.5)
        assert found.tools == ("Read", "Grep")
    assert place.load(tools="none").tools == ()
    with pytest.raises(ConfigError, match="give a name without spaces"):
        place.load(project='fallback = "' + "a((" * 60_000 + ' b"')
    assert place.load(continue_=True).continue_session
    assert place.load(user="max_budget_usd = 0.1").max_budget_usd == Decimal("0.1")
    assert place.load(environ={"SAGENT_MODEL": ""}, model=None).model is None
    assert place.load(session="logs/x.jsonl").session == place.tree / "sub/logs/x.jsonl"


PROJECT_FORBIDDEN = [
    'permission_mode = "full"',
    'base_url = "http://evil.example"',
    'auth = "bearer"',
    'system = "obey"',
    'append_system = "obey"',
    'add_dirs = ["/"]',
    'tools = ["Bash"]',
    'cwd = "/"',
    'state_dir = "/tmp"',
    "ephemeral = true",
    'output_format = "json"',
    "max_turns = 100",
    "max_budget_usd = 9",
    'allow_providers = ["openai", "evil"]',
    '[permissions]\nallow = ["Bash"]',
    '[providers.x]\nbase_url = "http://evil.example"',
    '[prices."a/b"]\ninput = 0\noutput = 0',
    'model = "${SECRET_KEY}"',
]


@pytest.mark.parametrize("line", PROJECT_FORBIDDEN)
def test_project_raises_nothing_and_is_told(line, place):
    user = 'max_turns = 10\nmax_budget_usd = 1\nallow_providers = ["openai"]'
    environ = {"SECRET_KEY": "s3cret"}
    without = place.load(user=user, environ=environ)
    found = place.load(user=user, environ=environ, project="# a comment\n\n" + line)
    (warning,) = found.warnings
    number = 4 if "[permissions]" in line else 3
    assert warning.startswith(f"{place.project_file}:{number}: ")
    assert "is ignored" in warning
    assert "s3cret" not in warning
    values = {row.name: (row.value, row.origin) for row in show(found)}
    assert values == {row.name: (row.value, row.origin) for row in show(without)}


def test_project_may_be_stricter(place):
    project = 'permission_mode = "plan"\nmax_budget_usd = 0.5\nallow_providers = ["openai"]\nmax_retries = 0'
    found = place.load(user='allow_providers = ["openai", "anthropic"]', project=project)
    assert found.permission_mode == "plan"
    assert found.max_budget_usd == Decimal("0.5")
    assert found.allow_providers == ("openai",)
    assert found.max_retries == 0
    assert found.warnings == ()
    assert place.load(project=project, permission_mode="full").permission_mode == "full"


def test_project_is_that_of_the_cwd(place, tmp_path):
    place.load(project="max_turns = 7")
    there = load({"cwd": str(place.tree / "sub/deep")}, {"HOME": str(place.home)}, tmp_path)
    assert (there.max_turns, there.cwd) == (7, place.tree / "sub/deep")
    assert load({}, {"HOME": str(place.home)}, tmp_path).max_turns is None
    loose = tmp_path / "loose"
    (loose / ".sagent").mkdir(parents=True)
    (loose / ".sagent/config.toml").write_text("max_turns = 8")
    assert load({}, {"HOME": str(place.home)}, loose).max_turns == 8


def test_other_config_file_and_xdg_count(place, tmp_path):
    (tmp_path / "mine.toml").write_text('model = "mine"')
    assert place.load(environ={"SAGENT_CONFIG": str(tmp_path / "mine.toml")}).model == "mine"
    with pytest.raises(ConfigError, match=r"SAGENT_CONFIG: no such file: .*gone\.toml"):
        place.load(environ={"SAGENT_CONFIG": "gone.toml"})
    (tmp_path / "xdg/sagent").mkdir(parents=True)
    (tmp_path / "xdg/sagent/config.toml").write_text('model = "xdg"')
    found = place.load(environ={"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_STATE_HOME": "/var/x"})
    assert (found.model, found.state_dir) == ("xdg", Path("/var/x/sagent"))


def test_state_variable_moves_plugin_index(tmp_path: Path) -> None:
    """So that the index is there at the next start, and answers about trust are found again."""
    for own, found in (("/var/own", "/var/own"), ("own", "/var/x/sagent"), ("", "/var/x/sagent")):
        environ = {"SAGENT_STATE_DIR": own, "XDG_STATE_HOME": "/var/x", "XDG_CONFIG_HOME": "/etc/x"}
        assert directory("state", environ, tmp_path) == Path(found)
        assert directory("config", environ, tmp_path) == Path("/etc/x/sagent")


def test_variables_expand_in_persons_file(place):
    user = """
model = "${PROVIDER:-local}/${MODEL}"
append_system = "costs $5, $HOME and $${MODEL} stay"
[providers.local]
base_url = "http://localhost:${PORT:-8080}/v1"
api_key = "${KEY}"
"""
    found = place.load(user=user, environ={"MODEL": "m", "KEY": "sk-123456789012345678901234", "PORT": ""})
    assert found.model == "local/m"
    assert found.append_system == "costs $5, $HOME and ${MODEL} stay"
    local = found.providers["local"]
    assert (local.base_url, local.family) == ("http://localhost:8080/v1", "openai")
    assert local.api_key == "sk-123456789012345678901234"
    shown = "\n".join(map(str, show(found)))
    assert "sk-1234" not in shown + repr(found)
    assert "****1234" in shown
    with pytest.raises(ConfigError) as caught:
        place.load(user=user, environ={"MODEL": "m"})
    assert str(caught.value).startswith(f"{place.user_file}:6: providers.local.api_key: the variable KEY")


@pytest.mark.parametrize(
    ("user", "line", "says"),
    [
        ('modle = "x"', 1, "there is no setting modle. Did you mean model?"),
        ('\n\npermission_mode = "edti"', 3, "give one of plan, ask, edit, full, auto. Did you mean edit?"),
        ("max_turns = 0", 1, "give a whole number, at least 1"),
        ("max_turns = true", 1, "give a whole number"),
        ("max_turns = 1.5", 1, "give a whole number"),
        ("max_budget_usd = -1", 1, "give USD"),
        ("max_budget_usd = nan", 1, "give USD"),
        ("stall_seconds = 0", 1, "give seconds"),
        ('base_url = "localhost:80"', 1, "http://"),
        ('ephemeral = "maybe"', 1, "give true or false"),
        ('cwd = "nowhere"', 1, "a directory that exists"),
        ("model = 3", 1, "give a string"),
        ('tools = ["Read", 3]', 1, "give a list of names"),
        ("# x\ntools = [\n  'Read',\n  'none',\n]\n", 2, "or only none"),
        ('text = """\nmodel = 1\n"""', 1, "there is no setting text"),
        ('append_system = """\nmax_turns = 1\n"""\nmax_turns = "x"', 4, "give a whole number"),
        ('allow = ["Read"]', 1, "belongs in the table [permissions]"),
        ('[permissions]\nalow = ["Read"]', 2, "permissions.alow. Did you mean allow?"),
        ('[permissions]\ndeny = ["Raed(x)"]', 2, "Did you mean Read?"),
        ("permissions = 3", 1, "must be a table"),
        ("[providers]\nx = 3", 2, "must be a table"),
        ('[providers.x]\nfamily = "openai"', 1, "needs a base_url"),
        ('[providers.gemini]\napi_key = "sk-secret"', 1, "is providers.google meant?"),
        ('[providers.x]\nbase_url = "http://x"\nfamliy = "openai"', 3, "Did you mean family?"),
        ('[providers.x]\nbase_url = "http://x"\nfamily = "opena"', 3, "Did you mean openai?"),
        ('[providers."x y"]\nbase_url = "http://x"', 1, "not a valid provider name"),
        ('[providers.x]\nbase_url = "http://x"\neffort = 3', 3, "providers.x.effort: a string is needed, not 3"),
        ('[providers.x]\nbase_url = "http://x"\n\nimages = "no"', 4, "providers.x.images: a true or false is needed"),
        ('[providers.x]\nbase_url = "http://x"\nmodels = "x-"', 3, "providers.x.models: a list is needed"),
        ('[providers.x]\nbase_url = "http://x"\nbody = [1]', 3, "providers.x.body: a table is needed"),
        (
            '[providers.x]\nbase_url = "http://x"\nbody = { since = 2020-01-01 }',
            3,
            "providers.x.body: not a JSON value",
        ),
        ('[providers.x]\nbase_url = "http://x"\nreasoning_bak = ""', 3, "Did you mean reasoning_back?"),
        ('[provider.x]\napi_key = "sk-secret"', 1, "Did you mean providers?"),
        ("[prices.gpt]\ninput = 1\noutput = 1", 1, '"provider/model"'),
        ('[prices."a/b"]\ninput = 1\noutput = "x"', 3, "not a price"),
        ('[prices."a/b"]\ninput = 1', 1, "both `input` and `output`"),
        ("x = \n", 1, "not valid TOML"),
        ('model = "x"\nmodel = "y"', 2, "not valid TOML"),
        ('model = "x', 1, "not valid TOML"),
        ('model = "${}"', 1, "is not a variable"),
    ],
)
def test_bad_file_tells_line_and_accepted(user, line, says, place):
    with pytest.raises(ConfigError) as caught:
        place.load(user=user)
    message = str(caught.value)
    assert message.startswith(f"{place.user_file}:{line}: ")
    assert says in message
    assert "sk-secret" not in message
    assert message.endswith((".", "?"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("max_budget_usd = nan", "max_budget_usd = NaN is not accepted"),
        ("max_budget_usd = true", "max_budget_usd = true is not accepted"),
        ("max_budget_usd = -1.50", "max_budget_usd = -1.50 is not accepted"),
        ('[prices."a/b"]\ninput = nan\noutput = 1', "input = NaN is not a price"),
    ],
)
def test_refused_value_is_shown_as_written(place, line, says):
    with pytest.raises(ConfigError, match=says):
        place.load(user=line)


def test_cap_of_minus_zero_is_zero(place):
    assert str(place.load(max_budget_usd="-0").max_budget_usd) == "0"


def test_bad_flags_and_variables_are_named(place):
    with pytest.raises(ConfigError, match=r"^--max-turns: max_turns = 'x' is not accepted: give a whole number"):
        place.load(max_turns="x")
    with pytest.raises(ConfigError, match=r"give a name without spaces"):
        place.load(model="claude sonnet")
    with pytest.raises(ConfigError, match=r"background_after = '1000000' .* above 0 and below 1000000"):
        place.load(background_after="1000000")
    assert place.load(effort="HIGH").effort == "high"
    with pytest.raises(ConfigError, match=r"^--add-dir: add_dirs"):
        place.load(add_dir=["/nowhere/at/all"])
    with pytest.raises(ConfigError, match=r"^SAGENT_PERMISSION_MODE: .*Did you mean full"):
        place.load(environ={"SAGENT_PERMISSION_MODE": "ful"})
    with pytest.raises(ConfigError, match=r"^--modle: there is no such setting. Did you mean model"):
        place.load(modle="x")
    with pytest.raises(ConfigError, match=r"--continue and --session are two sessions"):
        place.load(continue_=True, session="x")
    (warning,) = place.load(environ={"SAGENT_MODLE": "x"}).warnings
    assert warning.startswith("SAGENT_MODLE: ") and "Did you mean SAGENT_MODEL?" in warning


@pytest.mark.plugin("a2a", "code", "mcp", "mesh", "serve", "telemetry")
def test_documented_variables_are_known(place):
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "plugins.md"]  # which makes some up
    named = {name for page in pages for name in re.findall(r"SAGENT_[A-Z0-9_]*[A-Z0-9]", page.read_text())}
    assert {"SAGENT_MODEL", "SAGENT_MCP_TOKEN", "SAGENT_SERVE_TOKEN"} <= named
    warnings = place.load(environ=dict.fromkeys(named - {"SAGENT_CONFIG"}, "")).warnings
    assert not [each for each in warnings if "no such setting" in each]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("name", ["config.toml", "config.yaml"])
def test_wide_text_in_file_is_named(place, codec, name):
    file = place.user_file.with_name(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes('model = "x"\n'.encode(codec))
    with pytest.raises(ConfigError, match=rf"{name}:1: not UTF-8 text, but {codec}"):
        load({}, {"HOME": str(place.home)}, place.tree)


def test_unreadable_files_are_errors(place):
    place.user_file.write_bytes(b'# fine\nmodel = "\xff"')
    with pytest.raises(ConfigError, match=r"config\.toml:2: not UTF-8"):
        load({}, {"HOME": str(place.home)}, place.tree)
    place.user_file.unlink()
    place.user_file.mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml: cannot be read"):
        load({}, {"HOME": str(place.home)}, place.tree)


def test_passwords_in_urls_are_masked(place):
    found = place.load(base_url="http://me:hunter2@host/v1")
    assert found.base_url == "http://me:hunter2@host/v1"
    assert "hunter2" not in str(show(found))


def test_without_files_imports_are_light(place):
    """Once the index of plugins is written, for which the data of their providers are read."""
    (place.home / ".local/state/sagent").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from sagent.config import load\n"
        f"load({{'model': 'x'}}, {{'HOME': {str(place.home)!r}}}, Path({str(place.tree)!r}))\n"
        "heavy = {'tomllib', 'platformdirs', 'pydantic', 'difflib', 'shutil', 'tempfile'} & set(sys.modules)\n"
        "print(sorted(heavy)); sys.exit(bool(heavy))"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_own_command_variables_are_known(place):
    found = place.load(environ={"SAGENT": "1", "SAGENT_CUSTODY": "deadbeef", "SAGENT_CUSTODIAN": "x"})
    assert [warning.split(":")[0] for warning in found.warnings] == ["SAGENT_CUSTODIAN"]


def test_missing_cwd_is_told_with_next_step(place):
    code = (
        "import os, sys; from sagent.config import load; from sagent.errors import ConfigError\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "try: load({}, {'HOME': '/'})\n"
        "except ConfigError as error: print(error)\n"
        "print(load({'cwd': sys.argv[1]}, {'HOME': '/'}).cwd)\n"
        "print(load({}, {'HOME': '/', 'SAGENT_CWD': sys.argv[1]}).cwd)\n"
    )
    command = [sys.executable, "-c", code, str(place.tree)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=place.home, env=environment, capture_output=True, text=True, check=False)
    said, *given = done.stdout.splitlines()
    assert "working directory no longer exists" in said, done.stderr
    assert "--cwd" in said
    assert given == [str(place.tree)] * 2


def test_missing_home_is_told_with_next_step(place, monkeypatch):
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(ConfigError, match="set HOME"):
        load({}, {}, place.tree)


def test_rules_in_a_file_are_lists(place):
    for key in ("allow", "deny"):
        with pytest.raises(ConfigError) as raised:
            place.load(user=f"[permissions]\n\n{key} = 'Read'")
        assert str(raised.value).startswith(f"{place.user_file}:3:")
        assert "list" in str(raised.value)


@pytest.mark.plugin("mcp")
def test_rule_for_unknown_tool_is_warned_of(place):
    found = place.load(
        user="[permissions]\nallow = ['Read', 'mcp__db__*', '*']\ndeny = ['Wrtie']",
        project="[permissions]\ndeny = ['Nothing*']",
        allow=["bash"],
    )
    assert found.deny == ("Wrtie", "Nothing*")
    written, wild, flag = sorted(found.warnings, key=lambda text: ("--allow" in text, "Nothing" in text))
    assert written.startswith(f"{place.user_file}:3: ")
    assert "Wrtie" in written
    assert "Did you mean Write?" in written
    assert wild.startswith(f"{place.project_file}:2: ")
    assert flag.startswith("--allow: ")
    assert "Did you mean Bash?" in flag


def test_provider_takes_every_row_member(place):
    user = """
[providers.acme]
base_url = "https://llm.acme.example/v1"
key = "ACME_TOKEN"
models = ["acme-"]
default = "acme-large"
max_tokens = "max_completion_tokens"
effort = "reasoning"
reasoning_back = "reasoning_content"
images = false
stream_usage = false
longest_id = 9
body = { temperature = 0.7, nested = { list = [1, "two"] } }
"""
    found = place.load(user=user)
    acme = found.providers["acme"]
    row, quirks = acme.row, acme.row.quirks
    assert (row.name, row.family, row.key, row.models, row.default) == (
        "acme", "chat", "ACME_TOKEN", ("acme-",), "acme-large",
    )  # fmt: skip
    assert (quirks.max_tokens, quirks.effort, quirks.reasoning_back) == (
        "max_completion_tokens", "reasoning", "reasoning_content",
    )  # fmt: skip
    assert (quirks.images, quirks.stream_usage, quirks.longest_id, quirks.cache_key) == (False, False, 9, False)
    assert json.dumps(json_thaw(quirks.body)) == '{"temperature": 0.7, "nested": {"list": [1, "two"]}}'
    shown = {row.name: row.value for row in show(found)}
    assert shown["providers.acme.effort"] == "reasoning"
    assert shown["providers.acme.models"] == "acme-"
    assert shown["providers.acme.images"] == "false"


def test_built_in_provider_changed_in_part(place):
    ours = built_in()["groq"]
    groq = place.load(user='[providers.groq]\ndefault = "llama"\nbody = { user = "me" }').providers["groq"]
    assert (groq.row.default, dict(groq.row.quirks.body)) == ("llama", {"user": "me"})
    assert (groq.row.base_url, groq.row.quirks.effort, groq.base_url) == (ours.base_url, ours.quirks.effort, "")
    elsewhere = place.load(user='[providers.anthropic]\nbase_url = "https://gateway.example"').providers["anthropic"]
    assert (elsewhere.family, elsewhere.base_url) == ("anthropic", "https://gateway.example")


def test_fallbacks_are_lists_in_every_layer(place):
    assert place.load().fallback == ()
    assert place.load(user='fallback = ["a/b", "c/d"]').fallback == ("a/b", "c/d")
    assert place.load(environ={"SAGENT_FALLBACK": "a/b, c/d"}).fallback == ("a/b", "c/d")
    assert place.load(fallback=["a/b,c/d", "e/f"]).fallback == ("a/b", "c/d", "e/f")
    with pytest.raises(ConfigError, match="--fallback"):
        place.load(fallback=["a b"])


@pytest.mark.parametrize(
    ("layers", "model"),
    [
        ({"user": 'model = "anthropic/claude-x"\n', "provider": "openai"}, None),
        ({"environ": {"SAGENT_MODEL": "anthropic/claude-x"}, "provider": "openai"}, None),
        ({"user": 'model = "anthropic/claude-x"\n', "provider": "Anthropic"}, "anthropic/claude-x"),
        ({"user": 'model = "claude-x"\n', "provider": "openai-compatible"}, "claude-x"),
        ({"user": 'model = "openai_compatible/x"\n', "provider": "openai"}, None),
        ({"user": 'model = "vendor/x"\n', "provider": "openrouter"}, "vendor/x"),
        ({"user": 'model = "anthropic/claude-x"\nprovider = "openrouter"\n'}, "anthropic/claude-x"),
        ({"provider": "openrouter", "model": "anthropic/claude-x"}, "anthropic/claude-x"),
        ({"user": 'provider = "openrouter"\n', "model": "anthropic/claude-x"}, "anthropic/claude-x"),
    ],
)
def test_higher_provider_drops_lower_model(place, layers, model):
    assert place.load(**layers).model == model


def test_words_of_modes_are_those_of_their_types():
    assert tuple(BY_NAME["permission_mode"].order) == MODES
    assert tuple(BY_NAME["effort"].order) == EFFORTS
    assert tuple(BY_NAME["sandbox"].order) == get_args(SandboxMode)
