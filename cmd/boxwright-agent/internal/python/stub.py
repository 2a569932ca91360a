import sys
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the folder of this file, which is none
with open(4, "rb") as source:
    source = source.read()
exec(compile(source, "<boxwright>", "exec"), {"__name__": "boxwright", "__builtins__": __builtins__})
