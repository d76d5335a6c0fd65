"""A program that uses a server of sessions: begins one, follows its events, and answers what the agent may not decide.

python examples/serve/watch.py        (its own server, and a script where the model would be)
"""

import json
import os
import subprocess
import sys
import tempfile

from sagent.plugins.serve.client import Client
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer

SCRIPT = [
    Turn("I write it down.", calls=(Call("Write", {"file_path": "note.txt", "content": "42\n"}),)),
    Turn("It is written."),
]


def watch(client: Client) -> None:
    """One task, in a mode in which writing is asked about."""
    session = client.create_session({"text": "Write the answer to note.txt", "permission_mode": "ask"}, key="task-1")[
        "id"
    ]
    answered = set[str]()  # a question is shown until its answer has arrived
    for event in client.stream_events(session):
        if event.name == "status":
            for question in event.data["questions"]:
                if question["id"] in answered:
                    continue
                answered.add(question["id"])
                print(f"? {question['tool']} {question['text']}")
                client.answer_question(session, question["id"], {"decision": "allow"})
        elif event.data.get("type") == "tool_finished":
            print(f"  {event.data['name']}: {event.data['text']}")
        elif event.data.get("type") == "result":
            print(event.data["result"])
            break
    cost = client.get_cost(session)
    print(f"${cost['total']:.4f}, by role: {cost['by_role']}")
    client.close_session(session)


def main() -> None:
    with FakeProviderServer(SCRIPT).in_thread() as provider, tempfile.TemporaryDirectory() as place:
        given = {**os.environ, "ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "k", "HOME": place}
        words = [sys.executable, "-m", "sagent", "serve", "--output-format", "json", "--cwd", place]
        with subprocess.Popen(
            [*words, "--model", "anthropic/claude-sonnet-4-6"], env=given, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            where = json.loads(server.stdout.readline())
            with Client(where["url"], where["token"]) as client:
                watch(client)
            server.terminate()


if __name__ == "__main__":
    main()
