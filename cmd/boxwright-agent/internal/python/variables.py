"""Describes what a session remembers. It becomes a part of what is in session.py."""

MOST_VARIABLES = 1000
MOST_VALUE = 80  # characters of a variable's
PATIENCE = 0.1  # seconds for one variable


class TooSlow(BaseException):
    """Ends the look at one variable."""


def too_slow(number, frame):
    raise TooSlow


def describe_to(descriptor, names, values):
    _signal.signal(_signal.SIGALRM, too_slow)
    found = []
    for name, value in sorted((item for item in names.items() if is_variable(*item)), key=lambda item: item[0]):
        if len(found) < MOST_VARIABLES:
            kind = type.__dict__["__name__"].__get__(type(value))
            found.append([name, kind] + (describe(value) if values else ["", 0, ""]))
    replace(descriptor, json.dumps(found).encode())


def is_variable(name, value):
    return type(name) is str and not name.startswith("_") and not issubclass(type(value), type(sys))


def describe(value):
    shape, size, text = "", 0, ""
    try:
        _signal.setitimer(_signal.ITIMER_REAL, PATIENCE, PATIENCE)
        try:
            shape = shape_of(value)
            size = size_of(value)
            text = short(value)
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
    except BaseException:
        text = text or "(it cannot be shown)"
    return [shape, size, text]


def shape_of(value):
    shape = getattr(value, "shape", None)
    if type(shape) is not tuple:
        if not hasattr(type(value), "__len__"):
            return ""
        shape = (len(value),)
    return "×".join(str(int(side)) for side in shape)


def size_of(value):
    size = getattr(value, "nbytes", None)
    return size if type(size) is int else sys.getsizeof(value)


def short(value):
    import reprlib

    cutter = reprlib.Repr()
    cutter.maxstring = cutter.maxother = cutter.maxlong = MOST_VALUE
    return " ".join(cutter.repr(value).split())[:MOST_VALUE]


def ends_within(child, seconds):
    """Waits for a child and ends it if it takes too long."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    try:
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, _signal.SIGKILL)
                os.waitpid(child, 0)
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
    except (OSError, KeyboardInterrupt):
        pass  # the code waits for all children
    return True
