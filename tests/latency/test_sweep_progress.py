"""What `sweep` shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from support.openai_server import OpenAiServer, serving

FLAGS = (
    "--yes",
    "--prompt-tokens=60",
    "--output-tokens=12",
    "--requests=20",
    "--levels=1,2",
    "--slo.tpot=10s",
)
ROWS_AND_COLUMNS = struct.pack("HHHH", 24, 100, 0, 0)


def _shown(server: OpenAiServer, folder: Path, *flags: str, on_terminal: bool) -> str:
    """Return what a sweep writes to standard error, a terminal or a pipe."""
    command = [sys.executable, "-m", "vllm_advisor", "sweep", server.url, *FLAGS, *flags]
    if not on_terminal:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stderr
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be had here: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, ROWS_AND_COLUMNS)
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs
    ) as process:
        os.close(theirs)
        written = b""
        while piece := _read(ours):
            written += piece
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def _lines(shown: str) -> list[str]:
    return [line.split("users:")[0].strip() for line in shown.splitlines() if "users: time per" in line]


def test_a_terminal_shows_a_bar_and_keeps_the_lines(tmp_path: Path) -> None:
    """Each level is seen warming up and being measured; what stays is a line a level, with no bar in it."""
    with serving(OpenAiServer()) as server:
        shown = _shown(server, tmp_path, on_terminal=True)
    assert "1 users, warm-up" in shown
    assert "2 users, measured" in shown
    assert "/20" in shown
    stays = [line.split("\r")[-1] for line in shown.replace("\r\n", "\n").split("\n")]
    assert _lines("\n".join(stays)) == ["1", "2"]
    assert not any("█" in line for line in stays)


@pytest.mark.parametrize(("flags", "lines"), [((), 2), (("--json",), 0)], ids=["plain", "json"])
def test_elsewhere_a_line_a_level_and_nothing_for_json(
    tmp_path: Path, flags: tuple[str, ...], lines: int
) -> None:
    """A pipe gets whole lines and nothing else; with --json it gets nothing."""
    with serving(OpenAiServer()) as server:
        shown = _shown(server, tmp_path, *flags, on_terminal=False)
    assert len(_lines(shown)) == len(shown.splitlines()) == lines
    assert "\r" not in shown


def test_json_shows_no_bar_on_a_terminal(tmp_path: Path) -> None:
    """With --json a terminal stays empty too."""
    with serving(OpenAiServer()) as server:
        assert _shown(server, tmp_path, "--json", on_terminal=True) == ""
