"""Drives the server with FastMCP's client: fastmcp4.py URL"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

TOOL = "run_python_ephemeral"


async def main(url):
    transport = SSETransport if url.endswith("/sse") else StreamableHttpTransport
    heard = []

    async def hear(done, total, message):
        heard.append(message)

    async with Client(transport(url), progress_handler=hear) as client:
        assert TOOL in [tool.name for tool in await client.list_tools()]
        hello = await client.call_tool(TOOL, {"code": "print('Hello, MCP')"})
        assert hello.structured_content["stdout"] == "Hello, MCP\n", hello
        assert "running" in heard, heard
        refused = await client.call_tool(TOOL, {"code": ""}, raise_on_error=False)
        assert refused.is_error and "code is empty" in refused.content[0].text, refused
        await client.call_tool("run_python", {"code": "x = 41"})
        again = await client.call_tool("run_python", {"code": "x + 1"})
        assert again.structured_content["result"] == "42", again
        # Where the protocol knows no sessions, the sandbox is the credential's, and stays until it is idle.
        await client.call_tool("sandbox_stop", {"sandbox_id": again.structured_content["sandbox_id"]})
    print("all well")


asyncio.run(main(*sys.argv[1:]))
