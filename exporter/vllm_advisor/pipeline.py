"""What the daemon and `replay` share: pages and log lines in, evidence updated, a recommendation out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.ceilings.recommendation import Recommendation, recommend
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.evidence.deployment import DeploymentEvidence
from vllm_advisor.sources.access_logs import LoggedRequest
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_config
from vllm_advisor.sources.engine_sample import EngineSample
from vllm_advisor.sources.sweep_file import Sweep, read_sweep

__all__ = ["DeploymentPipeline"]


class DeploymentPipeline:
    """One deployment: its configuration, its evidence, and what is worked out from both.

    Raises:
        InputError: a file that the configuration names cannot be read.
    """

    def __init__(self, config: DeploymentConfig) -> None:
        self.config = config
        self._sweep: Sweep | None = read_sweep(config.sweep_path) if config.sweep_path else None
        self._prediction: PoolPrediction | None = None
        self.evidence = DeploymentEvidence(config.context.window_seconds, facts_from_config(config.engine))

    def observe_page(self, target: str, time_seconds: float, engines: Iterable[EngineSample]) -> bool:
        """Take in one page; return whether an engine on it had restarted."""
        return self.evidence.observe_page(target, time_seconds, engines)

    def observe_facts(self, target: str, facts: EngineFacts) -> None:
        """Take in what a target says of its configuration elsewhere than on its page."""
        self.evidence.observe_facts(target, facts)

    def observe_request(self, request: LoggedRequest) -> None:
        """Take in one line of an access log."""
        self.evidence.observe_request(request)

    def recommend(self, now_seconds: float) -> Recommendation:
        """Work out the recommendation that the evidence supports at a moment."""
        snapshot = self.evidence.snapshot(now_seconds)
        return recommend(self.config, snapshot, prediction=self._prediction, sweep=self._sweep)

    def adopt(self, earlier: DeploymentPipeline) -> None:
        """Take over the evidence of the same deployment under its earlier configuration."""
        self.evidence.restore(earlier.evidence.state())

    def state(self) -> dict[str, Any]:
        """Return what outlives a restart as plain JSON values."""
        return self.evidence.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        self.evidence.restore(state)
