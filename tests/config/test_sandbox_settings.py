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
def test_a_file_says_it_in_one_line_or_in_a_table(name, text, config, settings):
    (config / name).write_text(text)
    found = settings(environ={"SAGENT_ALLOW_DOMAINS": "*.example.org:8443"}, allow_domains=("a.test",))
    assert (found.sandbox, set(found.allow_domains)) == ("required", {"pypi.org", "*.example.org:8443", "a.test"})
    assert settings(environ={"SAGENT_SANDBOX": "off"}).sandbox == "off"
    assert settings(environ={"SAGENT_SANDBOX": "off"}, sandbox="auto").sandbox == "auto"
    rows = {row.name: row.value for row in show(settings())}
    assert (rows["sandbox"], rows["allow_domains"]) == ("required", "pypi.org")


def test_without_a_word_it_is_on_and_no_host_is_reached(settings):
    assert (settings().sandbox, settings().allow_domains) == ("auto", ())


@pytest.mark.parametrize(
    ("project", "sandbox"),
    [('sandbox = "required"', "required"), ('[sandbox]\nmode = "off"', "auto"), ('sandbox = "auto"', "auto")],
)
def test_a_project_makes_it_stricter_and_not_weaker(project, sandbox, settings):
    found = settings(project=project)
    assert found.sandbox == sandbox
    assert any("config.toml:2" in text and "sandbox" in text for text in found.warnings) == ("off" in project)
    assert settings(project='sandbox = "off"', sandbox="required").sandbox == "required"


def test_a_project_lets_no_host_through(settings):
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
def test_what_is_no_value_is_told_with_what_is(given, says, settings):
    with pytest.raises(ConfigError, match=says):
        settings(**given)


def test_rules_about_hosts_and_about_commands_outside_are_no_tools_and_no_mistakes(settings):
    rules = ("Network(pypi.org)", "Unsandboxed(make deploy)", "Network")
    assert settings(allow=rules, deny=("Unsandboxed",)).warnings == ()
    (warning,) = settings(allow=("Unsandbox",)).warnings
    assert "Did you mean Unsandboxed?" in warning
