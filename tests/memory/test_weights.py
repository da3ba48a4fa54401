"""How much memory weights take, from what is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.memory import LLAMA_70B, model_of, saved
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.weights import parameters_in_name, weights_per_gpu
from vllm_advisor.sources.model_config import read_model_config

_GIB = 2**30
_LLAMA_8B = {
    **LLAMA_70B, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32,
}  # fmt: skip
_QWEN_3_235B = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096,
    "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "moe_intermediate_size": 1536, "intermediate_size": 12288, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936,
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "flags", "quantization", "loaded_gib"),
    [
        (_LLAMA_8B, EngineFlags(), None, 14.99),
        (_LLAMA_8B, EngineFlags(tensor_parallel_size=2), None, 7.51),
        (_LLAMA_8B, EngineFlags(tensor_parallel_size=4), None, 3.77),
        (_LLAMA_8B, EngineFlags(pipeline_parallel_size=4), None, 4.26),
        (_LLAMA_8B, EngineFlags(dtype="float32"), None, 29.98),
        (_LLAMA_8B, EngineFlags(), "w8a8", 8.49),
        (LLAMA_70B, EngineFlags(tensor_parallel_size=2), "w8a8", 33.88),
        (_QWEN_3_235B, EngineFlags(tensor_parallel_size=4), "fp8", 55.19),
    ],
)
def test_counted_weights_are_what_engines_loaded(
    document: dict[str, Any], flags: EngineFlags, quantization: str | None, loaded_gib: float
) -> None:
    """The count is within 1.5% of what real engines said they had loaded, and the range holds it."""
    size = weights_per_gpu(model_of(document), flags, quantization=quantization)

    assert size is not None
    assert size.expected_bytes / _GIB == pytest.approx(loaded_gib, rel=0.015)
    assert size.low_bytes <= loaded_gib * _GIB <= size.high_bytes


@pytest.mark.parametrize(("ranks", "engines"), [(1, 8), (2, 4), (8, 1)])
def test_experts_are_shared_by_data_parallel_engines(ranks: int, engines: int) -> None:
    """Eight GPUs hold an eighth of the experts each, however they are divided into engines."""
    flags = EngineFlags(tensor_parallel_size=ranks, data_parallel_size=engines)
    size = weights_per_gpu(model_of(_QWEN_3_235B), flags)
    experts = 94 * 128 * 3 * 4096 * 1536
    elsewhere = 94 * 4096 * 128 * (2 * 64 + 2 * 4) + 2 * 151936 * 4096

    assert size is not None
    assert size.expected_bytes == pytest.approx((experts / 8 + elsewhere / ranks) * 2, rel=0.001)


def test_a_checkpoint_is_divided_as_its_parts_are(tmp_path: Path) -> None:
    """Of a mixture's 470 GB each of eight data-parallel GPUs holds an eighth of the experts and all else."""
    index = {"metadata": {"total_size": 470 * 10**9}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    model = read_model_config(Path(saved(tmp_path, _QWEN_3_235B)))
    size = weights_per_gpu(model, EngineFlags(data_parallel_size=8))
    experts = 94 * 128 * 3 * 4096 * 1536
    elsewhere = 94 * 4096 * 128 * (2 * 64 + 2 * 4) + 2 * 151936 * 4096

    assert size is not None
    assert size.expected_bytes == pytest.approx(
        470e9 * (experts / 8 + elsewhere) / (experts + elsewhere), rel=0.001
    )


_GPT_OSS_120B = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880,
    "intermediate_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "vocab_size": 201088,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip


def test_experts_in_mxfp4_are_padded_as_kernels_need_them() -> None:
    """H100 engines loaded 64.38 GiB with one kernel and 65.97 with another, of 60.7 stored."""
    size = weights_per_gpu(model_of(_GPT_OSS_120B), EngineFlags())

    assert size is not None
    assert size.expected_bytes / _GIB == pytest.approx(64.38, rel=0.005)
    assert size.low_bytes <= 60.7 * _GIB
    assert size.high_bytes >= 65.97 * _GIB


@pytest.mark.parametrize(
    ("quantization", "bytes_per_weight"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 20 / 8 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, 1 + 20 / 8 / 32),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 0.5),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 17 / 32),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 1),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5 + 1 / 16),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
                "num_bits": 4, "type": "float", "group_size": 16}}}},
            0.5 + 1 / 16,
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
                "num_bits": 4, "type": "int", "group_size": 32}}}},
            0.5 + 20 / 8 / 32,
        ),
    ],
)  # fmt: skip
def test_a_quantized_weight_with_its_scales(quantization: dict[str, Any], bytes_per_weight: float) -> None:
    """Layers take the checkpoint's bits and its groups' scales, the embedding and the head 16 bits."""
    size = weights_per_gpu(model_of(_LLAMA_8B | {"quantization_config": quantization}), EngineFlags())
    layers = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)

    assert size is not None
    assert size.expected_bytes == pytest.approx(layers * bytes_per_weight + 2 * 128256 * 4096 * 2, rel=0.0001)


