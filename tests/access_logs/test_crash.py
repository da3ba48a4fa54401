"""However often the process is killed, every line counts once."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import time
from pathlib import Path

from support.access_logs import log_config, usage_line
from vllm_advisor.evidence.lengths import ContextLengths
from vllm_advisor.sources.access_logs import LogTail, Outcome
from vllm_advisor.store import Store

KILLS = 60
WINDOW_SECONDS = 1e6


def test_killed_at_random_moments_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """A writer appends and rotates in three ways while the reader is killed with SIGKILL, again and again."""
    chance = random.Random(20261201)  # noqa: S311 - a reproducible test
    writer = Writer(tmp_path / "logs", chance)
    commits = 0
    for _ in range(KILLS):
        pid = os.fork()
        if pid == 0:
            follow_for_ever(tmp_path)
        deadline = time.monotonic() + chance.uniform(0.01, 0.08)
        while time.monotonic() < deadline:
            writer.step()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        commits += (tmp_path / "data" / "state.db").exists()
    lengths, tail = finish(tmp_path)
    assert commits > KILLS / 2
    assert lengths.snapshot(writer.time_seconds).requests == writer.written
    assert tail.counts == {Outcome.SERVED: writer.written, Outcome.BROKEN: 0}
    assert lengths.snapshot(writer.time_seconds).prompt.counts.sum() == writer.written
    assert writer.written > 20 * KILLS
    assert writer.rotations > KILLS / 4


class Writer:
    """Appends lines, half lines now and then, and rotates by rename, by copy and by compression."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        folder.mkdir()
        self.path = folder / "a.log"
        self.written = self.rotations = 0
        self.time_seconds = time.time()
        self._chance = chance

    def step(self) -> None:
        """Write a few lines, or rotate."""
        with self.path.open("ab", buffering=0) as file:
            for _ in range(self._chance.randrange(8)):
                self.written += 1
                line = usage_line(self.written, 1, self.time_seconds)
                at = self._chance.randrange(len(line))
                file.write(line[:at])
                file.write(line[at:])
        time.sleep(0.0005)
        if self._chance.random() < 0.03:
            self.rotations += 1
            self._chance.choice((self._rename, self._copy, self._compress))()

    def _rename(self) -> None:
        self.path.rename(self._rotated(""))

    def _copy(self) -> None:
        shutil.copyfile(self.path, self._rotated(""))
        os.truncate(self.path, 0)

    def _compress(self) -> None:
        rotated = self._rotated("")
        self.path.rename(rotated)
        rotated.with_name(f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes(), 1))
        rotated.unlink()

    def _rotated(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{self.rotations}{suffix}")


def opened(folder: Path) -> tuple[Store, ContextLengths, LogTail]:
    """Return what was saved last, or a start."""
    store = Store(folder / "data")
    state = store.load()
    log = log_config(folder / "logs" / "a.log*")
    if state is None:
        return store, ContextLengths(WINDOW_SECONDS), LogTail(log)
    return store, ContextLengths.from_state(state["lengths"]), LogTail(log, state["tail"])


def follow_for_ever(folder: Path) -> None:
    """Read and commit until killed."""
    try:
        store, lengths, tail = opened(folder)
        while True:
            follow(store, lengths, tail, time.time())
    finally:
        os._exit(1)


def follow(store: Store, lengths: ContextLengths, tail: LogTail, now_seconds: float) -> None:
    """Read once, and commit."""
    for request in tail.poll(now_seconds, limit_bytes=1 << 14):
        lengths.observe(request)
    store.save({"lengths": lengths.state(), "tail": tail.state()})


def finish(folder: Path) -> tuple[ContextLengths, LogTail]:
    """Read to the end of everything, and once more from what was saved."""
    store, lengths, tail = opened(folder)
    for step in range(400):
        follow(store, lengths, tail, time.time() + step)
    store.close()
    tail.close()
    return lengths, tail
