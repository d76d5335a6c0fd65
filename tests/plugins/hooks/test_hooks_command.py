"""/hooks where there are none; tests of the program have the rest."""

import pytest

from sagent.errors import UsageError
from tests.repl.recorded import RecordingContext


@pytest.mark.parametrize(("line", "why"), [("/hooks", "There are no hooks.*PreToolUse"), ("/hooks x", "x")])
async def test_empty_list_explained(context: RecordingContext, line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        await context.do(line)
