"""Access logs followed while they are written, rotated, copied, compressed and truncated."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.files import PACKED_SUFFIXES, find_files
from vllm_advisor.sources.access_logs.reader import LineReader
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.request import Logged, Outcome
from vllm_advisor.sources.access_logs.tail_file import TailedFile, size_and_time
from vllm_advisor.sources.access_logs.tail_mark import Mark
from vllm_advisor.sources.access_logs.tail_source import LogSource, open_source

__all__ = ["LogTail"]

_AT_ONCE_BYTES = 8 << 20
_LINGER_SECONDS = 60.0
"""How long a file is still read after it has left its place: whoever writes it may be slow to let go."""
_MARKS_KEPT = 64
"""Files remembered after they are gone; they may come back renamed or compressed."""

_Identity = tuple[int, int]
_Size = tuple[int, int]


class LogTail:
    """Follows the files of some access logs; each line is read once, however its file is moved about.

    Reading is bounded by call and blocks on nothing but the disk. What `poll` returned and what `state` says
    belong together: kept in one transaction, no line is lost or doubled whenever the process dies.

    Args:
        log: which files, and what they are.
        state: where an earlier one stood.

    Raises:
        KeyError, TypeError, ValueError: the state is not one that `state` gave.
    """

    def __init__(self, log: AccessLogConfig, state: Mapping[str, Any] | None = None) -> None:
        self.counts: Counter[Outcome] = Counter()
        self._log = log
        self._recent = Recent(REMEMBERED)
        self._files: dict[_Identity, TailedFile] = {}
        self._done: dict[_Identity, tuple[Mark, _Size]] = {}
        self._copies: dict[_Identity, TailedFile] = {}
        self._marks: deque[Mark] = deque()
        self._to_follow: list[Mark] = []
        if state is not None:
            self.counts.update({Outcome(name): int(count) for name, count in state["counts"].items()})
            self._marks.extend(Mark.from_state(mark) for mark in state["marks"])
            self._to_follow.extend(self._marks)

    def poll(self, now_seconds: float, *, limit_bytes: int = _AT_ONCE_BYTES) -> list[Logged]:
        """Read what is new, oldest file first.

        Args:
            now_seconds: epoch seconds.
            limit_bytes: about the most to read now; what is left comes with the next call.
        """
        self._look(now_seconds)
        found: list[Logged] = []
        for file in list(self._files.values()):
            while limit_bytes > 0:
                requests, size = file.read(now_seconds)
                found += requests
                limit_bytes -= size
                if not size:
                    found += self._at_end(file, now_seconds)
                    break
        return found

    def state(self) -> dict[str, Any]:
        """Return how far every file was read, as plain JSON values; nothing of what they hold."""
        live = [file.mark() for file in self._files.values() if file.position]
        marks = [*self._marks, *(mark for mark, _ in self._done.values()), *live]
        return {
            "counts": {str(outcome): count for outcome, count in self.counts.items()},
            "marks": [mark.state() for mark in marks],
        }

    def close(self) -> None:
        """Give every file back."""
        for file in self._files.values():
            file.close()

    def _look(self, now_seconds: float) -> None:
        """See what is there: new files, changed ones, and those that went."""
        unknown, seen = [], set[_Identity]()
        for path in find_files(self._log.paths):
            with suppress(OSError):
                stat = path.stat()
                seen.add(identity := (stat.st_dev, stat.st_ino))
                if not self._is_known(path, stat, identity):
                    unknown.append((path, stat))
        begun = {mark.identity for mark in self._marks}
        for path, stat in sorted(unknown, key=lambda one: (one[1].st_dev, one[1].st_ino) not in begun):
            with suppress(OSError):
                self._open(path, stat)
        for identity in self._done.keys() - seen:
            self._remember(self._done.pop(identity)[0])
        for identity, file in list(self._files.items()):
            gone = identity not in seen
            file.gone_since_seconds = (file.gone_since_seconds or now_seconds) if gone else None
            if gone and not file.is_intact():
                self._end(file)
        while self._to_follow:
            self._follow(self._to_follow.pop())

    def _is_known(self, path: Path, stat: os.stat_result, identity: _Identity) -> bool:
        file = self._files.get(identity)
        if file is None:
            mark, size = self._done.get(identity, (None, None))
            if mark is not None and size != size_and_time(stat):
                self._remember(self._done.pop(identity)[0])
            return size == size_and_time(stat)
        if file.is_intact_at(stat):
            file.path = path
            return True
        self._end(file)
        self._to_follow.append(self._marks[-1])
        return False

    def _open(self, path: Path, stat: os.stat_result) -> None:
        """Begin a file, or go on with one that was read before under another name."""
        identity = (stat.st_dev, stat.st_ino)
        size_bytes = None if path.suffix in PACKED_SUFFIXES else stat.st_size
        source = open_source(path)
        if not source.read(0, 1):
            source.close()  # nothing shows yet whether it is a new file or the copy of another
            return
        original = next((file for file in self._files.values() if file.holds(source, size_bytes)), None)
        if original is not None:
            self._copies[identity] = original
            source.close()
            return
        mark = self._fitting(source)
        if mark is None and not all(file.is_intact() for file in self._files.values()):
            source.close()  # it may be the copy of one truncated just now, which shows at the next look
            return
        copied = self._copies.pop(identity, None)
        if mark is None and copied is not None and copied is not self._files.get(copied.identity):
            self._done[identity] = Mark.at_end(path, stat, source), size_and_time(stat)
            source.close()
            return
        self._begin(path, stat, source, mark)

    def _begin(self, path: Path, stat: os.stat_result, source: LogSource, mark: Mark | None) -> None:
        reader = LineReader(self._log, self._recent, self.counts)
        file = TailedFile(path, stat, source, reader, mark)
        file.is_intact_at(stat)
        self._files[file.identity] = file

    def _fitting(self, source: LogSource) -> Mark | None:
        mark = next((mark for mark in self._marks if mark.fits(source)), None)
        if mark is not None:
            self._marks.remove(mark)
        return mark

    def _follow(self, mark: Mark) -> None:
        """Look beside a file for what became of it, where its new name is none of those looked for."""
        if mark not in self._marks:
            return
        place = Path(mark.path)
        with suppress(OSError):
            for path in sorted(place.parent.iterdir()):
                stat = path.stat()
                identity = (stat.st_dev, stat.st_ino)
                if identity in self._files or not (
                    path.name.startswith(place.name) or identity == mark.identity
                ):
                    continue
                source = open_source(path)
                if mark.fits(source):
                    self._marks.remove(mark)
                    self._begin(path, stat, source, mark)
                    return
                source.close()

    def _at_end(self, file: TailedFile, now_seconds: float) -> list[Logged]:
        """Let go of a file that nothing more will come to."""
        gone = file.gone_since_seconds
        if not file.is_packed and (gone is None or now_seconds - gone < _LINGER_SECONDS):
            return []
        found = file.rest(now_seconds)
        self._end(file)
        if file.is_packed and gone is None:
            self._done[file.identity] = self._marks.pop(), file.size
        return found

    def _end(self, file: TailedFile) -> None:
        del self._files[file.identity]
        self._remember(file.mark())
        file.close()

    def _remember(self, mark: Mark) -> None:
        self._marks.append(mark)
        if len(self._marks) > _MARKS_KEPT + len(self._to_follow):
            self._marks.popleft()
