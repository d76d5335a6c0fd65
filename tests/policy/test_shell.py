"""What is said of a script without a doubt is what a real bash does with it: every argument, every file opened."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagent.policy.shell import Part, Word, split
from tests.depth import deep
from tests.policy.real_bash import run_bash

# Bash calls this for every program, as none can be found: what it was told, in a line of its own.
RECORDER = r"""
command_not_found_handle() {
    local line= word
    for word; do line+=$'\001'${word//$'\n'/$'\002'}; done
    printf '%s\n' "$line" >>"$TRACE"
    [[ $1 != b* ]]
}
"""
WORDS = (
    *(
        "aa",
        "bb",
        "x1",
        "-n",
        "--o=v",
        "a:b",
        "a,b",
        "a#b",
        "#",
        "é",
        "]",
        "}",
        "in",
        "do",
        "a=b",
        "!",
        "x=~",
        "~",
        "$",
    ),
    *(
        "'a b'",
        "''",
        "'$x'",
        "'\"'",
        "'#'",
        "'\n'",
        '"a b"',
        '"$x"',
        '"a\\"b"',
        '"a$"',
        '"\\n"',
        '"\\\\"',
        "\\ ",
        "\\;",
    ),
    *(
        "\\'",
        "\\#",
        "$x",
        "${x:-q}",
        "${x:=q}",
        "${y=$(bb)}",
        "${#x}",
        "${x%.py}",
        "$?",
        "$10",
        "$(bb $x)",
        "`bb`",
        '"$(aa "c d")"',
        "*",
        "[a]",
    ),
    *("{a,b}", "{1..3}", "{a", "{'a',b}", "$'a b'", "$'\\''", "<(aa)", ">(bb)", "$((1))", "a[1]", "$[1]", '$"a"'),
)
ENDS = ("; ", ";", "\n", " && ", " || ", " | ", " |& ", " & ", "& ", "|\n", " && \\\n", " #c\n", " # it's $(bb)\n")
NOISE = (
    *(
        "'",
        '"',
        "\\",
        "$",
        "`",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "|",
        "&",
        ";",
        "\n",
        " ",
        "#",
        "=",
        "!",
        "\\\n",
        "$(",
        "${",
    ),
    *("<<", "<<<", "$((", "$'", "&>", ">&", "x=", "+=", "if ", "fi", "do ", "done", "case ", "<<EOF", "\nEOF\n", ";;"),
    *("-", "1", "2>", ">&-", "<>", "{x}>", "time ", "[[ ", "a[", "()", "coproc ", "~", "@", "*"),
)
REDIRECTIONS = ("> f1", "2>f2", ">> f3", "2>&1", "&> f4", ">|f5", ">&f6", "<&-", "<<< $x", ">'f 7'", "</dev/null")


def commands() -> st.SearchStrategy[str]:
    word = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map("".join)
    words = st.lists(st.one_of(word, word, word, st.sampled_from(REDIRECTIONS)), max_size=3)
    first = st.sampled_from(("aa", "bb", "x=1 aa", "x=$x", "a\\a", "'b'b", "[ aa ]", "! bb", "time aa", "> f8 aa"))
    return st.builds(lambda start, rest: " ".join([start, *rest]), first, words)


def scripts() -> st.SearchStrategy[str]:
    lines = st.lists(st.tuples(commands(), st.sampled_from(ENDS)), min_size=1, max_size=3)
    plain = lines.map(lambda pairs: "".join(map("".join, pairs)) + "aa")
    body = st.lists(st.sampled_from(("a", "$x", "$(bb)", "'", "\n", "\\$x", "EOF ", "\\\n", "`bb`")), max_size=4).map(
        "".join
    )
    compound = st.one_of(
        *(plain.map(lambda text, form=form: form.replace("@", text)) for form in (
            "(@)", "{ @; }", "if @; then bb; fi", "for q in a b; do @; done", "while bb; do @; done", "echo $(@)",
            "aa \"$(@)\"", "case x in x) @;; esac", "f() { @; }; f", "[[ x ]] && @",
        )),
        st.builds(
            lambda start, mark, tail, text: f"{start} <<{mark}{tail}\n{text}\nEOF\naa",
            commands(), st.sampled_from(("EOF", "'EOF'", '"EOF"', "\\EOF", "-EOF", "E'O'F")),
            st.sampled_from(("", " | bb", " > f9", " && cc", " -n", " - ", " # c", " 2>&1 | bb", " 2>f9; bb")), body,
        ),
    )  # fmt: skip
    whole = st.one_of(plain, plain, compound)
    return st.builds(_disturbed, whole, st.lists(st.tuples(st.integers(0, 80), st.sampled_from(NOISE)), max_size=2))


def _disturbed(text: str, noise: Sequence[tuple[int, str]]) -> str:
    for at, what in noise:
        text = text[: at % (len(text) + 1)] + what + text[at % (len(text) + 1) :]
    return text


def could_be(words: Sequence[Word], arguments: Sequence[str]) -> bool:
    """Whether words could become these arguments: literal ones to the letter, the others to whatever they like."""
    if not words:
        return not arguments
    if words[0].kind == "literal":
        text = "/nowhere" + words[0].text[1:] if words[0].raw == "~" else words[0].text
        return arguments[:1] == [text] and could_be(words[1:], arguments[1:])
    return any(could_be(words[1:], arguments[taken:]) for taken in range(len(arguments) + 1))


def commands_of(part: Part) -> list[tuple[Word, ...]]:
    """What a part may run: `time` is a word of the shell's where a pipeline begins, and elsewhere a program."""
    found = [part.words]
    while found[-1] and (found[-1][0].is_assignment or found[-1][0].text in ("time", "-p")):
        found.append(found[-1][1:])
    return found


@pytest.mark.needs("bash")
@settings(
    max_examples=deep(150, 3000),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=scripts())
def test_shell_reading_matches_bash(script: str, tmp_path: Path) -> None:
    said = split(script)
    if said.doubt or "while" in script:
        return
    (tmp_path / "recorder").write_text(RECORDER)
    own = Path(tempfile.mkdtemp(dir=tmp_path))  # what an earlier script left in the background writes elsewhere
    place, trace = own / "place", own / "trace"
    place.mkdir()
    environment = {
        "PATH": str(tmp_path / "none"), "BASH_ENV": str(tmp_path / "recorder"),
        "TRACE": str(trace), "HOME": "/nowhere", "x": "p q",
    }  # fmt: skip
    run_bash(script, place, environment)  # which finds no program, and what bash does by itself stays in its place
    parts = said.parts
    for line in trace.read_text().splitlines() if trace.exists() else ():
        ran = [argument.replace("\2", "\n") for argument in line.split("\1")[1:]]
        assert any(could_be(words, ran) for part in parts for words in commands_of(part)), ran
    made = {path.name for path in place.iterdir()}
    targets = [each.target for part in parts for each in part.redirects if each.writes]
    if all(target.kind == "literal" for target in targets):
        assert made <= {target.text for target in targets}


@pytest.mark.parametrize(
    "script",
    [
        "python3 - <<'EOF'\nprint(1)\nEOF",
        "cat > f <<'EOF' && python3 f\nprint(\"it's\")\nEOF",
        "git commit -m \"$(cat <<'EOF'\nit's \"done\" (100%)\nEOF\n)\"",
        "git push 2>&1 | tail -5; echo $?",
        "find . \\( -name a -o -name 'b*' \\) -exec grep -l foo {} \\;",
        "for f in $(ls); do echo \"$f\" && wc -l \"$f\" >> out 2>/dev/null; done",
        "while IFS= read -r line; do echo \"$line\"; done < f",
        "command -v node >/dev/null 2>&1 || { echo no; exit 1; }",
        "[ ! -e x ] && [ \"$a\" == b -o -z \"$c\" ] || ls",
        "X=1 CC=gcc make -j$(nproc) |& tee log",
        "awk -F: '$3 > 100 {print $1}' f | sort -rn | head -n1",
        "diff <(sort a) <(sort b)",
        "echo \"Größe: 5 €\" > über.txt # what it costs\nls",
        "docker run \\\n  -it \\\n  ubuntu",
        "bash -c 'npm test &> log'",
        "python3 - <<'EOF' 2>&1 | tail -5; ls\nprint(`1`)\nEOF\nls", "cat <<EOF 2>&1 >f | wc -l\n$x\nEOF",
        "git commit -m \"$(cat <<'EOF'\nUse `x`, not \\$y\nEOF\n)\"", "[ $x -gt -1 ] && [ -1 -lt \"$y\" ]",
        ": ${x:=y} ${z=a b}",
    ],
)  # fmt: skip
def test_everyday_lines_are_understood(script):
    assert not split(script).doubt


@pytest.mark.parametrize(
    "script",
    [
        "l\\\ns", "echo a\\\n;evil", "echo {x}>f", "echo {HOME}</dev/null", "ls\u00a0-la", "sh -c \"ls $'a'\"",
        "sh -c 'ls &>f evil'", "cat <<E'O'F\n$(evil)\nEOF", "cat <<A <<B\n1\nA\n2\nB", "cat <<EOF\n`evil`\nEOF",
        "echo @(a)", "coproc evil", "echo $((a[1]))", "echo ${x:y}", "x[0]=1 ls", "a=(1 2)", "echo ${x:-<(evil)}",
        "if", "ls >", "ls > f <<< x", "echo $[1]", "ls >& f'1'", "x=1 if", "> f if true", "`echo \\`evil\\``",
        "echo ${!x}", "echo ${x@P}", "cat <<EOF 2>&1 | (ls)\nEOF", "[ x -gt - 1 ]", "`ls # c`; evil`", "aa>(evil)bb",
    ],
)  # fmt: skip
def test_ambiguous_script_is_a_doubt(script):
    assert split(script).doubt


@pytest.mark.parametrize("script", ["time ! rm x", "time -p ! rm x", "time -p -- ! rm x", "! ! rm x"])
def test_negated_time_command_is_a_doubt(script: str) -> None:
    assert split(script).doubt == "the keyword !"
