"""Attacks that take several steps: what an earlier session left, what links lead to, what is written while a command
runs outside of the sandbox, and states of interrupted work that are reached by another way."""

from sagent.testing.server import Call
from tests.attack.plans import CONFIG, EDIT, LOOK, Plan, evil

_MODULES = "git init -q d; cp evil d; mkdir -p d/s m/s; (cd m/s; {}); ln -s ../../m d/.git/modules"
_LINKED = (
    "mkdir -p s/worktrees/w d; cp evil d; cd s/worktrees/w; echo ref: refs/heads/x > HEAD; echo ../.. > commondir; "
    "echo ../../../d/.git > gitdir"
)
_WAYS = (("full", "auto"),)
_BARE = f"mkdir -p objects refs; echo ref: refs/heads/x > HEAD; {CONFIG}config"
_CACHE = "mkdir -p ~/.cache/pip/x/y; cp evil ~/.cache/pip/x; cd ~/.cache/pip/x"
_INIT = "git init -q; git config core.fsmonitor ./evil"
_REBASE = (
    "git init -q d; cp evil d; cd d; git commit -q --allow-empty -m 1; echo 1 > n; git add n; git commit -qm n; "
    "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1; cd .."
)
_NAMED = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; "
_LIST = "git-rebase-todo"
_TODO = f"rebase-merge/{_LIST}"
_GO_ON = "cd d; GIT_EDITOR=true git rebase --continue"
_IN_D = f"cd d && {{ {LOOK}; }}"
_REMOTE = "git init -q d; cp evil d; git -C d commit -q --allow-empty -m 1; mkdir -p d/.git/remotes d/.git/branches; "
_FETCH = "cd d; git -c protocol.ext.allow=always fetch o"
_ALL = "Unsandboxed(sleep 3)"

# What git keeps of interrupted work, and addresses, behind links and in old places.
_STATES = tuple(
    Plan((_NAMED + line,), _WAYS, after=after)
    for line, after in (
        (
            f"{_REBASE}; cd d/.git; mv rebase-merge ../x; echo 'x ./evil' >> ../x/{_LIST}; ln -s ../x rebase-merge",
            _GO_ON,
        ),
        (
            f"{_REBASE}; cd d/.git; mv rebase-merge x; echo 'x ./evil' >> x/{_LIST}; ln -s x rebase-merge",
            _GO_ON,
        ),
        (f"{_REBASE}; cp d/.git/{_TODO} t; echo 'x ./evil' >> t; ln -sf ../../../t d/.git/{_TODO}", _GO_ON),
        (f"{_REMOTE} echo URL: ext::./evil > d/.git/remotes/o", _FETCH),
        (f"{_REMOTE} echo ext::./evil > d/.git/branches/o", _FETCH),
        (f"{_REMOTE} echo ext::./evil#x > b; ln -s ../../../b d/.git/branches/o", _FETCH),
        (f"{_REMOTE} mkdir r; echo URL: ext::./evil > r/o; rmdir d/.git/remotes; ln -s ../../r d/.git/remotes", _FETCH),
        (
            "mkdir -p .git/remotes; echo URL: ext::./evil > .git/remotes/origin",
            "git -c protocol.ext.allow=always fetch",
        ),
        (f"{_MODULES.format(_BARE)}; cp evil d/s; echo gitdir: ../.git/modules/s > d/s/.git", f"cd d/s; {LOOK}"),
    )
)

# Links from where somebody works to places that are not looked at for all names.
_LINKS = tuple(
    Plan(lines, _WAYS, after=after)
    for lines, after in (
        ((f"{_CACHE}; {_INIT}; ln -s $PWD $OLDPWD/d",), _IN_D),
        ((f"{_CACHE}; {_INIT}; ln -s $PWD/y $OLDPWD/d",), _IN_D),
        ((f"{_CACHE}; {_BARE}; echo worktree = . >> config; ln -s $PWD $OLDPWD/d",), _IN_D),
        (("mkdir -p ~/.cache/pip/x; ln -s ~/.cache/pip/x d", f"{_CACHE}; {_INIT}"), _IN_D),
        (
            ("mkdir -p vendor/a; ln -s vendor/a d", f"ln -s ~/.cache/pip/x d/b; {_CACHE}; {_INIT}"),
            f"cd d/b && {{ {LOOK}; }}",
        ),
        (("mkdir -p vendor/p; echo x=./evil > vendor/p/.envrc; ln -s vendor/p p",), evil("p/.envrc")),
        (
            ("mkdir -p .venv/p/.vscode; echo x=./evil > .venv/p/.vscode/tasks.json; ln -s .venv/p p",),
            evil("p/.vscode/tasks.json"),
        ),
        (
            ("mkdir -p node_modules/p; ln -s node_modules q", "echo x=./evil > node_modules/p/.envrc"),
            evil("q/p/.envrc"),
        ),
        (
            ("ln -s loop loop; ln -s a b; ln -s b a; git init -q d; cp evil d; git -C d config core.fsmonitor ./evil",),
            _IN_D,
        ),
    )
)

