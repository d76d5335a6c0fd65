"""The twenty tasks of `python -m tests.benchmarks.scripts`: each with the calls of a model that does it without a
detour, the script of one, and the answer. Eighteen need many files; two need one, where a script brings nothing."""

import io
import json
import random
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import dedent
from typing import TypeAlias

from sagent.testing.script import Call

Doing: TypeAlias = Generator[list[Call], list[str], str]
"""Yields calls that may be made together, receives their results, and returns the answer."""


@dataclass(frozen=True)
class Task:
    """A task in a folder of files. `after` are files that it changes."""

    name: str
    prompt: str
    files: Mapping[str, str]
    singly: Callable[[], Doing]
    script: str
    answer: str
    after: Mapping[str, str] = field(default_factory=dict[str, str])


BARE = "def bare(path):\n    return '\\n'.join(line.partition('\\t')[2] for line in Read(path).splitlines())\n\n"
"""The beginning of scripts that read: files as they are, from what Read shows of them."""


def read(*paths: str) -> list[Call]:
    return [Call("Read", {"file_path": path}) for path in paths]


def over_files(name: str, prompt: str, files: Mapping[str, str], code: str) -> Task:
    """A task whose answer the code prints that has all `files`. A model without a script works it out in its head."""

    def answer(texts: Mapping[str, str]) -> str:
        with redirect_stdout(said := io.StringIO()):
            exec(code, {"files": texts})
        return said.getvalue().strip()

    def singly() -> Doing:
        texts = yield read(*files)
        bare = ["\n".join(line.partition("\t")[2] for line in text.splitlines()) for text in texts]
        return answer(dict(zip(files, bare, strict=True)))

    code = dedent(code)
    first = next(iter(files))
    glob = f"{first.rpartition('/')[0]}/*.{first.rpartition('.')[2]}"
    begin = f"{BARE}files = {{path: bare(path) for path in sorted(Glob({glob!r}).splitlines())}}\n"
    right = answer({path: text.rstrip("\n") for path, text in files.items()})
    return Task(name, prompt, files, singly, begin + code, right)


def changing(name: str, prompt: str, files: Mapping[str, str], old: str, new: str) -> Task:
    """A task that replaces a text that stands once in each file."""
    wanted = re.escape(old)

    def singly() -> Doing:
        yield [Call("Grep", {"pattern": wanted, "output_mode": "files_with_matches"})]
        yield read(*files)
        yield [Call("Edit", {"file_path": path, "old_string": old, "new_string": new}) for path in files]
        return "done"

    script = (
        f"for path in Grep({wanted!r}, output_mode='files_with_matches').splitlines():\n"
        f"    Read(path)\n    Edit(path, {old!r}, {new!r})\nprint('done')"
    )
    after = {path: text.replace(old, new) for path, text in files.items()}
    return Task(name, prompt, files, singly, script, "done", after)


def tasks() -> list[Task]:
    """Return the tasks, the same ones each time."""
    of = random.Random(10)
    services = _services(of)
    modules = _modules(of)
    three = {path: text for path, text in services.items() if '"retries": 3' in text}
    return [
        *_of_logs(_logs(of)),
        *_of_sales(_sales(of)),
        *_of_services(services),
        *_of_modules(modules),
        changing("rename in all", "Rename old_name to new_name in src.", modules, "old_name(x)", "new_name(x)"),
        changing("other retries", "Let all services with 3 retries have 5.", three, '"retries": 3', '"retries": 5'),
        _chain(of),
        _bisection(of),
        over_files(
            "one line",
            "Which port has the service?",
            {"etc/app.conf": "name=app\nport=8123\n"},
            "print(next(iter(files.values())).split('port=')[1].split()[0])",
        ),
        changing(
            "one edit", "Set debug to false.", {"etc/app.ini": "debug=true\nlevel=3\n"}, "debug=true", "debug=false"
        ),
    ]


def _logs(of: random.Random) -> Mapping[str, str]:
    def line() -> str:
        time, level = f"{of.randint(0, 23):02}:{of.randint(0, 59):02}", of.choice(["INFO", "WARN", "ERROR"])
        act = of.choice(["login", "timeout", "upload", "retry"])
        return f"{time} {level} {act} user{of.randint(1, 9)} {of.randint(5, 900)}ms\n"

    return {f"logs/day{day:02}.log": "".join(line() for _ in range(of.randint(20, 40))) for day in range(1, 31)}


def _of_logs(logs: Mapping[str, str]) -> list[Task]:
    return [
        over_files("timeouts by file", "Which log mentions a timeout most often, and how often?", logs, """\
            best = max(files, key=lambda path: files[path].count('timeout'))
            print(best, files[best].count('timeout'))"""),
        over_files("errors by user", "Which user has the most errors in all logs, and how many?", logs, """\
            from collections import Counter
            lines = [line for text in files.values() for line in text.splitlines()]
            print(*Counter(line.split()[3] for line in lines if ' ERROR ' in line).most_common(1)[0])"""),
        over_files("slowest upload", "Which upload took longest, in which log and at what time?", logs, """\
            uploads = [(int(line.split()[4][:-2]), path, line.split()[0])
                       for path, text in files.items() for line in text.splitlines() if ' upload ' in line]
            ms, path, time = max(uploads)
            print(path, time, f'{ms}ms')"""),
        over_files("mean time", "What is the mean time of all retries, in whole ms?", logs, """\
            lines = [line for text in files.values() for line in text.splitlines() if ' retry ' in line]
            print(sum(int(line.split()[4][:-2]) for line in lines) // len(lines))"""),
        over_files("quiet hours", "In which logs is there no line between 03:00 and 04:59?", logs, """\
            loud = {path for path, text in files.items() for line in text.splitlines() if line[:2] in ('03', '04')}
            print(' '.join(path for path in files if path not in loud))"""),
    ]  # fmt: skip


