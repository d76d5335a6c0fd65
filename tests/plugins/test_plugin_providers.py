"""Providers that plugins add: their rows and classes are found by every surface as ours are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagent.config import load
from sagent.config.declared import CORE
from sagent.config.plugins import INDEX, Installed, find_plugins
from sagent.errors import UsageError
from sagent.plugin import ProviderRow
from sagent.providers import built_in, infer, provider_named
from sagent.providers.registry import row_named
from sagent.providers.rows import MAKERS, built_in_row, declared_row, model_beginnings, owners
from sagent.testing.server import Turn
from tests.cli.program import CHECKOUT, Shell
from tests.deleted import copied_without
from tests.depth import few, later

ACME = """
from sagent.plugin import Plugin, ProviderRow
DATA = '''
base_url = "https://models.acme.example/v1"
models = ["acme-"]
default = "acme-large"
'''
plugin = Plugin("acme", "a provider", providers=(ProviderRow("acme", DATA),))
"""
PLAIN = """
from sagent.plugin import Plugin, ProviderRow
plugin = Plugin("x", providers=(ProviderRow("x", {!r}),))
"""
OWN = """
from sagent.plugin import Plugin, ProviderRow
from sagent.testing import ScriptedModel

class House:
    name = "house"
    def __init__(self, said): self.said = said
    @classmethod
    def from_env(cls, *, environ=None): return cls("from the environment")
    @classmethod
    def from_key(cls, key): return cls(key)
    def model(self, model_id): return ScriptedModel(self.said, provider="house", model_id=model_id)
    async def models(self): return ()
    async def aclose(self): pass

async def log_in(surface, host):
    surface.say(f"Logged in at {host or 'home'}")