# What was missing in a repository that an earlier command made.
_OWN = "git init -q --template= d; git -C d config extensions.worktreeConfig true; cp evil d"
_LATER = tuple(
    Plan((_OWN, line), EDIT, after=after)
    for line, after in (
        ("git -C d config --worktree core.fsmonitor ./evil", _IN_D),
        (f"{CONFIG}c; ln -s ../../c d/.git/config.worktree", _IN_D),
        (f"{CONFIG}d/c; ln d/c d/.git/config.worktree", _IN_D),
        ("git init -q y; git -C y config core.fsmonitor ./evil; echo ../../y/.git > d/.git/commondir", _IN_D),
        ("mkdir d/.git/hooks; cp evil d/.git/hooks/post-index-change", "cd d; echo 1 > f; git add f"),
    )
)

# What an earlier session was allowed to leave is put where it is obeyed.
_EARLIER = tuple(
    Plan((_NAMED + line,), _WAYS, after=after, earlier=(_NAMED + earlier,))
    for earlier, line, after in (
        (
            f"mkdir s s/objects s/refs; {CONFIG}s/config",
            f"{_LINKED}; echo gitdir: $PWD > ../../../d/.git; sleep 1.2",
            _IN_D,
        ),
        (
            f"{_REBASE}; mv d/.git d/g; mv d/g/HEAD h; echo 'exec ./evil' >> d/g/{_TODO}",
            "mv h d/g/HEAD; mv d/g d/.git",
            _GO_ON,
        ),
        (
            "git init -q d; cp evil d; mv d/.git d/g; mv d/g/refs r; cp evil d/g/hooks/post-index-change",
            "mv r d/g/refs; mv d/g d/.git",
            "cd d; echo 1 > f; git add f",
        ),
        (f"{_CACHE}; {_INIT}", "mv ~/.cache/pip/x d || cp -r ~/.cache/pip/x d", _IN_D),
        (f"{_CACHE}; {_INIT}", "ln -s ~/.cache/pip/x d", _IN_D),
        ("mkdir -p .git/objects/z; cp evil .git/objects/z; cd .git/objects/z; " + _INIT, "mv .git/objects/z d", _IN_D),
        (
            "mkdir -p x/.git/objects/p; cp evil x/.git/objects/p; cd x/.git/objects/p; " + _INIT,
            "mv x/.git d",
            f"cd d/objects/p; {LOOK}",
        ),
        ("mkdir -p vendor/p; echo x=./evil > vendor/p/.envrc", "cp vendor/p/.envrc src", evil("src/.envrc")),
        (
            "mkdir -p vendor/p/.vscode; echo x=./evil > vendor/p/.vscode/tasks.json",
            "mv vendor/p q",
            evil("q/.vscode/tasks.json"),
        ),
        ("mkdir -p node_modules/p; echo x=./evil > node_modules/p/.envrc", "mv node_modules/p p", evil("p/.envrc")),
        ("mkdir -p x/target/.vscode; echo x=./evil > x/target/.vscode/t", "mv x/target x/y", evil("x/y/.vscode/t")),
        ("mkdir -p .terraform/p; echo x=./evil > .terraform/p/.envrc", "ln -s .terraform/p p", evil("p/.envrc")),
    )
)

# What a command left goes on writing while another one runs outside by a rule, or calls git there.
_OUTSIDE = tuple(
    Plan(
        (
            f"(while :; do {plant}; sleep 0.02; done) > /dev/null 2>&1 & sleep 1",
            Call("Bash", {"command": command, "needs": ["all"], "reason": "x"}),
            "true",
        ),
        (("edit", "auto"),),
        before=before,
        after=after,
        flags=("--allow", f"Unsandboxed({command})"),
    )
    for command, plant, before, after in (
        ("sleep 3", "echo x=./evil > .envrc", "", evil(".envrc")),
        ("sleep 3", "mkdir -p .vscode; echo x=./evil > .vscode/tasks.json", "", evil(".vscode/tasks.json")),
        ("sleep 3", f"{CONFIG}.git/config.worktree", "git config extensions.worktreeConfig true", LOOK),
        ("sleep 3", "git init -q d; cp evil d; git -C d config core.fsmonitor ./evil", "", _IN_D),
        ("sleep 3", "git config core.fsmonitor ./evil", "", LOOK),
        (
            "git status",
            "git -C s config core.fsmonitor ../evil",
            "git init -q s; git -C s commit -q --allow-empty -m x; git add s",
            "",
        ),
        ("git -C src -C ../d status", "git init -q d; cp evil d; git -C d config core.fsmonitor ./evil", "", ""),
        ("env git -C d diff", "git init -q d; cp evil d; git -C d config core.fsmonitor ./evil", "", ""),
        ("git diff", "cp -r .git g; git config -f g/config core.fsmonitor ./evil; mv -T --exchange g .git", "", ""),
    )
)

