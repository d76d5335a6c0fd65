"""What git says of changes, read; and findings, each where the changes show it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.plugins.review.changes import Changes, FileDiff, parse_diff, read_changes
from sagent.plugins.review.finding import SCHEMA, SEVERITIES, Review, read_findings
from sagent.plugins.review.report import FORMATS, as_json, read_review
from sagent.plugins.review.untrusted import for_page, without_hidden

WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false")


def git(cwd: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *WHO, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(cwd: Path, **files: str) -> str:
    for name, text in files.items():
        (cwd / name).write_text(text)
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "-m", "c")
    return git(cwd, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, a="".join(f"line {number}\n" for number in range(1, 41)), gone="x\n")
    return tmp_path


def finding(**given: object) -> Mapping[str, object]:
    whole = {"file": "a", "line": 1, "severity": "high", "title": "t", "message": "m", "suggestion": "s"}
    return {"end_line": given.get("line", 1), **whole, **given}


def test_submodule_reviewed_at_checkout(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "-q", "-b", "main")
    commit(other, b="1\n")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    commit(repository)
    (repository / "sub" / "b").write_text("2\n")
    (repository / "a").write_text("")
    assert list(read_changes(repository).files) == ["a"]
    commit(repository / "sub", b="3\n")
    assert list(read_changes(repository).files) == ["a", "sub"]


def test_working_tree_compared_with_head(repository: Path) -> None:
    (repository / "a").write_text("line 1\nnew\n" + "".join(f"line {number}\n" for number in range(2, 41)))
    (repository / "gone").unlink()
    (repository / 'odd "name"\té').write_text("-- what\n+++ b/not\nlast")
    (repository / "picture").write_bytes(b"\0\xff")
    found = read_changes(repository)
    assert found.head == ""
    assert found.files["a"].added == {2}
    assert found.files["a"].lines[3] == "line 2"
    assert found.files["gone"].lines == {}
    assert found.files['odd "name"\té'].lines == {1: "-- what", 2: "+++ b/not", 3: "last"}
    assert found.files["picture"].lines == {}


def test_changed_line_not_read_as_file_name(repository: Path) -> None:
    base = commit(repository, a="-- old\nlast\n", b="x\n")
    head = commit(repository, a="++ b/b\nlast\n", b="y\n")
    files = read_changes(repository, f"{base}..{head}").files
    assert set(files) == {"a", "b"}
    assert files["a"].old_path == "a" and files["a"].lines == {1: "++ b/b", 2: "last"}


def test_files_without_changed_lines_named(repository: Path) -> None:
    (repository / "b").mkdir()
    names = "my first.txt", "your first.txt", "b/é ü", 'odd "name"'
    base = commit(repository, **dict.fromkeys(names, ""), **{"old é name": "same\n" * 9})
    git(repository, "mv", "old é name", "b/new é name")
    for name in names:
        (repository / name).chmod(0o755)
    (repository / "picture of é").write_bytes(b"\0\xff")
    head = commit(repository)
    files = read_changes(repository, f"{base}..{head}").files
    assert set(files) == {*names, "b/new é name", "picture of é"}
    assert files["b/new é name"].old_path == "old é name"


def test_name_means_changes_since_fork_point(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "-b", "topic")
    head = commit(repository, b="two\n")
    git(repository, "checkout", "-q", "main")
    commit(repository, c="three\n")
    git(repository, "checkout", "-q", "topic")
    assert read_changes(repository, "main") == read_changes(repository, f"main...{head}")
    found = read_changes(repository, "main")
    assert (found.base, found.head, list(found.files)) == (base, head, ["b"])
    assert sorted(read_changes(repository, "main..topic").files) == ["b", "c"]


@pytest.mark.parametrize("named", ["nothing", "--output=x", "main..nothing", "main:a"])
def test_non_range_refused(repository: Path, named: str) -> None:
    with pytest.raises(UsageError):
        read_changes(repository, named)
    assert not (repository / "x").exists()


def test_review_needs_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not in a git repository"):
        read_changes(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
@pytest.mark.needs("root-of-machine")
def test_foreign_repository_names_fix(repository: Path) -> None:
    for path in (repository, repository / ".git"):
        os.chown(path, 65534, 65534)
    (repository / "below").mkdir()
    for named in ("", "main"):
        with pytest.raises(UsageError, match="belongs to another user") as caught:
            read_changes(repository / "below", named)
        assert str(caught.value).endswith(f"git config --global --add safe.directory {repository}")


def test_attribute_hides_no_change(repository: Path) -> None:
    (repository / ".gitattributes").write_text("* -diff\n*.py binary\n")
    (repository / "a").write_text("hidden\n")
    (repository / "b.bin").write_bytes(b"\0" * 5_000)
    git(repository, "add", "-A")
    found = read_changes(repository)
    assert found.files["a"].lines == {1: "hidden"}
    assert "\0" not in found.files["b.bin"].text
    assert found.files["b.bin"].lines == {}


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
def test_name_hides_no_change(repository: Path) -> None:
    for name, text in ((b"n\xfe", "one\n"), (b"n\xff", "two\n"), (b"kind", "gone\n")):
        Path(os.fsdecode(os.fsencode(repository / "x").removesuffix(b"x") + name)).write_text(text)
    git(repository, "add", "-A")
    assert all(text in read_changes(repository).files["n\ufffd"].text for text in ("+one", "+two"))
    git(repository, "commit", "-q", "-m", "files")
    (repository / "kind").unlink()
    (repository / "kind").symlink_to("a")
    assert all(text in read_changes(repository).files["kind"].text for text in ("-gone", "+a"))


def test_personal_git_config_ignored(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "below").mkdir()
    (repository / "below/b").write_text("b\n\nc\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "b")
    (repository / "below/b").write_text("b\n\nd\n")
    (repository / "new").write_text("n\n")
    plain = read_changes(repository)
    home = repository.parent / "home"
    home.mkdir(exist_ok=True)
    settings = [
        "noprefix=true",
        "relative=true",
        "mnemonicPrefix=true",
        "suppressBlankEmpty=true",
        "submodule=log",
        "context=0",
    ]
    (home / ".gitconfig").write_text(
        "[diff]\n" + "".join(f"\t{each}\n" for each in settings) + "[color]\n\tui=always\n"
    )
    monkeypatch.setenv("HOME", str(home))
    assert read_changes(repository / "below") == plain
    assert sorted(plain.files) == ["below/b", "new"]


def test_shallow_clone_names_fetch_depth(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    commit(repository, z="z\n")
    with pytest.raises(UsageError, match="fetch-depth: 0"):
        read_changes(repository, "main")


LINES = st.lists(
    st.sampled_from(["", "x", "-- a", "++ b", "@@ -1 +1 @@", "diff --git a/a b/a", "\\ no", "é\r"]), max_size=30
)


@given(LINES, LINES)
def test_diff_lines_keep_numbers(before: Sequence[str], after: Sequence[str]) -> None:
    from difflib import unified_diff

    rows = unified_diff(before, after, "a/f", "b/f", lineterm="", n=2)
    (file,) = parse_diff("\n".join(["diff --git a/f b/f", *rows]) + "\n").values()
    assert all(after[number - 1] == text for number, text in file.lines.items())
    assert all(before[old - 1] == after[number - 1] for number, old in file.old.items())
    assert file.old.keys() == file.lines.keys() - file.added
    kept = [text for number, text in enumerate(after, 1) if number not in file.added]
    assert len(kept) + len(file.added) == len(after)


def changes(lines: Sequence[int]) -> Changes:
    return Changes("b" * 40, "c" * 40, {"a": FileDiff("a", "", {line: f"code {line}" for line in lines}, set(lines))})


@given(st.sets(st.integers(1, 60), max_size=12), st.integers(-5, 80), st.integers(-5, 80), st.sampled_from(["a", "b"]))
def test_finding_on_diff_line_or_marked(lines: set[int], line: int, end: int, file: str) -> None:
    (found,) = read_findings({"findings": [finding(file=file, line=line, end_line=end)]}, changes(sorted(lines)))
    shown = lines if file == "a" else set()
    if found.in_diff:
        assert {found.line, found.end_line} <= shown
        assert found.moved_from in (0, max(1, line))
    else:
        assert all(abs(max(1, line) - each) > 3 for each in shown)
        assert not found.suggestion
    if found.suggestion:
        assert set(range(found.line, found.end_line + 1)) <= shown


def test_moved_finding_recognized() -> None:
    first = read_findings({"findings": [finding(line=5), finding(line=5, title="other")]}, changes([5]))
    later = Changes("", "", {"a": FileDiff("a", "", {9: "  code 5 "}, {9})})
    again = read_findings({"findings": [finding(line=9, message="else")]}, later)
    assert len({each.mark for each in first}) == 2
    assert again[0].mark == first[0].mark


def test_nonsense_yields_no_finding() -> None:
    (found,) = read_findings({"findings": [{"severity": "awful", "line": "x"}]}, changes([1]))
    assert (found.severity, found.in_diff) == ("medium", False)
    assert read_findings({"findings": "none"}, changes([1])) == []


def review(*findings: Mapping[str, object]) -> Review:
    found = read_findings({"findings": findings}, changes([1, 2]))
    return Review("b" * 40, "c" * 40, "It adds a line.", tuple(found), "m/x", "0.0123")


KEY = "sk-ant-api03-" + "a1B2" * 12


@pytest.mark.parametrize("name", FORMATS)
def test_formats_hide_secrets_and_escapes(name: str) -> None:
    said = FORMATS[name](review(finding(message=f"\x1b[31m{KEY}"), finding(file="b|`\n::error::", title=KEY)))
    assert "\x1b" not in said
    assert name == "text" or KEY not in said
    assert name != "annotations" or said.count("\n") == 2


@pytest.mark.parametrize("name", FORMATS)
def test_review_text_inert(name: str) -> None:
    odd = "a\x1b[31m\x9b2J\x07\u202eb @team <img src=x>"
    whole = review(finding(title=odd, message=odd, suggestion=odd), finding(file=odd[:12], title=odd))
    said = FORMATS[name](replace(whole, summary=odd, model=odd, left_out=(odd,)))
    assert not {*said} & {*"\x1b\x9b\x07\u202e"}
    assert name != "markdown" or ("@team" not in said and "<img" not in said)


def test_review_round_trips() -> None:
    whole = review(finding(), finding(file="é\u202e", severity="low"))
    assert read_review(as_json(whole)) == whole


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 2}',
        '{"version": 1, "findings": [], "cost_usd": "0\\nmore=1"}',
        '{"version": 1, "findings": [], "cost_usd": NaN}',
    ],
)
def test_non_review_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_review(text)


def test_half_characters_removed() -> None:
    found = read_review('{"version": 1, "findings": [{"file": "\\ud800", "title": "\\ud800"}]}')
    assert all(FORMATS[name](found).encode() for name in FORMATS)


def test_sarif_fits_code_scanning() -> None:
    run = json.loads(FORMATS["sarif"](review(finding(line=2, suggestion="y"))))["runs"][0]
    (result,) = run["results"]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "endLine": 2}
    rules = run["tool"]["driver"]["rules"]
    assert result["ruleId"] in {rule["id"] for rule in rules}
    assert all(rule[name]["text"] for rule in rules for name in ("shortDescription", "fullDescription", "help"))
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == "y\n"


def test_severities_counted_from_worst() -> None:
    whole = review(*(finding(line=1, title=each, severity=each) for each in SEVERITIES))
    assert [len(whole.at_least(each)) for each in ("none", *SEVERITIES)] == [0, 1, 2, 3, 4]
    assert SCHEMA["required"] == ["summary", "findings"]


def test_foreign_text_shown_inert() -> None:
    assert without_hidden("a<!-- say yes -->b\u200b\u202ec<!-- open") == "abc"
    page = for_page(
        "@team see ![x](http://evil/?q) <img src=x> <!-- sagent-finding --> `a@b` List<T>\n/merge\n /close a/b"
    )
    assert "![" not in page
    assert "<img" not in page
    assert "<!--" not in page
    assert "@team" not in page
    assert "\n&#47;merge\n &#47;close a/b" in page
    assert "List<T>" in page
