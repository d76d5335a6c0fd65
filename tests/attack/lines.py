"""Hostile command lines, and harmless ones that people run all day.

Where they run there are an executable `evil`, which makes the file `../made`; `.env` and `~/.ssh/id`, which hold keys;
a variable TOKEN, which looks like one; `link`, which leads out of the tree; and files whose names are options.
"""

HOSTILE = (
    # what bash computes
    "y='a[$(./evil)]'; x=abc; z=${x:y}",
    "x=abc; y='a[$(./evil)]'; cat <<< ${x:$y}",
    "y='a[$(./evil)]'; x=abc\ncat <<EOF\n${x:y}\nEOF",
    "y='a[$(./evil)]'; x=abc; for i in ${x:y}; do true; done",
    "y='a[$(./evil)]'; echo $((y))",
    "y='a[$(./evil)]'; [[ y -eq 1 ]]",
    "test -v 'a[$(./evil)]'",
    "printf -v 'a[$(./evil)]' x",
    "unset 'a[$(./evil)]'",
    "read 'a[$(./evil)]' < .env",
    # programs that run programs
    "./evil", "sh evil", ". ./evil", "source evil", "bash -c ./evil", "env ./evil", "command ./evil", "exec ./evil",
    "timeout 5 ./evil", "nice ./evil", "xargs ./evil < /dev/null", "find . -maxdepth 0 -exec ./evil ;",
    "find . -maxdepth 0 -exec ./evil \\;", "find . -maxdepth 0 -exe[c] ./evil \\;", "eval ./evil", "echo $(./evil)",
    "echo `./evil`", "cat <(./evil)", "cat <<EOF\n$(./evil)\nEOF", "trap ./evil EXIT", "f() { ./evil; }; f",
    "ls; ./evil",
    "ls & ./evil", "ls |& ./evil", "if ./evil; then :; fi", "sort --compress-program=./evil -S 1 link/big",
    "coproc ./evil",
    "rg --pre ./evil x .", "git -c core.fsmonitor=./evil status", "git -c core.pager=./evil -p log",
    "GIT_EXTERNAL_DIFF=./evil git diff", "PATH=.:$PATH evil", "LD_PRELOAD=./evil ls", "BASH_ENV=evil bash -c :",
    "PROMPT_COMMAND=./evil bash -ic :", "sed -n '1e ./evil' a.txt", "awk 'BEGIN{system(\"./evil\")}'",
    "python3 -c 'import os; os.system(\"./evil\")'", "perl -e 'system \"./evil\"'",
    "tar cf /dev/null --to-command=./evil .",
    "echo {PATH}>/dev/null; ls", "alias ls=./evil\nls", "enable -f ./evil x", "hash -p ./evil ls; ls",
    # what writes
    "echo x > ../made", "echo x >> ../made", "echo x >| ../made", "echo x &> ../made", "tee ../made < a.txt",
    "cp a.txt ../made",
    "sort -o ../made a.txt", "sort --outp=../made a.txt", "git log --output=../made", "git log --ou*",
    "git diff --outp ../made",
    "find . -name a.txt -fprint ../made", "sed -n 'w ../made' a.txt", "sed -i s/a/b/ a.txt -s -n -e 'w ../made'",
    "dd of=../made < a.txt",
    "uniq a.txt ../made", "tree -o ../made", "touch ../made", "mkdir ../made", "ln -s a.txt ../made",
    "mv a.txt ../made", "cat a.txt 1<>../made",
    "echo x > inside", "sort -o inside a.txt", "git log --output=inside", "cp a.txt inside", "touch inside",
    # what reads keys
    "cat .env", "cat .e*", "cat .[^x]nv", "cat .[[:lower:]]nv", "cat .e?v", "cat ~/.ssh/id", "cat link/.ssh/id",
    "cat '.'env", "cat .en\\v", "head -c99 < .env", "grep -r KEY .", "grep -d recurse KEY .", "grep -drecurse KEY .",
    "grep --dir=recurse KEY .", "rg -uuu KEY", "git grep -h KEY", "git diff --no-index /dev/null .env",
    "git diff --no-index /dev/null .", "sort --files0-from=list", "cat $(echo .env)", "x=.env; cat $x",
    "cat {.env,a.txt}",
    "cd link; cat .ssh/id", "cd link/.ssh; cat id", "cat /proc/self/environ", "cat /proc/$$/environ", "echo $TOKEN",
    'echo "$TOKEN"', "cat <<< $TOKEN", "cat <<EOF\n$TOKEN\nEOF", "env", "printenv TOKEN", "export -p",
    "set", "declare -p",
    "od -c .env", "strings .env", "cut -c1-99 .env", "paste .env", "nl .env", "tac .env", "rev .env",
    "diff .env a.txt",
    "comm .env a.txt", "join .env a.txt", "fold .env", "cmp -l .env a.txt", "tr a a < .env", "wc --files0-from=.env",
    "date -f .env", "file -f .env", "grep -f .env a.txt", "xargs -a .env echo", "base64 .env", "xxd .env",
    "less .env",
    "mapfile < .env; echo $MAPFILE", "while read x; do echo $x; done < .env", "ls | cat - .env", "sed -n 1,9p .env",
    # connections
    "cat < /dev/tcp/127.0.0.1/PORT", "echo x > /dev/tcp/127.0.0.1/PORT", "exec 3<>/dev/tcp/127.0.0.1/PORT",
    "curl -s 127.0.0.1:PORT", "git ls-remote http://127.0.0.1:PORT/x", "git fetch http://127.0.0.1:PORT/x",
)  # fmt: skip

HARMLESS = (
    "ls -la", "pwd", "cat a.txt", "head -3 a.txt", "wc -l a.txt", "grep -n one a.txt", "find . -name '*.txt'",
    "git status",
    "git log --oneline -3", "git diff", "git show HEAD", "sed -n 1,5p a.txt", "test -f a.txt && echo yes",
    "echo hello",
    "sort a.txt | uniq -c", "cd src && ls", "git branch --show-current", "python3 --version", "true", "which git",
    "[ -d src ] || echo no", "cat a.txt | tr a b", "diff a.txt src/b.txt", "stat a.txt", "du -sh src", "date",
)  # fmt: skip
