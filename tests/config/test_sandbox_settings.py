"""The sandbox in settings: what may be said of it, where, and that a project takes nothing of it away."""

import pytest

from sagent.config.report import show
from sagent.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", 'sandbox = "required"\nallow_domains = ["pypi.org"]'),
        ("config.toml", '[sandbox]\nmode = "required"\nallow_domains = ["pypi.org"]'),
        ("config.yaml", "sandbox: required\nallow_domains: [pypi.org]"),
        ("config.yaml", "sandbox:\n  mode: required\n  allow_domains:\n    - pypi.org"),
    ],
)
def test_sandbox_as_line_or_table(name, text, config, settings):
    (config / name).write_text(text)
    found = settings(environ={"SAGENT_ALLOW_DOMAINS": "*.example.org:8443"}, allow_domains=("a.test",))
    assert (found.sandbox, set(found.allow_domains)) == ("required", {"pypi.org", "*.example.org:8443", "a.test"})
    assert settings(environ={"SAGENT_SANDBOX": "off"}).sandbox == "off"
    assert settings(environ={"SAGENT_SANDBOX": "off"}, sandbox="auto").sandbox == "auto"
    rows = {row.name: row.value for row in show(settings())}
    assert (rows["sandbox"], rows["allow_domains"]) == ("required", "pypi.org")


def test_sandbox_default_is_auto_no_hosts(settings):
    assert (settings().sandbox, settings().allow_domains) == ("auto", ())


@pytest.mark.parametrize(
    ("project", "sandbox"),
    [('sandbox = "required"', "required"), ('[sandbox]\nmode = "off"', "auto"), ('sandbox = "auto"', "auto")],
)
def test_project_only_tightens_sandbox(project, sandbox, settings):
    found = settings(project=project)
    assert found.sandbox == sandbox
    assert any("config.toml:2" in text and "sandbox" in text for text in found.warnings) == ("off" in project)
    assert settings(project='sandbox = "off"', sandbox="required").sandbox == "required"


def test_project_lets_no_host_through(settings):
    found = settings(project='[sandbox]\nallow_domains = ["evil.test"]', allow_domains=("pypi.org",))
    assert found.allow_domains == ("pypi.org",)
    assert any("allow_domains" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sandbox": "maybe"}, "required"),
        ({"allow_domains": ("https://pypi.org",)}, "is not a host"),
        ({"allow_domains": ("*",)}, "is not a host"),
        ({"allow_domains": ("a.b/c",)}, "is not a host"),
    ],
)
def test_bad_value_says_accepted_ones(given, says, settings):
    with pytest.raises(ConfigError, match=says):
        settings(**given)


def test_host_and_outside_rules_are_no_tools(settings):
    rules = ("Network(pypi.org)", "Unsandboxed(make deploy)", "Network")
    assert settings(allow=rules, deny=("Unsandboxed",)).warnings == ()
    (warning,) = settings(allow=("Unsandbox",)).warnings
    assert "Did you mean Unsandboxed?" in warning
