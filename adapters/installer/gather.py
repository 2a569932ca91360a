"""Puts files together from their pieces: 000007-NAME goes to the end of NAME."""
import os, shutil, sys

source, target = sys.argv[1:]
for piece in sorted(os.listdir(source)):
    path = os.path.join(source, piece)
    with open(path, "rb") as part, open(os.path.join(target, piece[7:]), "ab") as whole:
        shutil.copyfileobj(part, whole)
    os.remove(path)
