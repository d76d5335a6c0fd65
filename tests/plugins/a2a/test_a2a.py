"""sagent as an A2A agent, by the SDK's own clients, against a provider on loopback."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a_served import a2a_served, said, state, text_of, why
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Value

from sagent.cli.settings import load_settings
from sagent.events import TextDelta
from sagent.plugins.a2a.records import TaskRecord
from sagent.plugins.a2a.task import RunningTask
from sagent.plugins.hosting.door import MAX_BODY_BYTES
from sagent.session.store import delete, sessions
from sagent.testing.script import Call, Stall, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later
from tests.repl.samples import PNG


@pytest.mark.costly
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_task_streams_and_context_continues(place: Path, provider: list, transport: str) -> None:
    provider += [Turn("I look.", calls=(Call("List", {}),)), Turn("There is **nothing**: é."), Turn("Still.")]
    async with a2a_served(place) as [peer]:
        updates = await peer.stream(said("What is here?"), transport)
        assert updates[0].WhichOneof("payload") == "task"
        last = updates[-1].status_update
        assert last.status.state == 3
        task = await peer.get(last.task_id)
        assert (state(task), text_of(task)) == ("completed", "There is **nothing**: é.")
        assert [part.text for each in task.history for part in each.parts] == ["What is here?", "I look."]
        again = await peer.send(said("And now?", context_id=task.context_id), transport)
        assert (state(again), text_of(again), again.context_id) == ("completed", "Still.", task.context_id)
        assert again.id != task.id


def writes(path: Path) -> Turn:
    return Turn("", calls=(Call("Write", {"file_path": str(path), "content": "x\n"}),))


async def test_question_answered_by_client(place: Path, provider: list) -> None:
    provider += [writes(place / "a"), writes(place / "b"), Turn("Done.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        asked = await peer.send(said("Write a and b."))
        assert state(asked) == "input_required"
        assert str(place / "a") in why(asked) and "allow" in why(asked)
        assert asked.status.message.metadata["kind"] == "approval"
        assert not (place / "a").exists()
        again = await peer.send(said("Allow", task_id=asked.id))
        assert state(again) == "input_required" and str(place / "b") in why(again)
        assert (place / "a").exists()
        done = await peer.send(said("no, leave b alone", task_id=asked.id))
        assert (state(done), text_of(done)) == ("completed", "Done.")
        assert not (place / "b").exists()
        assert [each.artifact_id for each in done.artifacts] == ["change-1", "answer"]


async def test_only_exact_word_allows(place: Path, provider: list) -> None:
    provider += [writes(place / "a"), Turn("Not done.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        asked = await peer.send(said("Write a."))
        await peer.send(said("I would not allow that", task_id=asked.id))
        assert not (place / "a").exists()


async def test_question_with_invalid_text_is_put(place: Path, provider: list) -> None:
    """Protobuf takes no half of a surrogate pair, which a file's name or a model's arguments may have."""
    wanted = {"file_path": str(place / "a"), "content": "x\ud800y\n"}
    provider += [Turn("", calls=(Call("Write", wanted),)), Turn("Not done.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        asked = await peer.send(said("Write a."))
        assert (state(asked), asked.status.message.metadata["kind"]) == ("input_required", "approval")
        done = await peer.send(said("no", task_id=asked.id))
        assert (state(done), text_of(done)) == ("completed", "Not done.")


async def test_only_active_task_cancelable(place: Path, provider: list) -> None:
    provider += [Stall(Turn("slow")), Turn("Here.")]
    async with a2a_served(place) as [peer]:
        client = await peer.client()
        task = await peer.send(said("Wait."), at_once=True)
        waiting = await peer.send(said("And then?", context_id=task.context_id), at_once=True)
        await peer.until(task.id, "working")
        assert state(waiting) == "submitted"
        assert state(await client.cancel_task(CancelTaskRequest(id=waiting.id))) == "canceled"
        assert state(await client.cancel_task(CancelTaskRequest(id=task.id))) == "canceled"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(UnsupportedOperationError, match=task.context_id):
            await peer.send(said("More.", task_id=task.id))
        done = await peer.send(said("Go on.", context_id=task.context_id))
        assert text_of(done) == "Here."


async def test_repeated_message_taken_once(place: Path, provider: list) -> None:
    provider += [Turn("one"), Turn("two")]
    first = said("Count.")
    async with a2a_served(place) as [peer]:
        tasks = await asyncio.gather(peer.send(first), peer.send(first))
        assert tasks[0].id == tasks[1].id
    async with a2a_served(place) as [peer]:
        again = await peer.send(first)
        assert (again.id, state(again), text_of(again)) == (tasks[0].id, "completed", "one")
        other = said("Count down.", message_id=first.message_id)
        with pytest.raises(InvalidParamsError, match="messageId"):
            await peer.send(other)
        updates = await peer.stream(first)
        assert [each.WhichOneof("payload") for each in updates] == ["task"]
    assert len(provider) == 1


async def test_clients_isolated_from_each_other(place: Path, provider: list) -> None:
    provider += [Turn("secret"), Turn("mine")]
    async with a2a_served(place, users=("ann", "bob")) as [ann, bob]:
        hers = await ann.send(said("Tell me."))
        client = await bob.client()
        with pytest.raises(TaskNotFoundError):
            await bob.get(hers.id)
        for call in (
            client.cancel_task(CancelTaskRequest(id=hers.id)),
            client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=hers.id)),
            bob.send(said("And?", task_id=hers.id)),
            anext(client.subscribe(SubscribeToTaskRequest(id=hers.id))),
        ):
            with pytest.raises(TaskNotFoundError):
                await call
        assert not (await client.list_tasks(ListTasksRequest())).tasks
        his = await bob.send(said("Mine?", context_id=hers.context_id))  # for him a name like any other
        assert text_of(his) == "mine" and [part.text for part in his.history[0].parts] == ["Mine?"]
        assert [each.id for each in (await client.list_tasks(ListTasksRequest())).tasks] == [his.id]
        assert [each.id for each in (await (await ann.client()).list_tasks(ListTasksRequest())).tasks] == [hers.id]


async def test_token_required_and_card_private(place: Path) -> None:
    async with a2a_served(place) as [peer], httpx.AsyncClient(base_url=peer.url) as http:
        card = await http.get("/.well-known/agent-card.json")
        assert card.status_code == 200 and "max-age" in card.headers["cache-control"] and card.headers["etag"]
        assert str(place) not in card.text and "claude" not in card.text
        assert card.json()["securityRequirements"] and "image/webp" in card.json()["defaultInputModes"]
        for path in ("/jsonrpc", "/rest/message:send", "/rest/v1/message:send"):
            assert (await http.post(path, json={})).status_code == 401
        assert (await http.get("/rest/tasks")).status_code == 401
        evil = await http.get("/.well-known/agent-card.json", headers={"host": "evil.example"})
        assert evil.status_code == 421
        page = await peer.http.post(f"{peer.url}/jsonrpc", json={}, headers={"origin": "https://evil.example"})
        assert page.status_code == 403


@later
async def test_invalid_request_refused_early(place: Path, provider: list) -> None:
    async with a2a_served(place) as [peer]:
        for message, error in (
            (said(" "), InvalidParamsError),
            (said("", Part(raw=b"\x00\xff\xfe", filename="a.bin")), ContentTypeNotSupportedError),
            (said("", Part(raw=b"\x89PNG\r\n\x1a\nbroken", filename="a.png")), ContentTypeNotSupportedError),
            (said("x", context_id="a\nb"), InvalidParamsError),
            (said("x", task_id="nothing"), TaskNotFoundError),
            (Message(role=Role.ROLE_USER, parts=[Part(text="x")]), InvalidParamsError),
        ):
            with pytest.raises(error):
                await peer.send(message)
        with pytest.raises(TaskNotFoundError):
            await peer.get("nothing")
        huge = await peer.http.post(f"{peer.url}/jsonrpc", content=b" " * (MAX_BODY_BYTES + 1))
        assert huge.status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(MAX_BODY_BYTES // 2**20 + 1):
                yield b" " * 2**20

        unstated = await peer.http.post(f"{peer.url}/jsonrpc", content=pieces())
        assert (unstated.status_code, "larger than" in unstated.text) == (413, True)
        deep = await peer.http.post(
            f"{peer.url}/jsonrpc", content=b"[" * 100_000, headers={"content-type": "application/json"}
        )
        assert "error" in deep.json()
        assert not (await (await peer.client()).list_tasks(ListTasksRequest())).tasks


UNREADABLE = {
    "no UTF-8": b'{"a": "\xff"}',
    "latin-1": '{"a": "é"}'.encode("latin-1"),
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "long number": b'{"a": %b}' % (b"9" * 5_000),
    "NaN": b'{"a": NaN}',
    "raw control": b'{"a": "\x00"}',
    "two values": b"{} {}",
}


async def test_unreadable_body_is_callers_fault(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with a2a_served(place) as [peer]:
        for data in UNREADABLE.values():
            answer = await peer.http.post(f"{peer.url}/jsonrpc", content=data)
            assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (200, -32700, None)
            for path in ("message:send", "message:stream", "v1/message:send"):
                refused = await peer.http.post(f"{peer.url}/rest/{path}", content=data)
                assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert "Traceback" not in capsys.readouterr().err


async def test_files_and_data_reach_model(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([Turn("Seen.")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        data = Value()
        data.struct_value.update({"key": "välue"})
        parts = [
            Part(raw="größer".encode(), filename="notes.txt"), Part(raw=PNG, filename="dot.png"), Part(data=data),
            Part(url="http://169.254.169.254/secret", filename="there", media_type="text/plain"),
        ]  # fmt: skip
        async with a2a_served(place) as [peer]:
            task = await peer.send(said("Look.", *parts))
            assert text_of(task) == "Seen."
        sent = json.dumps(server.requests[0].json["messages"], ensure_ascii=False)
        for each in ("größer", "image/png", "välue", "it was not fetched"):
            assert each in sent


async def test_returning_client_follows_task(place: Path, provider: list) -> None:
    provider += [writes(place / "a"), Turn("Done.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        client = await peer.client()
        task = await peer.send(said("Write a."), at_once=True)
        await peer.until(task.id, "input_required")
        seen = [each async for each in client.subscribe(SubscribeToTaskRequest(id=task.id))]
        assert [each.WhichOneof("payload") for each in seen] == ["task"]  # it waits for an answer: that is all
        assert state(seen[0].task) == "input_required"
        await peer.send(said("allow", task_id=task.id))
        with pytest.raises(UnsupportedOperationError, match="COMPLETED"):
            await anext(client.subscribe(SubscribeToTaskRequest(id=task.id)))


async def test_restart_keeps_tasks(place: Path, provider: list) -> None:
    provider += [writes(place / "a"), Turn("One."), Stall(Turn("slow"))]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        done = await peer.send(said("Write a."))
        done = await peer.send(said("allow", task_id=done.id))
        cut = await peer.send(said("Go on.", context_id=done.context_id), at_once=True)
        await peer.until(cut.id, "working")
    async with a2a_served(place, permission_mode="ask") as [peer]:
        assert MessageToDict(await peer.get(done.id)) == MessageToDict(done)
        found = await peer.get(cut.id)
        assert state(found) == "failed" and "contextId" in why(found)
        with pytest.raises(UnsupportedOperationError, match="FAILED"):
            await anext((await peer.client()).subscribe(SubscribeToTaskRequest(id=cut.id)))
        provider[:] = [Turn("On.")]
        on = await peer.send(said("Go on.", context_id=done.context_id))
        assert text_of(on) == "On."


@later
async def test_tasks_listed_by_page_and_state(place: Path, provider: list) -> None:
    provider += [Turn("1"), Turn("2"), Turn("3")]
    async with a2a_served(place) as [peer]:
        client = await peer.client("HTTP+JSON")
        tasks = [await peer.send(said(f"{number}?")) for number in range(3)]
        first = await client.list_tasks(ListTasksRequest(page_size=2))
        assert [each.id for each in first.tasks] == [tasks[2].id, tasks[1].id]
        assert (first.total_size, first.tasks[0].artifacts[:]) == (3, [])
        token = first.next_page_token
        rest = await client.list_tasks(ListTasksRequest(page_size=2, page_token=token, include_artifacts=True))
        assert [text_of(each) for each in rest.tasks] == ["1"] and not rest.next_page_token
        assert not (await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))).tasks
        own = await client.list_tasks(ListTasksRequest(context_id=tasks[0].context_id))
        assert [each.id for each in own.tasks] == [tasks[0].id]


@later
@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_version_0_3_client_served(place: Path, provider: list, transport: str) -> None:
    provider += [writes(place / "a"), Turn("Done.")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        old = await peer.client(transport, version="0.3")
        updates = [each async for each in old.send_message(SendMessageRequest(message=said("Write a.")))]
        asked = updates[-1].status_update
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        more = SendMessageRequest(message=said("allow", task_id=asked.task_id, context_id=asked.context_id))
        assert [each async for each in old.send_message(more)][-1].status_update.status.state == 3
        assert text_of(await old.get_task(GetTaskRequest(id=asked.task_id))) == "Done."


async def test_version_0_3_methods_by_hand(place: Path, provider: list) -> None:
    provider += [Turn("Done.")]
    async with a2a_served(place) as [peer]:
        card = (await peer.http.get(f"{peer.url}/.well-known/agent-card.json")).json()
        assert (card["protocolVersion"], card["preferredTransport"]) == ("0.3", "JSONRPC")
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "Do."}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        task = (await peer.http.post(card["url"], json=body)).json()["result"]
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
        body = {"jsonrpc": "2.0", "id": 2, "method": "tasks/resubscribe", "params": {"id": task["id"]}}
        assert '"state":"completed"' in (await peer.http.post(card["url"], json=body)).text.replace(" ", "")
        old = await peer.http.post(f"{peer.url}/rest/v1/message:stream", json={"request": {"content": []}})
        assert old.status_code >= 400 or "error" in old.text


async def test_named_context_survives_restart(place: Path, provider: list) -> None:
    provider += [Turn("one"), Turn("two"), Turn("three")]
    async with a2a_served(place) as [peer]:
        both = await asyncio.gather(*(peer.send(said(text, context_id="my/context")) for text in ("a", "b")))
        assert {each.context_id for each in both} == {"my/context"}
    async with a2a_served(place) as [peer]:
        await peer.send(said("c", context_id="my/context"))
        client = await peer.client()
        listed = await client.list_tasks(ListTasksRequest(context_id="my/context", include_artifacts=True))
        assert {text_of(each) for each in listed.tasks} == {"one", "two", "three"}
        assert [text_of(each) for each in both] == ["one", "two"]


async def test_task_continues_without_client(place: Path, provider: list) -> None:
    provider += [Stall(Turn("Do" + "ne." * 20), after_events=6, seconds=0.3)]
    async with a2a_served(place) as [peer]:
        client = await peer.client()
        stream = client.send_message(SendMessageRequest(message=said("Work.")))
        task = (await anext(stream)).task
        assert isinstance(stream, AsyncGenerator)
        await stream.aclose()
        seen = [each async for each in client.subscribe(SubscribeToTaskRequest(id=task.id))]
        assert seen[0].task.id == task.id and seen[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        assert text_of(await peer.until(task.id, "completed")) == "Do" + "ne." * 20


async def test_slow_follower_gets_current_state() -> None:
    task = RunningTask(TaskRecord("t", "c", datetime.now(UTC)), lambda _: None)
    updates = task.follow()
    assert isinstance(await anext(updates), Task)
    for number in range(3_000):
        task.on_event(TextDelta("root", f"{number} "))
    text, resets = "", 0
    task.finish(TaskState.TASK_STATE_COMPLETED, "", None, {})
    async for update in updates:
        if isinstance(update, Task):
            text, resets = text_of(update), resets + 1
        elif isinstance(update, TaskArtifactUpdateEvent):
            text = (text if update.append else "") + update.artifact.parts[0].text
    assert text == "".join(f"{number} " for number in range(3_000))
    assert resets


@later
async def test_damaged_log_affects_only_its_tasks(place: Path, provider: list) -> None:
    provider += [Turn("one"), Turn("two")]
    async with a2a_served(place) as [peer]:
        broken, whole = await peer.send(said("a")), await peer.send(said("b"))
    state_dir = load_settings({}).state_dir
    (log,) = state_dir.glob(f"sessions/*/{broken.context_id}/root.jsonl")
    log.write_bytes(log.read_bytes().replace(b'"one"', b'"two"'))
    with (state_dir / "a2a" / f"{whole.context_id}.jsonl").open("ab") as file:
        file.write(b'{}\n[1]\n{"task": "x", "at": "never"}\n{"task"')
    async with a2a_served(place) as [peer]:
        assert text_of(await peer.get(whole.id)) == "two"
        shown = await peer.get(broken.id)
        assert state(shown) == "completed" and not text_of(shown) and "cannot be read" in why(shown)
        assert len((await (await peer.client()).list_tasks(ListTasksRequest())).tasks) == 2
        provider += [Turn("three")]
        on = await peer.send(said("c", context_id=whole.context_id))
        assert text_of(on) == "three"
    async with a2a_served(place) as [peer]:
        assert text_of(await peer.get(on.id)) == "three"


async def test_context_without_log_refused(place: Path, provider: list) -> None:
    provider += [Turn("one"), Turn("two")]
    async with a2a_served(place) as [peer]:
        await peer.send(said("a", context_id="mine"))
    (log,) = load_settings({}).state_dir.glob("sessions/*/*/root.jsonl")
    log.unlink()
    async with a2a_served(place) as [peer]:
        with pytest.raises(InternalError, match="is a session without its log"):
            await peer.send(said("b", context_id="mine"))
    assert not list(load_settings({}).state_dir.glob("sessions/*/*/root.jsonl"))


@later
@pytest.mark.parametrize("name", ["", "mine"])
@pytest.mark.parametrize("restarted", [True, False])
async def test_context_of_deleted_session_refused(place: Path, provider: list, name: str, restarted: bool) -> None:
    provider += [Turn("one"), Turn("two"), Turn("three")]
    async with a2a_served(place) as [peer]:
        context = (await peer.send(said("a", context_id=name))).context_id
        if not restarted:
            shutil.rmtree(next(sessions(load_settings({}).state_dir)))
            with pytest.raises(InvalidParamsError, match="no longer exists"):
                await peer.send(said("b", context_id=context))
    if restarted:
        delete(next(sessions(load_settings({}).state_dir)))
    async with a2a_served(place) as [peer]:
        with pytest.raises(InvalidParamsError, match="no longer exists"):
            await peer.send(said("b", context_id=context))
        assert not list(sessions(load_settings({}).state_dir))
        assert text_of(await peer.send(said("c", context_id="other"))) == "two"


@later
async def test_answer_to_task_of_deleted_session_refused(place: Path, provider: list) -> None:
    """Nothing could be recorded of it: whoever answers a question is told, and the file is not written."""
    provider += [writes(place / "a"), Turn("Written."), Turn("other")]
    async with a2a_served(place, permission_mode="ask") as [peer]:
        asked = await peer.send(said("Write a."))
        assert state(asked) == "input_required"
        shutil.rmtree(next(sessions(load_settings({}).state_dir)))
        with pytest.raises(InternalError, match="was deleted: send a message with a new contextId"):
            await peer.send(said("yes", task_id=asked.id))
        assert not (place / "a").exists()
        client = await peer.client()
        await client.cancel_task(CancelTaskRequest(id=asked.id))
        assert state(await peer.send(said("c", context_id="other"))) == "completed"


async def test_asking_task_canceled_and_input_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [writes(place / "a"), Turn("", calls=(Call("Bash", {"command": "cat fifo"}),)), Turn("Blue it is.")]
    turns.append(Turn("Blue it is."))  # where the message comes with or after the result
    async with FakeProviderServer(turns) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        async with a2a_served(place, permission_mode="ask", allow=["Bash(cat:*)"], sandbox="off") as [peer]:
            asked = await peer.send(said("Write a."))
            client = await peer.client()
            assert state(await client.cancel_task(CancelTaskRequest(id=asked.id))) == "canceled"
            assert state(await peer.get(asked.id)) == "canceled" and not (place / "a").exists()
            os.mkfifo(place / "fifo")
            task = await peer.send(said("Paint it."), at_once=True)
            pipe = await asyncio.to_thread((place / "fifo").open, "w")  # once it is read
            await peer.send(said("Make it blue.", task_id=task.id), at_once=True)
            pipe.close()
            done = await peer.until(task.id, "completed")
            said_to_it = [each for each in done.history if each.role == Role.ROLE_USER]
            assert [each.parts[0].text for each in said_to_it] == ["Paint it.", "Make it blue."]
        assert "Make it blue." in json.dumps(provider.requests[-1].json)


@later
async def test_session_limit_holds_when_busy(place: Path, provider: list, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagent.plugins.a2a.contexts.MAX_OPEN", 2)
    provider += [Turn("fine"), Stall(Turn("slow")), Stall(Turn("slow"))]
    async with a2a_served(place) as [peer]:
        idle = await peer.send(said("hello"))
        sent = await asyncio.gather(*(peer.send(said("go"), at_once=True) for _ in range(4)), return_exceptions=True)
        refused = [each for each in sent if isinstance(each, UnsupportedOperationError)]
        assert ["2 tasks" in str(each) and "limit" in str(each) for each in refused] == [True, True]
        working = [each for each in sent if isinstance(each, Task)]
        assert len(working) == 2
        client = await peer.client()
        await client.cancel_task(CancelTaskRequest(id=working[0].id))
        provider[:] = [Turn("again")]
        again = await peer.send(said("go on", context_id=idle.context_id))  # in place of the one that is idle now
        assert text_of(again) == "again"
