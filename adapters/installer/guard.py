"""Runs a command, and ends it once the box's programs have written more than a number of bytes. If it succeeds, a program
follows that gets so many of the words before the command."""
import os, subprocess, sys, threading, time

limit, then, words = int(sys.argv[1]), sys.argv[2], 4 + int(sys.argv[3])
argv = sys.argv[words:]
os.makedirs(os.environ.get("TMPDIR", "/tmp"), exist_ok=True)


def written():
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in (1, os.getpid()):
            continue
        try:
            with open(f"/proc/{pid}/io") as io:
                total += sum(int(line[6:]) for line in io if line.startswith("wchar:"))
        except OSError:
            pass  # it ended, with what it wrote counted at its parent from now on
    return total


def watch():
    while written() <= limit:
        time.sleep(0.1)
    too_much.set()
    program.kill()


too_much = threading.Event()
program = subprocess.Popen(argv)
threading.Thread(target=watch, daemon=True).start()
status = program.wait()
if too_much.is_set():
    sys.exit("error: the packages need more room than an environment may have")
if status != 0:
    sys.exit(status if status > 0 else 128 - status)
sys.argv[1:] = sys.argv[4:words]
exec(then)
