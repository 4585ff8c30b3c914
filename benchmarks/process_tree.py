"""Run a command and measure its whole tree of processes: wall and CPU seconds, and the peak of memory.

Linux only. Processes whose parent ended first are counted too: this process adopts them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
EVERY = 0.2  # seconds between two looks at memory
GRACE = 5.0  # seconds that processes may outlive the command


class Usage(NamedTuple):
    status: int  # exit status; minus the signal's number if one ended it
    wall: float  # seconds
    cpu: float  # seconds, of all processes
    memory: int  # bytes, largest sum over the tree; a page shared by n processes counts 1/n in each


def run(command: Sequence[str], log: Path, limit: float) -> Usage:
    """Run it with its output in `log`; over `limit` seconds its tree is killed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    start, peak, stop = time.monotonic(), [0], threading.Event()
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
    watch = threading.Thread(target=_watch, args=(process.pid, start + limit, peak, stop))
    watch.start()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    stop.set()
    watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime + _adopted()
    return Usage(process.returncode, wall, cpu, peak[0])


def _watch(root: int, deadline: float, peak: list[int], stop: threading.Event) -> None:
    while not stop.wait(EVERY):
        peak[0] = max(peak[0], sum(_memory(pid) for pid in _tree(os.getpid()) if pid != os.getpid()))
        if time.monotonic() > deadline:
            for pid in reversed(_tree(root)):
                _kill(pid)


def _adopted() -> float:
    """CPU seconds of processes that outlived the command; those that stay longer than `GRACE` are killed."""
    cpu, deadline = 0.0, time.monotonic() + GRACE
    while True:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu
        if pid:
            cpu += used.ru_utime + used.ru_stime
            continue
        if time.monotonic() > deadline:
            for each in _tree(os.getpid())[1:]:
                _kill(each)
        time.sleep(0.02)


def _tree(root: int) -> list[int]:
    """`root` and all processes below it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _memory(pid: int) -> int:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
