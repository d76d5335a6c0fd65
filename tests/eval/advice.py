"""What a strong advisor says of each task to a small executor: what is wrong or easily missed, and what to do."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """The gap, the next step in words, and the command of that step; without one the files of the task's right way are
    written."""

    gap: str
    next: str
    command: str = ""


HINTS: Mapping[str, Hint] = {
    "read-constant": Hint(
        "the value must be read from config/defaults.py, not guessed.",
        "Read config/defaults.py: CACHE_SECONDS stands in its second line. Answer with the number after the `=`.",
        "grep CACHE_SECONDS config/defaults.py",
    ),
    "read-log": Hint(
        "another error code stands twice in the log; only the line of 14:07:31 counts.",
        "Find the line that begins with 14:07:31 in server.log and answer with its code alone.",
        "grep 14:07:31 server.log",
    ),
    "follow-include": Hint(
        "app.conf only names the file that has the value; that file was not read.",
        "app.conf includes conf.d/limits-b.conf. Print that file and answer with the number after `timeout =`.",
        "cat conf.d/limits-b.conf",
    ),
    "find-class": Hint(
        "files that import or mention TokenBucket do not define it.",
        "Search for `class TokenBucket` in all Python files and answer with the path that is printed.",
        'grep -rn "class TokenBucket" --include=*.py .',
    ),
    "count-functions": Hint(
        "functions were counted by eye; the dictionary at the end is none.",
        "Count the lines that begin with `def ` by a command and answer with the number that it prints.",
        "grep -c '^def ' shapes.py",
    ),
    "git-message": Hint(
        "the message must come from git, not from the files.",
        "Run `git log -1 --format=%s` and answer with the line that it prints. Commit nothing.",
        "git log -1 --format=%s",
    ),
    "git-uncommitted": Hint(
        "only git knows which file was changed since the last commit.",
        "Run `git status --short` and answer with the one name that it prints. Commit nothing.",
        "git status --short",
    ),
    "run-script": Hint(
        "the number must come from running the program.",
        "Run `python3 checksum.py` and answer with the number that it prints.",
        "python3 checksum.py",
    ),
    "run-tests": Hint(
        "the failing test must come from running the tests; nothing is to be changed.",
        "Run `python3 -m unittest` and answer with the name after `FAIL:`.",
        "python3 -m unittest",
    ),
    "count-rows": Hint(
        "140 rows cannot be counted by eye.",
        "Count the lines that end with `,open` by a command and have it write the number into open.txt.",
        "grep -c ',open$' orders.csv > open.txt",
    ),
    "write-program": Hint(
        "evens.py must print 2, 4, … 20 and nothing else: 20 belongs to it, 0 and odd numbers do not.",
        "Write evens.py with a loop over range(2, 21, 2) that prints each number.",
    ),
    "write-test": Hint(
        "the test must run when the file is started, and needs capital letters and two words.",
        'Write test_slugs.py: import slugify from slugs, then at the top level assert slugify("Hello World") == '
        '"hello-world". No functions, no test runner.',
    ),
    "convert-csv": Hint(
        "people.json must be a list of objects with the keys name and city, one for each of the three rows.",
        "Write people.json with the objects of Ida (Bergen), Tom (Leeds) and Uma (Porto).",
    ),
    "fix-comparison": Hint(
        "an order of exactly 50 must be free: the comparison in shipping of cart.py excludes 50.",
        "In cart.py change `> 50` to `>= 50` and keep the rest of the file. Do not touch test_cart.py.",
    ),
    "fix-slice": Hint(
        "the slice ends at -1 and so leaves out the last word.",
        "In words.py return `words[-n:]`.",
    ),
    "fix-syntax": Hint(
        "the second line of invoice.py lacks the closing parenthesis of sum(.",
        "In invoice.py write `total = sum(items)` and keep the other lines.",
    ),
    "fix-shell": Hint(
        "the variable is called SOURCE, the echo has $SORUCE.",
        "In backup.sh change `$SORUCE` to `$SOURCE` and keep the other lines.",
    ),
    "fix-key": Hint(
        "theme.json has the key color, show.py asks for colour.",
        "In show.py change `theme['colour']` to `theme['color']`, keep the other lines, and leave theme.json alone.",
    ),
    "add-function": Hint(
        "to_miles must stay in the file, and the formula is (degrees - 32) * 5 / 9.",
        "Write units.py with to_miles as it is, and below it to_celsius(degrees) that returns (degrees - 32) * 5 / 9.",
    ),
    "add-parameter": Hint(
        "greet must use its second parameter, and its default must be 'Hello'.",
        "In hello.py write `def greet(name, greeting='Hello'):` and `return f'{greeting}, {name}!'`. Keep the rest.",
    ),
    "add-method": Hint(
        "peek must not remove the item, and must stand inside the class.",
        "Keep all of Stack in stack.py and add a method peek(self) that returns self._items[-1].",
    ),
    "edit-json": Hint(
        "only retries of upload changes: those of download stay 3, and resume and chunk stay.",
        "Write settings.json with download as it is and upload with retries 5 and chunk 512.",
    ),
    "edit-yaml": Hint(
        "the comment, the ports and the service cache must stay.",
        "In compose.yaml change `shop-web:1.4` to `shop-web:1.5` and nothing else.",
    ),
    "edit-csv": Hint(
        "C-330 has the same price and must stay 15.00.",
        "In stock.csv change the line of B-204 to `B-204,17.50,9` and nothing else.",
    ),
    "delete-line": Hint(
        "the line must go, not be switched off; region and replicas stay.",
        "Write deploy.conf with the lines `region = north` and `replicas = 3` only.",
    ),
    "sort-lines": Hint(
        "the names must be sorted by a program and all eight kept, in names.txt itself.",
        "Run `sort -o names.txt names.txt`.",
        "sort -o names.txt names.txt",
    ),
    "rename-function": Hint(
        "main.py imports calc and calls it: both places need the new name.",
        "In shop.py write `def order_total(prices):`, in main.py import order_total and call it. Leave no calc.",
    ),
    "rename-file": Hint(
        "notes.txt must be gone, and CHANGES.md must have its content.",
        "Run `mv notes.txt CHANGES.md`.",
        "mv notes.txt CHANGES.md",
    ),
    "translate-constant": Hint(
        "both values must be English, and the names must stay.",
        "In messages.py write MORNING = 'Good morning' and THANKS = 'Thank you'.",
    ),
    "replace-links": Hint(
        "every http:// must become https://, and the one https:// must stay as it is.",
        "Run `sed -i 's|http://|https://|g' links.md`.",
        "sed -i 's|http://|https://|g' links.md",
    ),
}
