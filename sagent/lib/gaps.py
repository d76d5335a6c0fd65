"""Patterns for paths as regular expressions that no pattern makes slow."""

from collections.abc import Callable, Collection, Sequence

STAR, ANY, DIRECTORIES = "[^/]*", ".*", "(?:.*/)?"
"""Within a name; across names; any number of whole directories, at the beginning or after a slash."""
_LAZY_PATTERNS = {STAR: "[^/]*?", ANY: ".*?", DIRECTORIES: "(?:.*?/)??"}


def join_tokens(tokens: Sequence[str]) -> str:
    """Gaps, as above, and expressions of one character, which is a slash or cannot be one, with `re.DOTALL`.

    What stands between two gaps is best where it first fits, for the second gap reaches whatever the first could have.
    So it is kept there (an atomic group), and only what follows the last gap is tried in several places.
    """
    return _join(tokens, (ANY, DIRECTORIES), lambda block: _join(block, (STAR,), "".join))


def _join(tokens: Sequence[str], gaps: Collection[str], inner: Callable[[Sequence[str]], str]) -> str:
    starts = [place for place, token in enumerate(tokens) if token in gaps]
    blocks = [inner(tokens[: starts[0]] if starts else tokens)]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=False):
        blocks.append(_LAZY_PATTERNS[tokens[start]] + inner(tokens[start + 1 : end]))
    return "".join(f"(?>{block})" for block in blocks[:-1] if block) + blocks[-1]
