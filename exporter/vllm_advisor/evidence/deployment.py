"""All evidence of one deployment: its engines' pages and its access logs, pooled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from vllm_advisor.addresses import without_password
from vllm_advisor.evidence.intervals import Pages, answer_in_turns, intervals_of, started_anew
from vllm_advisor.evidence.latency import LatencyEvidence, LatencySnapshot
from vllm_advisor.evidence.lengths import ContextLengths, ContextSnapshot
from vllm_advisor.evidence.occupancy import Occupancy, OccupancySnapshot
from vllm_advisor.evidence.timeline import Timeline
from vllm_advisor.evidence.traffic_shape import ShapeSnapshot, TrafficShape
from vllm_advisor.sources.access_logs import Logged
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_page, merge_facts
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.engine_series import NUMBERS, Bounds, EngineSeries, columns_of, series_of

__all__ = ["DeploymentEvidence", "DeploymentSnapshot", "EngineSnapshot", "Succession"]

GAP_SECONDS = 300.0
"""Pages further apart than this are not compared."""

RECENT_SECONDS = 3600.0
"""How far back the recent occupancy reaches."""

_PENDING_PAGES = 5_000

FORGET_SECONDS = 900.0
"""An engine not seen for this long is no longer part of the deployment."""


class Succession(IntEnum):
    """How pages follow those before them at the same address; a greater one says more."""

    SAME = 0
    RESTARTED = 1
    IN_TURNS = 2
    """Several engines answer at one address, and what happened between two of their pages is not known."""


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """One engine as last seen.

    Args:
        engine_id: target, without a password, and engine label.
        agrees: whether its flags are those of most engines; evidence of one that differs is left out.
        running: on its last page; ``waiting`` and ``kv_used_ratio`` likewise, None where it lacks them.
    """

    engine_id: str
    model_name: str
    facts: EngineFacts
    last_seen_seconds: float
    agrees: bool
    running: float | None = None
    waiting: float | None = None
    kv_used_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class DeploymentSnapshot:
    """Everything the evidence says of a deployment at one moment.

    Args:
        facts: what the engines that agree say of their configuration.
        occupancy: over the last day; ``recent_occupancy`` over the last hour.
        last_observation_seconds: Unix time of the newest page or log line, None before the first.
    """

    now_seconds: float
    model_name: str | None
    engines: tuple[EngineSnapshot, ...]
    facts: EngineFacts
    context: ContextSnapshot
    latency: LatencySnapshot
    occupancy: OccupancySnapshot
    recent_occupancy: OccupancySnapshot
    shape: ShapeSnapshot
    last_observation_seconds: float | None


@dataclass(slots=True)
class _Engine:
    """An engine as last seen."""

    last: EngineSeries
    page_facts: EngineFacts
    facts: EngineFacts = field(default_factory=EngineFacts)
    in_turns_seconds: float = -math.inf
    """When it was last seen that it is several engines."""

    @property
    def seen_seconds(self) -> float:
        return float(self.last.time_seconds[-1])

    @property
    def signature(self) -> tuple[object, ...]:
        """What must be equal between engines whose evidence is pooled; profiled sizes are not."""
        facts = self.facts
        return (
            self.last.model_name,
            facts.vllm_version,
            facts.max_model_len,
            facts.max_num_seqs,
            facts.cache_dtype,
            facts.gpu_memory_utilization_ratio,
        )


class DeploymentEvidence:
    """Rolling evidence of a deployment.

    Args:
        context_window_seconds: how long context lengths are kept.
        given: what the configuration says of the engines; what is read off them wins.
    """

    def __init__(self, context_window_seconds: float, given: EngineFacts | None = None) -> None:
        self._context_window_seconds = context_window_seconds
        self.lengths = ContextLengths(context_window_seconds)
        self.latency = LatencyEvidence()
        self.occupancy = Occupancy()
        self.timeline = Timeline()
        self.shape = TrafficShape(context_window_seconds)
        self._given = given or EngineFacts()
        self._target_facts: dict[str, EngineFacts] = {}
        self._target_arguments: dict[str, EngineFacts] = {}
        self._engines: dict[str, _Engine] = {}
        self._pending: list[Pages] = []
        self._pending_pages = 0
        self._signature: tuple[object, ...] | None = None
        self._last_observation_seconds: float | None = None

    def observe_page(self, target: str, time_seconds: float, samples: Iterable[EngineSample]) -> Succession:
        """Take in one page; return how it follows the last."""
        samples = tuple(samples)
        succession = self.observe_series(
            target, [series_of(sample, time_seconds, len(samples)) for sample in samples]
        )
        if self._pending_pages >= _PENDING_PAGES:
            self._take_in()
        return succession

    def observe_series(self, target: str, engines: Iterable[EngineSeries]) -> Succession:
        """Take in successive pages of a target; return how they follow those before.

        What happened between pages becomes evidence later, in the order of time: when someone looks at it, or
        when there is much of it. Many intervals at once cost little more than one. A page no newer than the
        last of its engine says nothing that did not count already; nor is one compared with that of another
        model, or of other flags, in the same place.
        """
        succession = Succession.SAME
        for series in engines:
            engine_id = f"{target}#{series.engine}"
            before = self._engines.get(engine_id)
            if before is not None and series.time_seconds[0] <= before.seen_seconds:
                series = series.outside(-math.inf, before.seen_seconds)  # noqa: PLW2901
            if not len(series.time_seconds):
                continue
            engine = self._engines[engine_id] = self._engine(target, series, before)
            succession = max(succession, _succession(before, engine, series))
            if before is not None and _differ(before.signature, engine.signature):
                before = None
            self._follow(engine_id, before, engine, series)
            self._saw(float(series.time_seconds[-1]))
        return succession

    def observe_facts(self, target: str, facts: EngineFacts) -> None:
        """Take in what a target's other doors (``/v1/models``, ``/version``) say of its engines."""
        self._target_facts[target] = facts
        self._merge_again(target)

    def observe_arguments(self, target: str, facts: EngineFacts) -> None:
        """Take in the command line of a target's engines; what a running engine says itself wins."""
        self._target_arguments[target] = facts
        self._merge_again(target)

    def forget_target(self, target: str) -> None:
        """Drop a target that is no longer there; what its engines showed stays."""
        self._take_in()
        self._target_facts.pop(target, None)
        self._target_arguments.pop(target, None)
        for engine_id in [one for one in self._engines if one.rpartition("#")[0] == target]:
            del self._engines[engine_id]
            self.latency.forget_engine(engine_id)

    def observe_request(self, logged: Logged) -> None:
        """Take in one line of an access log, or a block of them."""
        self.lengths.observe(logged)
        self.shape.observe_logged(logged)
        newest_seconds = logged.newest_seconds
        if newest_seconds is not None:
            self._saw(newest_seconds)

    def break_intervals(self) -> None:
        """Compare no coming page with one from before: the clock stepped in between."""
        self._take_in()
        for engine_id in self._engines:
            self.latency.break_engine(engine_id)
        self._engines.clear()

    def settle(self, now_seconds: float) -> None:
        """Follow which engines there are and what most of them run with, on all that was observed."""
        self._take_in()
        self._forget_the_vanished(now_seconds)
        self._settle_signature(now_seconds)

    def snapshot(self, now_seconds: float) -> DeploymentSnapshot:
        """Return what all of it says at one moment, the caller's clock being the only one."""
        self.settle(now_seconds)
        self.timeline.forget(now_seconds)
        agreeing = [engine for engine in self._engines.values() if self._agrees(engine)]
        telling_most = [engine for engine in agreeing if engine.signature == self._signature]
        facts = _with_smallest_pool([engine.facts for engine in telling_most or agreeing]) or self._given
        return DeploymentSnapshot(
            now_seconds=now_seconds,
            model_name=agreeing[0].last.model_name if agreeing else None,
            engines=tuple(
                EngineSnapshot(
                    without_password(engine_id),
                    engine.last.model_name,
                    engine.facts,
                    engine.seen_seconds,
                    self._agrees(engine),
                    engine.last.level("running"),
                    engine.last.level("waiting"),
                    engine.last.level("kv_used_ratio"),
                )
                for engine_id, engine in sorted(self._engines.items())
            ),
            facts=facts,
            context=self.lengths.snapshot(now_seconds, limit_tokens=facts.max_model_len),
            latency=self.latency.snapshot(now_seconds),
            occupancy=self.occupancy.snapshot(now_seconds),
            recent_occupancy=self.occupancy.snapshot(now_seconds, RECENT_SECONDS),
            shape=self.shape.snapshot(now_seconds),
            last_observation_seconds=self._last_observation_seconds,
        )

    def state(self) -> dict[str, Any]:
        """Return what outlives a restart as plain JSON values."""
        self._take_in()
        return {
            "lengths": self.lengths.state(),
            "latency": self.latency.state(),
            "occupancy": self.occupancy.state(),
            "timeline": self.timeline.state(),
            "shape": self.shape.state(),
            "signature": list(self._signature) if self._signature else None,
            "last_observation_seconds": self._last_observation_seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.lengths = ContextLengths.from_state(state["lengths"], self._context_window_seconds)
        self.latency = LatencyEvidence.from_state(state["latency"])
        self.occupancy = Occupancy.from_state(state["occupancy"])
        self.timeline = Timeline.from_state(state.get("timeline") or {})
        self.shape.restore(state["shape"])
        self._signature = tuple(state["signature"]) if state["signature"] else None
        self._last_observation_seconds = state["last_observation_seconds"]

    def _engine(self, target: str, series: EngineSeries, before: _Engine | None) -> _Engine:
        last = series.last_page()
        in_turns_seconds = before.in_turns_seconds if before is not None else -math.inf
        if answer_in_turns(*([before.last] if before is not None else []), series):
            in_turns_seconds = float(last.time_seconds[0])
        if before is not None and before.last.cache_config is series.cache_config:
            return _Engine(last, before.page_facts, before.facts, in_turns_seconds)
        page_facts = facts_from_page(series.cache_config, engines_on_page=series.engines_on_page)
        return _Engine(last, page_facts, self._merged(target, page_facts), in_turns_seconds)

    def _merged(self, target: str, page_facts: EngineFacts) -> EngineFacts:
        unknown = EngineFacts()
        doors = self._target_facts.get(target, unknown)
        arguments = self._target_arguments.get(target, unknown)
        return merge_facts(doors, page_facts, arguments, self._given)

    def _merge_again(self, target: str) -> None:
        for engine_id, engine in self._engines.items():
            if engine_id.rpartition("#")[0] == target:
                engine.facts = self._merged(target, engine.page_facts)

    def _follow(self, engine_id: str, before: _Engine | None, engine: _Engine, series: EngineSeries) -> None:
        """Keep an engine's new pages to be compared."""
        pieces = [series]
        if before is not None:
            pieces.insert(0, _made_alike(before.last, series.bounds))
        counts = self._signature is None or self._agrees(engine)
        self._pending.append(Pages(engine_id, tuple(pieces), counts))
        self._pending_pages += len(series.time_seconds)

    def _take_in(self) -> None:
        """Make evidence of what happened between the pages that are kept."""
        pending, self._pending, self._pending_pages = self._pending, [], 0
        for intervals in intervals_of(pending, GAP_SECONDS) if pending else ():
            self.latency.observe(intervals)
            self.occupancy.observe(intervals)
            self.timeline.observe(intervals)
            self.shape.observe(intervals)
            self.lengths.observe_histograms(intervals)

    def _saw(self, time_seconds: float) -> None:
        self._last_observation_seconds = max(time_seconds, self._last_observation_seconds or time_seconds)

    def _forget_the_vanished(self, now_seconds: float) -> None:
        for engine_id, engine in list(self._engines.items()):
            if now_seconds - engine.seen_seconds > FORGET_SECONDS:
                del self._engines[engine_id]
                self.latency.forget_engine(engine_id)

    def _agrees(self, engine: _Engine) -> bool:
        return self._signature is not None and _agrees(engine.signature, self._signature)

    def _settle_signature(self, now_seconds: float) -> None:
        """Follow what most engines are; when that changes, a new epoch begins.

        What an earlier daemon knew of them holds until they tell something else.
        """
        signatures = Counter(one.signature for one in self._engines.values())
        if not signatures:
            return

        def engines_like(signature: tuple[object, ...]) -> int:
            return sum(count for one, count in signatures.items() if _agrees(one, signature))

        before, most = self._signature, max(signatures, key=engines_like)
        is_other = before is not None and _differ(before, most)
        enough = signatures.total() / 2 if is_other else engines_like(most)
        if before is not None and engines_like(before) >= enough:
            return
        if is_other:
            self.latency.start_epoch(now_seconds)
            self.occupancy.start_epoch()
            self.shape.start_epoch()
        self._signature = most


def _succession(before: _Engine | None, engine: _Engine, series: EngineSeries) -> Succession:
    """Return how an engine's new pages follow those before."""
    if engine.seen_seconds - engine.in_turns_seconds < FORGET_SECONDS:
        return Succession.IN_TURNS
    if before is None:
        return Succession.SAME
    differs = _differ(before.signature, engine.signature)
    return Succession(int(differs or bool(started_anew(before.last.numbers[0], series.numbers[0]))))


def _made_alike(page: EngineSeries, bounds: Bounds) -> EngineSeries:
    """Return a page as one of another make: histograms with other buckets are unknown on it."""
    if page.bounds == bounds:
        return page
    numbers = np.full((1, columns_of(bounds)[-1].stop), np.nan)
    numbers[:, : len(NUMBERS)] = page.numbers[:, : len(NUMBERS)]
    for was, uppers, old, new in zip(
        page.bounds, bounds, columns_of(page.bounds), columns_of(bounds), strict=True
    ):
        if was == uppers:
            numbers[:, new] = page.numbers[:, old]
    return replace(page, bounds=bounds, numbers=numbers)


def _differ(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Tell a change from something merely learnt: what was unknown before is no change."""
    return any(
        old is not None and new is not None and old != new for old, new in zip(before, after, strict=True)
    )


def _agrees(signature: tuple[object, ...], most: tuple[object, ...]) -> bool:
    """Tell whether an engine is as most are; what is not known of it (one in a store) is no difference."""
    return all(own is None or own == theirs for own, theirs in zip(signature, most, strict=True))


def _with_smallest_pool(facts: list[EngineFacts]) -> EngineFacts | None:
    """Return the facts of engines that agree, with the smallest pool any of them has."""
    if not facts:
        return None
    return min(facts, key=lambda one: one.kv_pool_tokens if one.kv_pool_tokens is not None else float("inf"))
