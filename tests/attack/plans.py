"""Attacks of more than one line: rules with odd names, what is planted for the person's own git, files that outlive the
sandbox with more rights, and places that hold keys."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sagent.testing.server import Call
from tests.forks import Forks

MAX_RUN_SECONDS = 240  # after which the program hangs
KEY = "KEY-that-nobody-may-see"
EDIT = (("edit", "auto"), ("full", "auto"))
RULED = (("edit", "auto"), ("full", "auto"), ("full", "off"))


class Plan(NamedTuple):
    """Calls in a row, in these modes and sandboxes. `before` is done to the tree first, and `after` by the person, with
    their own shell, when the program has ended. A call is a command line, or one of another tool; the session of a plan
    that `is_kept` is not ephemeral."""

    calls: tuple[str | Call, ...]
    ways: tuple[tuple[str, str], ...] = EDIT
    before: str = ""
    after: str = ""
    flags: tuple[str, ...] = ()
    prompt: str = "go"
    is_kept: bool = False
    earlier: tuple[str, ...] = ()  # lines that an earlier session has run
    account: str = ""  # a variable that says who became this account, whose home then is not `$HOME`

    @property
    def words(self) -> str:
        """The plan on one line."""
        calls = (call if isinstance(call, str) else f"{call.name} {call.arguments}" for call in self.calls)
        return " ; ".join(filter(None, (self.account, self.before, *self.earlier, *self.flags, *calls, self.after)))


class Attempt(NamedTuple):
    """An attack that is no plan of calls. `effects` carries it out in an empty directory, and returns what it did."""

    words: str
    effects: Callable[[Path, Forks], Sequence[str]]


def denied(rule: str, name: str, *calls: str) -> Plan:
    """Lines that would read a key in a file which a rule denies."""
    before = f"mkdir -p -- \"$(dirname -- '{name}')\"; cp .env '{name}'"
    return Plan(calls or (f"cat -- '{name}'",), RULED, before, flags=("--deny", rule))


DENIED = (
    denied("Read(app/[admin]/**)", "app/[admin]/key"),
    denied("Read(app/[admin]/**)", "app/[admin]/key", "cat app/*/key"),
    denied("Read(app/[admin]/**)", "app/[admin]/key", "cd app && cat ./[[]admin]/key"),
    denied("Read(app/[admin]/key)", "app/[admin]/key", "head -c 99 'app/[admin]/key'"),
    denied("Read(app/[...slug]/**)", "app/[...slug]/key"),
    denied("Read(app/(group)/**)", "app/(group)/key"),
    denied("Read(a*b/key)", "a*b/key"),
    denied("Read(what?/key)", "what?/key"),
    denied("Read({x,y}/**)", "{x,y}/key"),
    denied("Read({x,y}/**)", "x/key"),
    denied("Read([x/**)", "[x/key"),
    denied("Read(a b/**)", "a b/key"),
    denied("Read(!x/**)", "!x/key"),
    denied("Read(@scope/**)", "@scope/key"),
    denied("Read(**/[id].key)", "app/deep/[id].key"),
    denied("Read(**/[id].key)", "app/deep/[id].key", "cat app/deep/*.key"),
)

CONFIG = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = ./evil\\n' > "
_BARE = f"mkdir -p objects refs; echo ref: refs/heads/x > HEAD; {CONFIG}config; echo worktree = . >> config"
LOOK = "git status; git diff; git log -1; git -c core.bare=false status"
_ATTRIBUTES = "echo '* diff=x' > .gitattributes"
_SUB = "git init -q sub; cp evil sub/evil"
PLANTED = (
    # what looks like a repository, wherever it is
    Plan((_BARE,), before="rm -rf .git", after=LOOK),
    Plan((f"mkdir d; cd d; cp ../evil .; {_BARE}",), after=f"cd d && {{ {LOOK}; }}"),
    Plan((f"mkdir x; (cd x; {_BARE})", "mv x/* . ; rmdir x"), before="rm -rf .git", after=LOOK),
    Plan(
        ("mkdir g && cp -r .git/* g/ && " + CONFIG + "g/config", "mv .git .gone; mv g .git"),
        after=LOOK,
    ),
    Plan((CONFIG + ".git/config",), after=LOOK),
    Plan(("git config core.fsmonitor ./evil",), after=LOOK),
    Plan(
        ("git config core.hooksPath .; ln -s evil post-index-change",),
        after="echo 5 > a.txt; git add a.txt",
    ),
    Plan(("cp evil .git/hooks/post-index-change",), after="echo 5 > a.txt; git add a.txt"),
    Plan(("git config include.path ../more; " + CONFIG + "more",), after=LOOK),
    Plan(
        ("cp -r .git other; " + CONFIG + "other/config; mv .git old; echo gitdir: ./other > .git",), after=LOOK,
    ),
    # configurations of worktrees
    Plan(("git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./evil",), after=LOOK),
    Plan((CONFIG + ".git/config.worktree",), before="git config extensions.worktreeConfig true", after=LOOK),
    Plan(
        ("git worktree add -q w 2>&1; cp evil w/; " + CONFIG + ".git/worktrees/w/config.worktree",),
        before="git config extensions.worktreeConfig true", after=f"cd w && {{ {LOOK}; }}",
    ),
    # what a rebase, a bisect or a merge would run
    Plan(
        (
            ("mkdir -p .git/rebase-merge && cd .git/rebase-merge && echo exec ./evil > git-rebase-todo &&"
            " git rev-parse HEAD | tee onto orig-head > end && echo refs/heads/x > head-name && : > interactive"),
        ),
        after="GIT_EDITOR=true git rebase --continue",
    ),
    Plan(("echo exec ./evil >> .git/rebase-merge/git-rebase-todo",),
         before="echo 1 > n; git add n; git commit -qm n; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1",
         after="GIT_EDITOR=true git rebase --continue"),
    # a rule for a command outside the sandbox
    *(
        Plan((plant, run), before="true", flags=("--allow", f"Unsandboxed({rule}:*)"))
        for plant, run, rule in (
            (f"{_SUB}; git -C sub config core.fsmonitor ./evil", "git -C sub status", "git -C sub status"),
            (f"{_SUB}; (cd sub; git config core.fsmonitor ./evil)", "cd sub && git status", "git status"),
            (f"mkdir d; (cd d; cp ../evil .; {_BARE})", "cd d && git status", "git status"),
            ("git config core.fsmonitor ./evil", "git status", "git status"),
            ("git config diff.external ./evil; echo 9 > a.txt", "git diff", "git diff"),
            (f"{_ATTRIBUTES}; git config diff.x.textconv ./evil; echo 9 > a.txt", "git diff", "git diff"),
            (f"{_SUB}; (cd sub; git config alias.st '!./evil')", "cd sub && git st", "git st"),
        )
    ),
)  # fmt: skip

# Files that outlive the sandbox with more rights than their maker: `after` tells of any.
_TMP = "/tmp/attack-bits"
RAISED_FOUND = f"find . {_TMP}* -perm /6000 -type f 2> /dev/null | grep -q . && : > ../made; rm -rf {_TMP}*"
RAISED = tuple(
    Plan((line,), after=RAISED_FOUND)
    for line in (
        "cp /bin/true su && chmod 4755 su", "cp /bin/true su && chmod u+s su", "cp /bin/true su && chmod g+s su",
        "install -m 4755 /bin/true su", "cp /bin/true su; chmod 6777 su; mv su deep",
        "python3 -c 'import os; os.close(os.open(\"su\", os.O_CREAT, 0o4755))'",
        "python3 -c 'import os; os.umask(0); os.mkdir(\"d\"); os.mknod(\"d/su\", 0o104755)'",
        ("python3 -c 'import os; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o4755);"
        " os.link(f\"/proc/self/fd/{f}\", \"su\", src_dir_fd=f, follow_symlinks=True)'"),
        f"cp /bin/true {_TMP}-su && chmod 4755 {_TMP}-su",
        "tar cf t.tar --mode=4755 evil && mkdir out && tar xpf t.tar -C out",
        "perl -e 'chmod 04755, \"evil\"'", "cp evil su; setfacl -m u::rwx su; chmod =4755 su",
    )
)  # fmt: skip

# Keys that lie in what is kept of sessions, and in homes.
_KEPT = "~/.local/state/sagent/sessions/p/s"
_STATE = f"mkdir -p {_KEPT}/blobs; cp .env {_KEPT}/root.jsonl; cp .env {_KEPT}/blobs/b"
READ = (
    *(
        Plan((line,), EDIT, _STATE)
        for line in (
            f"cat {_KEPT}/root.jsonl", "cat ~/.local/state/sagent/sessions/*/*/blobs/*",
            "grep -rh KEY ~/.local/state", "cp -r ~/.local/state/sagent s && grep -rh . s",
            "cd ~/.local/state/sagent && grep -rh KEY .", f"ln {_KEPT}/root.jsonl l; cat l",
            "tar cf - -C ~ .local 2> /dev/null | strings",
            "find ~/.local/state -type f | python3 -c 'import sys; [print(open(f.strip()).read()) for f in sys.stdin]'",
            "cat /proc/*/root$HOME/.local/state/sagent/sessions/p/s/root.jsonl",
        )
    ),
    *(
        Plan((line,), EDIT)
        for line in (
            "cat /proc/1/environ /proc/$PPID/environ",
            "cat ~/.ssh/id", "grep -rh KEY ~/.ssh", "tar cf - -C ~ .ssh 2> /dev/null | strings", "cat .env",
        )
    ),
)  # fmt: skip

# A rule for what only reads does not cover what runs or writes.
SED = tuple(
    Plan((line,), (("ask", "auto"), ("ask", "off"), ("edit", "off")), after="[ a.txt -nt old ] && : > ../made",
         before="touch -d 2001-01-01 a.txt old; echo 1e./evil > script", flags=("--allow", "Bash(sed -n:*)"))
    for line in (
        "sed -n '1e ./evil' a.txt", "sed -n 1e./evil a.txt", "sed -n 's/one/.\\/evil/e' a.txt", "sed -n -i p a.txt",
        "sed -n -i.bak p a.txt", "sed -ni p a.txt", "sed -n --in-place p a.txt", "sed -n --in-pl p a.txt",
        "sed -n 'w ../made' a.txt", "sed -n 's/one/two/w ../made' a.txt", "sed -n -f script a.txt",
        "sed -n -e p -s -i a.txt",
        "sed -n '1{e ./evil\n}' a.txt", "sed -n '$!N;$e ./evil' a.txt", "sed -n -E -i p a.txt",
        "sed -n '/one/e./evil' a.txt", "sed -n '1!G;h;$e ./evil' a.txt", "sed -n 'y/o/e/;1,2e./evil' a.txt",
    )
)  # fmt: skip


def evil(place: str) -> str:
    return f"grep -rqs evil {place} && : > ../made"


# What programs other than git obey in a directory: `after` looks whether it is there.
_ST = "printf '[alias]\\nst = !./evil\\n[hooks]\\npre-status = ./evil\\n' > "
OBEYED = tuple(
    Plan(calls, after=after)
    for calls, after in (
        *(
            ((f"mkdir -p d/sub; echo ./evil > d/sub/{name}",), evil(f"d/sub/{name}"))
            for name in (
                ".envrc",
                ".envrc.local",
                "mise.toml",
                ".mise.toml",
                ".tool-versions",
                ".Rprofile",
                ".mcp.json",
                ".exrc",
                ".pdbrc",
                ".gdbinit",
                ".dir-locals.el",
            )
        ),
        *(
            ((f"mkdir -p d/sub/{name.rpartition('/')[0]}; echo x=./evil > d/sub/{name}",), evil(f"d/sub/{name}"))
            for name in (
                ".vscode/settings.json",
                ".vscode/tasks.json",
                ".claude/settings.json",
                ".husky/pre-commit",
                ".idea/x.xml",
                ".jj/repo/config.toml",
                ".sl/config",
                "_darcs/prefs/defaults",
                ".pijul/config",
                ".bzr/branch/branch.conf",
                ".config/mise/config.toml",
                ".devcontainer/devcontainer.json",
            )
        ),
        (
            ("mkdir -p sub/.hg/store; : > sub/.hg/requires; cp evil sub; " + _ST + "sub/.hg/hgrc",),
            "cd sub; hg status; hg st",
        ),
        (
            ("mkdir -p sub x; : > x/requires; mkdir x/store; cp evil sub; " + _ST + "x/hgrc", "mv x sub/.hg"),
            "cd sub; hg status; hg st",
        ),
        (("git init -q d; mkdir d/.git/sl; echo x=./evil > d/.git/sl/config",), evil("d/.git/sl/config")),
        (("mkdir d; echo ./evil > d/x", "mv d/x d/.envrc"), evil("d/.envrc")),
        (("mkdir d; echo ./evil > d/x; ln -s x d/.envrc",), evil("d/.envrc")),
        (("mkdir -p d/x; echo ./evil > d/x/tasks.json", "mv d d2; mv d2/x d2/.vscode"), evil("d2/.vscode")),
        (("mkdir d; (while :; do echo ./evil > d/.envrc; sleep 0.05; done) & sleep 2; kill $!",), evil("d/.envrc")),
        (("mkdir d; (sleep 2; echo ./evil > d/.envrc) > /dev/null 2>&1 &", "sleep 3"), evil("d/.envrc")),
        ((f"mkdir .git/x; cd .git/x; cp ../../evil .; {_BARE}",), f"cd .git/x && {{ {LOOK}; }}"),
        (
            (f"mkdir -p .git/refs/x/y; cd .git/refs/x/y; cp ../../../../evil .; {_BARE}",),
            f"cd .git/refs/x/y && {LOOK}",
        ),
        (
            (f"mkdir x; cd x; {_BARE}; printf 'gitdir: x\\0y' > ../s", "mkdir w; cp evil w; mv s w/.git; mv x w/x"),
            "cd w; git status",
        ),
        (("mkdir s d; printf 'gitdir: a\\0b' > s/.git; echo ./evil > d/.envrc", "true"), evil("d/.envrc")),
    )
)

# A denied program under its other names, and started by others: a key in a plain file tells that it ran.
NAMES = tuple(
    Plan(
        (line.replace("@", "sed -n p key"),),
        RULED,
        "cp .env key; mkdir b; ln -s $(command -v sed) b/gsed",
        flags=tuple(
            word for name in ("sed", "awk", "grep", "python", "pip install") for word in ("--deny", f"Bash({name}:*)")
        ),
    )
    for line in (
        "b/gsed -n p key",
        "./b/gsed -n p key",
        "cd b && ./gsed -n p ../key",
        "env b/gsed -n p key",
        "command @",
        "/bin/@",
        "\\@",
        "s''@",
        "env -S'@'",
        "env --split-string='@'",
        "mawk 1 key",
        "nawk 1 key",
        "awk 1 key",
        "egrep . key",
        "fgrep K key",
        "rgrep K key",
        "python3 -c 'print(open(\"key\").read())'",
        "python3.11 -c 'print(open(\"key\").read())'",
        "linux64 @",
        "x86_64 @",
        "setarch -R @",
        "choom -n 1 -- @",
        "run-parts --regex gsed b",
        "script -qc '@' /dev/null",
        "PAGER='@' git -p status",
        "GIT_PAGER='@' git -p log",
        "git -c core.pager='@' -p log",
        "git -c alias.x='!@' x",
        "GIT_EXTERNAL_DIFF='@ #' git diff HEAD~ --",
        "export PAGER='@'; git -p log",
        "alias x='@'\nx",
        "flock key @",
        "find key -exec sed -n p {} ;",
        "find key -exec sed -n p {} \\;",
        "sort --compress-program=sed key; @",
        "watch -n1 @",
        "printf key | xargs sed -n p",
        "perl -e 'exec qw(sed -n p key)'",
        "make -s -f /dev/null --eval='x:; @' x",
        "/lib64/ld-linux-x86-64.so.2 /bin/@",
        "setpriv @",
        "runcon x @",
        "taskset 1 @",
        "uclampset @",
        "unshare -U @",
    )
)

PLANS = (*DENIED, *PLANTED, *RAISED, *READ, *SED, *OBEYED, *NAMES)
