"""Waits for programs and runs each in a process of its own that is a child of the agent.

The agent starts this once per box, gives it a socket, and sends it a program's stdin, stdout, stderr
and a file with a line of JSON and the program's source. What runs here is in the same process as code
that nobody has reviewed, so nothing here protects anything: that is the agent's and the engine's part.
"""

import atexit
import builtins
import gc
import io
import os
import site
import sys
import time
import _frozen_importlib_external
import _signal
import _socket

# What is above is there without being looked for, so that the first program of a box starts soon. What is
# below is what many programs import, and what this needs besides: it is loaded while nothing is asked for.
LATER = (
    "re json signal struct threading traceback types warnings linecache collections contextlib datetime functools "
    "itertools math pathlib random string typing ctypes"
).split()

CONTROL = 5
LOADED = 6  # the agent's pipe; closed once everything is loaded
TOP_LEVEL_AWAIT = 0x2000
COROUTINE = 0x80


def serve(control, loaded, modules):
    """Returns in a process that is to become a program, with the socket on which it is told which. A copy may be asked
    for that does this too, and finds more loaded."""
    load_while_idle(control, loaded, modules)
    while True:
        message, descriptors = receive(control)
        if not message:
            os._exit(0)
        try:
            child = os.fork()
        except OSError as error:
            child = None
            control.send(b"error " + str(error).encode())
        if child == 0:
            if fork_again(control):
                control.close()
                if modules:
                    os.close(loaded)
                channel = _socket.socket(fileno=descriptors[0])
                if message == b"base":
                    return serve(channel, descriptors[1], modules + preloads(sys.argv[1:]))
                return channel
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        if child:
            os.waitpid(child, 0)
        load_while_idle(control, loaded, modules)


def load_while_idle(control, loaded, modules):
    """Loads one module after the other, until there is none left or a request waits."""
    while modules and not has_message(control):
        load(modules.pop(0))
        if not modules:
            gc.collect()
            gc.freeze()
            os.close(loaded)


def has_message(control):
    try:
        control.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    return True


def load(module):
    try:
        __import__(module)
    except BaseException:
        pass  # the image does not have it


def fork_again(control):
    """Tells the agent the number of the child and has it adopted, as its parent ends."""
    try:
        child = os.fork()
    except OSError as error:
        control.send(b"error " + str(error).encode())
        return False
    if child:
        control.send(b"pid %d" % child)
        return False
    return True


def receive(control):
    message, ancillary, _, _ = control.recvmsg(64, _socket.CMSG_SPACE(4 * 4), _socket.MSG_CMSG_CLOEXEC)
    descriptors = []
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            descriptors.extend(int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data) - 3, 4))
    return message, descriptors


def make_ready():
    """Does for a program what does not depend on it."""
    os.setsid()
    expose()
    _signal.signal(34, _signal.SIG_DFL)  # the agent ignores it
    sys.dont_write_bytecode = True


def prepare(descriptors):
    """Makes this process what the interpreter's own would be, and returns the request and the source."""
    request, source = read_request(descriptors[3])
    for number in (0, 1, 2):
        os.dup2(descriptors[number], number)
    close_others()
    settle(request)
    return request, source


def read_request(descriptor):
    with open(descriptor, "rb", closefd=False) as sent:
        sent.seek(0)
        request = eval(sent.readline(), {})  # the agent's JSON, of texts and numbers, which are Python's too
        return request, sent.read()


