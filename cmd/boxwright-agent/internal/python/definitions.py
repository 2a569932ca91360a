"""Lets other processes know what a session has defined. It becomes a part of what is in session.py."""


class Definitions:
    """What a process that does not begin as a copy of this one has to know of the session.

    multiprocessing's methods spawn and forkserver run a program's file once more in each of their processes.
    A session has no such file, and its code must not run twice. So they get one that has its functions,
    classes, imports and constants only.
    """

    def __init__(self, folder):
        self.folder = folder
        self.nodes = {}
        self.number = 0
        self.stale = False

    def add(self, body, path, flags):
        for node in body:
            name = self.name(node)
            if name is not None:
                self.nodes.pop(name, None)
                self.nodes[name] = node, path, flags
                self.stale = True

    @staticmethod
    def name(node):
        if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
            return node.name
        if isinstance(node, (_ast.Import, _ast.ImportFrom)) and getattr(node, "module", None) != "__future__":
            return tuple(alias.asname or alias.name for alias in node.names)
        if isinstance(node, _ast.Assign) and isinstance(node.value, _ast.Constant) and len(node.targets) == 1:
            return getattr(node.targets[0], "id", None)
        return None

    def file(self):
        if not self.nodes:
            raise AttributeError("__file__")
        if self.stale:
            self.write()
        return self.path()

    def path(self):
        return os.path.join(self.folder, "session-%d.py" % self.number)

    def write(self):
        import marshal

        codes = [compile(_ast.Module([node], []), path, "exec", flags, True) for node, path, flags in self.nodes.values()]
        text = 'for _ in __import__("marshal").loads(%r):\n    try:\n        exec(_, globals())\n    except Exception:\n        pass\n'
        self.number += 1
        self.stale = False
        linecache.cache[self.path()] = 0, None, [], self.path()  # nobody is to take it for the source
        save(self.path(), (text % marshal.dumps(codes)).encode())
