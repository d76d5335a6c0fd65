"""How docstrings open and limits are named.

A function's docstring opens with a verb, a class's or a module's with a noun, none with a clause ("What ...", "Whether
...") or a pronoun; no later sentence opens with such a clause either. A limit is MAX_... or MIN_..., and has its unit
in its name where there is room: ..._SECONDS, ..._BYTES. A number whose comment begins with "seconds" has ..._SECONDS in
its name. A parameter is named for what it holds, and by none of the words in RIDDLES, which any parameter could have.
Fails, with the places, where more than MAX_SHARE of docstrings, or any limit or parameter, is otherwise.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_SHARE = 0.02
OPENING = re.compile(
    r"(What|Where|Whether|Who|Whoever|Whatever|How|When|Which|The same|The ones?|One of|Another|Any|That|Those|It|They"
    r"|This|These)\b"
)
LATER = re.compile(r"[.!?]\s+(What|Whoever|Whatever|Whether|Who|How much|How many)\b")
NOUN = re.compile(r"(The|An?|All|Every|Each|True|False|None|No|Nothing|Some|One|Two)\b")
LIMIT = re.compile(
    r"_?((MOST|LONGEST|PATIENCE|LEAST|SOON|ENOUGH|SHORTEST|LARGEST|SMALLEST|FEWEST|BIGGEST)(_\w+)?"
    r"|FEW|WAIT|GRACE|LONG(_\w+)?(?<!_SECONDS)(?<!_TOKENS)(?<!_BYTES)(?<!_CHARS))"
)
NUMBER = re.compile(
    r"^(?P<name>_?[A-Z][A-Z0-9_]*) = [-\d_.e*<() ]*\d[)]*  # ((maximum|minimum|at most|at least) )?(?P<unit>seconds)\b",
    re.MULTILINE,
)


RIDDLES = frozenset(("each", "found", "made", "one", "said", "taken", "told", "way", "whom"))


def check(source: str) -> tuple[list[str], int, list[str]]:
    """Return the docstrings of a module that open otherwise, how many it has, and the limits and parameters that are
    named otherwise; each with its line."""
    docstrings, names, riddles = list[tuple[int, str, bool]](), list[tuple[int, str]](), list[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                docstrings.append((node.body[0].lineno, text, _does_something(node)))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
            riddles += [f"{each.lineno}: {each.arg}" for each in given if each is not None and each.arg in RIDDLES]
    opened = [
        f"{line}: {text.splitlines()[0]}"
        for line, text, acts in docstrings
        if OPENING.match(text) or LATER.search(text) or (acts and NOUN.match(text))
    ]
    limits = [f"{line}: {name}" for line, name in names if LIMIT.fullmatch(name)]
    numbers = (found for found in NUMBER.finditer(source) if f"_{found['unit'].upper()}" not in found["name"])
    limits += [f"{source.count(chr(10), 0, found.start()) + 1}: {found['name']}" for found in numbers]
    return opened, len(docstrings), [*limits, *riddles]


def _does_something(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True for a function; a property is described by a noun, and a test by what holds."""
    if isinstance(node, ast.Module | ast.ClassDef) or node.name.startswith("test_"):
        return False
    return not any("property" in ast.unparse(each) for each in node.decorator_list)


def main() -> int:
    """Print the figures; return 1 if one is too high."""
    opened, limits, total = list[str](), list[str](), 0
    for file in sorted((ROOT / "sagent").rglob("*.py")):
        wrong, count, named = check(file.read_text("utf-8"))
        total += count
        opened += [f"{file.relative_to(ROOT)}:{each}\n" for each in wrong]
        limits += [f"{file.relative_to(ROOT)}:{each}\n" for each in named]
    sys.stdout.write(f"docstrings that open otherwise: {len(opened)} of {total:,}; at most {MAX_SHARE:.0%}\n")
    sys.stdout.write(f"limits without MAX_, MIN_ or unit, and parameters that are riddles: {len(limits)}; at most 0\n")
    failed = len(opened) > MAX_SHARE * total
    sys.stderr.writelines([*(opened if failed else ()), *limits])
    return int(failed or bool(limits))


if __name__ == "__main__":
    sys.exit(main())
