"""The backend itself: boxes that the command line of Docker makes."""

import asyncio
import hashlib
import io
import json
import platform
import re
import secrets
import tarfile

from backend_pb2 import Box, CreateResponse, EnsureImageResponse, EnsureVolumeResponse, Image, InfoResponse, Labels, ListResponse, Volume
from google.protobuf.timestamp_pb2 import Timestamp

BIN, WORK, HOME, TMP = "/opt/boxwright/bin", "/work", "/home/box", "/tmp"  # core/box.go
AGENT = BIN + "/boxwright-agent"
IMAGE = re.compile(r"(?:[a-zA-Z0-9]+(?:[.-][a-zA-Z0-9]+)*(?::\d+)?/)?[a-z0-9]+(?:(?:\.|_|__|-+|/)[a-z0-9]+)*"
                   r"(?::\w[\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?", re.ASCII)
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


class Fault(Exception):
    """An error of one of core's kinds."""

    def __init__(self, kind, message, hint=""):
        super().__init__(message)
        self.kind, self.hint = kind, hint


class Missing(Exception):
    """Docker does not have what it was asked for."""


async def docker(*args, stdin=None):
    """Run one command. No text of anybody's passes through a shell."""
    proc = await asyncio.create_subprocess_exec("docker", *args, stdin=asyncio.subprocess.PIPE,
                                                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    out, err = await proc.communicate(stdin)
    why = err.decode(errors="replace").strip()
    if proc.returncode == 0:
        return out.decode()
    if "Cannot connect to the Docker daemon" in why or "error during connect" in why:
        raise Fault("unavailable", "Docker cannot be reached: " + why, "start Docker, or set DOCKER_HOST")
    if re.search(r"(?i)no such|not found|does not exist|access denied", why):
        raise Missing(why)
    raise Fault("internal", "docker %s: %s" % (args[0], why))


async def inspect(kind, name):
    """Return what Docker knows of one thing, or raise Missing."""
    return json.loads(await docker(kind, "inspect", name))[0]


def label_args(labels, **more):
    """Return the labels as arguments."""
    all_labels = {"boxwright": "1", "boxwright.instance": labels.instance, "boxwright.server": labels.server,
                  "boxwright.tenant": labels.tenant, "boxwright.purpose": labels.purpose, **more}
    if labels.HasField("expires"):
        all_labels["boxwright.expires"] = labels.expires.ToJsonString()
    return [arg for key, value in all_labels.items() for arg in ("--label", key + "=" + value)]


def read_labels(have):
    """Return Docker's labels as the host knows them; none if the thing is not Boxwright's."""
    if not have or have.get("boxwright") != "1":
        return None
    labels = Labels(**{key: have.get("boxwright." + key, "") for key in ("instance", "server", "tenant", "purpose")})
    if "boxwright.expires" in have:
        labels.expires.FromJsonString(have["boxwright.expires"])
    return labels


def time(text):
    """Return Docker's time."""
    stamp = Timestamp()
    stamp.FromJsonString(text)
    return stamp


def check_volume_name(name):
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,127}", name):
        raise Fault("invalid", "%r is not a name of a volume" % name)


def check_image(ref):
    if not IMAGE.fullmatch(ref):
        raise Fault("invalid", "%r is not an image" % ref)


def check_spec(spec):
    """Refuse what no engine makes a box of, as core.BoxSpec.Validate does."""
    check_image(spec.image)
    low = spec.limits
    if low.memory_bytes < 32 << 20 or not low.cpus >= 0.05 or low.pids < 16 or low.disk_bytes < 1 << 20:
        raise Fault("invalid", "the limits are too low for a box")
    if spec.network not in ("", "full"):
        raise Fault("invalid", "%r is not a network" % spec.network)
    if spec.digest and not re.fullmatch("sha256:[0-9a-f]{64}", spec.digest):
        raise Fault("invalid", "%r is not a digest" % spec.digest)
    for mount in spec.mounts:
        check_volume_name(mount.volume)
        clean = re.fullmatch(r"(/(?!\.{1,2}(/|$))[^/,\"\x00]+)+", mount.path)
        if not clean or (mount.path + "/").startswith(BIN + "/") or (BIN + "/").startswith(mount.path + "/"):
            raise Fault("invalid", "a volume cannot be mounted at %r" % mount.path)


