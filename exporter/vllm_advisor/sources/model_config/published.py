"""Widths of published models, for configs that were cut down to what the KV cache needs.

The size of the weights and of the sampler follows from fields that such a config leaves out. A model's
family, width, depth and KV heads tell which one it is; the last three do where no family is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_advisor.sources.model_config.fields import Fields

__all__ = ["published_fields"]

_LLAMA_3 = 128256
_QWEN = 151936
_QWEN_LARGE = 152064
_TIED = True

_DENSE: Mapping[tuple[str, int, int, int], tuple[int, int, bool]] = {
    ("llama", 2048, 16, 8): (8192, _LLAMA_3, _TIED),
    ("llama", 3072, 28, 8): (8192, _LLAMA_3, _TIED),
    ("llama", 4096, 32, 8): (14336, _LLAMA_3, False),
    ("llama", 8192, 80, 8): (28672, _LLAMA_3, False),
    ("llama", 4096, 32, 32): (11008, 32000, False),
    ("llama", 5120, 40, 40): (13824, 32000, False),
    ("mistral", 4096, 32, 8): (14336, 32768, False),
    ("mistral", 5120, 40, 8): (14336, 131072, False),
    ("mistral3_text", 5120, 40, 8): (32768, 131072, False),
    ("qwen2", 896, 24, 2): (4864, _QWEN, _TIED),
    ("qwen2", 1536, 28, 2): (8960, _QWEN, _TIED),
    ("qwen2", 2048, 36, 2): (11008, _QWEN, _TIED),
    ("qwen2", 3584, 28, 4): (18944, _QWEN_LARGE, False),
    ("qwen2", 5120, 48, 8): (13824, _QWEN_LARGE, False),
    ("qwen2", 5120, 64, 8): (27648, _QWEN_LARGE, False),
    ("qwen2", 8192, 80, 8): (29568, _QWEN_LARGE, False),
    ("qwen3", 1024, 28, 8): (3072, _QWEN, _TIED),
    ("qwen3", 2048, 28, 8): (6144, _QWEN, _TIED),
    ("qwen3", 2560, 36, 8): (9728, _QWEN, _TIED),
    ("qwen3", 4096, 36, 8): (12288, _QWEN, False),
    ("qwen3", 5120, 40, 8): (17408, _QWEN, False),
    ("qwen3", 5120, 64, 8): (25600, _QWEN, False),
    ("gemma", 2048, 18, 1): (16384, 256000, _TIED),
    ("gemma", 3072, 28, 16): (24576, 256000, _TIED),
    ("gemma2", 2304, 26, 4): (9216, 256000, _TIED),
    ("gemma2", 3584, 42, 8): (14336, 256000, _TIED),
    ("gemma2", 4608, 46, 16): (36864, 256000, _TIED),
    ("gemma3_text", 1152, 26, 1): (6912, 262144, _TIED),
    ("gemma3_text", 2560, 34, 4): (10240, 262208, _TIED),
    ("gemma3_text", 3840, 48, 8): (15360, 262208, _TIED),
    ("gemma3_text", 5376, 62, 16): (21504, 262208, _TIED),
    ("phi3", 3072, 32, 32): (8192, 32064, False),
    ("phi3", 3072, 32, 8): (8192, 200064, _TIED),
    ("phi3", 5120, 40, 10): (17920, 100352, False),
    ("granite", 2048, 40, 8): (8192, 49155, _TIED),
    ("granite", 4096, 40, 8): (12800, 49155, _TIED),
}
"""Feed-forward width, vocabulary and tied embeddings by family, width, layers and KV heads."""

_MIXTURES: Mapping[tuple[str, int, int, int], Mapping[str, Any]] = {
    ("mixtral", 4096, 32, 8): {
        "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
    },
    ("mixtral", 6144, 56, 8): {
        "intermediate_size": 16384, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32768,
    },
    ("qwen3_moe", 2048, 48, 4): {
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": _QWEN,
    },
    ("qwen3_moe", 4096, 94, 4): {
        "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": _QWEN,
    },
    ("qwen3_next", 2048, 48, 2): {
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
        "num_experts_per_tok": 10, "vocab_size": _QWEN,
    },
    ("gpt_oss", 2880, 24, 8): {
        "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4, "vocab_size": 201088,
    },
    ("gpt_oss", 2880, 36, 8): {
        "intermediate_size": 2880, "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088,
    },
    ("llama4_text", 5120, 48, 8): {
        "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1,
        "vocab_size": 202048,
    },
}  # fmt: skip


def published_fields(text: Fields, model_type: str, layers: int) -> Mapping[str, Any]:
    """Return the fields that a cut-down config leaves out; none where it has its feed-forward width."""
    if text.get("intermediate_size", "moe_intermediate_size", "ffn_dim"):
        return {}
    heads = text.get("num_key_value_heads", "num_attention_heads")
    hidden = text.optional_count("hidden_size")
    if not isinstance(heads, int) or hidden is None:
        return {}
    shapes = [
        shape
        for shape in (*_DENSE, *_MIXTURES)
        if shape[1:] == (hidden, layers, heads) and model_type in {shape[0], ""}
    ]
    if len(shapes) != 1:
        return {}
    if shapes[0] in _MIXTURES:
        return _MIXTURES[shapes[0]]
    width, vocabulary, tied = _DENSE[shapes[0]]
    return {"intermediate_size": width, "vocab_size": vocabulary, "tie_word_embeddings": tied}
