"""Origins of lines: what `attribute` promises for any content."""

from pathlib import Path

from sagent.plugins.blame.attribution import Unknown, attribute


def test_each_line_has_an_origin(tmp_path: Path) -> None:
    content = b"one\n\ntwo\r\nthree"
    assert attribute(tmp_path / "a.txt", content, ()) == (Unknown("no log"),) * 4
    assert attribute(tmp_path / "a.txt", b"", ()) == ()
