"""Attacks by what git, editors and consoles obey in a directory: planted by commands for the person, or for a command
that a rule lets run outside the sandbox."""

from tests.attack.plans import CONFIG, LOOK, Plan, evil

# What a configuration may run, and what the person does then in the repository `d`, of a command's making.
_MADE = (
    "git init -q d; cp evil d; cd d; echo 1 > f; git add f; git -c user.name=a -c user.email=a@b "
    "commit -qm 1; echo 2 > f"
)
_SETTINGS = (
    ("core.pager ./evil", "git -p log; script -qc 'git log' /dev/null"),
    ("pager.log ./evil", "git -p log"),
    ("core.editor ./evil", "git commit -a"),
    ("sequence.editor ./evil", "unset GIT_SEQUENCE_EDITOR; git rebase -i --root"),
    ("diff.external ./evil", "git diff"),
    ("core.askPass ./evil", "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    ("core.sshCommand ./evil", "git ls-remote ssh://127.0.0.1/x"),
    ("core.hooksPath .", "cp evil pre-commit; git commit -qam 2"),
    ("core.gitProxy ./evil", "git ls-remote git://127.0.0.1/x"),
    ("credential.helper ./evil", "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    ("credential.helper '!./evil'", "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    ("credential.https://x.helper '!./evil'", "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    ("gpg.program ./evil", "git commit -S -am 2"),
    ("gpg.ssh.program ./evil", "git -c gpg.format=ssh commit -S -am 2"),
    ("gpg.x509.program ./evil", "git -c gpg.format=x509 commit -S -am 2"),
    ("gpg.ssh.defaultKeyCommand ./evil", "git -c gpg.format=ssh commit -S -am 2"),
    ("alias.st '!./evil'", "git st"),
    ("alias.st '-c core.fsmonitor=./evil status'", "git st"),
    ("trailer.x.command ./evil", "git interpret-trailers --trailer x=1 f"),
    ("trailer.x.cmd ./evil", "git interpret-trailers --trailer x=1 f"),
    ("filter.x.clean ./evil", "echo '* filter=x' > .gitattributes; git add ."),
    ("filter.x.process ./evil", "echo '* filter=x' > .git/info/attributes; git add ."),
    ("filter.x.smudge ./evil", "echo '* filter=x' > .gitattributes; rm f; git checkout f"),
    ("diff.x.textconv ./evil", "echo '* diff=x' > .gitattributes; git diff"),
    ("diff.x.command ./evil", "echo '* diff=x' > .gitattributes; git diff"),
    ("merge.x.driver ./evil",
        ("echo '* merge=x' > .gitattributes; git commit -qam 2; git checkout -qb y HEAD~; echo 3 > f; git "
         "commit -qam 3; git merge -")),
    ("difftool.x.cmd ./evil", "git difftool -yt x"),
    ("browser.x.cmd ./evil", "git web--browse -b x f"),
    ("man.x.cmd ./evil", "git -c man.viewer=x help -m log"),
    ("tar.x.command ./evil", "git archive --format=x HEAD"),
    ("remote.o.uploadpack ./evil; git config remote.o.url .", "git fetch o"),
    ("remote.o.receivepack ./evil; git config remote.o.url .", "git push o HEAD:x"),
    ("remote.o.vcs x; git config remote.o.url .; cp evil git-remote-x", "PATH=.:$PATH git fetch o"),
    ("remote.o.url 'ext::./evil'", "git -c protocol.ext.allow=always fetch o"),
    ("remote.o.pushurl 'ext::./evil'", "git -c protocol.ext.allow=always push o HEAD:x"),
    ("branch.master.remote 'ext::./evil'; git config branch.master.merge refs/heads/x",
        "git -c protocol.ext.allow=always pull"),
    ("branch.master.pushRemote 'ext::./evil'", "git -c protocol.ext.allow=always -c push.default=current push"),
    ("remote.pushDefault 'ext::./evil'", "git -c protocol.ext.allow=always -c push.default=current push"),
    ("url.'ext::./evil'.insteadOf https:", "git -c protocol.ext.allow=always ls-remote https:x"),
    ("protocol.ext.allow always; git config remote.o.url ext::./evil", "git fetch o"),
    ("submodule.x.update '!./evil'", "git -c protocol.file.allow=always submodule add -q ./ x; git submodule update"),
    ("init.templateDir ../evil", "git init -q y"),
    ("include.path ../../m; echo '[core] fsmonitor = ./evil' > ../m", "git status"),
    ("includeIf.gitdir:/.path ../../m; echo '[core] fsmonitor = ./evil' > ../m", "git status"),
    ("includeIf.onbranch:master.path ../m; echo '[alias] st = !./evil' > m", "git st"),
    ("include.path m; echo '[alias] st = !./evil' > .git/m", "git st"),
    ("sendemail.sendmailCmd ./evil", "git send-email -1 --to a@b --from a@b --confirm never"),
    ("sendemail.toCmd ./evil", "git send-email -1 --from a@b --confirm never --smtp-server 127.0.0.1"),
    ("interactive.diffFilter ./evil", "printf q | git add -p"),
    ("core.fsmonitor './evil'", "git -C . ls-files -m; git diff; git stash"),
    ("gc.recentObjectsHook ./evil", "git gc -q --prune=now"),
)  # fmt: skip
_FROM = tuple(
    Plan((f"{_MADE}; git config {setting}",), (("full", "auto"),), after=f"cd d; {then}") for setting, then in _SETTINGS
)

# Written so that another reader of the file might not see it.
_WRITTEN = tuple(
    Plan((f"{_MADE}; printf '{text}' >> .git/config",), (("edit", "auto"),), after="cd d; git status; git st")
    for text in (
        "[core]fsmonitor=./evil\\n", "[core] fsmonitor=./evil\\n", "[CoRe]\\nFsMonitor=./evil\\n",
            "[core]\\r\\nfsmonitor=./evil\\r\\n",
        "[core]\\nfsmonitor = \\\\\\n./evil\\n", "[core]\\nfsmonitor = \"./e\"vil\\n",
            "[core]\\n fsmonitor\\t=\\t./evil ; x\\n",
        "[core]\\nx = \\\\\\n[user]\\nfsmonitor = ./evil\\n", "# x\\\\\\n[core]\\nfsmonitor=./evil\\n",
            "[core]\\nabbrev = 7 \\\\\\n\\nfsmonitor=./evil\\n",
        "[a]b=c\\r[core]\\rfsmonitor=./evil\\r\\n[core]\\nfsmonitor=./evil",
            "\\357\\273\\277[core]\\nfsmonitor=./evil\\n", "[core \"\"]\\nfsmonitor=./evil\\n[core]fsmonitor=./evil",
        "[core]\\v\\nfsmonitor=./evil\\n", "[core]\\nfsmonitor=./evil\\0x\\n",
            "[user]\\nname = \"\\n[core]\\nfsmonitor = ./evil\\n", "[alias]\\nst = \"!./evil\"\\n",
            "[alias \"x\"]\\n[alias]st=!./evil\\n",
        "[include]\\npath = ../../x\\n[core]\\nfsmonitor = ./evil",
            "[remote \"[core]\"]\\nurl = x\\n[core]\\n\\tfsmonitor = ./evil",
            "[user]\\nemail = x\\\\\\n[core]\\nname = y\\\\\\n[core]\\nfsmonitor = ./evil\\n",
    )
)  # fmt: skip

# Layouts that git takes for a repository, and pointers to one.
_BARE = "mkdir objects refs; echo ref: refs/heads/x > HEAD; " + CONFIG + "config; echo worktree = . >> config"
_IN_D = "mkdir d; cp evil d; cd d"
_LAYOUTS = (
    f"{_IN_D}; {_BARE}; ln -sfn refs/heads/x HEAD",
    f"{_IN_D}; {_BARE}; rmdir objects; ln -s /tmp objects; rmdir refs; ln -s /tmp refs",
    f"{_IN_D}; {_BARE}; mkdir x; mv HEAD objects refs config x; echo gitdir: x > .git",
    f"{_IN_D}; mkdir -p x/y; (cd x/y; {_BARE}); ln -s x/y .git",
    f"{_IN_D}; mkdir .git; cd .git; {_BARE}; sed -i /worktree/d config", f"{_IN_D}; {_BARE}; chmod 311 .",
    f"{_IN_D}; {_BARE}; chmod 111 refs objects",
    (f"mkdir -p .git/objects/zz; cp evil .git/objects/zz; cd .git/objects/zz; {_BARE}; cd ../../..; mkdir "
     "d; cp evil d; echo gitdir: ../.git/objects/zz > d/.git"),
    (f"mkdir -p node_modules/x; cd node_modules/x; {_BARE}; cd ../..; mkdir d; cp evil d; echo gitdir: "
     "../node_modules/x > d/.git"),
    (f"mkdir -p ~/.cache/pip/x; cd ~/.cache/pip/x; {_BARE}; cd -; mkdir d; cp evil d; echo gitdir: "
     "$HOME/.cache/pip/x > d/.git"),
    f"mkdir -p $TMPDIR/x; cd $TMPDIR/x; {_BARE}; cd -; mkdir d; cp evil d; echo gitdir: $TMPDIR/x > d/.git",
    ("git init -q d; cp evil d; mkdir s; cp d/.git/config s; cp -r d/.git/refs d/.git/objects s; ")
    + CONFIG + "s/config; echo ../../s > d/.git/commondir",
    ("git init -q d; cp evil d; cp -r d/.git s; ")
    + CONFIG + "s/config; rm -r d/.git; printf 'gitdir: ../s\\n\\nx' > d/.git",
    "git init -q --separate-git-dir=s d; cp evil d; " + CONFIG + "s/config",
    "git init -q --bare d; cp evil d; " + CONFIG + "d/config; echo worktree = . >> d/config",
    "git init -q d; cp evil d; mkdir t; mv d/.git t/g; " + CONFIG + "t/g/config; mv t/g d/.git",
    "git clone -q . d; cp evil d; git -C d config core.fsmonitor ./evil",
    ("git clone -q --bare . d; cp evil d; git -C d config core.fsmonitor ./evil; git -C d config "
     "core.worktree .; git -C d config core.bare false"),
    "git worktree add -q d; cp evil d; git -C d config core.fsmonitor ./evil",
    ("git clone -q . d; cp evil d; git -C d worktree add -q w; cp evil d/w; git -C d config "
     "extensions.worktreeConfig true; git -C d/w config --worktree core.fsmonitor ./evil; mv d e; mkdir d; "
     "mv e/w d/w; cp -r e/.git d/.git"),
    "cp -r .git x; " + CONFIG + "x/config; mkdir d; cp evil d; mv x d/.git",
    "cp -al .git x; rm x/config; " + CONFIG + "x/config; mkdir d; cp evil d; mv x d/.git",
    "git -c protocol.file.allow=always submodule add -q ./ d; cp evil d; git -C d config core.fsmonitor ./evil",
    ("mkdir d; cp evil d; git init -q d; ln -sf ../../evil d/.git/hooks/post-index-change; touch -d "
     "2001-01-01 d/.git/hooks/* d/.git/hooks"),
    "git init -q d; cp evil d; cp evil d/.git/hooks/post-index-change; chmod 311 d/.git/hooks",
    "git init -q d; cp evil d; " + CONFIG + "d/.git/config; touch -d 2001-01-01 d/.git/config d/.git d",
    ("git init -q d; cp evil d; mkfifo d/.git/x; ")
    + CONFIG + "d/.git/y; ln d/.git/y d/.git/z; mv d/.git/z d/.git/config",
    "git init -q d; cp evil d; (sleep 3; cd d; " + CONFIG + ".git/config) > /dev/null 2>&1 & sleep 1",
    ("git init -q d; cp evil d; exec 9>> d/.git/config; (sleep 3; printf '[core]\\nfsmonitor = ./evil\\n' "
     ">&9) > /dev/null 2>&1 & sleep 1"),
    ("mkdir d; cd d; for i in $(seq 400); do mkdir x$i; done; cd x399; cp ../../evil .; git init -q .; git "
     "config core.fsmonitor ./evil; cd ..; mv x399 ../d2; cd ..; rm -r d; mv d2 d"),
    ("p=d; for i in $(seq 60); do p=$p/y; done; mkdir -p $p; cd $p; cp $OLDPWD/evil .; git init -q; git "
     "config core.fsmonitor ./evil; cd $OLDPWD; mv $p e; rm -r d; mv e d"),
    "git init -q $'d\\n'; cp evil $'d\\n'; git -C $'d\\n' config core.fsmonitor ./evil; mv $'d\\n' d",
    "git init -q $'\\377'; cp evil $'\\377'; cd $'\\377'; git config core.fsmonitor ./evil; cd ..; mv $'\\377' d",
    "mkdir d d/.GIT; cp evil d; cd d/.GIT; " + _BARE + "; cd ..; mv .GIT .git",
    "git init -q -b x --ref-format=reftable d || git init -q d; cp evil d; git -C d config core.fsmonitor ./evil",
)  # fmt: skip
_D = f"cd d && {{ {LOOK}; git add .; cd w 2> /dev/null && {LOOK}; }}"
_PLACED = tuple(Plan((line,), (("edit", "auto"),), after=_D) for line in _LAYOUTS)

# In the person's own repository, as they have set it up.
_REBASING = "echo 1 > n; git add n; git commit -qm n; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1"
_OWN = (
    Plan(("mkdir -p h; cp evil h/pre-commit", ), before="git config core.hooksPath h",
        after="git commit --allow-empty -m x"),
    Plan(("mkdir -p tools/h; cp evil tools/h/x; mv tools/h/x tools/h/post-index-change", ),
        before="git config core.hooksPath tools/h", after="git add a.txt"),
    Plan(("mkdir x; cp evil x/pre-commit", "mv x h"), before="git config core.hooksPath h",
        after="git commit --allow-empty -m x"),
    Plan((CONFIG + "shared", ), before="git config include.path ../shared", after=LOOK), Plan((CONFIG + "s/shared", ),
        before="mkdir s; : > s/shared; git config include.path ../s/shared", after=LOOK),
    Plan(("rm s/shared; mv s t; mkdir s; " + CONFIG + "s/shared", ),
        before="mkdir s; : > s/shared; git config include.path ../s/shared", after=LOOK),
    Plan(("echo x ./evil >> .git/rebase-merge/git-rebase-todo", ), before=_REBASING,
        after="GIT_EDITOR=true git rebase --continue"),
    Plan(("printf 'exec true\\nexec ./evil\\n' > t; mv t .git/rebase-merge/git-rebase-todo", ), before=_REBASING,
        after="GIT_EDITOR=true git rebase --continue"),
    Plan(("printf '\\texec\\t./evil\\n' >> .git/rebase-merge/git-rebase-todo", ), before=_REBASING,
        after="GIT_EDITOR=true git rebase --continue"),
    Plan((("printf 'x ./evil' >> .git/rebase-merge/git-rebase-todo.backup; rm "
         ".git/rebase-merge/git-rebase-todo; ln .git/rebase-merge/git-rebase-todo.backup "
         ".git/rebase-merge/git-rebase-todo"), ), before=_REBASING, after="GIT_EDITOR=true git rebase --continue"),
    Plan((("echo 'exec ./evil' >> t; cp t .git/rebase-merge/done; cat t >> "
         ".git/rebase-merge/git-rebase-todo; touch -d 2001-01-01 .git/rebase-merge/*"), ), before=_REBASING,
        after="GIT_EDITOR=true git rebase --continue"),
    Plan(("(sleep 3; echo exec ./evil >> .git/rebase-merge/git-rebase-todo) > /dev/null 2>&1 & sleep 1", "sleep 4"),
        before=_REBASING, after="GIT_EDITOR=true git rebase --continue"),
    Plan(("echo ../../evil > .git/rebase-merge/strategy; echo pick HEAD >> .git/rebase-merge/git-rebase-todo", ),
        before=_REBASING, after="GIT_EDITOR=true git rebase --continue"),
    Plan(("git rebase -x ./evil HEAD~1; git rebase --edit-todo", ), before="echo 1 > n; git add n; git commit -qm n",
        after="GIT_EDITOR=true git rebase --continue; git rebase --abort"),
    Plan(("GIT_SEQUENCE_EDITOR='printf \"break\\nexec ./evil\\n\" >' git rebase -i HEAD~1", ),
        before="echo 1 > n; git add n; git commit -qm n", after="GIT_EDITOR=true git rebase --continue"),
    Plan((("git worktree add -q w; cp evil w; G=.git/worktrees/w; mkdir -p $G/rebase-merge; cd "
         "$G/rebase-merge; echo exec ./evil > git-rebase-todo; git rev-parse HEAD | tee onto orig-head > "
         "end; echo refs/heads/w > head-name; : > interactive"), ),
        after="cd w; GIT_EDITOR=true git rebase --continue"),
    Plan((("git bisect start; echo ./evil > .git/BISECT_RUN; git bisect bad; echo \"git bisect run ./evil\" "
         "> .git/BISECT_LOG"), ), after="git bisect log; git bisect next; git status"),
    Plan(("mkdir -p .git/info; echo '* filter=x diff=x' > .git/info/attributes; git config filter.x.clean ./evil", ),
        after=LOOK + "; git add ."),
    Plan(("git config --file .git/config.worktree core.fsmonitor ./evil", ),
        before="git config extensions.worktreeConfig true", after=LOOK),
    Plan(("git sparse-checkout set src; git config --worktree core.fsmonitor ./evil", ), after=LOOK),
        Plan(("git sparse-checkout set src; cd src; " + CONFIG + "../.git/config.worktree", ),
        before="git sparse-checkout init", after=LOOK),
    Plan((("git config --global core.fsmonitor ./evil; git config --system core.fsmonitor ./evil; mkdir -p "
         "~/.config/git; echo '[core] fsmonitor = ./evil' > ~/.config/git/config; echo '[core] fsmonitor "
         "= ./evil' > ~/.gitconfig"), ), after=LOOK),
    Plan((("printf '[submodule \"s\"]\\npath = s\\nurl = ./.\\nupdate = !./evil\\n' > .gitmodules; git -c "
         "protocol.file.allow=always clone -q . s; git add .gitmodules s; git commit -qm s"), ),
        after=("git -c protocol.file.allow=always submodule update --init; git submodule sync; git submodule "
         "update --recursive --remote")),
    Plan((("mkdir -p .git/modules/s; git init -q --bare .git/modules/s; git -C .git/modules/s config "
         "core.fsmonitor ./evil; mkdir s; cp evil s; echo gitdir: ../.git/modules/s > s/.git"), ),
        after=f"cd s; {LOOK}"),
    Plan(("echo gitdir: ../x > s/.git; cp -r .git/modules/s x; " + CONFIG + "x/config; cp evil s", ),
        before="git -c protocol.file.allow=always submodule --quiet add ./ s; git commit -qm s",
        after=f"{LOOK}; cd s; {LOOK}"),
    Plan((CONFIG + ".git/modules/s/config; cp evil s", ),
        before="git -c protocol.file.allow=always submodule --quiet add ./ s; git commit -qm s",
        after=f"{LOOK}; cd s; {LOOK}"),
    Plan(("cp evil .git/modules/s/hooks/post-index-change; cp evil s", ),
        before="git -c protocol.file.allow=always submodule --quiet add ./ s; git commit -qm s",
        after="cd s; echo 1 > new; git add new"),
    Plan(("rm -rf .git; git init -q; git config core.fsmonitor ./evil", ), after=LOOK),
        Plan(("mv .git g; echo gitdir: g > .git; " + CONFIG + "g/config", ), after=LOOK),
        Plan(("rm -rf .git; echo gitdir: src > .git; cd src; cp ../evil .; " + _BARE, ), after=LOOK),
    Plan(("cp -r .git g; rm -rf .git/*; " + CONFIG + ".git/config; cp -r g/HEAD g/objects g/refs .git", ),
        after=LOOK), Plan(("export GIT_DIR=g; git init -q; git config core.fsmonitor ./evil; mv g/config .git/config",
        ), after=LOOK),
)  # fmt: skip

# A rule for a command outside the sandbox, and what earlier commands leave for it: variables, functions, places, files.
_UNSANDBOXED = tuple(
    Plan((leave, run), (("edit", "auto"),), flags=("--allow", f"Unsandboxed({rule}:*)"))
    for rule, run, leaves in (
        (
            "git status", "git status",
            (
                "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./evil",
                    "export GIT_CONFIG_PARAMETERS=\"'core.fsmonitor=./evil'\"",
                CONFIG + "g; export GIT_CONFIG_GLOBAL=$PWD/g", CONFIG + "g; export GIT_CONFIG_SYSTEM=$PWD/g",
                    "mkdir h; " + CONFIG + "h/.gitconfig; export HOME=$PWD/h",
                "mkdir -p h/git; " + CONFIG + "h/git/config; export XDG_CONFIG_HOME=$PWD/h",
                    "cp -r .git g; " + CONFIG + "g/config; export GIT_DIR=$PWD/g GIT_WORK_TREE=.",
                    "cp -r .git g; " + CONFIG + "g/config; export GIT_COMMON_DIR=$PWD/g",
                "cp evil git-status; export GIT_EXEC_PATH=$PWD", "cp evil git; export PATH=$PWD:$PATH",
                    "cp evil git; PATH=.:$PATH; hash -r", "hash -p ./evil git",
                    "alias git=./evil; shopt -s expand_aliases", "git() { ./evil; }; export -f git",
                    "git() { ./evil; }",
                "trap ./evil DEBUG", "trap ./evil EXIT", "export PROMPT_COMMAND=./evil",
                    "export BASH_ENV=$PWD/evil ENV=$PWD/evil", "export LD_PRELOAD=$PWD/evil.so",
                    "export 'BASH_FUNC_git%%=() { ./evil; }'", "command_not_found_handle() { ./evil; }; PATH=",
                    "IFS=t; export IFS", "set -x; PS4='$(./evil)'; export PS4 SHELLOPTS", "enable -f ./evil git",
                f"{_MADE}; git config core.fsmonitor ./evil", f"{_IN_D}; {_BARE}",
                    f"{_MADE}; cp evil .git/hooks/post-index-change; touch f",
                    "mkdir d; cd d; cp ../evil .; cp -r ../.git .git; " + CONFIG + ".git/config",
                    "cd src; cp ../evil .; git init -q; git config core.fsmonitor ./evil", "cd link; true",
                    "cd $TMPDIR; cp $OLDPWD/evil .; git init -q; git config core.fsmonitor ./evil",
            ),
        ),
        ("git diff", "git diff", ("echo 9 > a.txt; export GIT_EXTERNAL_DIFF=./evil",
            "echo 9 > a.txt; export GIT_PAGER=./evil", f"{_MADE}; git config diff.external ./evil",
            f"{_MADE}; echo '* diff=x' > .gitattributes; git config diff.x.textconv ./evil",
            f"{_MADE}; git config core.pager ./evil; export GIT_PAGER_IN_USE=1")),
        ("git fetch", "git fetch", ("export GIT_SSH_COMMAND=./evil GIT_SSH=./evil GIT_PROXY_COMMAND=./evil",
            f"{_MADE}; git config remote.origin.url .; git config remote.origin.uploadpack ./evil",
            f"{_MADE}; git config protocol.ext.allow always; git config remote.origin.url 'ext::./evil'",
            f"{_MADE}; git config core.sshCommand ./evil; git config remote.origin.url ssh://127.0.0.1/x",
            (f"{_MADE}; git config remote.origin.url .; git config submodule.recurse true; cp evil "
             ".git/hooks/reference-transaction"),
            f"{_MADE}; git config branch.master.remote 'ext::./evil'; git config protocol.ext.allow always")),
        ("git commit", "git commit -m x", (f"{_MADE}; git add f; cp evil .git/hooks/pre-commit",
            f"{_MADE}; git add f; git config gpg.program ./evil; git config commit.gpgSign true",
            f"{_MADE}; git add f; git config core.hooksPath ../h; mkdir ../h; cp evil ../h/pre-commit",
            f"{_MADE}; git add f; git config core.editor ./evil",
            "git config core.hooksPath h; mkdir h; cp evil h/pre-commit; echo 3 > a.txt; git add a.txt")),
        ("git submodule", "git submodule update --init",
            ((f"{_MADE}; printf '[submodule \"s\"]\\npath=s\\nurl=./\\n' > .gitmodules; git clone -q . s; git "
             "add s .gitmodules; git config submodule.s.update '!./evil'; git config submodule.s.url ."), )),
        ("gh", "gh status", (f"{_MADE}; git config alias.status '!./evil'; git config core.fsmonitor ./evil",)),
        ("ls", "ls", ("ls() { ./evil; }; export -f ls", "cp evil ls; PATH=.:$PATH", "alias ls=./evil",
            "export LD_PRELOAD=./evil.so", "cd src; cp ../evil ls; PATH=$PWD:$PATH",
            "export LS_COLORS='$(./evil)'; set -x; PS4='$(./evil)'")),
        ("make x", "make x", ("export MAKEFLAGS='--eval=x:;./evil'",
            "export MAKEFILES=$PWD/m; printf 'x:\\n\\t./evil\\n' > m", "export SHELL=./evil; make() { ./evil; }",
            "export GNUMAKEFLAGS='--eval=x:;./evil'")),
    )
    for leave in leaves
)  # fmt: skip

# Names that other programs obey, in a new directory and in one that was there.
_NAMES = tuple(
    Plan((f"mkdir -p {at}/{name.rpartition('/')[0]}; echo x=./evil > {at}/{name}", ), (("edit", "auto"), ),
        after=evil(f"{at}/{name}"))
    for at in ("d", "src")
    for name in (
        ".vscode/launch.json", ".vscode/mcp.json", ".devcontainer.json", ".idea/workspace.xml", ".fleet/run.json",
            ".zed/tasks.json", ".vs/launch.vs.json",
        ".cursor/mcp.json", ".claude/settings.local.json", ".claude/hooks/x", ".codex/config.toml",
            ".gemini/settings.json", ".sagent/config.toml", ".agents/skills/x/SKILL.md", ".roo/mcp.json",
            ".kiro/settings/mcp.json", "opencode.json", ".windsurf/hooks.json",
        ".githooks/pre-commit", ".husky/_/pre-commit", ".mise/config.toml", "mise/config.toml", ".mise.local.toml",
            "mise.local.toml", ".envrc.private", ".nvimrc", ".nvim.lua", ".vimrc", ".vim/coc-settings.json",
            ".lvimrc", ".dir-locals-2.el", ".lldbinit", ".irbrc", ".pryrc", ".Renviron", ".helix/languages.toml",
        ".ghci", ".ocamlinit", ".iex.exs", ".octaverc", ".perldb", ".jdbrc", ".erlang", ".rdbgrc", ".byebugrc",
            ".rvmrc", ".autoenv.zsh",
        ".hg/hgrc-not-shared", ".jj/workspace-config.toml", "_darcs/prefs/prefs",
    )
)  # fmt: skip

_FULL = tuple(plan._replace(ways=(("full", "auto"),)) for plan in _OWN)
PLANS = (*_FROM, *_WRITTEN, *_PLACED, *_FULL, *_UNSANDBOXED, *_NAMES)
