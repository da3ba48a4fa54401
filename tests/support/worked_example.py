"""The design page's worked example as a deployment."""

from __future__ import annotations

import json
from pathlib import Path

from support.memory import LLAMA_70B
from vllm_advisor.config import DeploymentConfig
from vllm_advisor.pipeline import DeploymentPipeline
from vllm_advisor.sources.access_logs import LoggedRequest, Outcome

NOW_SECONDS = 1_800_000_000.0
ENGINE = {
    "weights_memory": "17.5GB",
    "tensor_parallel_size": 4,
    "gpu_memory": "80GB",
    "gpu_memory_utilization": 0.92,
    "headroom": "8GB",
    "max_num_seqs": 256,
}
RATES = "concurrency,tokens_per_second_per_user\n8,62\n24,41\n40,26\n48,19\n"


def worked_example(folder: Path, **engine: object) -> DeploymentPipeline:
    """Return the worked example's deployment: requests of 9,500 tokens, and the measured rates as a sweep."""
    (folder / "config.json").write_text(json.dumps(LLAMA_70B))
    (folder / "sweep.csv").write_text(RATES)
    pipeline = DeploymentPipeline(
        DeploymentConfig.model_validate(
            {
                "name": "chat",
                "slo": {"tpot": "40ms", "quantile": "mean"},
                "engine": ENGINE | {"model_config": str(folder / "config.json")} | engine,
                "sweep": str(folder / "sweep.csv"),
            }
        )
    )
    for second in range(4000):
        pipeline.observe_request(
            LoggedRequest(
                Outcome.SERVED,
                time_seconds=NOW_SECONDS - second,
                prompt_tokens=9000,
                output_tokens=500,
            )
        )
    return pipeline
