"""Which tools the search takes, by what they say of themselves."""

from sagent.engine.context import specs_of
from sagent.plugins.toolsearch.find import CallTool, with_search
from tests.tools.test_traits import Along, Deferrable, Foreign


def test_deferral_left_to_caller() -> None:
    assert specs_of((CallTool(()), Deferrable()))[-1].deferred
    assert not specs_of((CallTool(()), Foreign()))[-1].deferred
    names = [each.name for each in with_search([Foreign(), Deferrable(), Along()])]
    assert names == ["foreign", "find_tools", "call_tool", "foreign", "along"]
    assert [each.name for each in with_search([Along()])] == ["along"]
