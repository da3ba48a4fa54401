"""What a user can cause, as one tree; each prints as one clear line.

AdvisorError            what the commands turn into one line on stderr and exit 1
├── InputError          a file or a value is wrong; names file, line and key
│   └── UsageError      a flag is wrong, missing, or contradicts another; exit 2
└── EvidenceError       the input is fine and does not allow an answer
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["AdvisorError", "EvidenceError", "InputError", "UsageError"]


class AdvisorError(Exception):
    """The root of everything a user can cause."""


class EvidenceError(AdvisorError):
    """The input was read, and what it holds does not support an answer."""


class InputError(AdvisorError):
    """Something the user gave is wrong.

    Args:
        problem: what is wrong and what was expected, without a final full stop.
        path: the file it stands in.
        line: the line, from 1.
        key: the key or field, dotted.
    """

    def __init__(
        self, problem: str, *, path: Path | str | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        self.problem, self.path, self.line, self.key = problem, path, line, key
        place = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(": ".join(part for part in (place, key, problem) if part))


class UsageError(InputError):
    """The command line is wrong."""
