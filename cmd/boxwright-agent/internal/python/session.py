"""Runs one piece of code after the other in one module. The agent sends this to the copy that is to last.

It becomes a part of what is in runner.py. A piece of code that ends leaves its variables, and this process
waits for the next one, with nothing but the null device to read from and to write to.
"""

import _ast
import json
import linecache
import re
import tokenize
import traceback

ONLY_TREE = 0x400  # a flag of compile's
MOST_SOURCE = 64 << 10  # bytes that are kept as a file
MOST_FILES = 50
IN_LOOP = frozenset(("create_task", "ensure_future", "get_running_loop"))
OUT_OF_LOOP = frozenset(("run", "run_until_complete"))
DAMAGED = (
    b"boxwright: this code was not run: code before it has damaged the interpreter, which was ended; "
    b"run it again, in a new one\n"
)


class Main(type(sys)):
    """The module that all code of a session runs in."""

    @property
    def __file__(self):
        """Is for processes that do not begin as a copy of this one, which run it for what they need to know."""
        return SESSION.definitions.file()


class Session:
    """Serves the agent."""

    def __init__(self, channel, request):
        self.channel = channel
        self.child = False  # whether this process has been made by the code
        self.folder = os.path.dirname(request["file"])
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self.request = None
        self.spare = []
        self.count = 0
        self.futures = 0  # what the code has imported from __future__
        self.code = None
        self.begun = False  # whether what fails is the code
        self.loop = None
        self.outputs = {"stdout": None, "stderr": None}
        self.shown = Shown()
        self.figures = Figures(request["work"])
        self.definitions = Definitions(self.folder)
        self.main = Main("__main__")
        self.names = self.main.__dict__  # the code may give the module another class
        self.names.update(__builtins__=builtins, __annotations__={})
        sys.modules["__main__"] = self.main
        builtins.display = self.display
        builtins._ = None
        sys.excepthook = show_exception
        _signal.signal(_signal.SIGINT, nothing)
        _signal.signal(_signal.SIGHUP, nothing)  # gVisor sends it when one of several children that was stopped ends
        os.register_at_fork(after_in_child=self.become_child)

    def become_child(self):
        """Only this process speaks with the agent, and not one that the code makes."""
        self.child = True
        self.channel.close()
        close_quietly(self.null)
        for descriptor in self.spare + [self.request] * (self.request is not None):
            close_quietly(descriptor)

    def serve(self):
        while True:
            message, descriptors = self.receive()
            if message == b"cell" and len(descriptors) == 4:
                answer = self.cell(descriptors)
            elif message == b"variables" and len(descriptors) == 1:
                answer = self.variables(descriptors[0])
            else:
                os._exit(0)
            self.request = None
            try:
                self.go_silent()
                os.close(descriptors[-1])
                self.channel.send(answer)
            except OSError:
                os._exit(exit_code(int(answer.split()[2])))  # the code has closed what it does not know

    def receive(self):
        """Takes a request also if the code has used up all descriptors."""
        self.reserve()
        self.channel.recv(1, _socket.MSG_PEEK)
        while self.spare:
            close_quietly(self.spare.pop())
        return receive(self.channel)

    def reserve(self):
        """Keeps descriptors from the code: as many as there are in a request, and one more."""
        try:
            while len(self.spare) < 5:
                self.spare.append(os.dup(self.null))
        except OSError:
            pass  # the code has been faster

    def go_silent(self):
        for number in (0, 1, 2):
            os.dup2(self.null, number)

    def take(self, descriptors):
        """Makes itself ready for a piece of code, and returns the request and the source."""
        self.request = descriptors[3]
        request, source = read_request(self.request)
        for number in (0, 1, 2):
            os.dup2(descriptors[number], number)
            os.close(descriptors[number])
        self.reserve()
        self.open_streams()
        mend_builtins()
        self.shown = Shown()
        self.code = None
        self.begun = False
        self.figures.turn += 1
        return request, source

    def cell(self, descriptors):
        try:
            request, source = self.take(descriptors)
        except BaseException:
            give_up()
        error = guarded(lambda: self.run(request, source))
        if not (error is None or self.begun or isinstance(error, (KeyboardInterrupt, OSError))):
            give_up()
        status = self.judge(error)
        del error
        if self.child:
            flush(None, None)
            os._exit(exit_code(status))
        guarded(self.figures.finish)
        flush(None, None)
        if "ctypes" in sys.modules:
            flush_libraries()
        return b"end %s %d %d %d" % ((request["token"].encode(), status) + self.shown.write(self.request))

    def judge(self, error):
        """Shows what the code has failed with, and returns what a program would end with."""
        if error is None:
            return 0
        if isinstance(error, SystemExit):
            status = []
            guarded(lambda: status.append(End.status(error)))
            return status[0] if status else 1
        guarded(lambda: report(error, self.code))
        return -_signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1

    def open_streams(self):
        """Renews what the code has closed or replaced. What is left of another piece's stdin is not this one's."""
        open_streams()
        for name in self.outputs:
            if usable(self.outputs[name]):
                setattr(sys, name, self.outputs[name])
                setattr(sys, "__%s__" % name, self.outputs[name])
            self.outputs[name] = getattr(sys, name)

    def run(self, request, source):
        if request["dir"]:
            os.chdir(request["dir"])
        for clash in add_packages(request["python_path"]):
            self.shown.add(WARNING, clash.encode("utf-8", "replace"))
        self.count += 1
        path = os.path.join(self.folder, "cell-%d.py" % self.count)
        text = self.keep(path, source)
        self.names.pop("__warningregistry__", None)
        tree = self.compile(source, path, "exec", ONLY_TREE)
        whole = self.compile(tree, path, "exec")
        self.futures |= whole.co_flags & FUTURES
        self.definitions.add(tree.body, path, self.futures)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, _ast.Expr) or ends_quietly(text, last):
            last = None
        waits = whole.co_flags & COROUTINE
        for code in self.pieces(tree, whole, path, last):
            self.execute(code, waits)
        if last is not None:
            self.show(self.execute(self.compile(_ast.Expression(last.value), path, "eval"), waits))

    def compile(self, source, path, mode, flags=0):
        try:
            return compile(source, path, mode, flags | TOP_LEVEL_AWAIT | self.futures, True)
        except BaseException:
            self.begun = True
            raise

    def pieces(self, tree, whole, path, last):
        """If there is an event loop to be in or not, each statement is a piece."""
        body = tree.body if last is None else tree.body[:-1]
        if whole.co_flags & COROUTINE or not IN_LOOP.isdisjoint(whole.co_names):
            return [self.compile(_ast.Module([statement], []), path, "exec") for statement in body]
        if last is None:
            return [whole]
        return [self.compile(_ast.Module(body, []), path, "exec")] if body else []

    def execute(self, code, waits):
        """Runs a piece in the event loop if it needs one, and so does code that waits; but asyncio.run refuses to be
        in a loop."""
        self.code = code
        self.begun = True
        if code.co_flags & COROUTINE:
            return self.wait(eval(code, self.names))
        names = code.co_names
        if not IN_LOOP.isdisjoint(names) or waits and OUT_OF_LOOP.isdisjoint(names):
            return self.wait(self.inside(code))
        return eval(code, self.names)

    async def inside(self, code):
        return eval(code, self.names)

    def wait(self, coroutine):
        """Runs a coroutine in the loop in which those of earlier code ran."""
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except BaseException:
                    pass
            raise

    def keep(self, path, source):
        """Keeps the source for tracebacks, and returns it as text."""
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0]
            text = io.TextIOWrapper(io.BytesIO(source), encoding).read()
        except (SyntaxError, UnicodeError):
            return ""  # which the compiler will say better
        lines = io.StringIO(text if text.endswith("\n") else text + "\n").readlines()
        linecache.cache[path] = len(source), None, lines, path
        if len(source) < MOST_SOURCE:
            save(path, source)  # for C code that shows tracebacks
        if self.count > MOST_FILES:
            remove(os.path.join(self.folder, "cell-%d.py" % (self.count - MOST_FILES)))
        return text

    def show(self, value):
        if value is not None:
            builtins._ = value
            self.display(value)

    def display(self, *values):
        """Shows values as a notebook does."""
        for value in values:
            self.shown.add("text/plain", as_text(value))
            if self.figures.is_figure(value):
                self.figures.save_one(value)
                continue
            for kind, data in forms(value):
                self.shown.add(kind, data)

    def variables(self, answer):
        """Has a child look at them: what they do when they are looked at does not happen here."""
        try:
            for values, patience in ((True, 3), (False, 1)):
                child = os.fork()
                if child == 0:
                    try:
                        describe_to(answer, self.names, values)
                    finally:
                        os._exit(0)
                if ends_within(child, patience):
                    break
        except OSError:
            pass  # there is no room for a child; the answer is empty
        return b"variables - 0"