def _sales(of: random.Random) -> Mapping[str, str]:
    def row(day: int) -> str:
        return f"{day},{of.choice(['tea', 'cup', 'pot'])},{of.randint(1, 99)}\n"

    return {f"sales/shop{shop:02}.csv": "day,item,usd\n" + "".join(map(row, range(1, 32))) for shop in range(1, 26)}


def _of_sales(sales: Mapping[str, str]) -> list[Task]:
    return [
        over_files("sum of a column", "How many USD have all shops taken?", sales, """\
            print(sum(int(line.split(',')[2]) for text in files.values() for line in text.splitlines()[1:]))"""),
        over_files("best shop for tea", "Which shop has taken most for tea, and how much?", sales, """\
            taken = {path: sum(int(line.split(',')[2]) for line in text.splitlines() if ',tea,' in line)
                     for path, text in files.items()}
            print(*max(taken.items(), key=lambda each: each[1]))"""),
        over_files("pots by day", "On how many days has at least one shop sold a pot?", sales, """\
            print(len({line.split(',')[0] for text in files.values() for line in text.splitlines()
                       if ',pot,' in line}))"""),
    ]  # fmt: skip


def _services(of: random.Random) -> Mapping[str, str]:
    def service(number: int) -> str:
        facts = {"port": 8000 + number, "retries": 7 if number == 17 else 3, "owner": f"team{of.randint(1, 6)}"}
        return json.dumps(facts | {"needs": [f"s{of.randint(1, 20):02}"]}, indent=2)

    return {f"services/s{number:02}.json": service(number) for number in range(1, 21)}


def _of_services(services: Mapping[str, str]) -> list[Task]:
    return [
        over_files("odd setting", "Which service has other retries than the rest?", services, """\
            import json
            print(*[path for path, text in files.items() if json.loads(text)['retries'] != 3])"""),
        over_files("owner of most", "Which team owns the most services, and how many?", services, """\
            import json
            from collections import Counter
            print(*Counter(json.loads(text)['owner'] for text in files.values()).most_common(1)[0])"""),
        over_files("needed by nobody", "Which services does no other need?", services, """\
            import json
            needed = {need for text in files.values() for need in json.loads(text)['needs']}
            print(' '.join(path for path in files if path[-8:-5] not in needed))"""),
    ]  # fmt: skip


def _modules(of: random.Random) -> Mapping[str, str]:
    def module() -> str:
        body = "".join(f"    x += {of.randint(1, 9)}\n" for _ in range(of.randint(5, 40)))
        return f"from src.m{of.randint(1, 24):02} import run\n\n\ndef run(x):\n{body}    return old_name(x)\n"

    return {f"src/m{number:02}.py": module() for number in range(1, 25)}


def _of_modules(modules: Mapping[str, str]) -> list[Task]:
    return [
        over_files("longest module", "Which module has the most lines, and how many?", modules, """\
            best = max(files, key=lambda path: files[path].count('\\n'))
            print(best, len(files[best].splitlines()))"""),
        over_files("never imported", "Which modules does no other import?", modules, """\
            used = {text.split()[1][4:] for text in files.values()}
            print(' '.join(path for path in files if path[4:-3] not in used))"""),
        over_files("sum of constants", "What is the sum of all numbers that are added in src?", modules, """\
            lines = [line for text in files.values() for line in text.splitlines() if '+= ' in line]
            print(sum(int(line.split('+= ')[1]) for line in lines))"""),
    ]  # fmt: skip


def _chain(of: random.Random) -> Task:
    """Each file names the next: nothing can be read together."""
    order = of.sample(range(100, 400), 15)
    files = {f"notes/n{own}.txt": f"next: notes/n{after}.txt\n" for own, after in pairwise(order)}
    files |= {f"notes/n{order[-1]}.txt": "the word is juniper\n"}
    first = f"notes/n{order[0]}.txt"

    def singly() -> Doing:
        path = first
        while True:
            (text,) = yield read(path)
            if "next: " not in text:
                return text.split()[-1]
            path = text.split("next: ")[1].split()[0]

    script = (
        f"path = {first!r}\nwhile 'next: ' in (text := Read(path)):\n"
        "    path = text.split('next: ')[1].split()[0]\nprint(text.split()[-1])"
    )
    prompt = f"Follow the notes from {first}: which word is at the end?"
    return Task("a chain of files", prompt, files, singly, script, "juniper")


def _bisection(of: random.Random) -> Task:
    """The first of many files in order that has a word."""
    first = of.randint(20, 90)
    colour = ["green"] * first + ["red"] * (100 - first)
    files = {f"builds/b{number:03}.txt": f"build {number}\n{each}\n" for number, each in enumerate(colour)}

    def singly() -> Doing:
        low, high = 0, 99
        while low < high:
            middle = (low + high) // 2
            (text,) = yield read(f"builds/b{middle:03}.txt")
            low, high = (low, middle) if "red" in text else (middle + 1, high)
        return f"build {low}"

    script = (
        "low, high = 0, 99\nwhile low < high:\n    middle = (low + high) // 2\n"
        "    is_red = 'red' in Read(f'builds/b{middle:03}.txt')\n"
        "    low, high = (low, middle) if is_red else (middle + 1, high)\nprint('build', low)"
    )
    prompt = "Builds 0 to 99 are green, then red: which is the first red one?"
    return Task("first red build", prompt, files, singly, script, f"build {first}")