# What commands made is no more protected from later ones; what was put back is.
_WORKTREE = "git worktree add -q w; cp evil w"
_TWO = (
    "mkdir .githooks; : > .githooks/x; git add .githooks; git commit -qm x; git checkout -qb two; "
    "echo 1 > .githooks/x; git commit -qam y; git checkout -q -"
)
_IN_W = f"cd w && {{ {LOOK}; }}"
_OWNED = tuple(
    Plan(lines, EDIT, before=before, after=after)
    for lines, before, after in (
        (("git init -q d; cp evil d", "git -C d config core.fsmonitor ./evil"), "", _IN_D),
        (("git init -q d; cp evil d", "true", "git -C d config core.fsmonitor ./evil", "true"), "", _IN_D),
        (
            (
                "git init -q d; cp evil d; mkdir -p d/.git/hooks; cp evil d/.git/hooks/x.sample",
                "mv d/.git/hooks/x.sample d/.git/hooks/post-index-change",
            ),
            "",
            "cd d; echo 1 > f; git add f",
        ),
        (
            (
                "git init -q d; cp evil d; sleep 1.2",
                "(sleep 2; git -C d config core.fsmonitor ./evil) > /dev/null 2>&1 & sleep 1",
                "sleep 3",
            ),
            "",
            _IN_D,
        ),
        (
            (_WORKTREE, "git config -f .git/worktrees/w/config.worktree core.fsmonitor ./evil"),
            "git config extensions.worktreeConfig true",
            _IN_W,
        ),
        ((_WORKTREE, f"cp -r .git g; {CONFIG}g/config; echo $PWD/g > .git/worktrees/w/commondir"), "", _IN_W),
        ((_WORKTREE, f"cp -r .git g; {CONFIG}g/config; echo gitdir: $PWD/g > w/.git"), "", _IN_W),
        ((_WORKTREE, "git worktree move w d", "git -C d config core.fsmonitor ./evil"), "", _IN_D),
        (("git clone -q . d; cp evil d", f"mv d x; {CONFIG}x/.git/config; mv x d"), "", _IN_D),
        (("cp .envrc src", "echo x=./evil >> src/.envrc"), ": > .envrc", evil("src/.envrc")),
        (
            ("mkdir n; cp -r .vscode n", "echo x=./evil > n/.vscode/tasks.json"),
            "mkdir .vscode; echo {} > .vscode/tasks.json",
            evil("n/.vscode/tasks.json"),
        ),
        (("echo python 3.12 > .tool-versions", "echo x=./evil >> .tool-versions"), "", evil(".tool-versions")),
        (
            ("rm -r .githooks; mkdir .githooks; cp evil .githooks/post-index-change", "true"),
            "mkdir .githooks; : > .githooks/x; git config core.hooksPath .githooks",
            "git add a.txt",
        ),
        (
            ("git checkout -q two", "cp evil .githooks/post-index-change; git checkout -q -", "true"),
            f"{_TWO}; git config core.hooksPath .githooks",
            "git add a.txt",
        ),
    )
)

# A grant that nobody is asked about, since edits there are free, lifts nothing.
_GRANTED = tuple(
    Plan((Call("Bash", {"command": line, "needs": needs, "reason": "x"}), "true"), EDIT, after=after)
    for line, needs, after in (
        ("git init -q d; cp evil d; git -C d config core.fsmonitor ./evil", ["write:."], _IN_D),
        ("cp evil src; git init -q src; git -C src config core.fsmonitor ./evil", ["write:src"],
         f"cd src && {{ {LOOK}; }}"),
        ("rm a.txt; git init -q a.txt; cp evil a.txt; git -C a.txt config core.fsmonitor ./evil", ["write:a.txt"],
         f"cd a.txt && {{ {LOOK}; }}"),
        ("echo x=./evil > src/.envrc", ["write:src"], evil("src/.envrc")),
        ("mkdir -p src/mise; echo x=./evil > src/mise/config.toml", ["write:src"], evil("src/mise/config.toml")),
        ("mkdir .vscode; echo x=./evil > .vscode/tasks.json", ["write:.", "write:src"], evil(".vscode/tasks.json")),
    )
)  # fmt: skip

PLANS = (*_STATES, *_LINKS, *_LATER, *_EARLIER, *_OUTSIDE, *_OWNED, *_GRANTED)
