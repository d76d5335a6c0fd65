"""The search for tools among those for the web and for papers."""

from collections.abc import Sequence

import pytest

from sagent.plugins.toolsearch.find import Index
from tests.chosen import made
from tests.plugins.toolsearch.test_deferred_tools import Deploy


@pytest.mark.plugin("papers", "web")
def test_search_ranks_names_and_descriptions() -> None:
    searched = [*made("web", "papers"), Deploy()]
    index = Index(searched)

    def found(query: str) -> Sequence[str]:
        names = [tool.name for tool in index.search(query)]
        assert names == [tool.name for tool in Index(searched).search(query)]
        return names

    assert found("search the web")[0] == "WebSearch"
    assert found("release stages")[0] == Deploy.name
    assert found("select:PaperFetch")[0] == "PaperFetch"
    assert found("force")[0] == Deploy.name
    assert found("zzz") == []
    assert found("") == []
    assert len(found("paper")) <= 5