def test_the_checkpoints_own_size_is_taken(tmp_path: Path) -> None:
    """An index beside the config states the bytes, whatever they are quantized to."""
    index = {"metadata": {"total_size": 40 * 10**9}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    model = read_model_config(Path(saved(tmp_path, LLAMA_70B)))
    as_stored = weights_per_gpu(model, EngineFlags(tensor_parallel_size=4))
    quantized = weights_per_gpu(model, EngineFlags(tensor_parallel_size=4), quantization="fp8")

    assert as_stored is not None
    assert as_stored.expected_bytes == 10 * 10**9
    assert quantized is not None
    assert quantized.expected_bytes == pytest.approx(17.9e9, rel=0.02)


def test_a_cut_down_config_is_completed_from_its_published_model() -> None:
    """A config without feed-forward width and vocabulary is known by its shape, and a note says so."""
    cut = model_of(LLAMA_70B | {"intermediate_size": None, "vocab_size": None})

    assert cut.weights == model_of(LLAMA_70B).weights
    assert any("the published model's of its shape" in note for note in cut.notes)


@pytest.mark.parametrize("index", ["{", "[]", '{"metadata": {"total_size": "x"}}', '{"metadata": null}'])
def test_an_index_that_says_nothing_is_passed_over(index: str, tmp_path: Path) -> None:
    """A broken index leaves the files' own sizes, and none of these nothing."""
    (tmp_path / "model.safetensors.index.json").write_text(index)
    path = Path(saved(tmp_path, LLAMA_70B))
    assert read_model_config(path).checkpoint_bytes is None

    (tmp_path / "model-00001-of-00001.safetensors").write_bytes(b"x" * 100)
    (tmp_path / "consolidated.safetensors").write_bytes(b"x" * 100)
    assert read_model_config(path).checkpoint_bytes == 100


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 8.0),
        ("Qwen3-30B-A3B", 30.0),
        ("SmolLM-135M", 0.135),
        ("Qwen2.5-0.5B-Instruct", 0.5),
        ("openai/gpt-oss-120b", 120.0),
        ("Llama-4-Scout-17B-16E-Instruct", None),
        ("phi-4", None),
        ("v2.5B2", None),
    ],
)
def test_sizes_in_names(name: str, billions: float | None) -> None:
    """A name's size is read, what is active or no size is not."""
    found = parameters_in_name(name)

    assert (found / 1e9 if found else None) == (pytest.approx(billions) if billions else None)


def test_the_mixtures_of_names_share_attention() -> None:
    """Mixtral 8x7B has 46.7 billion parameters, not 56."""
    assert parameters_in_name("Mixtral-8x7B-v0.1") == pytest.approx(46.7e9, rel=0.01)


def test_nothing_known_is_no_size() -> None:
    """Neither counted nor named gives no weights, not a guess."""
    document = LLAMA_70B | {"intermediate_size": None, "num_hidden_layers": 79}

    assert weights_per_gpu(model_of(document), EngineFlags()) is None
