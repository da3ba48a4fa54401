"""A writer and a reader take turns at every system call: whoever is first, each line is read once."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.access_logs import NOW_SECONDS, log_config, prompts_of, usage_line
from vllm_advisor.sources.access_logs import LogTail, Outcome

RUNS = 30
STEPS = 160
OPEN, CLOSE = os.open, os.close


class Killed(BaseException):
    """The reader dies here."""


class Writer:
    """Writes and rotates in small steps, each of them one system call.

    Args:
        folder: where the log is.
        chance: what it does next.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.path = folder / "a.log"
        self.written = self.rotations = 0
        self._chance = chance

    def steps(self, count: int) -> Iterator[None]:
        """Do about so many steps."""
        ways = (self._rename, self._copy, self._compress, self._compress_and_truncate)
        yield from self._append()
        for _ in range(count):
            rotates = self.path.exists() and self._chance.random() < 0.1
            yield from self._chance.choice(ways)() if rotates else self._append()

    def _append(self) -> Iterator[None]:
        for _ in range(self._chance.choice((1, 2, 12))):
            self.written += 1
            line = usage_line(self.written, 1)
            at = self._chance.choice((0, self._chance.randrange(len(line))))
            for part in filter(None, (line[:at], line[at:])):
                with self.path.open("ab", buffering=0) as file:
                    file.write(part)
                yield

    def _rename(self) -> Iterator[None]:
        self.path.rename(self._rotated())
        yield

    def _copy(self) -> Iterator[None]:
        yield from self._write_slowly(self._rotated(), self.path.read_bytes())
        os.truncate(self.path, 0)
        yield

    def _compress(self) -> Iterator[None]:
        rotated = self._rotated()
        self.path.rename(rotated)
        yield
        yield from self._write_slowly(rotated.with_name(f"{rotated.name}.gz"), _packed(rotated))
        rotated.unlink()
        yield

    def _compress_and_truncate(self) -> Iterator[None]:
        yield from self._write_slowly(self._rotated(".gz"), _packed(self.path))
        os.truncate(self.path, 0)
        yield

    def _rotated(self, suffix: str = "") -> Path:
        self.rotations += 1
        return self.path.with_name(f"{self.path.name}.{self.rotations}{suffix}")

    def _write_slowly(self, path: Path, content: bytes) -> Iterator[None]:
        size = self._chance.choice((300, 1000, 5000, 1 << 20))
        for part in (b"", *(content[at : at + size] for at in range(0, len(content), size))):
            with path.open("ab", buffering=0) as file:
                file.write(part)
            yield


def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 1, mtime=0)


class Turns:
    """Lets the writer go on, or kills the reader, before any system call of the reader.

    Args:
        steps: the writer's.
        chance: who is next.
    """

    def __init__(self, steps: Iterator[None], chance: random.Random) -> None:
        self.over = self._busy = False
        self._opened: set[int] = set()
        self._steps, self._chance = steps, chance
        self._going_on = chance.choice((0.02, 0.1, 0.5, 0.9))
        self._kill = chance.choice((0.0, 0.001, 0.01))

    def open(self, *args: Any, **kwargs: Any) -> int:
        """Open a file, which the system closes when the reader dies."""
        self.take()
        descriptor = OPEN(*args, **kwargs)
        self._opened.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a file."""
        self._opened.discard(descriptor)
        CLOSE(descriptor)

    def bury(self) -> None:
        """Close what the dead left open."""
        for descriptor in list(self._opened):
            self.close(descriptor)

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a system call that others come before."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.take()
            return call(*args, **kwargs)

        return called

    def take(self) -> None:
        """Let the others have their turn."""
        if self._busy or self.over:
            return
        self._busy = True
        try:
            while not self.over and self._chance.random() < self._going_on:
                self.over = next(self._steps, self) is self
        finally:
            self._busy = False
        if self._chance.random() < self._kill:
            raise Killed


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the dead close no files
@pytest.mark.parametrize("seed", range(RUNS))
def test_whoever_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Copies, archives and truncations are met at every stage, by a reader that dies and comes back."""
    chance = random.Random(seed)  # noqa: S311 - a reproducible test
    writer = Writer(tmp_path, chance)
    turns = Turns(writer.steps(STEPS), chance)
    log = log_config(tmp_path / "a.log*")
    state: dict[str, Any] | None = None
    prompts: list[int] = []
    tail, polls_left = LogTail(log), 10
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", turns.open)
        patch.setattr(os, "close", turns.close)
        for name in ("pread", "stat", "fstat"):
            patch.setattr(os, name, turns.before(getattr(os, name)))
        limit_bytes = chance.choice((1, 1 << 10, 1 << 14, 1 << 20))
        now_seconds = NOW_SECONDS
        while polls_left:
            polls_left -= turns.over
            now_seconds += 61.0 if turns.over else chance.choice((0.1, 1.0))
            limit_bytes = 1 << 23 if turns.over else limit_bytes
            try:
                turns.take()
                found = prompts_of(tail.poll(now_seconds, limit_bytes=limit_bytes))
                state = json.loads(json.dumps(tail.state()))
                prompts += found
            except Killed:
                turns.bury()
                tail = LogTail(log, state)
    tail.close()
    assert sorted(prompts) == list(range(1, writer.written + 1))
    assert tail.counts[Outcome.SERVED] == writer.written
    assert tail.counts[Outcome.BROKEN] == 0
