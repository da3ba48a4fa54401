"""A deployment's pool by arithmetic: its model config and flags, as configured and as its engines report."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.engine_version import LATEST, parse_version
from vllm_advisor.ceilings.pool import PoolInputs, PoolPrediction, predict_pool
from vllm_advisor.config import EngineConfig
from vllm_advisor.errors import InputError
from vllm_advisor.sources.engine_facts import EngineFacts, facts_from_config, merge_facts
from vllm_advisor.sources.model_config import ModelConfig, read_model_config
from vllm_advisor.sources.startup_log import StartupReport, facts_from_startup, read_startup_log

__all__ = ["Arithmetic", "load_arithmetic"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a deployment's pool is worked out from.

    Args:
        engine: as configured.
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
        return _predict(self.model, self._flags(facts), self._inputs())

    def _flags(self, facts: EngineFacts) -> EngineFlags:
        engine = self.engine
        return EngineFlags(
            version=parse_version(facts.vllm_version) if facts.vllm_version else LATEST,
            dtype=engine.dtype or "auto",
            kv_cache_dtype=facts.cache_dtype or "auto",
            tensor_parallel_size=engine.tensor_parallel_size,
            pipeline_parallel_size=engine.pipeline_parallel_size,
            data_parallel_size=engine.data_parallel_size,
            block_size_tokens=engine.block_size_tokens,
            max_num_seqs=facts.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens
            or self.report.arguments.get("max_num_batched_tokens"),
            async_scheduling=engine.async_scheduling,
            prefix_caching=engine.enable_prefix_caching,
            hybrid_manager=not engine.disable_hybrid_kv_cache_manager,
            num_gpu_blocks_override=engine.num_gpu_blocks_override,
            utilization=facts.gpu_memory_utilization_ratio,
        )

    def _inputs(self) -> PoolInputs:
        engine = self.engine
        return PoolInputs(
            kv_cache_memory_bytes=engine.kv_cache_memory_bytes or self.report.available_bytes,
            gpu_memory_bytes=engine.gpu_memory_bytes,
            weights_bytes=engine.weights_memory_bytes,
            parameters=engine.parameters,
            quantization=engine.quantization,
            headroom_bytes=engine.headroom_bytes,
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
    return Arithmetic(engine, given, report, model, tuple(problems))


@lru_cache(maxsize=1024)
def _predict(model: ModelConfig, flags: EngineFlags, inputs: PoolInputs) -> PoolPrediction:
    return predict_pool(model, flags, inputs)
