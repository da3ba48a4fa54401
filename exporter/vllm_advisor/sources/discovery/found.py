"""Targets as a discovery finds them: sets of labels, Prometheus' ``__address__`` among them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.http_client import AnswerError

__all__ = ["Found", "Listing", "polled", "targets_of_groups"]

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Found:
    """One target that was found.

    Args:
        labels: ``__address__`` and what else is known, before relabelling.
        facts: what its container's arguments say of the engine.
    """

    labels: Mapping[str, str]
    facts: EngineFacts = field(default_factory=EngineFacts)


@dataclass(frozen=True, slots=True)
class Listing:
    """What one discovery knows at a moment.

    Args:
        targets: every target; None where the last list stands.
        problem: what is wrong, empty when nothing is.
    """

    targets: tuple[Found, ...] | None
    problem: str = ""


async def polled(
    fetch: Callable[[], Awaitable[Sequence[Found]]], every_seconds: float
) -> AsyncGenerator[Listing, None]:
    """Ask again and again; a bad answer leaves the last good list."""
    while True:
        try:
            yield Listing(tuple(await fetch()))
        except AnswerError as error:
            yield Listing(None, str(error))
        await asyncio.sleep(every_seconds)


def targets_of_groups(document: Any, more: Mapping[str, str]) -> list[Found]:  # noqa: ANN401
    """Read Prometheus' list of ``{"targets": [...], "labels": {...}}``.

    Args:
        document: as JSON or YAML gave it.
        more: labels that every target of it gets.

    Raises:
        ValueError: it is not such a list.
    """
    if not isinstance(document, list):
        raise ValueError('expected a list of {"targets": [...], "labels": {...}}')  # noqa: TRY004
    return [found for group in document for found in _targets_of_group(group, more)]


def _targets_of_group(group: Any, more: Mapping[str, str]) -> list[Found]:  # noqa: ANN401
    if not isinstance(group, dict) or not group.keys() <= {"targets", "labels"}:
        raise ValueError("expected groups with targets and labels, and nothing else")
    targets, labels = group.get("targets") or [], group.get("labels") or {}
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ValueError("expected targets to be a list of host:port")
    if not isinstance(labels, dict) or not all(isinstance(value, str | None) for value in labels.values()):
        raise ValueError("expected labels to be names with texts")
    for name in labels:
        if not _LABEL_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid label name")
    labels = {name: value for name, value in labels.items() if value}
    return [Found({**labels, **more, "__address__": target}) for target in targets]
