"""An editor in whose folder the tests work."""

from pathlib import Path

import pytest

from tests.plugins.editor.extension import Extension


@pytest.fixture
def extension(work: Path) -> Extension:
    return Extension(work.with_name("home"), work)
