"""Shows values as a notebook does. It becomes a part of what is in session.py."""

MOST_FORMS = 64
MOST_BYTES = 2 << 20  # of all forms
MOST_TEXT = 64 << 10  # characters of one value as text
RICH = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
)
WARNING = "warning"  # a sentence for the record; no form of a value
FORMS = tuple(kind for kind, method in RICH) + ("application/json",)


class Shown:
    """What has been shown, within bounds."""

    def __init__(self):
        self.forms = []
        self.size = 0
        self.dropped = 0

    def add(self, kind, data):
        if len(self.forms) == MOST_FORMS or self.size + len(data) > MOST_BYTES:
            self.dropped += 1
            return
        self.size += len(data)
        self.forms.append((kind, data))

    def write(self, descriptor):
        """Writes all forms, after a line with their types and sizes; returns how many, and how many not."""
        if not self.forms:
            return 0, self.dropped
        try:
            head = json.dumps([[kind, len(data)] for kind, data in self.forms]).encode()
            replace(descriptor, head + b"\n" + b"".join(data for _, data in self.forms))
        except (OSError, MemoryError):
            return 0, self.dropped + len(self.forms)
        return len(self.forms), self.dropped


def replace(descriptor, data):
    with open(descriptor, "r+b", closefd=False) as file:
        file.seek(0)
        file.truncate()
        file.write(data)


def as_text(value):
    text = repr(value)
    if len(text) > MOST_TEXT:
        text = "%s… (%d characters more)" % (text[:MOST_TEXT], len(text) - MOST_TEXT)
    return text.encode("utf-8", "backslashreplace")


def forms(value):
    """Yields the forms that the value's type has besides text."""
    found = {}
    bundle = ask(value, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(bundle, dict):
        found.update(bundle)
    for kind, method in RICH:
        data = ask(value, method)
        if data is not None:
            found[kind] = data
    for kind in FORMS:
        data = as_bytes(kind, found.get(kind))
        if data is not None:
            yield kind, data


def ask(value, name, **options):
    """Calls a method that the type says it has: an object that answers to every name has none."""
    method = getattr(type(value), name, None)
    if method is None or isinstance(value, type):
        return None
    try:
        answer = method(value, **options)
    except Exception:
        return None  # there still is its text
    return answer[0] if isinstance(answer, tuple) and answer else answer  # what comes second is about it


def as_bytes(kind, data):
    try:
        if kind == "application/json" and data is not None:
            return json.dumps(data).encode()
        if isinstance(data, str):
            if kind in ("image/png", "image/jpeg"):
                import binascii

                return binascii.a2b_base64(data)
            return data.encode("utf-8", "replace")
        return bytes(data) if isinstance(data, (bytes, bytearray)) else None
    except Exception:
        return None
