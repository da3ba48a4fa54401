"""What another process does between two system calls of the reader neither loses nor doubles a line."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.access_logs import NOW_SECONDS, log_config, prompts_of, usage_line
from vllm_advisor.sources.access_logs import LogTail, tail
from vllm_advisor.sources.access_logs.tail_mark import Mark
from vllm_advisor.sources.access_logs.tail_source import LogSource

LINES = b"".join(usage_line(prompt, 1) for prompt in range(1, 40))


class Moments:
    """Lets something happen once, just before or after a step of the reader."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def before_opening(self, path: Path, happens: Callable[[], object]) -> None:
        """Between the look at a name and the opening of what it stands for."""
        coming = [happens]

        def opened(name: Path) -> LogSource:
            if name == path and coming:
                coming.pop()()
            return original(name)

        original = tail.open_source
        self._patch.setattr(tail, "open_source", opened)

    def after_fitting(self, happens: Callable[[], object]) -> None:
        """Between the decision to go on with a file and the first look into it after that."""
        coming = [happens]

        def fits(mark: Mark, source: LogSource) -> bool:
            found = original(mark, source)
            if found and coming:
                coming.pop()()
            return found

        original = Mark.fits
        self._patch.setattr(Mark, "fits", fits)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    """Moments of the reader in this test."""
    return Moments(monkeypatch)


def prompts_after(reader: LogTail, polls: int = 3) -> list[int]:
    """Return what some polls find, a minute apart."""
    found = [prompts_of(reader.poll(NOW_SECONDS + 61.0 * poll)) for poll in range(polls)]
    return sorted(prompt for prompts in found for prompt in prompts)


def followed(folder: Path, content: bytes = LINES) -> tuple[Path, LogTail]:
    """Return a log that was read to its end, and its reader."""
    path = folder / "a.log"
    path.write_bytes(content)
    reader = LogTail(log_config(folder / "a.log*"))
    assert prompts_after(reader, 1) == list(range(1, 40))
    return path, reader


def restarted(folder: Path, reader: LogTail) -> LogTail:
    """Return another reader that takes up where one stood."""
    reader.close()
    return LogTail(log_config(folder / "a.log*"), reader.state())


def test_a_copy_that_was_empty_when_looked_at_is_a_copy(tmp_path: Path, moments: Moments) -> None:
    """Its size was taken before the first byte came, its content after."""
    path, reader = followed(tmp_path)
    copy = tmp_path / "a.log.1"
    copy.touch()
    moments.before_opening(copy, lambda: copy.write_bytes(LINES))
    assert prompts_after(reader) == []
    os.truncate(path, 0)
    assert prompts_after(reader) == []


def test_a_log_truncated_while_it_is_taken_up_again(tmp_path: Path, moments: Moments) -> None:
    """The mark stays for the copy, and what is written anew is read from its start."""
    path, reader = followed(tmp_path)
    reader = restarted(tmp_path, reader)
    shutil.copy(path, tmp_path / "a.log.1")
    moments.after_fitting(lambda: os.truncate(path, 0))
    assert prompts_after(reader) == []
    path.write_bytes(usage_line(40, 1))
    assert prompts_after(reader) == [40]


def test_a_name_that_goes_to_another_file_before_it_is_opened(tmp_path: Path, moments: Moments) -> None:
    """What is open is told by the system, not by the name it had."""
    path, reader = tmp_path / "a.log", LogTail(log_config(tmp_path / "a.log*"))
    path.write_bytes(LINES)

    def rotate() -> None:
        path.rename(tmp_path / "a.log.1")
        path.write_bytes(usage_line(40, 1))

    moments.before_opening(path, rotate)
    assert prompts_after(reader) == list(range(1, 41))


def test_a_file_that_goes_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the folder still listed may stand for nothing a moment later."""
    path, reader = followed(tmp_path)
    (tmp_path / "a.log.1").write_bytes(usage_line(40, 1))
    is_file = Path.is_file

    def is_file_for_now(name: Path) -> bool:
        found = is_file(name)
        (tmp_path / "a.log.1").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "is_file", is_file_for_now)
    with path.open("ab") as file:
        file.write(usage_line(41, 1))
    assert prompts_after(reader) == [41]


@pytest.mark.parametrize("part", [1, 500, 1500, len(LINES) - 1])
def test_a_copy_found_half_written_after_a_restart(tmp_path: Path, part: int) -> None:
    """The original is taken up first; its copy is not begun, however old it looks."""
    path, reader = followed(tmp_path)
    copy = tmp_path / "a.log.1"
    copy.write_bytes(LINES[:part])
    os.utime(copy, (0, 0))
    reader = restarted(tmp_path, reader)
    assert prompts_after(reader) == []
    copy.write_bytes(LINES)
    os.truncate(path, 0)
    assert prompts_after(reader) == []


def test_a_copy_found_before_its_original(tmp_path: Path) -> None:
    """Of two new files that begin alike the longer one is followed, whichever was found first."""
    copy, path = tmp_path / "a.log.1", tmp_path / "a.log"
    reader = LogTail(log_config(tmp_path / "a.log*"))
    copy.write_bytes(LINES[: len(LINES) // 2])
    os.utime(copy, (0, 0))
    path.write_bytes(LINES)
    assert prompts_after(reader) == list(range(1, 40))


def test_an_archive_half_written_after_its_original_was_let_go(tmp_path: Path) -> None:
    """A file with the head of what was read and less than it is waited for."""
    content = b"".join(usage_line(prompt, 1, note=os.urandom(4000).hex()) for prompt in range(1, 40))
    path, reader = followed(tmp_path, content)
    packed = gzip.compress(content)
    path.unlink()
    assert prompts_after(reader) == []
    archive = tmp_path / "a.log.1.gz"
    archive.write_bytes(packed[: len(packed) * 3 // 4])
    assert prompts_after(reader) == []
    reader = restarted(tmp_path, reader)
    assert prompts_after(reader) == []
    archive.write_bytes(packed)
    assert prompts_after(reader) == []


def test_many_logs_archived_at_once(tmp_path: Path) -> None:
    """However many files go at the same time, each is known again before any is forgotten."""
    reader = LogTail(log_config(tmp_path / "*"))
    logs = [tmp_path / f"{number}.log" for number in range(1, 101)]
    for number, path in enumerate(logs, start=1):
        path.write_bytes(usage_line(number, 1))
    assert prompts_after(reader) == list(range(1, 101))
    for path in logs:
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert prompts_after(reader, 4) == []
    reader.close()
    reader = LogTail(log_config(tmp_path / "*"), reader.state())
    assert prompts_after(reader) == []
