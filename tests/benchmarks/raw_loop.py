"""The least an agent loop can be: httpx2, json, one shell command a turn. What `make bench` measures sagent against."""

import asyncio
import json
import sys

import httpx2

TOOL = {
    "name": "Bash",
    "description": "Run a command",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


async def main(url: str, prompt: str) -> None:
    """Answer one prompt."""
    messages: list[dict[str, object]] = [{"role": "user", "content": prompt}]
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        while True:
            body = {"tools": [TOOL], "messages": messages, "model": "m", "max_tokens": 8000, "stream": True}
            blocks: dict[int, dict[str, object]] = {}
            request = client.stream("POST", url + "/v1/messages", json=body, headers={"x-api-key": "k"})
            async with request as response:
                async for line in response.aiter_lines():
                    if not line.startswith("data:"):
                        continue
                    event = json.loads(line[5:])
                    if event["type"] == "content_block_start":
                        blocks[event["index"]] = event["content_block"] | {"json": ""}
                    elif event["type"] == "content_block_delta":
                        block, delta = blocks[event["index"]], event["delta"]
                        if "text" in delta:
                            block["text"] = str(block.get("text", "")) + delta["text"]
                        elif "partial_json" in delta:
                            block["json"] = str(block["json"]) + delta["partial_json"]
            results = []
            for block in blocks.values():
                raw = block.pop("json")
                if block["type"] != "tool_use":
                    continue
                block["input"] = json.loads(raw or "{}")  # pyright: ignore[reportArgumentType]
                shell = await asyncio.create_subprocess_exec(
                    "bash",
                    "-c",
                    block["input"]["command"],
                    stdout=asyncio.subprocess.PIPE,
                    stdin=asyncio.subprocess.DEVNULL,
                )
                out, _ = await shell.communicate()
                results.append({"type": "tool_result", "tool_use_id": block["id"], "content": out.decode()})
            messages.append({"role": "assistant", "content": list(blocks.values())})
            if not results:
                print("".join(str(block.get("text", "")) for block in blocks.values()))
                return
            messages.append({"role": "user", "content": results})


asyncio.run(main(sys.argv[1], sys.argv[2]))
