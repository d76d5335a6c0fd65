"""Notifications of tasks: to a receiver on loopback that the server was started with, and to nobody else."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError
from a2a_served import Peer, a2a_served, said, state
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sagent.cli.settings import load_settings
from sagent.plugins.a2a import push
from sagent.plugins.a2a.receiver_files import KeptReceiver, ReceiverFiles
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from tests.depth import later
from tests.listening import app_at


class Receiver:
    """What was posted, and what it answers: 500 to the first, as one that has a bad moment."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], dict]] = []
        self.answers = [500]
        self.port = 0

    async def take(self, request: Request) -> Response:
        if self.answers:
            return Response(status_code=self.answers.pop(0))
        self.got.append((dict(request.headers), await request.json()))
        return Response(status_code=200)

    async def lead_away(self, request: Request) -> Response:
        return RedirectResponse("http://localhost:1/secret", 307)

    def states(self) -> list[str]:
        return [each["task"]["status"]["state"].removeprefix("TASK_STATE_").lower() for _, each in self.got]


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    app = Starlette(
        routes=[
            Route("/", receiver.take, methods=["POST"]),
            Route("/away", receiver.lead_away, methods=["POST"]),
        ]
    )
    bound = socket.create_server(("127.0.0.1", 0))
    receiver.port = bound.getsockname()[1]
    async with app_at(bound, app):
        yield receiver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_RETRY_DELAY_SECONDS", 0.01)


async def begin(peer: Peer, config: TaskPushNotificationConfig) -> str:
    client = await peer.client(streaming=False)
    configuration = SendMessageConfiguration(task_push_notification_config=config)
    request = SendMessageRequest(message=said("Write a."), configuration=configuration)
    return [response async for response in client.send_message(request)][-1].task.id


async def test_receiver_gets_states_in_order(place: Path, provider: list) -> None:
    provider += [Turn("", calls=(Call("Write", {"file_path": "a", "content": "x"}),)), Turn("Done: é.")]
    async with receiving() as receiver:
        address = f"127.0.0.1:{receiver.port}"
        config = TaskPushNotificationConfig(
            url=f"http://{address}/", token="t0ken",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="cr3d"),
        )  # fmt: skip
        async with a2a_served(place, push_to=[address], permission_mode="ask") as [peer]:
            task = await begin(peer, config)
            client = await peer.client()
            listed = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task)
            )
            assert [each.url for each in listed.configs] == [config.url]
            own = GetTaskPushNotificationConfigRequest(task_id=task, id=listed.configs[0].id)
            assert (await client.get_task_push_notification_config(own)).token == "t0ken"
            assert state(await peer.send(said("allow", task_id=task))) == "completed"
        states = receiver.states()
        assert states[-1] == "completed" and "input_required" in states
        assert [each for each in states if each != "working"][-2:] == ["input_required", "completed"]
        headers, last = receiver.got[-1]
        assert (headers["x-a2a-notification-token"], headers["authorization"]) == ("t0ken", "Bearer cr3d")
        assert "Done: é." in json.dumps(last, ensure_ascii=False)


@later
async def test_deleted_receiver_gets_nothing(place: Path, provider: list) -> None:
    provider += [Turn("", calls=(Call("Write", {"file_path": "a", "content": "x"}),)), Turn("Done.")]
    async with receiving() as receiver:
        address = f"127.0.0.1:{receiver.port}"
        async with a2a_served(place, push_to=[address], permission_mode="ask") as [peer]:
            task = await begin(peer, TaskPushNotificationConfig(url=f"http://{address}/", id="mine"))
            client = await peer.client()
            gone = DeleteTaskPushNotificationConfigRequest(task_id=task, id="mine")
            await client.delete_task_push_notification_config(gone)
            await peer.send(said("allow", task_id=task))
        assert "completed" not in receiver.states()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://user@example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "http://example.org:22/",
        "http://nowhere.invalid/",
        "",
    ],
)
async def test_private_address_refused(place: Path, url: str) -> None:
    async with receiving() as receiver, a2a_served(place, push_to=["192.0.2.1:8000"]) as [peer]:
        with pytest.raises(InvalidParamsError):
            await begin(peer, TaskPushNotificationConfig(url=url.format(port=receiver.port)))
        assert not (await (await peer.client()).list_tasks(ListTasksRequest())).tasks
        assert not receiver.got and receiver.answers


async def test_finished_receivers_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "MAX_KEPT", 2)
    files = ReceiverFiles(place / "a2a")
    async with receiving() as receiver:
        address = f"127.0.0.1:{receiver.port}"
        receivers = push.Receivers(files, [address])
        config = TaskPushNotificationConfig(url=f"http://{address}/")
        add = partial(receivers.set, "s1", config=config)
        await add("first")
        await add("second")
        with pytest.raises(UnsupportedOperationError, match="delete one"):
            await add("third")
        receivers.notify(Task(id="first", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED)))
        await receivers.aclose()
        assert [kept.done for kept in files.read("s1") if kept.config.task_id == "first"] == [True]
        await add("third")
        assert [kept.config.task_id for kept in files.read("s1")] == ["second", "third"]
        assert not receivers.all("first")
        with pytest.raises(InvalidParamsError, match="8,192 bytes"):
            await receivers.set("s1", "third", TaskPushNotificationConfig(url=config.url, token="x" * 9_000))


async def test_agents_cannot_read_tokens(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = load_settings({"cwd": str(place)}).state_dir / "a2a" / "s.push.json"
    file.parent.mkdir(parents=True)
    file.write_text("t0ken")
    calls = (Call("Read", {"file_path": str(file)}), Call("Bash", {"command": f"cat {file}"}))
    async with FakeProviderServer([Turn("", calls=calls), Turn("Done.")]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        async with a2a_served(place, permission_mode="full") as [peer]:
            assert state(await peer.send(said("Read it."))) == "completed"
        assert b"Permission denied" in provider.requests[-1].body and b"t0ken" not in provider.requests[-1].body


async def test_receivers_removed_with_session(place: Path) -> None:
    files = ReceiverFiles(place / "a2a")
    kept = KeptReceiver(TaskPushNotificationConfig(task_id="t", id="i", url="http://192.0.2.1/"))
    for session in ("there", "gone"):
        files.put(session, kept)
    files.sweep([place / "there"])
    assert not files.read("gone") and files.read("there")
    for damage in (b"", b"[", b'{"a": 1}', b'[{"config": 5}]', b'[{"config": {"url": 5}}]', b"\xff"):
        (place / "a2a" / "there.push.json").write_bytes(damage)
        assert not files.read("there")
        files.put("there", kept)
        assert files.read("there") == [kept]


async def test_redirects_and_bad_headers_refused(place: Path, provider: list) -> None:
    provider += [Turn("Done.")]
    async with receiving() as receiver:
        address = f"127.0.0.1:{receiver.port}"
        async with a2a_served(place, push_to=[address]) as [peer]:
            with pytest.raises(InvalidParamsError):
                await begin(peer, TaskPushNotificationConfig(url=f"http://{address}/", token="a\r\nx: y"))
            await begin(peer, TaskPushNotificationConfig(url=f"http://{address}/away"))
        assert not receiver.got