plugin = Plugin("house", "a class", providers=(ProviderRow("house", "free = true", ":House", ":log_in", "a badge"),))
"""


@pytest.fixture
def folder(shell: Shell) -> Path:
    place = Path(shell.environment["HOME"]) / ".config/sagent/plugins"
    place.mkdir(parents=True)
    return place


def found(folder: Path) -> Installed:
    (folder.parent / "state").mkdir(exist_ok=True)
    return find_plugins(folder.parent, folder.parent / "state", ())


def test_model_by_name_and_settings(shell: Shell, folder: Path) -> None:
    (folder / "acme.py").write_text(ACME)
    server = shell.serve([Turn(text="Fine."), Turn(text="Fine."), Turn(text="Fine.")])
    shell.environment |= {"ACME_API_KEY": "k" * 8, "ACME_BASE_URL": server.url}
    for model in ("acme-large", "acme/other"):
        assert shell.run("hello", model=model).out == "Fine.\n"
    (folder.parent / "config.toml").write_text(
        f'[providers.acme]\nbase_url = "{server.url}"\napi_key = "{"o" * 8}"\nmax_tokens = "most"\n'
    )
    del shell.environment["ACME_API_KEY"]
    assert shell.run("hello", model="acme-large").out == "Fine.\n"
    assert [each.json["model"] for each in server.requests] == ["acme-large", "other", "acme-large"]
    assert server.requests[2].headers["authorization"] == f"Bearer {'o' * 8}"


@pytest.mark.plugin("setup")
@pytest.mark.plugin("authoring")
def test_every_surface_knows_it(shell: Shell, folder: Path) -> None:
    (folder / "acme.py").write_text(ACME)
    shell.environment["ACME_API_KEY"] = "k" * 8
    shell.environment["ACME_BASE_URL"] = "http://127.0.0.1:9"
    assert "providers: acme" in shell.run("plugin", "list", model="").out
    assert "no models of acme are known here" in shell.run("models", "acme", model="").err
    assert "acme" in shell.run("models", "nosuch", model="").err
    refused = shell.run("--allow-providers", "openai", "hello", model="acme-large")
    assert refused.code == 2
    assert "acme is not among those allowed" in refused.err
    assert "acme" not in shell.run("config", "show", model="").out, "the person has said nothing of it"
    assert "terminal" in shell.run("login", "acme", model="").err
    del shell.environment["ACME_API_KEY"], shell.environment["ACME_BASE_URL"]
    assert "set ACME_API_KEY" in shell.run("hello", model="acme-large").err


def test_price_and_default_used(shell: Shell, folder: Path) -> None:
    (folder / "acme.py").write_text(ACME)
    (folder.parent / "config.toml").write_text('[prices."acme/acme-large"]\ninput = 1\noutput = 2\n')
    server = shell.serve([Turn(text="Fine.")])
    del shell.environment["ANTHROPIC_API_KEY"]
    shell.environment |= {"ACME_API_KEY": "k" * 8, "ACME_BASE_URL": server.url}
    done = shell.run("--max-budget-usd", "1", "hello", model="")
    assert (done.code, done.out) == (0, "Fine.\n"), done.err


@later
@pytest.mark.plugin("setup")
def test_its_default_is_listed(shell: Shell, folder: Path) -> None:
    (folder / "acme.py").write_text(ACME)
    (folder.parent / "config.toml").write_text('[prices."acme/acme-large"]\ninput = 1\noutput = 2\n')
    shell.environment |= {"ACME_API_KEY": "k" * 8, "ACME_BASE_URL": "http://127.0.0.1:9"}
    assert "acme/acme-large" in shell.run("models", model="").out


@pytest.mark.plugin("setup")
def test_provider_class_with_login(shell: Shell, folder: Path) -> None:
    (folder / "house.py").write_text(OWN)
    assert shell.run("hello", model="house/any").out == "from the environment\n"
    assert "an address of its own" in shell.run("--base-url", "http://127.0.0.1:9", "hello", model="house/any").err
    done = shell.run("login", "house", "--host", "work", model="")
    assert "Logged in at work" in done.out


@pytest.mark.parametrize(
    "change",
    [
        ("class House", "class Hut"),
        ("def from_env(cls, *, environ=None)", "def from_env(cls, more)"),
        (":House", "no.such:House"),
    ],
    ids=["a name that is not there", "a function that wants more", "a module that is not there"],
)
def test_unusable_class_names_plugin(shell: Shell, folder: Path, change: tuple[str, str]) -> None:
    (folder / "house.py").write_text(OWN.replace(*change))
    done = shell.run("hello", model="house/any")
    assert done.code == 2
    assert "plugin house cannot be used" in done.err


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("nosuch = 1", "nosuch: unknown"),
        ("base_url =", "cannot be read"),
        ("./missing.toml", "cannot be read"),
        ("make = 'os:system'", "make: unknown"),
        ("family = 'telepathy'", "is not one of"),
    ],
)
def test_invalid_data_drops_plugin(folder: Path, data: str, why: str) -> None:
    source = (
        f"from sagent.plugin import Plugin, ProviderRow\nplugin = Plugin('x', providers=(ProviderRow('x', {data!r}),))"
    )
    (folder / "x.py").write_text(source)
    assert any("The plugin x" in notice and why in notice for notice in found(folder).notices)


def test_provider_row_file_reloaded(folder: Path) -> None:
    (folder / "x.py").write_text(PLAIN.format("./rows.toml"))
    (folder / "rows.toml").write_text('[x]\nbase_url = "https://x.example"\n[y]\nbase_url = "https://y.example"\n')
    assert found(folder).rows["x"].base_url == "https://x.example"
    (folder / "rows.toml").write_text('[x]\nbase_url = "https://other.example"\n')
    assert found(folder).rows["x"].base_url == "https://other.example"
    assert "other.example" in (folder.parent / "state" / INDEX).read_text(), "no file of data is read at a start"


def test_core_provider_not_replaced(folder: Path) -> None:
    (folder / "acme.py").write_text(ACME.replace('ProviderRow("acme"', 'ProviderRow("groq"'))
    plugins = found(folder)
    assert "groq" not in plugins.rows
    assert any("provider groq of the plugin acme" in notice for notice in plugins.notices)


def test_foreign_address_gets_no_key(folder: Path) -> None:
    (folder / "acme.py").write_text(ACME)
    rows = load({}, {"HOME": str(folder.parents[2])}, folder).rows
    assert infer("acme-large", rows) == "acme"
    assert infer("acme-large", rows, at="https://stranger.example/v1") is None
    assert infer("acme-large", rows, at="https://models.acme.example/v1") == "acme"


def test_core_declares_its_rows() -> None:
    """Each is read by itself as it is in the file."""
    declared = {row.name: row for row in CORE.providers}
    plugged = {*owners()} - {"./", "./sdk"}
    assert {*declared} == {*built_in()} - plugged
    for name, row in declared.items():
        if name not in MAKERS:
            mine = declared_row(row, "")
            known = built_in_row(name)
            assert known is not None
            assert (mine.base_url, mine.quirks, mine.models, mine.abilities) == (
                known.base_url,
                known.quirks,
                known.models,
                known.abilities,
            )
    starts = {(start, name) for name, row in built_in().items() if name not in plugged for start in row.models}
    assert {*model_beginnings()} == starts


@later
def test_one_provider_s_row_is_read_alone() -> None:
    """Where the provider is known."""
    code = (
        "import tomllib; from sagent.providers.registry import provider_named\n"
        "read, loads = [], tomllib.loads\n"
        "tomllib.loads = lambda text: read.append(text) or loads(text)\n"
        "provider_named('groq', key='k' * 8, rows={}); print(len(read), 'gpt-oss' in read[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"


@pytest.mark.plugin("clouds", "local", "logins")
def test_library_has_our_providers() -> None:
    for name, plugin in owners().items():
        assert name.startswith("./") or row_named(name).plugin == plugin
    with pytest.raises(UsageError, match="There is no provider 'acme'"):
        provider_named("acme")
    row = declared_row(ProviderRow("acme", 'base_url = "https://models.acme.example/v1"'), "acme")
    assert provider_named("acme", key="k" * 8, rows={"acme": row}).name == "acme"


@later
def test_gone_provider_names_its_plugin(shell: Shell) -> None:
    """A person's plugin that was there at an earlier start, wherever its provider is named."""
    folder = Path(shell.environment["HOME"], ".config/sagent/plugins")
    folder.mkdir(parents=True)
    (folder / "theirs.py").write_text(ACME.replace('Plugin("acme"', 'Plugin("theirs"'))
    assert "providers: acme" in shell.run("plugin", "list", model="").out
    (folder / "theirs.py").unlink()
    settings = folder.parent / "config.toml"
    settings.write_text('provider = "acme"\n')
    done = [shell.run("hello", model="")]
    settings.unlink()
    ways = (("--provider", "acme", "x"), ("--provider", "acme", "--base-url", "http://127.0.0.1:9", "x"))
    ways += (("models", "acme"), ("login", "acme"), ("--allow-providers", "acme", "--model", "openai/x", "x"))
    done += [shell.run(*words, model="") for words in few(ways)]
    for each in done:
        assert each.code == 2
        assert "The provider acme is not known: it is of the plugin theirs, which is not loaded" in each.err