def settle(request):
    os.chdir(request["dir"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    take_processors()
    open_streams()
    _signal.signal(request["flush_signal"], flush)
    sys.argv = [request["file"]]
    sys.orig_argv = [sys.executable, request["file"]]
    set_path(request)


def close_others(*kept):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            close_quietly(int(name))


def close_quietly(descriptor):
    try:
        os.close(descriptor)
    except OSError:
        pass  # it was closed before


def expose():
    """Lets the kernel take this process first when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass


def take_processors():
    """Undoes what earlier programs may have done to the interpreter that this process is a copy of."""
    try:
        os.sched_setaffinity(0, PROCESSORS)
    except OSError:
        pass  # the box has others by now


def open_streams():
    """Lines appear at once, and no text that a program can make is one that it cannot print."""
    sys.stdin = sys.__stdin__ = stream(0, "r", "surrogateescape", "<stdin>")
    sys.stdout = sys.__stdout__ = stream(1, "w", "backslashreplace", "<stdout>")
    sys.stderr = sys.__stderr__ = stream(2, "w", "backslashreplace", "<stderr>")


def stream(number, mode, errors, name):
    binary = open(number, mode + "b", closefd=False)
    binary.raw.name = name
    text = io.TextIOWrapper(binary, "utf-8", errors, None if mode == "r" else "\n", line_buffering=mode == "w")
    text.mode = mode
    return text


def flush(number, frame):
    """The agent asks for this before it kills, so that a line without its end is not lost."""
    for output in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            output.flush()
        except BaseException:
            pass


def set_path(request):
    """The standard library first: no file in the workspace or in a package takes its place."""
    sys.path[:] = LIBRARY
    for folder in request["python_path"]:
        site.addsitedir(folder)
    for folder in PACKAGES + [request["dir"], request["work"]]:
        if folder not in sys.path:
            sys.path.append(folder)


def split_path():
    """Returns the standard library's folders and those of the image's packages."""
    folders = set(map(os.path.normcase, site.getsitepackages() if hasattr(site, "getsitepackages") else []))
    for index, folder in enumerate(sys.path):
        if os.path.normcase(folder) in folders:
            return sys.path[:index], sys.path[index:]
    return sys.path[:], []


def make_main(request, source):
    path = request["file"]
    main = type(sys)("__main__")
    main.__dict__.update(__file__=path, __cached__=None, __builtins__=builtins, __annotations__={})
    main.__loader__ = _frozen_importlib_external.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    if not save(path, source):  # the disk is full; tracebacks shall have their lines all the same
        import linecache

        lines = source.decode("utf-8", "replace").splitlines(True)
        linecache.cache[path] = len(source), None, lines, path
    return main


def save(path, data):
    """Writes a file, and tells whether it could."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(number, "wb") as copy:
            copy.write(data)
        return True
    except OSError:
        return False


def run(request, source):
    """Runs the program and returns what the interpreter is to end with: None or an exception."""
    main = make_main(request, source)
    code = None
    try:
        code = compile(source, request["file"], "exec", TOP_LEVEL_AWAIT, True)
        if code.co_flags & COROUTINE:
            import asyncio

            asyncio.run(eval(code, main.__dict__))
        else:
            exec(code, main.__dict__)
    except SystemExit as error:
        return error
    except BaseException as error:
        report(error, code)
        return KeyboardInterrupt() if isinstance(error, KeyboardInterrupt) else SystemExit(1)
    return None


def report(error, code):
    """Shows an exception as the interpreter does, from the program's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException as second:
        print("Error in sys.excepthook:", file=sys.stderr)
        second.__context__ = None
        sys.__excepthook__(type(second), second, second.__traceback__ and second.__traceback__.tb_next)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)


class Figures:
    """Saves the figures of matplotlib's that a program shows, or leaves open without having saved them."""

    def __init__(self, folder):
        self.folder = folder
        self.number = 0
        self.turn = 1
        self.savefig = None
        if "matplotlib.pyplot" in sys.modules:
            self.install(sys.modules["matplotlib.pyplot"])
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        for finder in sys.meta_path:
            found = finder is not self and finder.find_spec(name, path, target)
            if found:
                self.hook(found.loader)
                return found
        return None

    def hook(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.install(module)

        loader.exec_module = exec_module

    def install(self, pyplot):
        import functools

        figure = sys.modules["matplotlib.figure"].Figure
        self.savefig = figure.savefig

        @functools.wraps(figure.savefig)
        def savefig(this, *args, **kwargs):
            result = self.savefig(this, *args, **kwargs)
            this._boxwright_saved = self.turn
            return result

        def show(*args, **kwargs):
            self.save()
            pyplot.close("all")

        figure.savefig = savefig
        figure.show = lambda this, *args, **kwargs: self.save_one(this)
        pyplot.show = show

    def save(self):
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if self.savefig is None or helpers is None:
            return
        for manager in sorted(helpers.Gcf.get_all_fig_managers(), key=lambda manager: manager.num):
            self.save_one(manager.canvas.figure)

    def finish(self):
        """Saves what a piece of code has left open, and leaves nothing to the next."""
        if "matplotlib.pyplot" in sys.modules:
            self.save()
            sys.modules["matplotlib.pyplot"].close("all")

    @staticmethod
    def is_figure(value):
        module = sys.modules.get("matplotlib.figure")
        return module is not None and isinstance(value, module.Figure)

    def save_one(self, figure):
        if getattr(figure, "_boxwright_saved", None) == self.turn or self.savefig is None:
            return
        path = None
        try:
            path, number = self.next_file()
            with open(number, "wb") as target:
                self.savefig(figure, target, format="png")
            figure._boxwright_saved = self.turn
        except Exception as error:
            print("a figure could not be saved: %s" % error, file=sys.stderr)
            if path:
                os.unlink(path)

    def next_file(self):
        while True:
            self.number += 1
            path = os.path.join(self.folder, "figure-%d.png" % self.number)
            try:
                return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                pass


class End:
    """Ends the process as the interpreter does at the end of a script, but sooner.

    The interpreter takes itself apart, and so copies nearly every page that this process shares with the
    one that waits. What a program can notice of that is done here: threads are joined, exit functions
    called, the program's own objects destroyed, buffers written. A program that has loaded libraries
    which may want more gets the interpreter's own end.
    """

    def __init__(self):
        self.before = set(sys.modules)

    def leave(self, outcome, request):
        """Returns if the interpreter shall end as it does by itself."""
        own = [request["work"], request["dir"]]
        loaded = [module for name, module in list(sys.modules.items()) if name not in self.before]
        if not all(self.known(module, own) for module in loaded):
            return
        status = self.status(outcome)
        if "threading" in sys.modules:
            self.attempt(sys.modules["threading"]._shutdown)
        self.attempt(atexit._run_exitfuncs)
        self.clear(sys.modules.get("__main__"))
        for module in loaded:
            if self.below(getattr(module, "__file__", None), own):
                self.clear(module)
        libraries = "ctypes" in sys.modules or any(self.is_library(module) for module in loaded)
        del loaded, outcome
        sys.last_type = sys.last_value = sys.last_traceback = sys.last_exc = None
        gc.collect()
        if not self.flush_output():
            status = status or 120
        if libraries:
            flush_libraries()
        if status == -_signal.SIGINT:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
            os.kill(os.getpid(), _signal.SIGINT)
        os._exit(status & 0xFF)

    @staticmethod
    def known(module, own):
        path = getattr(module, "__file__", None)
        if path is None:
            return not hasattr(module, "__path__")  # built in
        return End.below(path, LIBRARY + own)

    @staticmethod
    def is_library(module):
        return str(getattr(module, "__file__", "")).endswith(".so")

    @staticmethod
    def below(path, folders):
        return isinstance(path, str) and "-packages" not in path and path.startswith(tuple(f + "/" for f in folders))

    @staticmethod
    def status(outcome):
        """Says what a SystemExit says, and returns the exit status."""
        if outcome is None:
            return 0
        if isinstance(outcome, KeyboardInterrupt):
            return -_signal.SIGINT
        if outcome.code is None:
            return 0
        if isinstance(outcome.code, int):
            return outcome.code if -(2**63) <= outcome.code < 2**63 else -1
        try:
            print(outcome.code, file=sys.stderr, flush=True)
        except Exception:
            pass
        return 1

    @staticmethod
    def attempt(step):
        try:
            step()
        except BaseException as error:
            report(error, None)

    @staticmethod
    def flush_output():
        good = True
        for output in (sys.stdout, sys.stderr):
            try:
                if not output.closed:
                    output.flush()
            except Exception as error:
                if output is sys.stdout:
                    good = False
                    print("Exception ignored in: %r\n%s: %s" % (output, type(error).__name__, error), file=sys.stderr)
        return good

    @staticmethod
    def clear(module):
        """Destroys a module's objects in the interpreter's order: names that begin with one _ first."""
        names = getattr(module, "__dict__", {})
        for private in (True, False):
            for name in list(names):
                if name != "__builtins__" and (name[:1] == "_" and name[1:2] != "_") == private:
                    names[name] = None


def flush_libraries():
    """C libraries keep output back too."""
    try:
        import ctypes

        ctypes.CDLL(None).fflush(None)
    except Exception:
        pass  # this Python does without


def preloads(names):
    return names + ["matplotlib.pyplot"] * ("matplotlib" in names)


def main():
    control = _socket.socket(fileno=CONTROL)
    control.send(b"ready " + sys.version.split()[0].encode())
    channel = serve(control, LOADED, LATER)
    make_ready()
    message, descriptors = receive(channel)
    if not message:
        os._exit(0)
    if message == b"session":
        last(channel, descriptors[0])
    request, source = prepare(descriptors)
    channel.detach()
    end = End()
    figures = Figures(request["work"])
    outcome = run(request, source)
    try:
        figures.save()
    except BaseException as error:
        report(error, None)
    end.leave(outcome, request)
    if isinstance(outcome, KeyboardInterrupt):
        sys.excepthook = lambda *args: None  # it has been shown
    if outcome is not None:
        raise outcome


def last(channel, descriptor):
    """Becomes the interpreter of a session, with instructions that other programs do without."""
    global SESSION
    request, instructions = read_request(descriptor)
    exec(compile(instructions, "<boxwright>", "exec"), globals())
    close_others(channel.fileno())
    SESSION = Session(channel, request)
    SESSION.go_silent()
    settle(request)
    SESSION.serve()


LIBRARY, PACKAGES = split_path()
PROCESSORS = os.sched_getaffinity(0)
main()
