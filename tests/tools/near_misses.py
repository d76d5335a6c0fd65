# ruff: noqa: E501 -- each snippet and each form of an edit is one line of data
"""Edits that quote a file nearly, over snippets of several languages; `python -m tests.tools.near_misses` writes
`near_misses.jsonl` anew. What each should come to is made from the snippet and what was meant, never by the tool."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

FILE = Path(__file__).with_name("near_misses.jsonl")


@dataclass(frozen=True)
class Snippet:
    """A file, the lines of it that are quoted (from 0, the end excluded), and one of these as it should become."""

    name: str
    text: str
    first: int
    end: int
    line: int
    becomes: str

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def quoted(self) -> list[str]:
        return self.lines[self.first : self.end]

    @property
    def given(self) -> list[str]:
        return [*self.lines[self.first : self.line], self.becomes, *self.lines[self.line + 1 : self.end]]

    @property
    def wanted(self) -> str:
        return self.with_lines(self.given)

    def with_lines(self, lines: list[str]) -> str:
        """The file with others for the lines that are quoted."""
        return "\n".join([*self.lines[: self.first], *lines, *self.lines[self.end :]])


# fmt: off
SNIPPETS = (
    Snippet("parse.py", 'import re\n\n\ndef parse(text):\n    found = []\n    for part in text.split(","):\n        if part:\n            found.append(part.strip())\n    return found\n\n\ndef main():\n    print(parse("a,b"))\n', 4, 9, 7, "            found.append(part.lower())"),
    Snippet("server.js", "const http = require('http');\n\nfunction listen(port) {\n  const server = http.createServer();\n  server.on('request', (req, res) => {\n    res.end('hello');\n  });\n  server.listen(port);\n  return server;\n}\n\nmodule.exports = { listen };\n", 3, 9, 7, "  server.listen(port, host);"),
    Snippet("main.go", 'package main\n\nimport "fmt"\n\nfunc sum(xs []int) int {\n\ttotal := 0\n\tfor _, x := range xs {\n\t\ttotal += x\n\t}\n\treturn total\n}\n\nfunc main() {\n\tfmt.Println(sum([]int{1, 2}))\n}\n', 5, 10, 7, "\t\ttotal += x * x"),
    Snippet("lib.rs", 'pub struct Stack {\n    items: Vec<i32>,\n}\n\nimpl Stack {\n    pub fn push(&mut self, item: i32) {\n        self.items.push(item);\n        println!("pushed");\n    }\n\n    pub fn pop(&mut self) -> Option<i32> {\n        self.items.pop()\n    }\n}\n', 5, 9, 6, "        self.items.push(item + 1);"),
    Snippet("list.c", '#include <stdio.h>\n\nint count(const char *s, char c)\n{\n    int n = 0;\n    while (*s) {\n        if (*s++ == c)\n            n++;\n    }\n    return n;\n}\n\nint main(void)\n{\n    printf("%d", count("hello", \'l\'));\n    return 0;\n}\n', 4, 10, 7, "            n += 1;"),
    Snippet("config.yaml", "name: build\non:\n  push:\n    branches: [main]\njobs:\n  test:\n    runs-on: 'ubuntu-latest'\n    steps:\n      - uses: actions/checkout@v4\n      - run: make test\n", 5, 10, 9, "      - run: make check"),
    Snippet("page.html", '<html>\n  <body>\n    <div class="box">\n      <p>Hello</p>\n      <a href="/more">More</a>\n    </div>\n    <footer>End</footer>\n  </body>\n</html>\n', 2, 6, 3, "      <p>Welcome</p>"),
    Snippet("query.sql", "SELECT name, total\nFROM orders\nWHERE status = 'open'\n  AND total > 100\n  AND region IN ('eu', 'us')\nORDER BY total DESC;\n", 2, 6, 3, "  AND total > 200"),
    Snippet("recipe.make", "CC = gcc\n\nall: prog\n\nprog: main.o\n\t$(CC) -o prog main.o\n\t@echo \"built\"\n\nclean:\n\trm -f prog main.o\n\t@echo 'clean'\n", 4, 7, 5, "\t$(CC) -O2 -o prog main.o"),
    Snippet("deploy.sh", '#!/bin/sh\nset -eu\n\nif [ -z "$1" ]; then\n    echo "usage: deploy HOST" >&2\n    exit 2\nfi\n\nfor host in "$@"; do\n    scp app "$host":/srv\n    ssh "$host" restart\ndone\n', 3, 7, 5, "    exit 64"),
    Snippet("App.java", 'package app;\n\npublic class App {\n    private final String name = "app";\n\n    public int size(int[] items) {\n        int size = 0;\n        for (int item : items) {\n            size += item;\n        }\n        return size;\n    }\n}\n', 5, 12, 8, "            size += 2 * item;"),
    Snippet("style.css", ".box {\n  color: red;\n  font-family: 'Arial';\n}\n\n.box .title {\n  margin: 0;\n  content: \"x\";\n  padding: 4px;\n}\n", 5, 10, 8, "  padding: 8px;"),
    Snippet("notes.md", "# Notes\n\nIt's a list:\n\n- one\n    - nested \"item\"\n    - another\n- two\n\nThe end.\n", 4, 8, 6, "    - yet another"),
    Snippet("settings.toml", "[server]\nhost = \"localhost\"\nport = 80\n\n[server.limits]\nrate = 10\n  burst = 'none'\n  wait = 5\n", 4, 8, 7, "  wait = 6"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An edit of a file, and the file afterwards: None where it must be refused. `meant` is what a person who reads the
    refused one takes it for, None where that is a guess: another program's tool that makes this of it is not wrong."""

    kind: str
    name: str
    text: str
    old: str
    new: str
    wanted: str | None
    meant: str | None
    everywhere: bool = False


