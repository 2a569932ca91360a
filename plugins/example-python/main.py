"""A backend plugin that is not written in Go: what go-plugin's host expects of any executable.

This file is the part that is the same for every backend: the handshake, TLS, the calls, errors.
docker_cli.py is the backend itself. docs/plugins.md explains both; hack/python-plugin.sh installs
what is imported here, and generates the modules of backend.proto.
"""

import asyncio
import base64
import datetime
import os
import signal
import ssl
import sys
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.empty_pb2 import Empty
from google.rpc.error_details_pb2 import ErrorInfo
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.health.service import Health
from grpclib.server import Server

import docker_cli
from backend_grpc import BackendServiceBase
from backend_pb2 import ConfigureResponse, DestroyResponse, DialResponse, RemoveVolumeResponse

CORE_PROTOCOL, PROTOCOL = 1, 1  # go-plugin's, and that of backend.proto
STATUS = {  # proto/wire has all kinds
    "invalid": Status.INVALID_ARGUMENT, "not_found": Status.NOT_FOUND, "unsupported": Status.UNIMPLEMENTED,
    "unavailable": Status.UNAVAILABLE, "internal": Status.INTERNAL,
}


def status(fault):
    """Return a fault of the backend's as gRPC sends it: the kind is the reason of an ErrorInfo."""
    info = ErrorInfo(reason=fault.kind.upper(), domain="boxwright")
    if fault.hint:
        info.metadata["hint"] = fault.hint
    return GRPCError(STATUS[fault.kind], str(fault), [info])


class Service(BackendServiceBase):
    """The calls of backend.proto."""

    def __init__(self):
        self.backend = None

    async def answer(self, stream, method):
        """Answer a call that has one request and one response."""
        request = await stream.recv_message()
        try:
            if self.backend is None:
                raise docker_cli.Fault("invalid", "the plugin is not configured yet: Configure comes first")
            await stream.send_message(await method(self.backend, request))
        except docker_cli.Fault as fault:
            raise status(fault) from fault

    async def Configure(self, stream):
        request = await stream.recv_message()
        try:
            if self.backend is not None:
                raise docker_cli.Fault("invalid", "the plugin is configured already")
            self.backend = docker_cli.Backend(request)
        except docker_cli.Fault as fault:
            raise status(fault) from fault
        await stream.send_message(ConfigureResponse())

    async def Info(self, stream):
        await self.answer(stream, lambda b, _: b.info())

    async def EnsureImage(self, stream):
        await self.answer(stream, lambda b, r: b.ensure_image(r.ref, r.policy))

    async def Create(self, stream):
        """Make a box, and remove it again if the caller left before it could learn of it."""
        made = []
        try:
            await self.answer(stream, lambda backend, spec: keep(backend.create(spec), made))
            if stream.deadline and stream.deadline.time_remaining() <= 0:
                raise GRPCError(Status.DEADLINE_EXCEEDED)
        except BaseException:
            if made:
                asyncio.ensure_future(self.backend.destroy(made[0].box.id))
            raise

    async def List(self, stream):
        await self.answer(stream, lambda b, r: b.list(r.instance))

    async def Destroy(self, stream):
        await self.answer(stream, lambda b, r: after(b.destroy(r.box), DestroyResponse()))

    async def EnsureVolume(self, stream):
        await self.answer(stream, lambda b, r: b.ensure_volume(r.volume))

    async def RemoveVolume(self, stream):
        await self.answer(stream, lambda b, r: after(b.remove_volume(r.name), RemoveVolumeResponse()))

    async def Dial(self, stream):
        """Copy both ways until either side ends. The first response says that the stream is open."""
        first = await stream.recv_message()
        try:
            agent = await self.backend.dial(first.box)
        except docker_cli.Fault as fault:
            raise status(fault) from fault
        sending = asyncio.ensure_future(to_agent(stream, agent))
        try:
            await stream.send_message(DialResponse())
            while data := await agent.stdout.read(64 << 10):
                await stream.send_message(DialResponse(data=data))
        finally:
            sending.cancel()
            if agent.returncode is None:
                agent.kill()
            await agent.wait()


async def keep(work, results):
    """Return the result of the work, and note it."""
    results.append(await work)
    return results[0]


async def after(work, response):
    """Return the response once the work is done."""
    await work
    return response


async def to_agent(stream, agent):
    """Pass on what the host sends; when it has left, end the agent's side."""
    try:
        async for message in stream:
            agent.stdin.write(message.data)
            await agent.stdin.drain()
    except ConnectionError:
        pass  # the agent's side has ended
    finally:
        agent.stdin.close()


class Controller:
    """What go-plugin's host calls by itself: to end the plugin, and for output that it need not print."""

    def __init__(self, ended):
        self.ended = ended

    def __mapping__(self):
        return {"/plugin.GRPCController/Shutdown": Handler(self.shutdown, Cardinality.UNARY_UNARY, Empty, Empty),
                "/plugin.GRPCStdio/StreamStdio": Handler(self.output, Cardinality.UNARY_STREAM, Empty, Empty)}

    async def shutdown(self, stream):
        await stream.recv_message()
        await stream.send_message(Empty())
        self.ended.set()

    async def output(self, stream):
        await stream.recv_message()
        await self.ended.wait()


def certificate():
    """Return a key and a certificate, for this process alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(now - day).not_valid_after(now + 3650 * day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, made


def tls(folder, key, own, host):
    """Admit the host only, by its certificate. It is of the curve P-521, which grpcio's TLS does not know."""
    pem = serialization.Encoding.PEM
    path = os.path.join(folder, "key.pem")
    with open(path, "wb") as file:  # nobody else can look into the folder
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        file.write(own.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.load_verify_locations(cadata=host)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    return context


async def host_is_gone():
    """Return when the process that started this one has died."""
    host = os.getppid()
    while os.getppid() == host:
        await asyncio.sleep(0.25)


async def serve():
    """Say where the service is, in the one line that the host waits for, and serve until the host ends it."""
    if str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        sys.exit("the server does not speak version %d of the protocol" % PROTOCOL)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: None)  # the host still needs the plugin to clean up
    with tempfile.TemporaryDirectory(prefix="boxwright-python-") as folder:
        key, own = certificate()
        server = Server([Service(), Controller(ended), Health()])
        path = os.path.join(folder, "plugin.sock")
        await server.start(path=path, ssl=tls(folder, key, own, os.environ["PLUGIN_CLIENT_CERT"]))
        encoded = base64.b64encode(own.public_bytes(serialization.Encoding.DER)).decode().rstrip("=")
        print(CORE_PROTOCOL, PROTOCOL, "unix", path, "grpc", encoded, sep="|", flush=True)
        await asyncio.wait([asyncio.ensure_future(ended.wait()), asyncio.ensure_future(host_is_gone())],
                           return_when=asyncio.FIRST_COMPLETED)
        server.close()


if __name__ == "__main__":
    if os.environ.get("BOXWRIGHT_PLUGIN") != "backend":
        sys.exit("this is a plugin of Boxwright's: the server starts it")
    asyncio.run(serve())
