"""A model's ``config.json``: what its layers keep of a sequence, and what its weights are made of."""

from vllm_advisor.sources.model_config.caches import (
    AttentionCache,
    LatentCache,
    LayerCache,
    Reach,
    StateCache,
    StateKind,
    StatePart,
)
from vllm_advisor.sources.model_config.model import ModelConfig, Quantization, Weights
from vllm_advisor.sources.model_config.reader import model_config_from_document, read_model_config

__all__ = [
    "AttentionCache",
    "LatentCache",
    "LayerCache",
    "ModelConfig",
    "Quantization",
    "Reach",
    "StateCache",
    "StateKind",
    "StatePart",
    "Weights",
    "model_config_from_document",
    "read_model_config",
]
