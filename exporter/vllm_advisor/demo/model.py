"""The model and the GPUs that the simulated engine is said to run: its pool follows from them."""

from __future__ import annotations

from typing import Any

__all__ = ["ENGINE", "MODEL_CONFIG"]

MODEL_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8"},
}
"""A ``config.json`` of some 58 thousand million parameters in FP8."""

ENGINE: dict[str, Any] = {"gpu_memory": "80GB", "tensor_parallel_size": 4}
"""What no page tells of the GPUs, as a configuration has it."""
