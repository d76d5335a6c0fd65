"""Draw `docs/architecture.svg`: the layers of the code, and which package imports which, as the code has it.

python scripts/make_architecture.py [--check]    with --check: 1 if the picture is not of this code

An arrow that follows from others is left out: cli imports app, and app imports agent, so there is none from cli to
agent. Arrows of plugins and of sagent.testing, which may import everything, are left out too.
"""

import ast
import html
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/architecture.svg"
UNSEEN = {"__main__", "version", "bridges"}  # one line of code; a constant; old names
FREE = {"plugins", "testing"}  # may import everything
WIDTH, ROW, BOX, HEIGHT, GAP, TOP = 900, 36, 112, 24, 10, 16
LEFT = 150  # of the first box of a row; arrows are to its left
Boxes = Mapping[str, tuple[int, int]]


def main() -> int:
    """Write the picture, or compare it."""
    picture = draw(layers(), imports(), purposes())
    if "--check" not in sys.argv:
        PICTURE.write_text(picture, "utf-8")
    elif not PICTURE.is_file() or PICTURE.read_text("utf-8") != picture:
        sys.stderr.write("docs/architecture.svg is not of this code. Run: python scripts/make_architecture.py\n")
        return 1
    return 0


def layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    held = next(each for each in contracts if each["name"] == "Imports point one way")["layers"]
    rows = ([name.strip(" ()") for name in layer.split("|")] for layer in held)
    return [seen for row in rows if (seen := [name for name in row if name not in UNSEEN])]


def purposes() -> Mapping[str, str]:
    """Return what docs/architecture.md says of each layer, by its packages."""
    table = re.search(r"```text\n(.*?)```", (ROOT / "docs/architecture.md").read_text("utf-8"), re.DOTALL)
    lines = (re.split(r"\s{2,}", line, maxsplit=1) for line in (table[1] if table else "").splitlines())
    return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


def imports() -> Mapping[str, set[str]]:
    """Return the packages that each package imports, at its start or later; not those only for types."""
    found: dict[str, set[str]] = {}
    for file in sorted((ROOT / "sagent").rglob("*.py")):
        package = file.relative_to(ROOT / "sagent").parts[0].removesuffix(".py")
        names = set(_imported(ast.parse(file.read_text("utf-8"))))
        found.setdefault(package, set()).update(names - {package})
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the packages of sagent that a module imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "sagent":
            _, *rest = (node.module or "").split(".")
            yield from rest[:1] or [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sagent."))
        yield from _imported(node)


def reduced(edges: Mapping[str, set[str]], names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the edges between these packages that do not follow from others."""
    own = {name: edges.get(name, set()) & {*names} - FREE for name in names}
    below: dict[str, set[str]] = {}
    for name in reversed(names):
        below[name] = set[str]().union(own[name], *(below.get(each, set()) for each in own[name]))
    drawn = [name for name in names if name not in FREE]
    return [(a, b) for a in drawn for b in names if b in own[a] and not any(b in below[c] for c in own[a] - {b})]


def draw(rows: Sequence[Sequence[str]], edges: Mapping[str, set[str]], about: Mapping[str, str]) -> str:
    """Return the picture as SVG."""
    boxes = {
        name: (LEFT + place * (BOX + GAP), TOP + line * ROW)
        for line, row in enumerate(rows)
        for place, name in enumerate(row)
    }
    arrows = reduced(edges, [name for row in rows for name in row])
    height = TOP + len(rows) * ROW
    shapes = [_arrow(boxes, *arrow) for arrow in arrows]
    for line, row in enumerate(rows):
        for name in row:
            x, y = boxes[name]
            shapes.append(f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5"/>')
            shapes.append(f'<text x="{x + BOX / 2:g}" y="{y + 16}" text-anchor="middle" class="name">{name}</text>')
        x = LEFT + len(row) * (BOX + GAP) + 6
        text = html.escape(about.get(" | ".join(row), ""))
        shapes.append(f'<text x="{x}" y="{TOP + line * ROW + 16}">{text}</text>')
    style = (
        "text{font:12px system-ui,sans-serif;fill:#444}.name{font-weight:600;fill:#111}"
        "rect{fill:#e8eefc;stroke:#5470c6}path{fill:none;stroke:#7d8597}#bg{fill:#fff;stroke:none}"
    )
    head = '<marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">\n'
        f"<title>The layers of sagent, and which package imports which</title>\n<style>{style}</style>\n"
        f'<defs>{head}<path d="M0 0L8 4L0 8z" style="fill:#7d8597;stroke:none"/></marker></defs>\n'
        f'<rect id="bg" width="{WIDTH}" height="{height}"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def _arrow(boxes: Boxes, start: str, end: str) -> str:
    """Return an arrow down: straight to the next row, else in an arc on the left."""
    (x, y), (to_x, to_y) = boxes[start], boxes[end]
    if to_y - y == ROW:
        way = f"M{x + BOX // 2} {y + HEIGHT}L{to_x + BOX // 2} {to_y}"
    else:
        out = max(8, LEFT - 20 - 10 * (to_y - y) // ROW)
        way = f"M{x} {y + HEIGHT // 2 + 4}C{out} {y + HEIGHT} {out} {to_y} {to_x} {to_y + HEIGHT // 2 - 4}"
    return f'<path d="{way}" marker-end="url(#to)"><title>{start} imports {end}</title></path>'


if __name__ == "__main__":
    sys.exit(main())
