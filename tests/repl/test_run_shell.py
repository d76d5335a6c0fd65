"""What a command after `!` printed."""

from pathlib import Path

from sagent.repl.shell import run_shell
from tests.surroundings import PYTHON


async def test_letters_across_reads_are_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x" + "é" * 40_000)
    assert await run_shell("cat f", tmp_path) == (0, "x" + "é" * 40_000)


async def test_last_letter_of_old_encoding_is_kept(tmp_path: Path) -> None:
    assert (await run_shell(f"{PYTHON} -c \"import os; os.write(1, b'caf\\xe9')\"", tmp_path))[1] == "café"
