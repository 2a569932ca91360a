"""Runs a command, and ends it once the box's programs have written more than a number of bytes."""
import os, subprocess, sys, threading, time

limit, argv = int(sys.argv[1]), sys.argv[2:]


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
sys.exit(status if status >= 0 else 128 - status)
