"""Reads values out of a ``config.json`` and names the field when one is missing or of the wrong kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_advisor.errors import InputError

__all__ = ["Fields"]

_MOST = 10**12
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Fields:
    """One section of a model's config, over the defaults of its class.

    Args:
        given: the section as written.
        defaults: what the class supplies for a field that the section leaves out.
        path: the file, for problems.
        prefix: where the section stands in the file, dotted.
    """

    given: Mapping[str, Any]
    defaults: Mapping[str, Any]
    path: Path
    prefix: str = ""

    def get(self, *names: str) -> Any:  # noqa: ANN401 - JSON holds anything
        """Return the first of some spellings that is set, else the class's default, else None."""
        for source in (self.given, self.defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def count(self, *names: str) -> int:
        """Return a field that must be a positive whole number.

        Raises:
            InputError: it is missing or something else.
        """
        value = self.optional_count(*names)
        if value is None and self.get(*names) is not None:
            raise self.problem(names[0], "expected a whole number over zero, not 0")
        if value is None:
            raise self.problem(names[0], "is missing, and the KV cache cannot be worked out without it")
        return value

    def optional_count(self, *names: str) -> int | None:
        """Return a positive whole number, None where the field is missing or zero."""
        value = self.get(*names)
        if value is None:
            return None
        whole = value.is_integer() if isinstance(value, float) else isinstance(value, int)
        if isinstance(value, bool) or not whole or not 0 <= value <= _MOST:
            raise self.problem(names[0], f"expected a whole number over zero, not {_shown(value)}")
        return int(value) or None

    def mean_count(self, *names: str) -> int | None:
        """Return a count that some configs give for each layer, as its mean; None where it is missing."""
        if not isinstance(self.get(*names), list):
            return self.optional_count(*names)
        each = self.counts(*names)
        if any(count < 0 for count in each):
            raise self.problem(names[0], "expected whole numbers over zero")
        return sum(each) // max(1, len(each)) or None

    def text(self, name: str) -> str | None:
        """Return a word, None where the field is missing."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.problem(name, f"expected a word, not {_shown(value)}")
        return value

    def texts(self, *names: str) -> tuple[str, ...]:
        """Return a list of words, empty where the field is missing."""
        value = self.get(*names)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.problem(names[0], f"expected a list of words, not {_shown(value)}")
        return tuple(value)

    def counts(self, *names: str) -> tuple[int, ...]:
        """Return a list of whole numbers, empty where the field is missing."""
        value = self.get(*names)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(item, int) and abs(item) <= _MOST for item in value
        ):
            raise self.problem(names[0], f"expected a list of whole numbers, not {_shown(value)}")
        return tuple(value)

    def section(self, name: str) -> Fields:
        """Return a section inside this one, empty where it is missing."""
        value = self.get(name)
        given = value if isinstance(value, Mapping) else {}
        return Fields(given, {}, self.path, f"{self.prefix}{name}.")

    def problem(self, name: str, problem: str) -> InputError:
        """Return what to raise for one field of this section."""
        return InputError(problem, path=self.path, key=self.prefix + name)


def _shown(value: object) -> str:
    """Return a value as written, cut where it would fill the line; Python writes none of 5,000 digits."""
    try:
        text = repr(value)
    except ValueError:
        return "a huge number"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
