"""The exit codes that the code has, and where they are written down."""

import ast
import re
import signal
from collections.abc import Iterator, Mapping

import pytest

from sagent.cli import headless
from sagent.cli.flags import EPILOG
from tests.cli.program import CHECKOUT

CODES = (*range(2, 16), *range(120, 128))  # others that are returned are widths and shares
SIGNALS = ("SIGHUP", "SIGINT", "SIGPIPE", "SIGTERM")
TABLE = {
    int(code): kinds
    for codes, kinds in re.findall(
        r"^\| ([\d, ]+) \|.*\| (.*) \|$",
        (CHECKOUT / "docs/cli.md").read_text("utf-8").partition("## Exit codes")[2].partition("\n## ")[0],
        re.MULTILINE,
    )
    for code in codes.split(",")
}


def returned() -> Iterator[int]:
    """Yield the numbers that functions of commands return, and those that are named EXIT_."""
    yield from (value for name, value in vars(headless).items() if name.startswith("EXIT_") and isinstance(value, int))
    yield from (128 + getattr(signal, name) for name in SIGNALS)
    files = [file for file in (CHECKOUT / "sagent").rglob("*.py") if "command" in f"{file.parent.name}/{file.name}"]
    for file in files:
        tree = ast.parse(file.read_text("utf-8"))
        constants = {
            target.id: each.value
            for each in tree.body
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.unparse(node.returns or node) == "int":
                yield from _numbers(node, constants)


def _numbers(function: ast.AST, constants: Mapping[str, ast.expr]) -> Iterator[int]:
    """Yield the numbers in what a function returns, by themselves or by the name of a constant."""
    returns = (each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None)
    for part in (part for value in returns for part in ast.walk(value)):
        value = constants.get(part.id, part) if isinstance(part, ast.Name) else part
        if isinstance(value, ast.Constant) and type(value.value) is int and value.value in CODES:
            yield value.value


def test_table_has_every_code() -> None:
    assert {0, 6, 143} < {*returned()} <= TABLE.keys()


def test_table_has_the_kinds_of_each_code() -> None:
    for kind, code in headless.EXIT_BY_KIND.items():
        assert f"`{kind}`" in TABLE[code]


@pytest.mark.parametrize("code", TABLE)
def test_readme_and_help_have_code(code: int) -> None:
    readme = (CHECKOUT / "README.md").read_text("utf-8").partition("Exit codes: ")[2].partition("\n\n")[0]
    assert re.search(rf"\b{code}\b", readme)
    assert re.search(rf"\b{code}\b", EPILOG.partition("exit codes:")[2])
