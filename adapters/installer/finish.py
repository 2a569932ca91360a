"""Leaves nothing but packages in an environment, and fails when they are more bytes than it may have."""
import os, shutil, sys

folder, scratch, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
shutil.rmtree(scratch, ignore_errors=True)
if os.path.isfile(lock := os.path.join(folder, ".lock")):
    os.remove(lock)  # uv's, while it installs
size = 0
for parent, _, names in os.walk(folder):
    size += sum(os.lstat(os.path.join(parent, name)).st_size for name in names)
if size > limit:
    sys.exit("error: the packages need more room than an environment may have")
