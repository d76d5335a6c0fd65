"""The thirty tasks of `make eval`: small ones of many kinds, so that no single trick does well.

Numbers and names that are asked for cannot be guessed. What was not asked for must stay as it is.
"""

import sys
from collections.abc import Sequence

from tests.eval.checks import (
    Check,
    Work,
    answers,
    counts,
    fails_with,
    gone,
    has,
    holds,
    holds_data,
    lacks,
    only,
    prints,
    python,
    run,
    says,
)
from tests.eval.suites import Edit, Say, Task, Write

PYTHON = sys.executable


def says_output(program: str) -> Check:
    """Check that the model wrote what a Python program of the project prints."""

    def check(work: Work) -> str | None:
        printed = run(work.folder, PYTHON, program).stdout.strip()
        return None if printed and printed in work.words.replace(",", "") else f"the words do not hold {printed}"

    return check


DEFAULTS = """RETRIES = 4
CACHE_SECONDS = 4170
CACHE_BYTES = 65536
PREFIX = "v2"
"""
LOG = """14:06:58 INFO  worker 3 started
14:07:02 INFO  job 8812 accepted
14:07:19 ERROR E3307 disk nearly full
14:07:31 ERROR E5512 upload refused
14:07:44 INFO  job 8813 accepted
14:08:05 ERROR E3307 disk nearly full
"""
SHAPES = """import math


def circle(radius):
    return math.pi * radius**2


def square(side):
    return side * side


def rectangle(width, height):
    return width * height


def triangle(base, height):
    return base * height / 2


def ellipse(a, b):
    return math.pi * a * b


def trapezoid(a, b, height):
    return (a + b) * height / 2


SIDES = {"square": 4, "rectangle": 4, "triangle": 3}
"""
STATUSES = [("paid", "open", "sent", "paid", "sent")[number * 7 % 23 % 5] for number in range(140)]
ORDERS = "id,status\n" + "".join(f"{1000 + number},{status}\n" for number, status in enumerate(STATUSES))
OPEN = STATUSES.count("open")
CHECKSUM = """import zlib

TEXT = b"ledger of the third quarter"
print(zlib.crc32(TEXT))
"""
SLUGS = """def slugify(title):
    return "-".join(title.lower().split())
"""
CART = """def subtotal(items):
    return sum(price * count for price, count in items)


def shipping(items):
    return 0 if subtotal(items) > 50 else 5
"""
COMPOSE = """# Services of the shop
services:
  web:
    image: shop-web:1.4
    ports:
      - "8080:80"
  cache:
    image: redis:7
"""
LINKS = """# Links

- [Docs](http://docs.example.org/start)
- [Forum](http://forum.example.org)
- [Wiki](https://wiki.example.org)
- [News](http://news.example.org/today)
"""
UNITS = """def to_miles(km):
    return km * 0.621371
"""
STACK = """class Stack:
    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)
"""
NAMES = ["Petra", "Anselm", "Yusuf", "Ingrid", "Bela", "Xenia", "Dario", "Mirja"]

