"""Compiles the modules in one folder into the same places of another. Tests, half of many packages, are left out."""
import importlib.util, os, py_compile, sys

source, target = sys.argv[1:]
for parent, folders, names in os.walk(source):
    compiled = "__pycache__" in folders
    folders[:] = [name for name in folders if name not in ("__pycache__", "test", "tests")]
    for name in names if not compiled else ():
        path = os.path.join(parent, name)
        if name.endswith(".py"):
            try:
                py_compile.compile(path, target + importlib.util.cache_from_source(path)[len(source):], doraise=True, quiet=2)
            except Exception:
                pass  # what no Python understands is common, and never imported
