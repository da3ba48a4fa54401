"""Access logs followed while they are written, rotated, copied, compressed and truncated."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vllm_advisor.config import AccessLogConfig
from vllm_advisor.sources.access_logs.files import find_files
from vllm_advisor.sources.access_logs.reader import LineReader
from vllm_advisor.sources.access_logs.recent import REMEMBERED, Recent
from vllm_advisor.sources.access_logs.request import Logged, Outcome
from vllm_advisor.sources.access_logs.tail_file import TailedFile, identity_of, size_and_time
from vllm_advisor.sources.access_logs.tail_mark import EDGE_BYTES, Mark
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
        for file in sorted(self._files.values(), key=lambda file: file.size[1]):
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
                seen.add(identity_of(stat))
                if not self._is_known(path, stat):
                    unknown.append(open_source(path))
        self._take_up(unknown)
        for identity in self._done.keys() - seen:
            self._marks.append(self._done.pop(identity)[0])
        for identity, file in list(self._files.items()):
            gone = identity not in seen
            file.gone_since_seconds = (file.gone_since_seconds or now_seconds) if gone else None
            if gone and not file.is_intact():
                self._end(file)
        while len(self._marks) > _MARKS_KEPT:
            self._marks.popleft()

    def _is_known(self, path: Path, stat: os.stat_result) -> bool:
        identity = identity_of(stat)
        file = self._files.get(identity)
        if file is None:
            mark, size = self._done.get(identity, (None, None))
            if mark is not None and size != size_and_time(stat):
                self._marks.append(self._done.pop(identity)[0])
            return size == size_and_time(stat)
        if file.is_intact_at(stat):
            file.path = path
            return True
        self._end(file)
        self._to_follow.append(self._marks[-1])
        return False

    def _take_up(self, unknown: list[LogSource]) -> None:
        """Go on with what was read before, under whatever name, and only then begin what is new."""
        unknown.sort(key=lambda source: source.is_packed)
        for as_itself in (True, False):
            unknown = [source for source in unknown if not self._is_resumed(source, as_itself=as_itself)]
        while self._to_follow:
            self._follow(self._to_follow.pop())
        for source in unknown:
            if self._is_settled(source) or self._may_be_copy(source) or not self._begin_new(source):
                source.close()

    def _is_resumed(self, source: LogSource, *, as_itself: bool) -> bool:
        """Go on with a file where its content was read to; tell whether it is done with for now."""
        identity = identity_of(source.stat())
        if self._is_settled(source):
            source.close()
            return True
        marks = (mark for mark in self._all_marks() if mark.identity == identity or not as_itself)
        fitting = [mark for mark in marks if mark.fits(source)]
        if not fitting:
            return False
        mark = max(fitting, key=lambda mark: mark.position)
        if not self._begin(source, mark):
            source.close()
        elif mark in self._marks:
            self._marks.remove(mark)
        return True

    def _is_settled(self, source: LogSource) -> bool:
        """Tell whether a file is one that is known, the copy of one that is followed, or still empty."""
        identity = identity_of(source.stat())
        return (
            identity in self._files
            or identity in self._done
            or not source.read(0, 1)
            or any(file.holds(source) for file in self._alike(source))
        )

    def _alike(self, source: LogSource) -> list[TailedFile]:
        start = source.read(0, EDGE_BYTES)
        return [file for file in self._files.values() if file.may_begin_as(start)]

    def _may_be_copy(self, source: LogSource) -> bool:
        """Tell whether a file may copy one truncated just now, or come to hold what was read before."""
        identity = identity_of(source.stat())
        return not all(file.is_intact() for file in self._files.values()) or any(
            mark.identity != identity and mark.may_fit_later(source) for mark in self._all_marks()
        )

    def _begin_new(self, source: LogSource) -> bool:
        """Begin a file, instead of the copy of its beginning if one is followed."""
        shorter = next((file for file in self._alike(source) if file.is_held_by(source)), None)
        begun = self._begin(source, shorter.mark() if shorter and shorter.position else None)
        if begun and shorter:
            del self._files[shorter.identity]
            shorter.close()
        return begun

    def _begin(self, source: LogSource, mark: Mark | None) -> bool:
        """Follow a file, unless it is truncated at this moment, which the next look shows."""
        file = TailedFile(source, LineReader(self._log, self._recent, self.counts), mark)
        if mark is not None and not file.resumes(mark):
            return False
        self._files[file.identity] = file
        return True

    def _all_marks(self) -> list[Mark]:
        return [*self._marks, *(mark for mark, _ in self._done.values())]

    def _follow(self, mark: Mark) -> None:
        """Look beside a file for what became of it, where its new name is none of those looked for."""
        if mark not in self._marks:
            return
        place = Path(mark.path)
        for path in _siblings(place):
            with suppress(OSError):
                identity = identity_of(path.stat())
                is_named_alike = path.name.startswith(place.name) or identity == mark.identity
                if not is_named_alike or identity in self._files or identity in self._done:
                    continue
                source = open_source(path)
                if mark.fits(source) and self._begin(source, mark):
                    self._marks.remove(mark)
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
        self._marks.append(file.mark())
        file.close()


def _siblings(path: Path) -> list[Path]:
    try:
        return sorted(path for path in path.parent.iterdir() if path.is_file())
    except OSError:
        return []