QUESTIONS: Sequence[Task] = (
    Task(
        "read-constant",
        "What is the value of CACHE_SECONDS in config/defaults.py? Answer with the number.",
        {"config/defaults.py": DEFAULTS, "main.py": "from config import defaults\n\nprint(defaults.PREFIX)\n"},
        (only(), says("4170")),
        (Say("It is 4170."),),
        ((Say("CACHE_SECONDS is 3600."),), (Say("4170"), Edit("config/defaults.py", "4170", "3600"))),
    ),
    Task(
        "read-log",
        "Which error code does server.log report at 14:07:31? Answer with the code.",
        {"server.log": LOG},
        (only(), answers("E5512", "E3307")),
        (Say("The error code is E5512."),),
        ((Say("E3307"),), (Say("E3307 and E5512"),)),
    ),
    Task(
        "follow-include",
        "app.conf includes another file. What is the value of `timeout` in that file? Answer with the number.",
        {
            "app.conf": "name = shop\ninclude = conf.d/limits-b.conf\n",
            "conf.d/limits-a.conf": "timeout = 2290\nsize = 10\n",
            "conf.d/limits-b.conf": "size = 20\ntimeout = 6835\n",
        },
        (only(), answers("6835", "2290")),
        (Say("timeout is 6835"),),
        ((Say("2290"),), (Say("It is set in conf.d/limits-b.conf."),)),
    ),
    Task(
        "find-class",
        "Which file of this project defines the class TokenBucket? Answer with its path.",
        {
            "app.py": "from net.flow.pace import TokenBucket\n\nbucket = TokenBucket(5)\n",
            "net/__init__.py": "",
            "net/client.py": "class Client:\n    # uses a TokenBucket\n    pass\n",
            "net/flow/__init__.py": "",
            "net/flow/pace.py": "class TokenBucket:\n    def __init__(self, rate):\n        self.rate = rate\n",
        },
        (only(), answers("net/flow/pace.py", "net/client.py", "net/flow/__init__.py")),
        (Say("It is defined in `net/flow/pace.py`."),),
        ((Say("app.py"),), (Say("net/client.py"),)),
    ),
    Task(
        "count-functions",
        "How many functions does shapes.py define? Answer with the number.",
        {"shapes.py": SHAPES},
        (only(), counts(6)),
        (Say("shapes.py defines 6 functions."),),
        ((Say("It defines 7 functions."),), (Say("It defines several functions."),)),
    ),
    Task(
        "git-message",
        "What is the message of the latest git commit of this project? Answer with the message.",
        {"rates.py": "RATE = 0.19\nREDUCED = 0.07\n"},
        (
            only(),
            prints("Lower the reduced rate of Quillon", "git", "log", "-1", "--format=%s"),
            answers("Lower the reduced rate of Quillon", "Start", "Add the rates"),
        ),
        (Say("Lower the reduced rate of Quillon"),),
        ((Say("Add the rates"),), (Say("The latest commit is by eval."),)),
        (
            ("Start", {}),
            ("Add the rates", {"rates.py": "RATE = 0.19\nREDUCED = 0.09\n"}),
            ("Lower the reduced rate of Quillon", {"rates.py": "RATE = 0.19\nREDUCED = 0.07\n"}),
        ),
    ),
    Task(
        "git-uncommitted",
        "Which file has changes that are not committed to git yet? Answer with its name.",
        {"alpha.py": "A = 1\n", "beta.py": "B = 2\n", "gamma.py": "C = 33\n", "delta.py": "D = 4\n"},
        (
            only(),
            prints("gamma.py", "git", "diff", "--name-only"),
            answers("gamma.py", "alpha.py", "beta.py", "delta.py"),
        ),
        (Say("gamma.py"),),
        ((Say("delta.py"),), (Say("alpha.py, beta.py, gamma.py and delta.py"),)),
        (("Start", {"alpha.py": "A = 1\n", "beta.py": "B = 2\n", "gamma.py": "C = 3\n", "delta.py": "D = 4\n"}),),
    ),
    Task(
        "run-script",
        "Run `python3 checksum.py` and tell me the number that it prints.",
        {"checksum.py": CHECKSUM},
        (only(), says_output("checksum.py")),
        (Say("It prints 469482512."),),
        ((Say("It prints 1234567890."),), (Say("I ran it."),)),
    ),
    Task(
        "run-tests",
        "Run `python3 -m unittest` and tell me the name of the test that fails. Change nothing.",
        {
            "hashes.py": "import zlib\n\n\ndef mark(text):\n    return zlib.adler32(text.encode()) % 97\n",
            "test_hashes.py": "import unittest\n\nfrom hashes import mark\n\n\nclass Marks(unittest.TestCase):\n"
            + "".join(
                f"    def test_{word}(self):\n        self.assertEqual(mark({word!r}), {value})\n\n"
                for word, value in (("amber", 29), ("cobalt", 13), ("ochre", 75), ("umber", 38))
            ),
        },
        (only(), answers("test_ochre", "test_amber", "test_cobalt", "test_umber")),
        (Say("test_ochre fails."),),
        ((Say("test_umber fails."),), (Say("All tests pass."),)),
    ),
)
WRITING: Sequence[Task] = (
    Task(
        "count-rows",
        "Count the orders in orders.csv whose status is open, and write the number into open.txt.",
        {"orders.csv": ORDERS},
        (only("open.txt"), holds("open.txt", str(OPEN))),
        (Write("open.txt", f"{OPEN}\n"),),
        ((Write("open.txt", "140\n"),), (Say(str(OPEN)),)),
    ),
    Task(
        "write-program",
        "Write a program evens.py that prints the even numbers from 2 to 20, one a line.",
        {"README.md": "# Numbers\n"},
        (only("evens.py"), prints("\n".join(map(str, range(2, 21, 2))), PYTHON, "evens.py")),
        (Write("evens.py", "for number in range(2, 21, 2):\n    print(number)\n"),),
        (
            (Write("evens.py", "for number in range(2, 20, 2):\n    print(number)\n"),),
            (Say("for number in range(2, 21, 2):\n    print(number)"),),
        ),
    ),
    Task(
        "write-test",
        "Write test_slugs.py with assertions for slugify of slugs.py, so that `python3 test_slugs.py` runs them. "
        "It must fail if slugify no longer makes letters lower case or no longer joins words with hyphens.",
        {"slugs.py": SLUGS},
        (
            only("test_slugs.py"),
            fails_with(
                "slugs.py",
                {
                    "keeps capital letters": SLUGS.replace(".lower()", ""),
                    "joins with underscores": SLUGS.replace('"-"', '"_"'),
                },
                PYTHON,
                "test_slugs.py",
            ),
        ),
        (Write("test_slugs.py", 'from slugs import slugify\n\nassert slugify("Hello World") == "hello-world"\n'),),
        (
            (Write("test_slugs.py", 'from slugs import slugify\n\nassert slugify("hello") == "hello"\n'),),
            (Write("test_slugs.py", "def test_slugify():\n    assert slugify('A B') == 'a-b'\n"),),
            (Write("test_slugs.py", 'from slugs import slugify\n\nassert slugify("A B") == "a_b"\n'),),
        ),
    ),
    Task(
        "convert-csv",
        "Write people.json: a list with an object for each row of people.csv, with the keys name and city.",
        {"people.csv": "name,city\nIda,Bergen\nTom,Leeds\nUma,Porto\n"},
        (
            only("people.json"),
            holds_data(
                "people.json",
                [{"name": "Ida", "city": "Bergen"}, {"name": "Tom", "city": "Leeds"}, {"name": "Uma", "city": "Porto"}],
            ),
        ),
        (
            Write(
                "people.json",
                '[{"name": "Ida", "city": "Bergen"}, {"name": "Tom", "city": "Leeds"}, '
                '{"name": "Uma", "city": "Porto"}]\n',
            ),
        ),
        (
            (Write("people.json", '{"Ida": "Bergen", "Tom": "Leeds", "Uma": "Porto"}\n'),),
            (Write("people.json", "[{'name': 'Ida', 'city': 'Bergen'}]\n"),),
        ),
    ),
)
FIXES: Sequence[Task] = (
    Task(
        "fix-comparison",
        "Shipping must be free for a subtotal of 50 and more, but an order of exactly 50 still pays 5. "
        "Fix the bug in cart.py. Do not change test_cart.py.",
        {
            "cart.py": CART,
            "test_cart.py": "from cart import shipping\n\nassert shipping([(25, 2)]) == 0\n"
            "assert shipping([(10, 2)]) == 5\nprint('ok')\n",
        },
        (
            only("cart.py"),
            prints("ok", PYTHON, "test_cart.py"),
            python("import cart; assert cart.subtotal([(2, 3)]) == 6; assert cart.shipping([(49, 1)]) == 5"),
        ),
        (Edit("cart.py", "> 50", ">= 50"),),
        (
            (Edit("cart.py", "> 50", "> 0"),),
            (Edit("test_cart.py", "== 0", "== 5"),),
            (Say("Use >= instead of >."),),
        ),
    ),
    Task(
        "fix-slice",
        "last_words(text, n) in words.py must return the last n words, but it leaves out the very last one. Fix it.",
        {"words.py": "def last_words(text, n):\n    words = text.split()\n    return words[-n - 1 : -1]\n"},
        (
            only("words.py"),
            python(
                "from words import last_words as f; assert f('a b c d', 2) == ['c', 'd']; assert f('x y', 1) == ['y']"
            ),
        ),
        (Edit("words.py", "[-n - 1 : -1]", "[-n:]"),),
        ((Edit("words.py", "[-n - 1 : -1]", "[-n:-1]"),), (Edit("words.py", "[-n - 1 : -1]", "[:n]"),)),
    ),
    Task(
        "fix-syntax",
        "`python3 invoice.py` ends with a SyntaxError. Fix invoice.py so that it runs.",
        {"invoice.py": "items = [12, 30, 8]\ntotal = sum(items\nprint('total', total)\n"},
        (only("invoice.py"), prints("total 50", PYTHON, "invoice.py")),
        (Edit("invoice.py", "sum(items", "sum(items)"),),
        ((Edit("invoice.py", "sum(items", "items"),), (Write("invoice.py", "print('total')\n"),)),
    ),
    Task(
        "fix-shell",
        "backup.sh should print `copying notes to archive`, but it prints `copying  to archive`. Fix backup.sh.",
        {"backup.sh": '#!/bin/sh\nSOURCE=notes\nTARGET=archive\necho "copying $SORUCE to $TARGET"\n'},
        (only("backup.sh"), prints("copying notes to archive", "sh", "backup.sh"), has("backup.sh", r"TARGET=archive")),
        (Edit("backup.sh", "$SORUCE", "$SOURCE"),),
        (
            (Edit("backup.sh", "SOURCE=notes", "SOURCE=archive"),),
            (Write("backup.sh", "#!/bin/sh\necho copying notes to archive\n"),),
        ),
    ),
    Task(
        "fix-key",
        "`python3 show.py` ends with `KeyError: 'colour'`. Fix show.py; leave theme.json as it is.",
        {
            "show.py": "import json\n\ntheme = json.load(open('theme.json'))\nprint(theme['colour'], theme['size'])\n",
            "theme.json": '{"color": "teal", "size": 14}\n',
        },
        (only("show.py"), prints("teal 14", PYTHON, "show.py"), has("show.py", "theme.json")),
        (Edit("show.py", "'colour'", "'color'"),),
        ((Edit("theme.json", "color", "colour"),), (Edit("show.py", "theme['colour']", "theme.get('colour')"),)),
    ),
)
ADDITIONS: Sequence[Task] = (
    Task(
        "add-function",
        "Add a function to_celsius(degrees) to units.py that turns degrees Fahrenheit into degrees Celsius. "
        "Keep the other function.",
        {"units.py": UNITS},
        (
            only("units.py"),
            python(
                "import units as u; assert abs(u.to_celsius(212) - 100) < 1e-6; assert abs(u.to_celsius(32)) < 1e-6"
            ),
            python("import units; assert abs(units.to_miles(10) - 6.21371) < 1e-6"),
        ),
        (
            Write(
                "units.py",
                f"{UNITS}\n\ndef to_celsius(degrees):\n    return (degrees - 32) * 5 / 9\n",
            ),
        ),
        (
            (Write("units.py", "def to_celsius(degrees):\n    return (degrees - 32) * 5 / 9\n"),),
            (
                Write(
                    "units.py",
                    f"{UNITS}\n\ndef to_celsius(degrees):\n    return degrees * 9 / 5 + 32\n",
                ),
            ),
        ),
    ),
    Task(
        "add-parameter",
        "Give greet in hello.py a second parameter, greeting, whose default is 'Hello'. "
        "Then greet('Bo', 'Hi') returns 'Hi, Bo!'.",
        {
            "hello.py": "def greet(name):\n    return f'Hello, {name}!'\n\n\n"
            "if __name__ == '__main__':\n    print(greet('Ann'))\n"
        },
        (
            only("hello.py"),
            prints("Hello, Ann!", PYTHON, "hello.py"),
            python("from hello import greet; assert greet('Bo', 'Hi') == 'Hi, Bo!'; assert greet('A') == 'Hello, A!'"),
        ),
        (
            Edit("hello.py", "greet(name)", "greet(name, greeting='Hello')"),
            Edit("hello.py", "f'Hello, {name}!'", "f'{greeting}, {name}!'"),
        ),
        (
            (Edit("hello.py", "greet(name)", "greet(name, greeting='Hello')"),),
            (Edit("hello.py", "greet(name)", "greet(name, greeting)"), Edit("hello.py", "'Hello, {", "'{greeting}, {")),
        ),
    ),
    Task(
        "add-method",
        "Add a method peek to the class Stack in stack.py: it returns the item on top without removing it.",
        {"stack.py": STACK},
        (
            only("stack.py"),
            python(
                "from stack import Stack; s = Stack(); s.push(3); s.push(8); assert s.peek() == 8; assert len(s) == 2; "
                "assert s.pop() == 8; assert s.pop() == 3"
            ),
        ),
        (Write("stack.py", f"{STACK}\n    def peek(self):\n        return self._items[-1]\n"),),
        (
            (Write("stack.py", f"{STACK}\n    def peek(self):\n        return self._items.pop()\n"),),
            (Write("stack.py", f"{STACK}\n\ndef peek(self):\n    return self._items[-1]\n"),),
        ),
    ),
)
CHANGES: Sequence[Task] = (
    Task(
        "edit-json",
        "In settings.json set retries of the upload section to 5. Leave everything else as it is.",
        {
            "settings.json": '{\n  "download": {"retries": 3, "resume": true},\n'
            '  "upload": {"retries": 3, "chunk": 512}\n}\n'
        },
        (
            only("settings.json"),
            holds_data(
                "settings.json",
                {"download": {"retries": 3, "resume": True}, "upload": {"retries": 5, "chunk": 512}},
            ),
        ),
        (Edit("settings.json", '"upload": {"retries": 3', '"upload": {"retries": 5'),),
        (
            (Edit("settings.json", '"download": {"retries": 3', '"download": {"retries": 5'),),
            (Write("settings.json", '{"upload": {"retries": 5, "chunk": 512}}\n'),),
        ),
    ),
    Task(
        "edit-yaml",
        "In compose.yaml change the version of the image shop-web from 1.4 to 1.5. Keep everything else.",
        {"compose.yaml": COMPOSE},
        (
            only("compose.yaml"),
            has("compose.yaml", "# Services of the shop"),
            holds_data(
                "compose.yaml",
                {"services": {"web": {"image": "shop-web:1.5", "ports": ["8080:80"]}, "cache": {"image": "redis:7"}}},
            ),
        ),
        (Edit("compose.yaml", "shop-web:1.4", "shop-web:1.5"),),
        (
            (Write("compose.yaml", "services:\n  web:\n    image: shop-web:1.5\n"),),
            (Edit("compose.yaml", "shop-web:1.4", "shop-web:1.6"),),
        ),
    ),
    Task(
        "edit-csv",
        "In stock.csv change the price of the item B-204 to 17.50.",
        {"stock.csv": "item,price,count\nA-101,12.00,4\nB-204,15.00,9\nC-330,15.00,2\n"},
        (
            only("stock.csv"),
            holds("stock.csv", "item,price,count\nA-101,12.00,4\nB-204,17.50,9\nC-330,15.00,2\n"),
        ),
        (Edit("stock.csv", "B-204,15.00", "B-204,17.50"),),
        ((Edit("stock.csv", "C-330,15.00", "C-330,17.50"),), (Edit("stock.csv", "B-204,15.00,9", "B-204,17.50"),)),
    ),
    Task(
        "delete-line",
        "Delete the line with legacy_mode from deploy.conf. Keep the other lines as they are.",
        {"deploy.conf": "region = north\nlegacy_mode = on\nreplicas = 3\n"},
        (only("deploy.conf"), holds("deploy.conf", "region = north\nreplicas = 3\n")),
        (Edit("deploy.conf", "legacy_mode = on\n", ""),),
        (
            (Edit("deploy.conf", "legacy_mode = on", "legacy_mode = off"),),
            (Edit("deploy.conf", "legacy_mode = on", "# legacy_mode = on"),),
            (Write("deploy.conf", None),),
        ),
    ),
    Task(
        "sort-lines",
        "Sort the lines of names.txt alphabetically, in the same file.",
        {"names.txt": "\n".join(NAMES) + "\n"},
        (only("names.txt"), holds("names.txt", "\n".join(sorted(NAMES)))),
        (Write("names.txt", "\n".join(sorted(NAMES)) + "\n"),),
        (
            (Write("names.txt", "\n".join(sorted(NAMES)[:-1]) + "\n"),),
            (Write("sorted.txt", "\n".join(sorted(NAMES)) + "\n"),),
        ),
    ),
    Task(
        "rename-function",
        "Rename the function calc to order_total, in shop.py and where main.py uses it.",
        {
            "shop.py": "def calc(prices):\n    return sum(prices)\n",
            "main.py": "from shop import calc\n\nprint('total', calc([19, 4]))\n",
        },
        (
            only("shop.py", "main.py"),
            lacks("shop.py", r"\bcalc\b"),
            lacks("main.py", r"\bcalc\b"),
            has("shop.py", r"def order_total\("),
            has("main.py", r"order_total\("),
            prints("total 23", PYTHON, "main.py"),
        ),
        (
            Edit("shop.py", "calc", "order_total"),
            Write("main.py", "from shop import order_total\n\nprint('total', order_total([19, 4]))\n"),
        ),
        (
            (Edit("shop.py", "calc", "order_total"),),
            (
                Edit("shop.py", "calc", "order_total"),
                Edit("main.py", "import calc", "import order_total as calc"),
            ),
        ),
    ),
    Task(
        "rename-file",
        "Rename the file notes.txt to CHANGES.md. Keep its content.",
        {"notes.txt": "1.1 faster start\n1.0 first release\n", "app.py": "print('app')\n"},
        (
            only("notes.txt", "CHANGES.md"),
            holds("CHANGES.md", "1.1 faster start\n1.0 first release"),
            gone("notes.txt"),
        ),
        (Write("notes.txt", None), Write("CHANGES.md", "1.1 faster start\n1.0 first release\n")),
        (
            (Write("CHANGES.md", "1.1 faster start\n1.0 first release\n"),),
            (Write("notes.txt", None), Write("CHANGES.md", "")),
        ),
    ),
    Task(
        "translate-constant",
        "Translate the values of the two constants in messages.py from German to English. Keep the names.",
        {"messages.py": "MORNING = 'Guten Morgen'\nTHANKS = 'Danke'\n"},
        (
            only("messages.py"),
            python(
                "import messages as m; assert m.MORNING.lower().strip('!.') == 'good morning'; "
                "assert m.THANKS.lower().strip('!.') in ('thanks', 'thank you')"
            ),
        ),
        (Edit("messages.py", "Guten Morgen", "Good morning"), Edit("messages.py", "Danke", "Thank you")),
        (
            (Edit("messages.py", "Guten Morgen", "Good morning"),),
            (Write("messages.py", "GOOD_MORNING = 'Good morning'\nTHANK_YOU = 'Thank you'\n"),),
        ),
    ),
    Task(
        "replace-links",
        "In links.md change every http:// to https://. Change nothing else.",
        {"links.md": LINKS},
        (only("links.md"), holds("links.md", LINKS.replace("http://", "https://"))),
        (Write("links.md", LINKS.replace("http://", "https://")),),
        (
            (Write("links.md", LINKS.replace("http://", "https://", 1)),),
            (Write("links.md", LINKS.replace("http", "https")),),
        ),
    ),
)
TASKS: Sequence[Task] = (*QUESTIONS, *WRITING, *FIXES, *ADDITIONS, *CHANGES)
