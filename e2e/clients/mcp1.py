"""Drives the server with version 1 of the Python client: mcp1.py COMMAND [ARGUMENT...], or mcp1.py URL"""

import asyncio
import base64
import os
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp import types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

TOOL = "run_python_ephemeral"


async def listing(session):
    tools = (await session.list_tools()).tools
    once = {tool.name: tool for tool in tools}[TOOL]
    assert once.outputSchema and once.annotations.readOnlyHint is False, once
    templates = (await session.list_resource_templates()).resourceTemplates
    assert len(templates) == 1, templates


async def calls(session):
    hello = await session.call_tool(TOOL, {"code": "print('Hello, MCP')"})
    assert not hello.isError and hello.structuredContent["stdout"] == "Hello, MCP\n", hello
    assert "Hello, MCP" in hello.content[0].text, hello
    failed = await session.call_tool(TOOL, {"code": "import sys; sys.exit(3)"})
    assert not failed.isError and failed.structuredContent["exit_code"] == 3, failed
    refused = await session.call_tool(TOOL, {"code": ""})
    assert refused.isError and "code is empty" in refused.content[0].text, refused


async def progress(session):
    heard = []

    async def hear(done, total, message):
        heard.append(message)

    code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.7)"
    result = await session.call_tool(TOOL, {"code": code}, progress_callback=hear)
    assert result.structuredContent["stdout"] == "0\n1\n2\n", result
    assert "running" in heard, heard


async def resources(session):
    result = await session.call_tool(TOOL, {"code": "open('a é.bin', 'wb').write(bytes(range(256)))"})
    link = [c for c in result.content if c.type == "resource_link"][0]
    contents = (await session.read_resource(link.uri)).contents[0]
    assert base64.b64decode(contents.blob) == bytes(range(256)), contents
    try:
        await session.read_resource("boxwright://runs/nothing/a")
    except McpError:
        return
    raise AssertionError("a resource that does not exist was read")


async def cancellation(session):
    running = asyncio.Event()

    async def hear(done, total, message):
        running.set()

    code = {"code": "import time; time.sleep(600)", "timeout_seconds": 600}
    request = session._request_id  # the client has no other way to name it
    call = asyncio.create_task(session.call_tool(TOOL, code, progress_callback=hear))
    await running.wait()
    await session.send_notification(types.ClientNotification(types.CancelledNotification(
        method="notifications/cancelled", params=types.CancelledNotificationParams(requestId=request, reason="enough"))))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    after = await session.call_tool(TOOL, {"code": "print('after')"})
    assert after.structuredContent["stdout"] == "after\n", after


async def leave_in_flight(session):
    """The client leaves while a call runs."""
    running = asyncio.Event()

    async def hear(done, total, message):
        running.set()

    code = {"code": "import time; time.sleep(600)", "timeout_seconds": 600}
    call = asyncio.create_task(session.call_tool(TOOL, code, progress_callback=hear))
    await running.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


def connect(command, *arguments):
    if command.endswith("/sse"):
        return sse_client(command)
    if command.startswith("http://"):
        return streamablehttp_client(command)
    return stdio_client(StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ)))


async def main(*arguments):
    for last in cancellation, leave_in_flight:
        async with connect(*arguments) as streams, ClientSession(*streams[:2]) as session:
            started = await session.initialize()
            assert started.serverInfo.name == "boxwright", started
            await listing(session)
            await calls(session)
            await progress(session)
            await resources(session)
            await last(session)
    print("all well")


asyncio.run(main(*sys.argv[1:]))
