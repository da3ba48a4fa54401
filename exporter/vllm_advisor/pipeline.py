"""What the daemon and `replay` share: pages and log lines in, evidence updated, a recommendation out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vllm_advisor.arithmetic import load_arithmetic
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.published import Published
from vllm_advisor.ceilings.recommendation import Recommendation, recommend
from vllm_advisor.ceilings.what_if import Change, Supposed, what_if
from vllm_advisor.config import DeploymentConfig, EngineConfig
from vllm_advisor.evidence.deployment import DeploymentEvidence, DeploymentSnapshot, Succession
from vllm_advisor.sources.access_logs import Logged
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.engine_series import EngineSeries
from vllm_advisor.sources.sweep_file import Sweep, read_sweep, sweep_from_document, sweep_to_document

__all__ = ["DeploymentPipeline"]


class DeploymentPipeline:
    """One deployment: its configuration, its evidence, and what is worked out from both.

    Raises:
        InputError: the sweep that the configuration names cannot be read.
    """

    def __init__(self, config: DeploymentConfig) -> None:
        self.config = config
        self._configured_sweep = read_sweep(config.sweep_path) if config.sweep_path else None
        self.uploaded_sweep: Sweep | None = None
        """A sweep that was sent to the daemon, which takes the place of the configured one."""
        self._published: Published | None = None
        self._arithmetic = load_arithmetic(config.engine)
        self.evidence = DeploymentEvidence(config.context.window_seconds, self._arithmetic.given)

    @property
    def problems(self) -> tuple[str, ...]:
        """Files of the configuration that could not be read, and that it does without."""
        return self._arithmetic.problems

    @property
    def sweep(self) -> Sweep | None:
        """The measured sweep to use where traffic does not settle the latency ceiling."""
        return self.uploaded_sweep or self._configured_sweep

    def observe_page(self, target: str, time_seconds: float, engines: Iterable[EngineSample]) -> Succession:
        """Take in one page; return how it follows the last of its target."""
        return self.evidence.observe_page(target, time_seconds, engines)

    def observe_series(self, target: str, engines: Iterable[EngineSeries]) -> Succession:
        """Take in successive pages of a target; return how they follow those before."""
        return self.evidence.observe_series(target, engines)

    def observe_facts(self, target: str, facts: EngineFacts) -> None:
        """Take in what a target says of its configuration elsewhere than on its page."""
        self.evidence.observe_facts(target, facts)

    def observe_arguments(self, target: str, facts: EngineFacts) -> None:
        """Take in the command line that a target's engines were started with."""
        self.evidence.observe_arguments(target, facts)

    def forget_target(self, target: str) -> None:
        """Drop a target that is no longer there."""
        self.evidence.forget_target(target)

    def settle(self, now_seconds: float) -> None:
        """Follow which engines there are, where no recommendation is worked out for long."""
        self.evidence.settle(now_seconds)

    def observe_request(self, logged: Logged) -> None:
        """Take in one line of an access log, or a block of them."""
        self.evidence.observe_request(logged)

    def recommend(self, now_seconds: float) -> Recommendation:
        """Work out the recommendation that the evidence supports at a moment."""
        snapshot = self.evidence.snapshot(now_seconds)
        recommendation = recommend(
            self.config,
            snapshot,
            prediction=self.predict(snapshot.facts),
            sweep=self.sweep,
            previous=self._published,
        )
        self._published = recommendation.published
        return recommendation

    def predict(self, facts: EngineFacts) -> PoolPrediction | None:
        """Return the KV pool by arithmetic of an engine that says this of itself."""
        return self._arithmetic.predict(facts)

    def what_if(self, change: Change, snapshot: DeploymentSnapshot) -> Supposed:
        """Work out what a snapshot would support if something were otherwise."""
        return what_if(
            change,
            self.config,
            snapshot,
            predict=self._predict_as_if,
            sweep=self.sweep,
        )

    def _predict_as_if(self, engine: EngineConfig, facts: EngineFacts) -> PoolPrediction | None:
        """Predict an engine started otherwise, without what a startup log says of other GPUs."""
        arithmetic = replace(self._arithmetic, engine=engine)
        if engine.tensor_parallel_size != self.config.engine.tensor_parallel_size:
            arithmetic = replace(arithmetic, report=replace(arithmetic.report, available_bytes=None))
        return arithmetic.predict(facts)

    def state(self) -> dict[str, Any]:
        """Return what outlives a restart as plain JSON values."""
        sweep = self.uploaded_sweep
        return self.evidence.state() | {
            "sweep": sweep_to_document(sweep) if sweep else None,
            "published": self._published.state() if self._published else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave.

        Raises:
            KeyError, TypeError, ValueError: it is not what `state` gave.
        """
        self.evidence.restore(state)
        sweep = state.get("sweep")
        self.uploaded_sweep = sweep_from_document(sweep) if sweep else None
        published = state.get("published")
        self._published = Published.from_state(published) if published else None
