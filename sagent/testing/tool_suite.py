"""The promises of a Tool as tests, for whoever writes one. Needs pytest and pytest-asyncio.

    class TestMyTool(ToolSuite):
        @pytest.fixture
        def tool(self) -> Tool:
            return MyTool()

        @pytest.fixture
        def good_arguments(self, workspace: Workspace) -> Mapping[str, object]:
            (workspace.cwd / "a.txt").write_text("hello")
            return {"path": "a.txt"}

`pytest.register_assert_rewrite("sagent.testing.tool_suite")` in a conftest makes failures explain themselves.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sagent.codec import decode_result_part, encode_result_part
from sagent.errors import ToolError
from sagent.lib.json import Json, JsonObject, json_dump, json_freeze, json_load, sha256_hex
from sagent.lib.schema import violations
from sagent.messages import Document, Image, Text, ToolResult
from sagent.session.blobs import BlobDirectory
from sagent.tool import Foreseeable, RunContext, Tool, ToolOutput, Workspace, foresee, traits_of

TIMEOUT_SECONDS = 20.0  # after which a hanging tool fails its test
SETTLING = 10.0  # public name; seconds that threads and children of a cancelled call get to finish their step
_SAMPLES: Sequence[tuple[str, Json]] = (("object", JsonObject()), ("array", ()), ("boolean", True))


@pytest.mark.asyncio
class ToolSuite:
    """Test suite for every Tool. Override `tool` and `good_arguments`, and `slow_arguments` for calls that take long.

    The arguments must be good for a call in `workspace`; that a second call with them is an error result is fine.
    """

    @pytest.fixture
    def tool(self) -> Tool:
        raise NotImplementedError("override the fixture tool")

    @pytest.fixture
    def good_arguments(self) -> Mapping[str, object]:
        raise NotImplementedError("override the fixture good_arguments")

    @pytest.fixture
    def slow_arguments(self, good_arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Arguments of a call that takes as long as possible, to be cancelled."""
        return good_arguments

    @pytest.fixture
    def bad_arguments(self, tool: Tool, good_arguments: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
        """Arguments that the schema must refuse: by default one required member missing, or one of a wrong type."""
        return list(_spoiled(_frozen(tool.parameters), good_arguments))

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Workspace:
        (tmp_path / "work").mkdir()
        return Workspace(tmp_path / "work")

    @pytest.fixture
    def context(self, workspace: Workspace, tmp_path: Path) -> RunContext:
        return RunContext("root", "call_1", workspace, BlobDirectory(tmp_path / "blobs"), lambda _: None)

    # What the model reads

    async def test_name_and_description_are_acceptable_everywhere(self, tool: Tool) -> None:
        """Anthropic and OpenAI accept these names, and no others (their API references)."""
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name), f"not a tool's name: {tool.name!r}"
        assert tool.description.strip(), "the description is empty"

    async def test_parameters_are_an_object_schema_that_stays_the_same(self, tool: Tool) -> None:
        """JSON, of type object, with every required member described; the same bytes each time: prompts are cached."""
        schema = _frozen(tool.parameters)
        assert json_load(json_dump(schema)) == schema
        assert json_dump(tool.parameters) == json_dump(schema)
        assert schema.get("type") == "object", 'parameters need "type": "object"'
        properties, required = schema.get("properties", JsonObject()), schema.get("required", ())
        assert isinstance(properties, JsonObject)
        assert all(isinstance(value, JsonObject) for value in properties.values()), "a property needs a schema"
        assert isinstance(required, tuple)
        unknown = [name for name in required if name not in properties]
        assert not unknown, f"required but not among the properties: {unknown}"

    async def test_its_traits_are_of_their_types(self, tool: Tool) -> None:
        """`quick`, `lenient` and `deferrable`, if it has them."""
        traits_of(tool)

    async def test_the_schema_tells_good_arguments_from_bad(
        self, tool: Tool, good_arguments: Mapping[str, object], bad_arguments: Sequence[Mapping[str, object]]
    ) -> None:
        """Calls are validated before they are made."""
        assert violations(tool.parameters, _frozen(good_arguments)) == []
        for bad in bad_arguments:
            assert violations(tool.parameters, _frozen(bad)), f"the schema accepts {bad}"

    # What a call does

    async def test_a_call_gives_an_output_that_a_log_can_keep(
        self, tool: Tool, good_arguments: Mapping[str, object], context: RunContext
    ) -> None:
        """Text, images and documents; they come back from JSON as they were."""
        output = await _call(tool, good_arguments, context)
        assert not output.is_error, output
        assert all(isinstance(part, Text | Image | Document) for part in output.content), output
        assert isinstance(output.summary, str)
        assert isinstance(output.diff, str)
        result = ToolResult(context.call_id, output.content, output.is_error)
        blobs: dict[str, bytes] = {}

        def keep(data: bytes) -> str:
            blobs[name := sha256_hex(data)] = data
            return name

        encoded: object = json.loads(json.dumps(encode_result_part(result, keep)))
        assert decode_result_part(encoded, blobs.get) == result

    async def test_what_it_foresees_is_judgeable_and_changes_nothing(
        self, tool: Tool, good_arguments: Mapping[str, object], workspace: Workspace
    ) -> None:
        """Paths are absolute, and asking is free of effects."""
        before = _tree(workspace.cwd)
        effect = foresee(tool, _frozen(good_arguments), workspace)
        assert effect.kind in ("none", "read", "write", "execute")
        assert all(path.is_absolute() for path in effect.paths), effect
        assert isinstance(effect.command, str)
        if isinstance(tool, Foreseeable) and effect.kind in ("read", "write"):
            assert effect.paths, "an effect on files names them"
        assert _tree(workspace.cwd) == before

    async def test_only_what_was_foreseen_is_written(
        self, tool: Tool, good_arguments: Mapping[str, object], context: RunContext
    ) -> None:
        """The call changes only files of the effect that the policy judged; the effect "execute" names none."""
        arguments = _frozen(good_arguments)
        effect = foresee(tool, arguments, context.workspace)
        before = _tree(context.workspace.cwd)
        await _call(tool, good_arguments, context)
        changed = [path for path, _ in before ^ _tree(context.workspace.cwd)]
        allowed = [path.resolve() for path in effect.paths] if effect.kind == "write" else []
        if effect.kind != "execute":
            strays = [path for path in changed if not _is_within(path.resolve(), allowed)]
            assert not strays, f"changed without having been foreseen: {strays}"

    async def test_calls_at_the_same_time_do_not_disturb_each_other(
        self, tool: Tool, good_arguments: Mapping[str, object], context: RunContext
    ) -> None:
        """Calls of one turn run together: each is answered, or is an error result."""
        calls = [_call(tool, good_arguments, context) for _ in range(4)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        unexpected = [result for result in results if not isinstance(result, ToolOutput | ToolError)]
        assert not unexpected, unexpected
        assert any(isinstance(result, ToolOutput) and not result.is_error for result in results), results

    @pytest.mark.parametrize("rounds", [0, 1, 50], ids=["at once", "begun", "under way"])
    async def test_a_cancelled_call_ends_and_leaves_nothing(
        self,
        tool: Tool,
        good_arguments: Mapping[str, object],
        slow_arguments: Mapping[str, object],
        context: RunContext,
        rounds: int,
    ) -> None:
        """No task, no process, no open file, no half-written file. A first call may set up things for good."""
        await _call(tool, good_arguments, context)
        arguments = _frozen(slow_arguments)
        foreseen = foresee(tool, arguments, context.workspace).paths
        before = _traces(context.workspace.cwd, foreseen)
        call = asyncio.ensure_future(_answered(tool, arguments, context))
        for _ in range(rounds):
            await asyncio.sleep(0.001)
        call.cancel()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            (result,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(result, ToolOutput | asyncio.CancelledError | ToolError), result
        left = _traces(context.workspace.cwd, foreseen)
        for _ in range(200):
            if left == before:
                break
            await asyncio.sleep(SETTLING / 200)
            left = _traces(context.workspace.cwd, foreseen)
        assert left == before


def _frozen(arguments: Mapping[str, object]) -> JsonObject:
    frozen = json_freeze(arguments)
    assert isinstance(frozen, JsonObject)
    return frozen


async def _call(tool: Tool, arguments: Mapping[str, object], context: RunContext) -> ToolOutput:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await _answered(tool, _frozen(arguments), context)


async def _answered(tool: Tool, arguments: JsonObject, context: RunContext) -> ToolOutput:
    output = await tool(arguments, context)
    assert output is not None, "the call returned None: return text, JSON or a ToolOutput"
    return ToolOutput.of(output)


def _spoiled(schema: JsonObject, arguments: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the arguments with one required member missing, or with one of a type that its schema does not name."""
    properties, required = schema.get("properties"), schema.get("required", ())
    for name in required if isinstance(required, tuple) else ():
        yield {key: value for key, value in arguments.items() if key != name}
    for name, rule in properties.items() if isinstance(properties, JsonObject) else ():
        types = rule.get("type") if isinstance(rule, JsonObject) else None
        if types is None:
            continue
        refused = [value for kind, value in _SAMPLES if kind not in (types if isinstance(types, tuple) else (types,))]
        if refused:
            yield {**arguments, name: refused[0]}


def _tree(folder: Path) -> set[tuple[Path, bytes]]:
    return {(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def _is_within(path: Path, allowed: Sequence[Path]) -> bool:
    return any(path.is_relative_to(place) for place in allowed)


def _traces(folder: Path, foreseen: Sequence[Path]) -> Mapping[str, object]:
    """Collect what a call could leave: tasks, files; children and open files if /proc lists them."""
    allowed = [path.resolve() for path in foreseen]
    descriptors = Path("/proc/self/fd")
    return {
        "tasks": {task.get_name() for task in asyncio.all_tasks()},
        "files": {path for path, _ in _tree(folder) if not _is_within(path.resolve(), allowed)},
        "children": {child for listing in Path("/proc/self/task").glob("*/children") for child in _words(listing)},
        "open files": len(list(descriptors.iterdir())) if descriptors.is_dir() else 0,
    }


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the thread has ended
        return []
