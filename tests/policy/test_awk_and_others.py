"""Rules for programs that show something cover neither what else they could write nor what they could run."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_sed import judged

from sagent.policy import Allow, Ask
from sagent.policy.awk import only_prints
from tests.depth import deep

COVERED = {
    "kubectl get": ["pods -o yaml"], "ss": ["-tln"], "svn log": ["-v x"], "hg log": ["-r tip -p"],
    "awk": [
        "'{print $1}' f", "-F: '{print $1, $NF}' f", "-F ' ' '$3 > 5 {print}' f", "-v n=3 'NR == n' f g",
        "-vx=1 'NR >= 2 || /a b/ {s += $1} END {printf \"%d\\n\", s}' f", "-- '!seen[$0]++' f", "/x/ *.txt",
    ],
    "shuf": ["-n 3 f", "-e a b", "--head-count=2 f"], "uniq": ["-c f", "-f 1 f", "-", "-d"],
    "xxd": ["f", "-l 16 f", "-p f", "-c4 -s 2 f"], "iconv": ["-f latin1 -t utf8 f"], "less": ["f", "-N f"],
    "man": ["ls", "3 printf"], "tar tf": ["a.tar", "a.tar x/y"], "tar -tvf": ["Foo-I.tar"], "yq": [".a f"],
    "git archive": ["HEAD --format=tar"], "git rebase": ["main"], "journalctl": ["-u x"], "dmesg": ["-T"],
}  # fmt: skip
NOT_COVERED = {
    "awk": [
        "'BEGIN{system(\"id\")}'", "'{print > \"x\"}' f", "'{print \";\" > \"x\"}' f", "'{print $1,\n$2 >> \"x\"}' f",
        "'{print \\\n> \"x\"}' f", "'{printf \"a\" | \"id\"}' f", "'BEGIN{\"id\" | getline}'",
            "'BEGIN{while(getline<\".env\")print}'",
        "-f x f", "-fx f", "-i inplace '{print}' f", "--file=x f", "-e 'BEGIN{}' f", "'@load \"x\"' f",
            "'{print |& \"id\"}' f",
        "'BEGIN{f=\"system\";@f(\"id\")}'", "\"$x\" f", "'{print}' $x", "-v x=1 -f x f", "-- 'BEGIN{system(\"id\")}'",
            "-F , -f x f",
        "'BEGIN{ARGV[1]=\".env\";ARGC=2}{print}'",  "-W exec=x f",
    ],
    "shuf": ["-o x f", "-ox f", "-n1 -ox f", "--output=x f", "--out x f", "$x"],
    "uniq": ["f x", "-c f x", "- x", "-f 1 f x", "f*", "$x", "-c -- f x"], "xxd": ["f x", "-p f x", "-r f",
        "-revert f", "-l 9 f x"],
    "split": ["--filter=id f", "-l 1 --filter id f"],
    "iconv": ["-o x f", "--output=x f"], "less": ["-ox f", "'+!id' f", "--log-file=x f", "--lesskey-src=x f"],
    "man": ["-P id ls", "-Pid ls", "--pager=id ls", "--pag id ls", "-C x ls", "-Hid ls"], "yq": ["-i .x=1 f",
        "--inplace .x=1 f", "-s .x f", "--split-exp .x f", "--split-exp-file f f"],
    "bat": ["--pager=id f", "cache --build --target=x", "--generate-config-file"], "batcat": ["--pager id f"],
    "ack": ["--pager=id x", "--ackrc=f x"], "ag": ["--pager id x"], "info": ["-o x ls", "--output=x ls"],
    "ugrep": ["--filter='*:id' x", "--config=f x", "---f x"], "nm": ["--plugin ./x.so f"], "objdump": ["--plugin=x f"],
    "git fast-export": ["--export-marks=x HEAD"],
    "tar tf": ["a.tar -Iid", "a.tar --use-compress-program=id", "a.tar --checkpoint=1 --checkpoint-action=exec=id",
        "a.tar --to-command=id -x", "a.tar -M -F id", "a.tar --index-file=x",
        "a.tar -M --volno-file=x"],
    "tar": ["tIf id a.tar", "-tIf id a.tar", "tf a.tar --use=id"],
    "xmllint": ["--output x f", "-o x f", "-output x f", "-shell f"],
        "dmesg": ["-C", "-c"], "journalctl": ["--vacuum-time=1s", "--rot"],
    "git archive": ["-o x HEAD", "-ox HEAD"], "git rebase": ["-x id main", "--exec id main"],
        "git difftool": ["-yx id", "--extcmd=id"], "git format-patch": ["-o x HEAD~"],
    "hg log": ["--config alias.log=!id", "-R x", "--cwd=x"], "jj log": ["--config ui.pager=id", "-R x"],
    "svn log": ["--diff-cmd id", "--config-option=x"], "kubectl get": ["pods --kubeconfig=x"],
    "helm list": ["--post-renderer id"], "ss": ["-K", "-D x"], "pandoc": ["a --filter id", "a -o x", "-d x"],
    "fzf": ["--preview id", "--bind=x"],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "words"), [(rule, each) for rule, words in COVERED.items() for each in words])
async def test_shown(tmp_path: Path, rule: str, words: str) -> None:
    assert isinstance(await judged(tmp_path, f"{rule} {words}", f"Bash({rule}:*)"), Allow)


@pytest.mark.parametrize(("rule", "words"), [(rule, each) for rule, words in NOT_COVERED.items() for each in words])
async def test_done_besides(tmp_path: Path, rule: str, words: str) -> None:
    assert isinstance(await judged(tmp_path, f"{rule} {words}", f"Bash({rule}:*)"), Ask)
    assert isinstance(await judged(tmp_path, f"timeout 5 {rule} {words}", f"Bash({rule}:*)"), Ask)


async def test_exact_rule_covers_awk_and_others(tmp_path: Path) -> None:
    for line in ("awk 'BEGIN{system(\"id\")}'", "uniq f x", "shuf -o x f", "tar tf a.tar -Iid"):
        assert isinstance(await judged(tmp_path, line, f"Bash({line})"), Allow)


PIECES = [
    *'{};"\n\\,$1>|',
    "print",
    'printf "a"',
    ' > "made"',
    ' | "touch made"',
    "getline",
    'system("touch made")',
    "BEGIN",
]


@given(program=st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@settings(max_examples=deep(60, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_harmless_programs_make_nothing(tmp_path: Path, program: str) -> None:
    if only_prints(program):
        subprocess.run(["timeout", "5", "awk", program], cwd=tmp_path, input=b"x\n", capture_output=True, check=False)
        assert [*tmp_path.iterdir()] == [], shlex.quote(program)
