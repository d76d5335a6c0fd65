"""For testing agents: a scripted model, a provider on loopback, and suites that test a Model, a Tool or a log.

`ScriptedModel` is here, `FakeProviderServer` in `sagent.testing.server`; the suites `model_suite`, `tool_suite` and
`log_suite` need pytest.
"""

from sagent.testing.scripted import Line, ScriptedModel, check_pairing

__all__ = ["Line", "ScriptedModel", "check_pairing"]