def held(module):
    """Returns a copy of a module, so that what code does to its own is not done here."""
    copy = type(sys)(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


def mend_builtins():
    """Puts back what libraries cannot do without; another function in the place of one may be meant."""
    now = vars(builtins)
    for name, value in __builtins__.items():
        if callable(value) and not callable(now.get(name)):
            now[name] = value


def give_up():
    """Ends an interpreter that does not get as far as the code that it is to run."""
    os.write(2, DAMAGED)
    os._exit(1)


def exit_code(status):
    return status & 0xFF if status >= 0 else 128 - status


def remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass  # the code has been faster


def show_exception(kind, error, trace):
    """Is the interpreter's own, but for lines of code that are in no file."""
    traceback.print_exception(kind, error, trace)


def usable(stream):
    try:
        return not stream.closed and stream.writable()
    except Exception:
        return False


def nothing(number, frame):
    """Is for an interrupt that comes when its code has ended."""


def guarded(step):
    """Returns what the step has failed with, or None. Interrupts come in here and nowhere else."""
    try:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        step()
        _signal.signal(_signal.SIGINT, nothing)
        return None
    except BaseException as error:
        failed = error
    while True:
        try:
            _signal.signal(_signal.SIGINT, nothing)
            return failed
        except KeyboardInterrupt:
            pass


def add_packages(folders):
    """Puts packages that have been installed meanwhile before those that were there, and returns what to warn of."""
    clashes = []
    for folder in reversed(folders):
        if folder in sys.path:
            continue
        before = list(sys.path)
        site.addsitedir(folder)
        added = [entry for entry in sys.path if entry not in before]
        place = len(LIBRARY) if before[: len(LIBRARY)] == LIBRARY else len(before)
        sys.path[:] = before[:place] + added + before[place:]
        put_first("PYTHONPATH", folder)
        put_first("PATH", os.path.join(folder, "bin"))
        try:
            clashes.extend(find_clashes(folder))
        except Exception:
            pass  # the code may have put anything into sys.modules
    if folders:
        for finder in list(sys.path_importer_cache.values()):
            getattr(finder, "invalidate_caches", int)()
    return clashes


def put_first(variable, folder):
    """Has programs that the code starts find the packages too."""
    have = os.environ.get(variable)
    if os.path.isdir(folder):
        os.environ[variable] = folder + ":" + have if have else folder


def find_clashes(folder):
    """Yields a sentence for each package that is in use already in another version than the folder's."""
    names = os.listdir(folder)
    for name in sorted(names):
        module = sys.modules.get(name[:-3] if name.endswith(".py") else name)
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or path.startswith(folder + "/"):
            continue
        home = os.path.dirname(path) if name.endswith(".py") else os.path.dirname(os.path.dirname(path))
        package = name[:-3] if name.endswith(".py") else name
        new, old = version(package, folder, names), version(package, home, os.listdir(home))
        if new != old:
            yield "%s %s is imported already: the %s that was added is not used by code that runs in this interpreter" % (
                package,
                old or "of another origin",
                new or "one",
            )


def version(package, folder, names):
    """Returns the version of the distribution that a package comes with; "" if that is not known."""
    found = [name for name in names if name.endswith(".dist-info")]
    alike = [name for name in found if name.split("-")[0].lower() == package.lower()]
    for name in alike or [name for name in found if lists(os.path.join(folder, name, "RECORD"), package)]:
        return name[: -len(".dist-info")].partition("-")[2]
    return ""


def lists(record, package):
    try:
        with open(record, encoding="utf-8") as lines:
            return any(line.startswith((package + "/", package + ".py,")) for line in lines)
    except OSError:
        return False


def ends_quietly(text, node):
    """Tells whether a semicolon after the last expression says that it is not to be shown."""
    lines = text.encode("utf-8", "surrogatepass").split(b"\n")[node.end_lineno - 1 :]
    rest = b"\n".join(lines)[node.end_col_offset :]
    return re.match(rb"(?:[\s)\\]|#[^\n]*\n)*;", rest) is not None


def future_flags():
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= getattr(__future__, name).compiler_flag
    return flags & ~0x10  # which has become the mark of nested functions


FUTURES = future_flags()
for _name, _module in list(globals().items()):
    if isinstance(_module, type(sys)) and _module not in (sys, builtins, linecache, traceback):  # whose changes are meant
        globals()[_name] = held(_module)
