"""Each misreading, made on purpose, is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.memory import LLAMA_70B, predicted
from vllm_advisor.ceilings.diagnosis import diagnose
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.pool import PoolPrediction

_LENGTH = 8192
_POOL = {"kv_cache_memory_bytes": 40 * 10**9}
_GPU = {"gpu_memory_bytes": 80 * 10**9}
_TP4 = EngineFlags(tensor_parallel_size=4, max_num_seqs=256)
_GEMMA = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 5376,
    "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    "sliding_window": 1024, "intermediate_size": 21504,
}  # fmt: skip
_GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "hidden_size": 1536,
    "num_hidden_layers": 40, "num_attention_heads": 12, "num_key_value_heads": 4, "mamba_n_heads": 48,
    "layer_types": (["mamba"] * 9 + ["attention"]) * 4,
}  # fmt: skip
_DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
}  # fmt: skip


def _explanations(spoiled: PoolPrediction, engine_tokens: float | None, length: int = _LENGTH) -> str:
    assert engine_tokens is not None
    return diagnose(spoiled, int(engine_tokens), length).text


def _llama(flags: EngineFlags = _TP4, document: dict[str, Any] = LLAMA_70B, **inputs: Any) -> PoolPrediction:
    return predicted(document, flags, **(inputs or _POOL))


_LLAMA_TOKENS = _llama().tokens(_LENGTH)
_CASES: dict[str, tuple[PoolPrediction, PoolPrediction, str]] = {
    "cache in fp8": (_llama(), _llama(replace(_TP4, kv_cache_dtype="fp8")), "values in 8 bits"),
    "cache in 32 bits": (_llama(), _llama(replace(_TP4, kv_cache_dtype="float32")), "values in 32 bits"),
    "cache not in fp8": (_llama(replace(_TP4, kv_cache_dtype="fp8")), _llama(), "values in 16 bits"),
    "twice the ranks": (_llama(), _llama(replace(_TP4, tensor_parallel_size=8)), "--tensor-parallel-size 8"),
    "head width derived": (
        _llama(document=LLAMA_70B | {"hidden_size": 4096}),
        _llama(document=LLAMA_70B | {"hidden_size": 4096, "head_dim": 128}),
        "the heads are 128 wide",
    ),
    "head width written": (
        _llama(document=LLAMA_70B | {"head_dim": 192}), _llama(), "the heads are 128 wide",
    ),
    "latent read as full heads": (
        predicted(_DEEPSEEK | {"kv_lora_rank": None}, EngineFlags(), **_POOL),
        predicted(_DEEPSEEK, EngineFlags(block_size_tokens=16), **_POOL),
        "one latent vector of 512 + 64",
    ),
    "full heads read as latent": (
        predicted(_DEEPSEEK, EngineFlags(), **_POOL),
        predicted(_DEEPSEEK, EngineFlags(version=(0, 6)), **_POOL),
        "full keys and values instead of the latent vector",
    ),
    "windows read as full": (
        predicted(_GEMMA, EngineFlags(hybrid_manager=False), **_POOL),
        predicted(_GEMMA, EngineFlags(), **_POOL),
        "treats window layers as windows",
    ),
    "full read as windows": (
        predicted(_GEMMA, EngineFlags(), **_POOL),
        predicted(_GEMMA, EngineFlags(hybrid_manager=False), **_POOL),
        "treats window layers like full attention",
    ),
    "one batch in flight": (
        predicted(_GEMMA, EngineFlags(), **_POOL),
        predicted(_GEMMA, EngineFlags(async_scheduling=False), **_POOL),
        "asynchronous scheduling is off",
    ),
    "no prefix caching": (
        predicted(_GRANITE, EngineFlags(), **_POOL),
        predicted(_GRANITE, EngineFlags(prefix_caching=False), **_POOL),
        "prefix caching is off",
    ),
    "weights in half the width": (
        _llama(**_GPU), _llama(quantization="fp8", parameters=70.5e9, **_GPU), "the weights take half",
    ),
    "weights quantized, tables not": (
        predicted(_GEMMA, EngineFlags(max_num_seqs=256), **_GPU),
        predicted(_GEMMA, EngineFlags(max_num_seqs=256), quantization="fp8", **_GPU),
        "quantized with fp8",
    ),
    "everything in 32 bits": (
        predicted(_GRANITE, EngineFlags(), **_POOL),
        predicted(_GRANITE, EngineFlags(dtype="float32"), **_POOL),
        "--dtype float32",
    ),
    "context parallel ranks": (
        predicted(_DEEPSEEK, EngineFlags(tensor_parallel_size=8), **_POOL),
        predicted(
            _DEEPSEEK, EngineFlags(tensor_parallel_size=8, decode_context_parallel_size=8), **_POOL
        ),
        "--decode-context-parallel-size 8",
    ),
    "another utilization": (
        _llama(quantization="fp8", **_GPU),
        _llama(replace(_TP4, utilization=0.85), quantization="fp8", **_GPU),
        "--gpu-memory-utilization 0.85",
    ),
    "binary gigabytes": (
        _llama(quantization="fp8", **_GPU),
        _llama(quantization="fp8", gpu_memory_bytes=80 * 2**30),
        "--gpu-memory is in GiB, not GB",
    ),
    "decimal gigabytes": (
        _llama(kv_cache_memory_bytes=40 * 2**30), _llama(), "--kv-cache-memory is in GB, not GiB",
    ),
    "pool of all GPUs": (
        _llama(kv_cache_memory_bytes=160 * 10**9), _llama(), "--kv-cache-memory is that of all GPUs",
    ),
    "weights of all GPUs": (
        _llama(weights_bytes=60 * 10**9, **_GPU),
        _llama(weights_bytes=15 * 10**9, **_GPU),
        "--weights-memory is that of all GPUs",
    ),
    "another cap profiled": (
        predicted(_GEMMA, EngineFlags(max_num_seqs=256), quantization="fp8", **_GPU),
        predicted(_GEMMA, EngineFlags(max_num_seqs=1024), quantization="fp8", **_GPU),
        "--max-num-seqs 1024",
    ),
    "the token line's other meaning": (
        predicted(_GEMMA, EngineFlags(version=(0, 21)), **_POOL),
        predicted(_GEMMA, EngineFlags(version=(0, 20)), **_POOL),
        "the token line counts blocks of one group",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
def test_a_misreading_is_named(name: str) -> None:
    """The prediction is spoiled by one thing, and the diagnosis names it."""
    spoiled, engine, sentence = _CASES[name]

    assert sentence in _explanations(spoiled, engine.tokens(65536), 65536)


@pytest.mark.parametrize(
    ("flags", "factor", "sentence"),
    [
        (EngineFlags(tensor_parallel_size=16), 0.5, "each rank holds a whole KV head"),
        (EngineFlags(tensor_parallel_size=16), 2.0, "counts a KV head once"),
        (EngineFlags(data_parallel_size=3), 3.0, "the sum over 3 data-parallel engines"),
        (EngineFlags(decode_context_parallel_size=8), 1 / 8, "leaves decode context parallelism out"),
    ],
)
def test_a_report_read_otherwise_is_named(flags: EngineFlags, factor: float, sentence: str) -> None:
    """What changes only how tokens are counted is named too."""
    prediction = _llama(flags)

    assert sentence in _explanations(prediction, (prediction.tokens(_LENGTH) or 0) * factor)


def test_two_misreadings_at_once_are_named() -> None:
    """Where none explains the gap alone, a pair does."""
    spoiled = _llama(quantization="fp8", **_GPU)
    flags = replace(_TP4, kv_cache_dtype="fp8", utilization=0.85)
    engine = _llama(flags, quantization="fp8", **_GPU)
    explanations = diagnose(spoiled, engine.tokens(_LENGTH) or 0, _LENGTH).explanations

    pair = ("the engine keeps keys and values in 8 bits (--kv-cache-dtype)",
            "the engine runs with --gpu-memory-utilization 0.85")  # fmt: skip
    assert pair in explanations


def test_what_nothing_explains_is_said_to_be_so() -> None:
    """A gap that no misreading makes is not given a cause."""
    assert _explanations(_llama(), (_LLAMA_TOKENS or 0) * 1.37).startswith("No known misreading")
