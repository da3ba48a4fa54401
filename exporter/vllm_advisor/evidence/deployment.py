"""All evidence of one deployment: its engines' pages and its access logs, pooled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_advisor.addresses import without_password
from vllm_advisor.evidence.interval import counters_fell, interval_between
from vllm_advisor.evidence.latency import LatencyEvidence, LatencySnapshot
from vllm_advisor.evidence.lengths import ContextLengths, ContextSnapshot
from vllm_advisor.evidence.occupancy import Occupancy, OccupancySnapshot
from vllm_advisor.evidence.timeline import Timeline
from vllm_advisor.evidence.traffic_shape import ShapeSnapshot, TrafficShape
from vllm_advisor.sources.access_logs import Logged
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_page, merge_facts
from vllm_advisor.sources.engine_sample import EngineSample

__all__ = ["DeploymentEvidence", "DeploymentSnapshot", "EngineSnapshot"]

GAP_SECONDS = 300.0
"""Pages further apart than this are not compared."""

RECENT_SECONDS = 3600.0
"""How far back the recent occupancy reaches."""

FORGET_SECONDS = 900.0
"""An engine not seen for this long is no longer part of the deployment."""


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
    sample: EngineSample
    seen_seconds: float
    page_facts: EngineFacts
    facts: EngineFacts = field(default_factory=EngineFacts)

    @property
    def signature(self) -> tuple[object, ...]:
        """What must be equal between engines whose evidence is pooled; profiled sizes are not."""
        facts = self.facts
        return (
            self.sample.model_name,
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
        self._signature: tuple[object, ...] | None = None
        self._last_observation_seconds: float | None = None

    def observe_page(self, target: str, time_seconds: float, samples: Iterable[EngineSample]) -> bool:
        """Take in one page; return whether one of its engines had restarted since the last."""
        samples = tuple(samples)
        restarted = False
        for sample in samples:
            engine_id = f"{target}#{sample.engine}"
            before = self._engines.get(engine_id)
            engine = self._engine(target, sample, time_seconds, before, len(samples))
            self._engines[engine_id] = engine
            restarted |= self._follow(engine_id, before, engine)
        if samples:
            self._saw(time_seconds)
        return restarted

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
        for engine_id in self._engines:
            self.latency.break_engine(engine_id)
        self._engines.clear()

    def settle(self, now_seconds: float) -> None:
        """Follow which engines there are and what most of them run with."""
        self._forget_the_vanished(now_seconds)
        self._settle_signature(now_seconds)

    def snapshot(self, now_seconds: float) -> DeploymentSnapshot:
        """Return what all of it says at one moment, the caller's clock being the only one."""
        self.timeline.forget(now_seconds)
        self.settle(now_seconds)
        agreeing = [engine for engine in self._engines.values() if engine.signature == self._signature]
        facts = _with_smallest_pool([engine.facts for engine in agreeing]) or self._given
        return DeploymentSnapshot(
            now_seconds=now_seconds,
            model_name=agreeing[0].sample.model_name if agreeing else None,
            engines=tuple(
                EngineSnapshot(
                    without_password(engine_id),
                    engine.sample.model_name,
                    engine.facts,
                    engine.seen_seconds,
                    engine.signature == self._signature,
                    engine.sample.running,
                    engine.sample.waiting,
                    engine.sample.kv_used_ratio,
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

    def _engine(
        self, target: str, sample: EngineSample, time_seconds: float, before: _Engine | None, on_page: int
    ) -> _Engine:
        if before is not None and before.sample.cache_config is sample.cache_config:
            return _Engine(sample, time_seconds, before.page_facts, before.facts)
        page_facts = facts_from_page(sample.cache_config, engines_on_page=on_page)
        return _Engine(sample, time_seconds, page_facts, self._merged(target, page_facts))

    def _merged(self, target: str, page_facts: EngineFacts) -> EngineFacts:
        unknown = EngineFacts()
        doors = self._target_facts.get(target, unknown)
        arguments = self._target_arguments.get(target, unknown)
        return merge_facts(doors, page_facts, arguments, self._given)

    def _merge_again(self, target: str) -> None:
        for engine_id, engine in self._engines.items():
            if engine_id.rpartition("#")[0] == target:
                engine.facts = self._merged(target, engine.page_facts)

    def _follow(self, engine_id: str, before: _Engine | None, engine: _Engine) -> bool:
        """Compare an engine with its last page; return whether it had restarted."""
        if before is None:
            return False
        restarted = counters_fell(before.sample, engine.sample)
        interval = None
        if engine.seen_seconds - before.seen_seconds <= GAP_SECONDS:
            interval = interval_between(
                before.sample, before.seen_seconds, engine.sample, engine.seen_seconds
            )
        if interval is None:
            self.latency.break_engine(engine_id)
        elif self._signature is None or engine.signature == self._signature:
            self.latency.observe(engine_id, interval)
            self.occupancy.observe(interval)
            self.timeline.observe(interval)
            self.shape.observe(interval)
            self.lengths.observe_histograms(interval)
        return restarted

    def _saw(self, time_seconds: float) -> None:
        self._last_observation_seconds = max(time_seconds, self._last_observation_seconds or time_seconds)

    def _forget_the_vanished(self, now_seconds: float) -> None:
        for engine_id, engine in list(self._engines.items()):
            if now_seconds - engine.seen_seconds > FORGET_SECONDS:
                del self._engines[engine_id]
                self.latency.forget_engine(engine_id)

    def _settle_signature(self, now_seconds: float) -> None:
        """Follow what most engines are; when that changes, a new epoch begins."""
        signatures: list[tuple[object, ...] | None] = [one.signature for one in self._engines.values()]
        if not signatures or signatures.count(self._signature) * 2 >= len(signatures):
            return
        most = max(signatures, key=signatures.count)
        if self._signature and most and _differ(self._signature, most):
            self.latency.start_epoch(now_seconds)
            self.occupancy.start_epoch()
            self.shape.start_epoch()
        self._signature = most


def _differ(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Tell a change from something merely learnt: what was unknown before is no change."""
    return any(
        old is not None and new is not None and old != new for old, new in zip(before, after, strict=True)
    )


def _with_smallest_pool(facts: list[EngineFacts]) -> EngineFacts | None:
    """Return the facts of engines that agree, with the smallest pool any of them has."""
    if not facts:
        return None
    return min(facts, key=lambda one: one.kv_pool_tokens if one.kv_pool_tokens is not None else float("inf"))
