"""Each line is read once, however its file is moved about."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from support.access_logs import NOW_SECONDS, log_config, prompts_of, usage_line
from vllm_advisor.sources.access_logs import LogTail, Outcome


class Follower:
    """A tail that is stopped and started again between any two steps, when asked to."""

    def __init__(self, *globs: Path | str, restarts: bool = False, **settings: object) -> None:
        self.log = log_config(*globs, **settings)
        self.restarts = restarts
        self.tail = LogTail(self.log)
        self.now_seconds = NOW_SECONDS
        self.prompts: list[int] = []

    def poll(self, after_seconds: float = 1.0) -> list[int]:
        """Read what is new; return the prompt lengths."""
        self.now_seconds += after_seconds
        if self.restarts:
            self.tail.close()
            self.tail = LogTail(self.log, json.loads(json.dumps(self.tail.state())))
        prompts = prompts_of(self.tail.poll(self.now_seconds))
        self.prompts += prompts
        return prompts


@pytest.fixture(params=[False, True], ids=["running", "restarted"])
def restarts(request: pytest.FixtureRequest) -> bool:
    """Whether the tail is started anew from its state before every poll."""
    return bool(request.param)


def append(path: Path, *prompts: int) -> None:
    """Write whole lines at the end of a file."""
    with path.open("ab") as file:
        file.writelines(usage_line(prompt, 1) for prompt in prompts)


def test_new_lines_and_new_files_are_read_once(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """A glob finds files as they appear; what was read is not read again."""
    follower = Follower(tmp_path / "*.jsonl", restarts=restarts)
    append(tmp_path / "a.jsonl", 1, 2)
    assert follower.poll() == [1, 2]
    append(tmp_path / "a.jsonl", 3)
    append(tmp_path / "b.jsonl", 4)
    assert sorted(follower.poll()) == [3, 4]
    assert follower.poll() == []


def test_half_a_line_waits_for_its_end(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """A line counts when its newline is there, not before, and once."""
    path, line = tmp_path / "a.jsonl", usage_line(7, 1)
    follower = Follower(path, restarts=restarts)
    path.write_bytes(usage_line(6, 1) + line[:20])
    assert follower.poll() == [6]
    with path.open("ab") as file:
        file.write(line[20:])
    assert follower.poll() == [7]
    assert follower.tail.counts[Outcome.BROKEN] == 0


def test_rotation_by_rename(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """The old file is read to its end and the new one from its start, within the glob or out of it."""
    path = tmp_path / "a.log"
    for glob in ("a.log", "a.log*"):
        follower = Follower(tmp_path / glob, restarts=restarts)
        append(path, 1)
        follower.poll()
        append(path, 2)
        path.rename(tmp_path / "a.log.1")
        append(path, 3)
        follower.poll()
        append(tmp_path / "a.log.1", 4)
        follower.poll()
        assert sorted(follower.prompts) == [1, 2, 3, 4], glob
        path.unlink()
        (tmp_path / "a.log.1").unlink()


def test_rotation_by_copy_and_truncation(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """The copy is known by its content: its unread end is read, and the rest of it is not read again."""
    path = tmp_path / "a.log"
    for glob in ("a.log", "a.log*"):
        follower = Follower(tmp_path / glob, restarts=restarts)
        append(path, *range(1, 40))
        follower.poll()
        append(path, 40)
        shutil.copy(path, tmp_path / "a.log.1")
        os.truncate(path, 0)
        append(path, 41)
        follower.poll()
        follower.poll()
        assert sorted(follower.prompts) == list(range(1, 42)), glob
        path.unlink()
        (tmp_path / "a.log.1").unlink()


def test_a_copy_seen_before_the_truncation_is_not_read_twice(tmp_path: Path) -> None:
    """Between copy and truncation both files hold the same lines."""
    path = tmp_path / "a.log"
    follower = Follower(tmp_path / "a.log*")
    append(path, *range(1, 40))
    follower.poll()
    shutil.copy(path, tmp_path / "a.log.1")
    append(path, 40)
    assert follower.poll() == [40]
    os.truncate(path, 0)
    append(path, 41)
    follower.poll()
    follower.poll()
    assert sorted(follower.prompts) == list(range(1, 42))


def test_a_compressed_rotation_is_known_by_its_content(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """What was read as plain text is not read again from the .gz, and what was not is."""
    path = tmp_path / "a.log"
    follower = Follower(tmp_path / "a.log*", restarts=restarts)
    append(path, *range(1, 40))
    follower.poll()
    append(path, 40)
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    append(path, 41)
    for _ in range(3):
        follower.poll(61.0)
    assert sorted(follower.prompts) == list(range(1, 42))


def test_compressed_files_are_read_once(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """An archive found at the start is read whole, its last line without a newline too."""
    follower = Follower(tmp_path / "*.gz", restarts=restarts)
    content = b"".join(usage_line(prompt, 1) for prompt in range(1, 6))
    (tmp_path / "old.gz").write_bytes(gzip.compress(content.rstrip(b"\n")))
    for _ in range(3):
        follower.poll()
    assert follower.prompts == [1, 2, 3, 4, 5]


def test_a_truncated_file_is_read_from_its_start(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """New content in the old inode is new, be it shorter or longer than the old."""
    path = tmp_path / "a.log"
    follower = Follower(path, restarts=restarts)
    append(path, 1, 2, 3)
    follower.poll()
    path.write_bytes(usage_line(4, 1))
    assert follower.poll() == [4]
    path.write_bytes(b"".join(usage_line(prompt, 1) for prompt in range(5, 30)))
    assert follower.poll() == list(range(5, 30))


def test_a_name_used_again_is_a_new_file(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """A file that replaces another is read from its start, whatever inode it gets."""
    path = tmp_path / "a.log"
    follower = Follower(path, restarts=restarts)
    for generation in range(1, 12):
        append(path, generation)
        assert follower.poll() == [generation]
        path.unlink()


def test_files_that_begin_alike_are_not_taken_for_one_another(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """Two replicas write the same header and the same first row."""
    follower = Follower(tmp_path / "*.csv", restarts=restarts)
    header = "prompt_tokens,completion_tokens\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(header)
    follower.poll()
    for name, prompt in (("a", 1), ("b", 2)):
        with (tmp_path / f"{name}.csv").open("a") as file:
            file.write(f"{prompt},1\n{prompt + 10},1\n")
    follower.poll()
    follower.poll()
    assert sorted(follower.prompts) == [1, 2, 11, 12]


def test_a_record_in_parts_survives_a_restart(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """Parts already read are fetched again from the file, since the state holds no text."""
    path, line = tmp_path / "0.log", usage_line(9, 1)
    follower = Follower(path, restarts=restarts)
    stamp = b"2026-11-30T09:15:00.1Z stdout "
    path.write_bytes(stamp + b"F " + usage_line(8, 1) + stamp + b"P " + line[:15] + b"\n")
    assert follower.poll() == [8]
    assert '"usage' not in json.dumps(follower.tail.state())
    with path.open("ab") as file:
        file.write(stamp + b"P " + line[15:25] + b"\n")
    assert follower.poll() == []
    with path.open("ab") as file:
        file.write(stamp + b"F " + line[25:])
    assert follower.poll() == [9]
    assert follower.tail.counts[Outcome.BROKEN] == 0


def test_columns_survive_a_restart(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """The header is fetched again from the file; a row over two lines is put together."""
    path = tmp_path / "a.csv"
    follower = Follower(path, restarts=restarts)
    path.write_text("prompt_tokens,completion_tokens,note\n1,2,x\n")
    assert follower.poll() == [1]
    with path.open("a") as file:
        file.write('3,4,"a\n')
    assert follower.poll() == []
    with path.open("a") as file:
        file.write('b"\n5,6,y\n')
    assert follower.poll() == [3, 5]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bytes_of_any_kind_are_survived(tmp_path: Path, end: bytes) -> None:
    """CR LF, a byte order mark, NUL bytes, bytes that are not UTF-8 and blank lines."""
    path = tmp_path / "a.log"
    good = [usage_line(prompt, 1).rstrip(b"\n") for prompt in (1, 2, 3)]
    bad = [b"\0" * 40, b'{"usage": "\xff\xfe"}', b"", b"   ", b"\x0b\x85"]
    path.write_bytes(b"\xef\xbb\xbf" + end.join([good[0], *bad, good[1], good[2], b""]))
    follower = Follower(path)
    assert follower.poll() == [1, 2, 3]
    assert follower.tail.counts[Outcome.BROKEN] == 3


def test_a_line_over_the_limit_is_skipped(tmp_path: Path, restarts: bool) -> None:  # noqa: FBT001
    """A prompt of megabytes on one line costs that line alone, also when it comes in pieces."""
    path = tmp_path / "a.log"
    follower = Follower(path, restarts=restarts)
    append(path, 1)
    for _ in range(3):
        with path.open("ab") as file:
            file.write(b"x" * 1_000_000)
        follower.poll()
    with path.open("ab") as file:
        file.write(b"x\n")
    append(path, 2)
    for _ in range(4):
        follower.poll()
    assert follower.prompts == [1, 2]
    assert follower.tail.counts[Outcome.TOO_LONG] == 1
    assert follower.tail.counts[Outcome.BROKEN] == 0


def test_work_is_bounded_by_call(tmp_path: Path) -> None:
    """A backlog is read in steps, and to its end."""
    path = tmp_path / "a.log"
    append(path, *range(1, 40_000))
    tail = LogTail(log_config(path))
    steps = []
    for _ in range(8):
        before = tail.counts[Outcome.SERVED]
        tail.poll(NOW_SECONDS, limit_bytes=1 << 20)
        steps.append(tail.counts[Outcome.SERVED] - before)
    assert max(steps) < 21_000
    assert sum(steps) == 39_999


def test_a_file_that_went_is_let_go(tmp_path: Path) -> None:
    """The last line of a deleted file counts though it has no newline, and its descriptor is given back."""
    path = tmp_path / "a.log"
    follower = Follower(path)
    path.write_bytes(usage_line(1, 1) + usage_line(2, 1).rstrip(b"\n"))
    follower.poll()
    descriptors = Path("/proc/self/fd")
    open_before = len(list(descriptors.iterdir()))
    path.unlink()
    for _ in range(3):
        follower.poll(61.0)
    assert follower.prompts == [1, 2]
    assert len(list(descriptors.iterdir())) == open_before - 1


def test_counts_outlive_a_restart(tmp_path: Path) -> None:
    """Lines by outcome go on where they were."""
    path = tmp_path / "a.log"
    follower = Follower(path, restarts=True)
    for prompt in (1, 2, 3):
        append(path, prompt)
        with path.open("ab") as file:
            file.write(b"{broken\n")
        follower.poll()
    assert follower.tail.counts == Counter({Outcome.SERVED: 3, Outcome.BROKEN: 3})