def join(lines: list[str]) -> str:
    return "\n".join(lines)


def dedent(lines: list[str]) -> list[str]:
    size = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return [line[size:] for line in lines]


def numbered(lines: list[str], first: int) -> list[str]:
    return [f"{number:>6}\t{line}" for number, line in enumerate(lines, first)]


def tabs(lines: list[str]) -> list[str]:
    """The same indents made of tabs, or of spaces where they were tabs."""
    made: list[str] = []
    for line in lines:
        rest = line.lstrip(" \t")
        indent = line[: len(line) - len(rest)]
        made.append(("    " * len(indent) if "\t" in indent else "\t" * (len(indent) // 2)) + rest)
    return made


def curly(text: str) -> str:
    """As a word processor has them: an opening mark where a word may begin."""
    opened = re.sub(r"""(^|[\s(\[{])(["'])""", lambda found: found[1] + {"'": "‘", '"': "“"}[found[2]], text)
    return opened.replace("'", "’").replace('"', "”")


def deeper(one: Snippet, *, mixed: bool = False) -> list[str]:
    """What is given, with one indent more in the last line than the changed one has: with `mixed`, of the other kind."""
    indent = one.becomes[: len(one.becomes) - len(one.becomes.lstrip())]
    return [*one.given[:-1], indent + ("\t" if ("\t" in indent) is not mixed else "    ") + "more"]


def hunk(one: Snippet) -> list[str]:
    at = one.line - one.first
    return [*(f" {line}" for line in one.quoted[:at]), f"-{one.quoted[at]}", f"+{one.becomes}",
            *(f" {line}" for line in one.quoted[at + 1 :])]  # fmt: skip


def sure(one: Snippet) -> Iterator[Case]:
    """What has one meaning."""
    old, new, text, wanted, name = one.quoted, one.given, one.text, one.wanted, one.name

    def case(kind: str, old: str, new: str, text: str = text, wanted: str = wanted) -> Case:
        return Case(kind, name, text, old, new, wanted, wanted)

    yield case("white space at line ends, in the quote", join([f"{line}  " for line in old]), join(new))
    loose = [f"{line} " if at == one.first else line for at, line in enumerate(one.lines)]
    now = [f"{line} " if at == one.first else line for at, line in enumerate(wanted.split("\n"))]
    yield case("white space at line ends, in the file", join(old), join(new), join(loose), join(now))
    yield case("indents left out", join(dedent(old)), join(dedent(new)))
    yield replace(case("indents left out, everywhere", join(dedent(old)), join(dedent(new))), everywhere=True)
    yield case("tabs for spaces or spaces for tabs", join(tabs(old)), join(tabs(new)))
    yield case("indents doubled", join([f"    {line}" for line in old]), join([f"    {line}" for line in new]))
    longer = one.with_lines(deeper(one))
    moved = [join([f"   {line}" for line in lines]) for lines in (old, deeper(one))]
    yield case("a new indent, others moved", *moved, wanted=longer)
    if len(dedent(old)[0]) < len(old[0]):
        yield case("a new indent, others left out", join(dedent(old)), join(dedent(deeper(one))), wanted=longer)
    crlf = text.replace("\n", "\r\n")
    yield case("CRLF in the file", join(old), join(new), crlf, wanted.replace("\n", "\r\n"))
    yield case("CRLF in the quote", join(old).replace("\n", "\r\n"), join(new).replace("\n", "\r\n"))
    if curly(join(old)) != join(old):
        yield case("typographic quotes, in the file", join(old), join(new), curly(text), curly(wanted))
        yield case("typographic quotes, in the quote", curly(join(old)), curly(join(new)))
    yield case("line numbers, in both", join(numbered(old, one.first + 1)), join(numbered(new, one.first + 1)))
    yield case("line numbers, in the quote", join(numbered(old, one.first + 1)), join(new))
    body, size = hunk(one), len(old)
    where = f"@@ -{one.first + 1},{size} +{one.first + 1},{size} @@"
    yield case("unified diff", join([f"--- a/{name}", f"+++ b/{name}", where, *body, ""]), "")
    yield case(
        "unified diff of git",
        join([f"diff --git a/{name} b/{name}", "index 1..2 100644", f"--- a/{name}", f"+++ b/{name}", where, *body]),
        "",
    )
    yield case("hunk alone", join([where, *body]), "")
    yield case("hunk with wrong counts", join([f"@@ -1,{size + 3} +1,{size + 9} @@", *body]), "")
    patch = ["*** Begin Patch", f"*** Update File: src/{name}", "@@", *body, "*** End Patch"]
    yield case("apply_patch", join(patch), "")
    block = ["<<<<<<< SEARCH", *old, "=======", *new, ">>>>>>> REPLACE"]
    yield case("search/replace block", join(block), "")
    yield case("search/replace block under a name", join([f"src/{name}", *block]), "")


def unsure(one: Snippet) -> Iterator[Case]:
    """What must be refused."""
    old, new, text, name = one.quoted, one.given, one.text, one.name

    def case(kind: str, old: str, new: str, text: str = text) -> Case:
        guess = text != one.text or old == new or not (new or kind.startswith("stale"))
        return Case(kind, name, text, old, new, None, None if guess else one.wanted)

    comment = "..." if name.endswith((".md", ".html")) else "# ..."
    middle = [old[0], comment, old[-1]]
    yield case("elided middle", join(middle), join([new[0], comment, new[-1]]))
    yield case("elided middle, in words", join([old[0], "// ... existing code ...", old[-1]]), join(new))
    stale = [*old[:-1], f"{old[-1]} // as it was"]
    yield case("stale text", join(stale), join(new))
    yield case("a line that is gone", join([old[0], "    was = here", *old[1:]]), join(new))
    twice = f"{text}\n{text}"
    yield case("wrong count", join(old), join(new), twice)
    yield case("wrong count, indents left out", join(dedent(old)), join(dedent(new)), twice)
    yield case("wrong count, white space", join([f"{line}  " for line in old]), join(new), twice)
    yield case("wrong count, hunk", join(["@@ -1,3 +1,3 @@", *hunk(one)]), "", twice)
    numbers = numbered(old, one.first + 4)
    yield case("line numbers of another place", join(numbers), join(numbered(new, one.first + 4)))
    some = [*numbered(new, one.first + 1)[:-1], new[-1]]
    yield case("line numbers, in a part of what is new", join(numbered(old, one.first + 1)), join(some))
    yield case("hunk of a part of a line", join(["@@ -1 +1 @@", f"-{old[-1][1:]}", "+new"]), "")
    if dedent(old) != old:
        where = "indents left out, everywhere, at two places"
        both = f"{one.wanted}\n{one.wanted}"
        yield replace(case(where, join(dedent(old)), join(dedent(new)), twice), everywhere=True, meant=both)
    mixed, deep = deeper(one, mixed=True), deeper(one)
    yield replace(
        case("a new indent of tabs and spaces", join([f"   {line}" for line in old]), join([f"   {x}" for x in mixed])),
        meant=one.with_lines(mixed),
    )
    uneven = [*(f"   {line}" for line in old[:-1]), f"  {old[-1]}"]
    yield replace(case("a new indent, others moved unevenly", join(uneven), join(deep)), meant=one.with_lines(deep))
    yield case(
        "white space within a line",
        join(
            [line.replace(" ", "  ") for line in old[:1]]
            + [f"{line.lstrip()[:1]} {line.lstrip()[1:]}" for line in old[1:]]
        ),
        join(new),
    )
    yield case("letter case", join(old).swapcase(), join(new))
    escaped = join(old).replace('"', '\\"').replace("'", "\\'").replace("\n", "\\n")
    yield case("escaped twice", escaped, join(new).replace("\n", "\\n"))
    where = "@@ -1,3 +1,3 @@"
    yield case("diff of another file", join(["--- a/other.txt", "+++ b/other.txt", where, *hunk(one)]), "")
    yield case(
        "patch of two files",
        join(
            [
                "*** Begin Patch",
                f"*** Update File: {name}",
                "@@",
                *hunk(one),
                "*** Update File: other.txt",
                "@@",
                "-a",
                "+b",
                "*** End Patch",
            ]
        ),
        "",
    )
    yield case("patch that deletes", join(["*** Begin Patch", f"*** Delete File: {name}", "*** End Patch"]), "")
    yield case("stale hunk", join([where, " was here", *hunk(one)]), "")
    yield case("stale search/replace block", join(["<<<<<<< SEARCH", *stale, "=======", *new, ">>>>>>> REPLACE"]), "")
    if curly(join(old)) != join(old):
        longer = [*new, 'say("it")']
        yield replace(
            case("typographic quotes, in what is new", curly(join(old)), curly(join(longer))),
            meant=one.with_lines(longer),
        )


def cases() -> Iterator[Case]:
    """All that are misses: the quote is not in the file as it stands, or not once."""
    for one in SNIPPETS:
        for case in (*sure(one), *unsure(one)):
            if case.text.count(case.old.replace("\r\n", "\n")) != 1 or "CRLF" in case.kind:
                yield case


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(vars(case), ensure_ascii=False) + "\n" for case in cases()), encoding="utf-8")
