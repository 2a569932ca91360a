"""Makes a folder, and says which requirements the image fulfils by itself: a line with the number and the version of each.
Without a folder it says the names of all that the image has."""
import os, re, sys

if sys.argv[1]:
    os.makedirs(sys.argv[1])
have = {}


def entries(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []  # what cannot be read cannot be imported either


for folder in filter(os.path.isdir, reversed(sys.path)):
    for entry in entries(folder):
        if found := re.fullmatch(r"([^-]+)-([^-]+)(?:-py[^-]+)?\.(?:dist|egg)-info", entry):
            have[re.sub(r"[-_.]+", "-", found[1]).lower()] = found[2]


def fulfils(version, text):
    try:
        from packaging.requirements import Requirement
    except ImportError:
        from pip._vendor.packaging.requirements import Requirement
    wanted = Requirement(text)
    applies = wanted.marker is None or wanted.marker.evaluate()
    return applies and not wanted.url and not wanted.extras and wanted.specifier.contains(version, prereleases=True)


for number, (name, text) in enumerate(zip(sys.argv[2::2], sys.argv[3::2])):
    try:
        if name in have and (text == name or fulfils(have[name], text)):
            print(number, have[name])
    except Exception:
        pass  # what cannot be told is installed
if not sys.argv[1]:
    print("\n".join(sorted(have)))
