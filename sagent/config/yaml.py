"""YAML for settings: texts, numbers, lists and tables, each with its line; nothing executable."""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import cast

import yaml

_MAX_VALUES = 10_000
"""Values in a file, counting repetitions by aliases: a short file can expand to billions."""
_TAG = "tag:yaml.org,2002:"


class YamlError(ValueError):
    """A file that is no valid settings file; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def parse_yaml(text: str) -> tuple[Mapping[str, object], Mapping[tuple[str, ...], int]]:
    """Return a YAML text's table, and the line of every key. Numbers with a point are Decimals; empty keys are left
    out. Raises YamlError."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            reader = _Reader(loader)
            value = None if node is None else reader.value(node, (), ())
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise YamlError(line + 1, _said(error, text.split("\n")[line : line + 1])) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise YamlError(line + 1, f"it has a character that YAML does not allow ({error.character!r})") from error
    except RecursionError as error:
        raise YamlError(1, "it nests too deeply") from error
    if value is None:
        return {}, {}
    if not isinstance(value, Mapping):
        raise YamlError(1, "it must be a table, as in `model: openai/gpt-5.5`")
    return cast("Mapping[str, object]", value), reader.lines


def _said(error: yaml.MarkedYAMLError, lines: list[str]) -> str:
    message = ", ".join(part for part in (error.context, error.problem) if part) or "it cannot be read"
    line_text = "".join(lines)
    if "\t" in line_text[: len(line_text) - len(line_text.lstrip())]:
        return f"{message}: indent with spaces, not with tabs"
    if "${" in line_text and "{" in line_text.partition("${")[0]:
        return f'{message}: inside {{ }} a variable needs quotes, "${{NAME}}"'
    return message


class _Reader:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self.lines: dict[tuple[str, ...], int] = {}
        self._loader = loader
        self._count = 0

    def value(self, node: yaml.Node, keys: tuple[str, ...], parents: tuple[yaml.Node, ...]) -> object:
        self._count += 1
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        if node in parents:
            raise YamlError(line, "a value contains itself")
        if self._count > _MAX_VALUES:
            raise YamlError(line, f"it has more than {_MAX_VALUES} values")
        if not isinstance(node, yaml.ScalarNode) and node.tag not in (_TAG + "map", _TAG + "seq"):
            raise _stranger(node.tag, line)
        match node:
            case yaml.MappingNode():
                return dict(self._pairs(node, keys, (*parents, node)))
            case yaml.SequenceNode():
                items: list[yaml.Node] = node.value
                return [self.value(item, (*keys, str(place)), (*parents, node)) for place, item in enumerate(items)]
            case _:
                return self._scalar(node, line)

    def _pairs(
        self, node: yaml.MappingNode, keys: tuple[str, ...], parents: tuple[yaml.Node, ...]
    ) -> Iterator[tuple[str, object]]:
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        seen: set[str] = set()
        for key_node, item in pairs:
            line = key_node.start_mark.line + 1
            key = self._scalar(key_node, line) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise YamlError(line, "every key must be a string: put it in quotes")
            if key in seen:
                raise YamlError(line, f"the key {key!r} is there twice: keep only one")
            seen.add(key)
            self.lines[(*keys, key)] = line
            value = self.value(item, (*keys, key), parents)
            if value is not None:
                yield key, value

    def _scalar(self, node: yaml.Node, line: int) -> object:
        text: str = node.value
        kind = str(node.tag).removeprefix(_TAG)
        try:
            match kind:
                case "str" | "timestamp":
                    return text
                case "float":
                    return Decimal(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
                case "null" | "bool" | "int":
                    value: object = self._loader.construct_object(node)  # pyright: ignore[reportUnknownMemberType] -- a stub without it
                    return value
                case _:
                    raise _stranger(kind, line)
        except YamlError:
            raise
        except (yaml.YAMLError, InvalidOperation, KeyError, ValueError) as error:
            raise YamlError(line, f"{text!r} is not a valid {kind}") from error


def _stranger(tag: str, line: int) -> YamlError:
    return YamlError(line, f"{tag.removeprefix(_TAG)!r} is not a type that settings can have")