class Backend:
    """The calls of the port. It keeps nothing that Docker does not keep."""

    def __init__(self, config):
        if config.settings_json and json.loads(config.settings_json):
            raise Fault("invalid", "this backend has no settings")
        self.server, self.agents, self.filling = config.server, config.agents, asyncio.Lock()

    async def info(self):
        have = json.loads(await docker("info", "--format", "{{json .}}"))
        held = {"memory": have["MemoryLimit"], "cpu": have["CpuCfsQuota"], "pids": have["PidsLimit"]}
        self.limits = {limit: "cgroup" if yes else "none" for limit, yes in held.items()}
        self.limits.update(disk="sandbox", network="sandbox")
        self.platform = have["OSType"] + "/" + ARCH.get(have["Architecture"], have["Architecture"])
        return InfoResponse(name="python", version="1", engine="Docker Engine", engine_version=have["ServerVersion"],
                            platform=self.platform, limits=self.limits)

    async def image(self, ref):
        have = await inspect("image", ref)
        return Image(ref=ref, digest=have["Id"], platform=have["Os"] + "/" + have["Architecture"])

    async def ensure_image(self, ref, policy):
        check_image(ref)
        try:
            if policy != "always":
                return EnsureImageResponse(image=await self.image(ref))
        except Missing:
            pass
        if policy == "never":
            raise Fault("not_found", "there is no image " + ref)
        try:
            await docker("pull", "--quiet", ref)
            return EnsureImageResponse(image=await self.image(ref))
        except Missing as missing:
            raise Fault("not_found", "there is no image %s: %s" % (ref, missing)) from missing
        except Fault as fault:
            raise Fault("unavailable", "image %s cannot be fetched: %s" % (ref, fault)) from fault

    async def create(self, spec):
        """Make a box to the end, although the caller may leave meanwhile; then remove it."""
        check_spec(spec)
        name = "boxwright-box-" + secrets.token_hex(8)
        making = asyncio.ensure_future(self.make(spec, name))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(lambda _: asyncio.ensure_future(docker("rm", "--force", name)))
            raise
        except Missing as missing:
            raise Fault("not_found", "what the box needs is not there: %s" % missing) from missing

    async def make(self, spec, name):
        info = await self.info()
        image = await self.image(spec.digest or spec.image)
        weak = [limit for limit, how in sorted(info.limits.items()) if how == "none"]
        if weak and spec.unenforced != "warn":
            raise Fault("unsupported", "this engine cannot enforce the %s limit" % weak[0])
        for mount in spec.mounts:
            if not read_labels((await inspect("volume", mount.volume))["Labels"]):
                raise Missing("no such volume: " + mount.volume)
        try:
            await docker(*await self.plan(spec, name, image))
            await docker("start", name)
            made = await inspect("container", name)
        except BaseException:
            await docker("rm", "--force", name)
            raise
        return CreateResponse(box=self.box(made, ["the %s limit does not hold" % limit for limit in weak]))

    async def plan(self, spec, name, image):
        """Return the arguments of docker create, once the volumes are ready."""
        async with self.filling:
            agent = await self.fill(spec, name, image)
        low, user = spec.limits, "uid=1000,gid=1000"
        tmpfs = {WORK: "size=%d,mode=0755,%s" % (low.disk_bytes, user), HOME: "size=%d,mode=0755,%s" % (64 << 20, user),
                 TMP: "size=%d,mode=1777" % (low.disk_bytes // 2)}
        args = ["create", "--name", name, "--user", "1000:1000", "--read-only", "--cap-drop", "ALL",
                "--security-opt", "no-new-privileges", "--network", "bridge" if spec.network else "none",
                "--memory", str(low.memory_bytes), "--memory-swap", str(low.memory_bytes), "--cpus", "%.2f" % low.cpus,
                "--pids-limit", str(low.pids), "--log-driver", "none", "--no-healthcheck", "--hostname", "box",
                "--workdir", WORK, "--entrypoint", AGENT, *label_args(spec.labels, **{"boxwright.image": spec.image}),
                "--mount", "type=volume,src=%s,dst=%s,readonly,volume-nocopy" % (agent, BIN)]
        for mount in spec.mounts:
            tmpfs.pop(mount.path, None)
            args += ["--mount", "type=volume,src=%s,dst=%s,volume-nocopy%s" % (
                mount.volume, mount.path, "" if mount.writable else ",readonly")]
        for path, options in tmpfs.items():
            args += ["--tmpfs", path + ":rw,exec,nosuid,nodev," + options]
        serve = ["serve"]
        if spec.labels.HasField("expires"):
            serve += ["--expires", spec.labels.expires.ToJsonString()]
        return args + [image.digest, *serve]

    async def fill(self, spec, name, image):
        """Put the agent into its volume, and give volumes to the box's user: both as one archive, through a
        container that is never started, as Docker may be on another machine."""
        arch = image.platform.split("/")[1]
        if arch not in self.agents:
            raise Fault("unsupported", "there is no agent for " + image.platform)
        with open(self.agents[arch], "rb") as file:
            program = file.read()
        agent = "boxwright-python-agent-" + hashlib.sha256(program).hexdigest()[:16]
        writable = [mount.volume for mount in spec.mounts if mount.writable]
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for i in range(len(writable)):
                folder = tarfile.TarInfo(str(i))
                folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o755, 1000, 1000
                tar.addfile(folder)
            volumes, whole = list(writable), agent + "-whole"  # made last: without this mark it is filled again
            try:
                await inspect("volume", whole)
                await inspect("volume", agent)
            except Missing:
                made = Labels(instance=spec.labels.instance, server=self.server, purpose="agent")
                await docker("volume", "create", *label_args(made), agent)
                file = tarfile.TarInfo("agent/boxwright-agent")
                file.size, file.mode = len(program), 0o555
                tar.addfile(file, io.BytesIO(program))
                volumes.append(agent)
        if volumes:
            mounts = ["type=volume,src=%s,dst=/boxwright/%s,volume-nocopy" % (v, "agent" if v == agent else i)
                      for i, v in enumerate(volumes)]
            helper = name + "-helper"
            try:
                await docker("create", "--name", helper, *label_args(spec.labels), *[
                    arg for mount in mounts for arg in ("--mount", mount)], "--entrypoint", AGENT, image.digest)
                await docker("cp", "-", helper + ":/boxwright", stdin=archive.getvalue())
            finally:
                await docker("rm", "--force", helper)
            if agent in volumes:
                await docker("volume", "create", *label_args(made), whole)
        return agent

    async def find(self, box):
        """Return a box of Boxwright's as Docker knows it."""
        try:
            if re.fullmatch("[0-9a-f]{64}", box):
                have = await inspect("container", box)
                if read_labels(have["Config"]["Labels"]):
                    return have
                raise Fault("not_found", "there is no such box")
        except Missing:
            pass
        return None

    async def dial(self, box):
        have = await self.find(box)
        if not have:
            raise Fault("not_found", "there is no such box")
        if not have["State"]["Running"]:
            raise Fault("unavailable", "the box has stopped")
        return await asyncio.create_subprocess_exec(
            "docker", "exec", "--interactive", "--user", "65532:65532", box, AGENT, "dial",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)

    def box(self, have, warnings=()):
        labels, state = have["Config"]["Labels"], have["State"]
        return Box(id=have["Id"], image=labels["boxwright.image"], labels=read_labels(labels), created=time(have["Created"]),
                   state="running" if state["Running"] else "stopped", oom_killed=state["OOMKilled"], warnings=warnings)

    async def each(self, kind, command, instance):
        """Return everything of one kind that is labelled with the instance. What vanishes meanwhile is left out."""
        mine = "label=boxwright.instance=" + instance
        found = []
        for name in (await docker(*command, "--quiet", "--filter", "label=boxwright=1", "--filter", mine)).split():
            try:
                found.append(await inspect(kind, name))
            except Missing:
                pass
        return found

    async def list(self, instance):
        boxes = await self.each("container", ("ps", "--all", "--no-trunc"), instance)
        volumes = await self.each("volume", ("volume", "ls"), instance)
        return ListResponse(boxes=[self.box(b) for b in boxes if "boxwright.image" in b["Config"]["Labels"]],
                            volumes=[self.volume(v) for v in volumes])

    async def destroy(self, box):
        while await self.find(box):
            try:
                await docker("rm", "--force", box)
            except Missing:
                return
            except Fault as fault:
                if "already in progress" not in str(fault):
                    raise
                await asyncio.sleep(0.02)

    def volume(self, have):
        return Volume(name=have["Name"], labels=read_labels(have["Labels"]), created=time(have["CreatedAt"]))

    async def ensure_volume(self, volume):
        check_volume_name(volume.name)
        await docker("volume", "create", *label_args(volume.labels), volume.name)
        have = await inspect("volume", volume.name)
        if not read_labels(have["Labels"]):
            raise Fault("not_found", "volume %s exists and is not Boxwright's" % volume.name)
        return EnsureVolumeResponse(volume=self.volume(have))

    async def remove_volume(self, name):
        check_volume_name(name)
        try:
            if not read_labels((await inspect("volume", name))["Labels"]):
                raise Fault("not_found", "there is no volume " + name)
            await docker("volume", "rm", name)
        except Missing:
            pass
        except Fault as fault:
            if "in use" in str(fault):
                raise Fault("unavailable", "volume %s is in use by a box" % name) from fault
            raise
