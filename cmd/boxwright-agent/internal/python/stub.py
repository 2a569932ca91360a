import sys
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the folder of this file, which is none
with open(4, "rb") as source:
    source = source.read()
# The builtins are a copy, so that what code does to its own is not done here.
exec(compile(source, "<boxwright>", "exec"), {"__name__": "boxwright", "__builtins__": dict(vars(__builtins__))})
