"""Drives Boxwright through the MCP client of PyPI's "mcp", as Claude Desktop would.

Usage: demo.py BOXWRIGHT FOLDER. Files that the programs write are left in FOLDER. DEMO_PLOT=no leaves out
what needs a package.
"""

import asyncio
import base64
import os
import pathlib
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HELLO = {"code": "print('Hello, MCP')"}

SINE = {
    "dependencies": ["matplotlib"],
    "code": """\
import math
import matplotlib.pyplot as plt

x = [i / 50 for i in range(315)]
plt.plot(x, [math.sin(v) for v in x])
plt.title("sin(x)")
plt.savefig("sine.png")
print("saved sine.png")
""",
}


async def show(session, folder, title, arguments):
    print(f"\n== {title}", flush=True)
    for line in arguments["code"].splitlines():
        print(f"   | {line}")
    if "dependencies" in arguments:
        print(f"   dependencies: {', '.join(arguments['dependencies'])}")

    async def progress(_done, _total, message):
        print(f"   … {message}", file=sys.stderr)

    result = await session.call_tool("run_python_ephemeral", arguments, progress_callback=progress)
    print(indent(result.content[0].text))
    if result.isError:
        sys.exit("the demo failed: " + result.content[0].text)
    record = result.structuredContent
    phases = ", ".join(f"{name} {ms:.0f} ms" for name, ms in record["duration_ms"].items() if name != "total")
    print(f"   ran on {record['backend']}, image {record['image']}")
    print(f"   time: {record['duration_ms']['total']:.0f} ms in all ({phases})")
    for file in record["files"]:
        await keep(session, folder, file)
    return record


async def keep(session, folder, file):
    """Reads a file as any client can, by its URI, and leaves it in the folder."""
    contents = (await session.read_resource(file["uri"])).contents[0]
    data = base64.b64decode(contents.blob) if hasattr(contents, "blob") else contents.text.encode()
    if len(data) != file["size"]:
        sys.exit(f"{file['name']} has {len(data)} bytes, not {file['size']}")
    path = folder / pathlib.PurePath(file["name"]).name
    path.write_bytes(data)
    print(f"   left in {path}")


def indent(text):
    return "\n".join("   " + line for line in text.splitlines())


async def main(boxwright, folder):
    folder.mkdir(exist_ok=True)
    server = StdioServerParameters(command=boxwright, args=["serve", "--set", "log.level=warn"], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        hello = await show(session, folder, "a first program", HELLO)
        if hello["stdout"] != "Hello, MCP\n":
            sys.exit("the demo failed: its result is not what it should be")
        if os.environ.get("DEMO_PLOT") == "no":
            return print(f"\nThe program ran in a box of its own, made by {hello['backend']}; it is gone.")
        sine = await show(session, folder, "a plot, with a package installed on the fly", SINE)
        again = await show(session, folder, "the same again: the package is there already", SINE)
    if [f["name"] for f in sine["files"]] != ["sine.png"]:
        sys.exit("the demo failed: its results are not what they should be")
    if "install_log" in again:
        sys.exit("the demo failed: the package was installed twice")
    print(f"\nEach program ran in a box of its own, made by {hello['backend']}; all of them are gone.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()))
