"""Programs of a benchmark: started in their own folder, measured from outside, ended by their id."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

__all__ = ["Usage", "free_ports", "running", "until_answers", "usage_of"]

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used up, and what it holds."""

    cpu_seconds: float
    resident_bytes: int
    peak_resident_bytes: int


def usage_of(pid: int) -> Usage:
    """Read a process's CPU time (its own and that of children it waited for) and memory from ``/proc``."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    )
    return Usage(
        cpu_seconds=sum(map(int, fields[11:15])) / _TICKS_PER_SECOND,
        resident_bytes=int(status["VmRSS"].split()[0]) * 1024,
        peak_resident_bytes=int(status["VmHWM"].split()[0]) * 1024,
    )


def free_ports(number: int) -> list[int]:
    """Return loopback ports that nothing listens on."""
    with ExitStack() as held:
        sockets = [held.enter_context(closing(socket.socket())) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def running(command: Sequence[str | Path], log: Path) -> Iterator[int]:
    """Run a program while the context lasts; gives its process id.

    Args:
        command: the program and its arguments.
        log: where its output goes.
    """
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process.pid
        finally:
            if process.poll() is not None:
                print(
                    f"{command[0]} ended by itself:\n{log.read_text(errors='replace')[-2000:]}",
                    file=sys.stderr,
                )
            process.terminate()


def until_answers(url: str, timeout_seconds: float = 20.0) -> None:
    """Wait until a URL answers 200.

    Raises:
        TimeoutError: it did not in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=2) as response:  # noqa: S310 - always loopback
                response.read()
                return
        except (URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(f"{url} did not answer within {timeout_seconds:g} s")