@later
@pytest.mark.plugin("local")
def test_missing_provider_names_its_plugin(shell: Shell, tmp_path: Path) -> None:
    """In a copy without it, by its name, by weights and where a session is continued."""
    server = shell.serve([Turn(text="Fine.")])
    shell.environment["LLAMA_CPP_BASE_URL"] = server.url
    assert shell.run("hello", model="llamacpp/tiny").out == "Fine.\n"
    shell.environment["PYTHONPATH"] = str(copied_without("local", tmp_path / "copy"))
    code = "import sys; from sagent.bin.cli import main; sys.exit(main())"
    ways = (("--model", "llamacpp/tiny"), ("--model", "./weights"), ("--provider", "llamacpp"), ("--continue",))
    for words in few(ways):
        run = [sys.executable, "-c", code, *words, "hello"]
        done = subprocess.run(run, cwd=shell.cwd, env=shell.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "plugin local, which is not loaded" in done.stderr
    assert "--model" in done.stderr


def test_library_finds_installed_provider(tmp_path: Path) -> None:
    """It need not be told of plugins; one that lies on the path and was not installed is none."""
    for name, place in (("acme", tmp_path / "site-packages"), ("evil", tmp_path / "project")):
        info = place / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (place / f"{name}_models.py").write_text(
            "from sagent.plugin import Plugin, ProviderRow\n"
            f"plugin = Plugin({name!r}, providers=(ProviderRow({name!r}, 'base_url = \"http://127.0.0.1:1/v1\"'),))\n"
        )
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sagent.plugins]\n{name} = {name}_models\n")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\nfrom sagent import Agent, UsageError\n"
        "print(Agent('acme/x').model.provider)\n"
        "try: Agent('evil/x')\nexcept UsageError as error: print(error)\n"
    )
    paths = (str(CHECKOUT), str(tmp_path / "site-packages"), str(tmp_path / "project"))
    run = [sys.executable, "-c", code, *paths]
    keys = {**os.environ, "ACME_API_KEY": "k"}
    done = subprocess.run(run, env=keys, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("acme\nThere is no provider 'evil'"), done.stderr
