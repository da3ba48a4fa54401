"""A deployment's pool by arithmetic: its model config and flags, as configured and as its engines report."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm_advisor.ceilings.engine_pool import predict_engine_pool
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.config import EngineConfig, SpeculativeConfig
from vllm_advisor.errors import InputError
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_config, merge_facts
from vllm_advisor.sources.model_config import ModelConfig, read_model_config
from vllm_advisor.sources.startup_log import StartupReport, facts_from_startup, read_startup_log

__all__ = ["Arithmetic", "load_arithmetic"]

_LOGGED = {
    "dtype": str,
    "tensor_parallel_size": int,
    "pipeline_parallel_size": int,
    "data_parallel_size": int,
    "decode_context_parallel_size": int,
    "max_num_batched_tokens": int,
    "kv_cache_memory_bytes": int,
    "num_gpu_blocks_override": int,
    "async_scheduling": bool,
    "enable_prefix_caching": bool,
    "disable_hybrid_kv_cache_manager": bool,
    "enforce_eager": bool,
    "mamba_ssm_cache_dtype": str,
}
"""Flags that a startup log tells and memory depends on."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a deployment's pool is worked out from.

    Args:
        engine: as configured, and where it is not, as its startup log says.
        given: what the configuration and the startup log say; what is read off a running engine wins.
        model: None where no model config was given, or it cannot be read.
        problems: files that could not be read, one line each; everything else goes on without them.
    """

    engine: EngineConfig
    given: EngineFacts
    report: StartupReport = field(default_factory=StartupReport)
    model: ModelConfig | None = None
    problems: tuple[str, ...] = ()

    def predict(self, facts: EngineFacts) -> PoolPrediction | None:
        """Return the pool of an engine that says this of itself, None without a model."""
        if self.model is None:
            return None
        return predict_engine_pool(
            self.model, self.engine, facts, logged_pool_bytes=self.report.available_bytes
        )


def load_arithmetic(engine: EngineConfig) -> Arithmetic:
    """Read the files that a configuration names; one that cannot be read is a problem, no error."""
    problems: list[str] = []
    report, model = StartupReport(), None
    try:
        report = read_startup_log(engine.startup_log_path) if engine.startup_log_path else report
    except InputError as error:
        problems.append(str(error))
    try:
        model = read_model_config(engine.model_config_path) if engine.model_config_path else None
    except InputError as error:
        problems.append(str(error))
    given = merge_facts(facts_from_startup(report), facts_from_config(engine))
    return Arithmetic(_as_logged(engine, report), given, report, model, tuple(problems))


def _as_logged(engine: EngineConfig, report: StartupReport) -> EngineConfig:
    """Take from the startup log what the configuration leaves open."""
    said = {
        name: report.arguments[name]
        for name, kind in _LOGGED.items()
        if name not in engine.model_fields_set and isinstance(report.arguments.get(name), kind)
    }
    drafter = report.arguments.get("speculative_config")
    if drafter and engine.speculative_config is None:
        said["speculative_config"] = SpeculativeConfig.model_validate(drafter)
    return engine.model_copy(update=said)
