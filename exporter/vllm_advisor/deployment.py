"""One deployment as the daemon keeps it: pipeline, logs, targets, and the newest recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog

from vllm_advisor.ceilings.recommendation import Recommendation
from vllm_advisor.clock import SteadyClock
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.history import History, HistoryPoint
from vllm_advisor.log_follower import LogFollower
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.scraper import Target
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.store_follower import StoreFollower
from vllm_advisor.target_finder import TargetFinder
from vllm_advisor.web.telemetry import Telemetry

__all__ = ["Deployment", "open_deployment"]

log = structlog.get_logger()


@dataclass(slots=True)
class Deployment:
    """One deployment.

    Args:
        recommendation: the newest, None before the first.
        changed_seconds: when one of its flags last changed.
        history: what was recommended before.
    """

    pipeline: DeploymentPipeline
    logs: LogFollower
    store: StoreFollower | None = None
    targets: list[Target] = field(default_factory=list)
    recommendation: Recommendation | None = None
    changed_seconds: float | None = None
    history: History = field(default_factory=History)
    finder: TargetFinder = field(init=False)
    _is_failing: bool = False
    _failed_rules: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.finder = TargetFinder(self.pipeline.config, self._retarget)
        self._retarget(self.finder.targets())

    @property
    def is_catching_up(self) -> bool:
        """Whether it still reads the past from a metrics store: it scrapes and recommends afterwards."""
        return self.store is not None and self.store.is_catching_up

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.pipeline.config.name

    def evaluate(self, now_seconds: float) -> None:
        """Work out the newest recommendation; a fault is logged once and the last one stays."""
        try:
            recommendation = self.pipeline.recommend(now_seconds)
        except Exception:  # one deployment's fault must not silence the others
            if not self._is_failing:
                log.exception("evaluation failed, the last recommendation stays", deployment=self.name)
            self._is_failing = True
            return
        self._is_failing = False
        self._note_failed_rules(recommendation)
        flags = _flags(recommendation)
        if self.recommendation is None or _flags(self.recommendation) != flags:
            log.info("recommendation", deployment=self.name, binding=str(recommendation.binding), **flags)
        self.changed_seconds = recommendation.published.changed_seconds
        self.recommendation = recommendation
        self.history.record(_point(recommendation, now_seconds))

    def _note_failed_rules(self, recommendation: Recommendation) -> None:
        """Say once of each rule of advice that it fails; explain and the metrics go on to tell."""
        for failure in recommendation.failed_rules:
            if failure.code not in self._failed_rules:
                log.error(
                    "a rule of advice failed, the others answer",
                    deployment=self.name,
                    code=str(failure.code),
                    problem=failure.problem,
                )
        self._failed_rules = frozenset(failure.code for failure in recommendation.failed_rules)

    def look(self, session: aiohttp.ClientSession, clock: SteadyClock, telemetry: Telemetry) -> None:
        """Begin to read what is new in logs and store, and to discover."""
        self.finder.follow(session)
        if self.store:
            self.store.scraped(self.targets)
            self.store.follow(session, clock)
        self.logs.follow(clock, telemetry)

    async def stop(self) -> None:
        """Stop to look for anything; what was read stands in the evidence."""
        self._stop_looking()
        await self.logs.stop()

    def close(self) -> None:
        """Stop to look for anything, and give every file back."""
        self._stop_looking()
        self.logs.close()

    def _stop_looking(self) -> None:
        self.finder.close()
        if self.store:
            self.store.close()
        for target in self.targets:
            target.stop()

    def _retarget(self, found: Mapping[str, EngineFacts]) -> None:
        """Scrape what was found from now on; evidence of what is gone stays."""
        before = {target.name: target for target in self.targets}
        for name in before.keys() - found.keys():
            before[name].stop()
            self.pipeline.forget_target(name)
        self.targets = [before.get(name) or Target(name, self.pipeline) for name in found]
        for target in self.targets:
            target.arguments = found[target.name]
            self.pipeline.observe_arguments(target.name, target.arguments)
        if self.pipeline.config.discovers:
            log.debug("targets", deployment=self.name, targets=len(self.targets))

    def state(self) -> dict[str, Any]:
        """Return what outlives a restart as plain JSON values."""
        return {
            "evidence": self.pipeline.state(),
            "logs": self.logs.state(),
            "history": self.history.state(),
            "store": self.store.state() if self.store else None,
        }


def open_deployment(config: DeploymentConfig, state: Mapping[str, Any] | None) -> Deployment:
    """Build a deployment on the evidence it had; state that cannot be used is reported and left.

    Raises:
        InputError: a file that the configuration names cannot be read.
    """
    pipeline = DeploymentPipeline(config)
    logs, store, history = LogFollower(pipeline), _store(pipeline), History()
    if state is not None:
        try:
            pipeline.restore(state["evidence"])
            logs = LogFollower(pipeline, state["logs"])
            store = _store(pipeline, state.get("store"))
            history = History.from_state(state.get("history") or {"points": []})
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("the saved evidence cannot be used, starting without it", deployment=config.name)
            pipeline = DeploymentPipeline(config)
            logs, store = LogFollower(pipeline), _store(pipeline)
    return Deployment(pipeline, logs, store, history=history)


def _store(pipeline: DeploymentPipeline, state: Mapping[str, Any] | None = None) -> StoreFollower | None:
    config = pipeline.config.prometheus
    return StoreFollower(pipeline, config, state) if config else None


def _flags(recommendation: Recommendation) -> dict[str, int | None]:
    return {
        "max_model_len": recommendation.max_model_len.recommended,
        "max_num_seqs": recommendation.max_num_seqs.recommended,
    }


def _point(recommendation: Recommendation, now_seconds: float) -> HistoryPoint:
    length, cap = recommendation.max_model_len, recommendation.max_num_seqs
    return HistoryPoint(
        time_seconds=now_seconds,
        max_model_len=length.recommended,
        configured_max_model_len=length.configured,
        max_num_seqs=cap.recommended,
        configured_max_num_seqs=cap.configured,
        memory_sequences=recommendation.memory.sequences,
        latency_sequences=recommendation.latency.sequences,
        binding=str(recommendation.binding),
    )
