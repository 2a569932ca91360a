"""Drives the server with version 2 of the Python client: mcp2.py COMMAND [ARGUMENT...], or mcp2.py URL"""

import asyncio
import base64
import os
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

TOOL = "run_python_ephemeral"


async def listing(client):
    tools = (await client.list_tools()).tools
    once = {tool.name: tool for tool in tools}[TOOL]
    assert once.output_schema and once.annotations.read_only_hint is False, once
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) == 1, templates


async def calls(client):
    hello = await client.call_tool(TOOL, {"code": "print('Hello, MCP')"})
    assert not hello.is_error and hello.structured_content["stdout"] == "Hello, MCP\n", hello
    assert "Hello, MCP" in hello.content[0].text, hello
    failed = await client.call_tool(TOOL, {"code": "import sys; sys.exit(3)"})
    assert not failed.is_error and failed.structured_content["exit_code"] == 3, failed
    refused = await client.call_tool(TOOL, {"code": ""})
    assert refused.is_error and "code is empty" in refused.content[0].text, refused


async def progress(client):
    heard = []

    async def hear(done, total, message):
        heard.append(message)

    code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.7)"
    result = await client.call_tool(TOOL, {"code": code}, progress_callback=hear)
    assert result.structured_content["stdout"] == "0\n1\n2\n", result
    assert "running" in heard, heard


async def resources(client):
    result = await client.call_tool(TOOL, {"code": "open('a é.bin', 'wb').write(bytes(range(256)))"})
    link = [c for c in result.content if c.type == "resource_link"][0]
    contents = (await client.read_resource(link.uri)).contents[0]
    assert base64.b64decode(contents.blob) == bytes(range(256)), contents
    try:
        await client.read_resource("boxwright://runs/nothing/a")
    except MCPError:
        return
    raise AssertionError("a resource that does not exist was read")


async def cancel(client):
    running = asyncio.Event()

    async def hear(done, total, message):
        running.set()

    code = {"code": "import time; time.sleep(600)", "timeout_seconds": 600}
    call = asyncio.create_task(client.call_tool(TOOL, code, progress_callback=hear))
    await running.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


def target(command, *arguments):
    if command.endswith("/sse"):
        return sse_client(command)
    if command.startswith("http://"):
        return command
    return StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))


async def main(*arguments):
    for mode in "auto", "legacy":
        async with Client(target(*arguments), mode=mode) as client:
            await listing(client)
            await calls(client)
            await progress(client)
            await resources(client)
            await cancel(client)
            after = await client.call_tool(TOOL, {"code": "print('after')"})
            assert after.structured_content["stdout"] == "after\n", after
        async with Client(target(*arguments), mode=mode) as client:
            await cancel(client)  # and leave at once
    print("all well")


asyncio.run(main(*sys.argv[1:]))
