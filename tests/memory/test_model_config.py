"""Model configs: what is read of them, and what is said when they cannot be read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory import LLAMA_70B, model_of
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.kv_layout import kv_layout
from vllm_advisor.ceilings.weights import weights_per_gpu
from vllm_advisor.errors import InputError
from vllm_advisor.sources.model_config import model_config_from_document, read_model_config

_GEMMA_4 = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "text_config": {
        "model_type": "gemma4_text", "num_hidden_layers": 60, "num_attention_heads": 32,
        "num_key_value_heads": 16, "num_global_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
        "hidden_size": 5376, "sliding_window": 1024, "intermediate_size": 21504, "vocab_size": 262144,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
    },
}  # fmt: skip
_QWEN_3_5 = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "text_config": {
        "model_type": "qwen3_5_moe_text", "num_hidden_layers": 40, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 256, "hidden_size": 2048, "mamba_ssm_dtype": "float32",
    },
}  # fmt: skip
_DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536,
    "n_routed_experts": 256, "n_shared_experts": 1, "moe_intermediate_size": 2048,
    "intermediate_size": 18432, "first_k_dense_replace": 3, "vocab_size": 129280,
}  # fmt: skip


@pytest.mark.parametrize(("version", "needed_gib"), [((0, 25, 0), 45.79), ((0, 26, 0), 70.79)])
def test_gemma_4_needs_what_its_engine_asked_for(version: tuple[int, ...], needed_gib: float) -> None:
    """One request of 262,144 tokens takes what 0.25 and 0.26 printed for 32,768 batched tokens.

    Full layers are half as wide as windows here, so their blocks hold twice the tokens.
    """
    layout = kv_layout(model_of(_GEMMA_4), EngineFlags(version=version, max_num_batched_tokens=32768))

    assert round(layout.blocks_per_request(262144) * layout.bytes_per_block / 2**30, 2) == needed_gib


@pytest.mark.parametrize(("proposed", "block_size"), [(0, 2096), (2, 2128), (3, 2144)])
def test_speculation_lengthens_a_hybrid_block(proposed: int, block_size: int) -> None:
    """Rows that a drafter proposes join the convolution's state, and the block grows to hold it."""
    flags = EngineFlags(
        kv_cache_dtype="fp8", speculative_tokens=proposed, speculative_layers=min(1, proposed)
    )
    layout = kv_layout(model_of(_QWEN_3_5), flags)

    assert layout.block_size_tokens == block_size
    assert max(group.layers for group in layout.groups) == 10 + min(1, proposed)
    assert {group.state_blocks for group in layout.groups} == {0, 2 + proposed}


@pytest.mark.parametrize(
    ("version", "drafter_layers", "groups"),
    [
        ((0, 11), 1, [12, 12, 1]),
        ((0, 12), 1, [12, 13]),
        ((0, 17), 5, [12, 12, 5]),
        ((0, 18), 5, [12, 17]),
        ((0, 18), 6, [12, 12, 6]),
    ],
)
def test_the_width_of_groups_by_version(
    version: tuple[int, ...], drafter_layers: int, groups: list[int]
) -> None:
    """12 windows beside 12 full layers and a drafter's: padded below 1.25 times from 0.12, 1.5 from 0.18."""
    document = {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 2880,
    }  # fmt: skip
    layout = kv_layout(model_of(document), EngineFlags(version=version, speculative_layers=drafter_layers))

    widths = sorted(group.layers for group in layout.groups)
    assert sum(widths) == 24 + drafter_layers
    assert max(widths) == max(groups)
    assert len(widths) == len(groups)


@pytest.mark.parametrize(
    ("version", "index_width", "bytes_per_layer"),
    [
        ((0, 6), 0, 128 * 2 * 192 * 2),
        ((0, 7), 0, 640 * 2),
        ((0, 8), 0, 576 * 2),
        ((0, 32), 128, 576 * 2 + 132),
    ],
)
def test_latent_attention_by_version(
    version: tuple[int, ...], index_width: int, bytes_per_layer: int
) -> None:
    """Full heads before 0.7, a vector padded to 640 on V0, 576 since; an indexer adds 132 bytes."""
    layout = kv_layout(model_of(_DEEPSEEK_V3 | {"index_head_dim": index_width}), EngineFlags(version=version))

    assert layout.rank_token_bytes == 61 * bytes_per_layer


def test_latent_vectors_are_on_every_rank() -> None:
    """Tensor parallelism divides no latent vector, so a rank's bytes stay and the engine's sum grows."""
    one, eight = (
        kv_layout(model_of(_DEEPSEEK_V3), EngineFlags(tensor_parallel_size=ranks)) for ranks in (1, 8)
    )

    assert one.rank_token_bytes == eight.rank_token_bytes
    assert eight.model_token_bytes == 8 * one.model_token_bytes


@pytest.mark.parametrize(
    ("document", "billions"),
    [(LLAMA_70B, 70.55), (_DEEPSEEK_V3, 671.0), (_GEMMA_4, 30.7)],
    ids=["llama-70b", "deepseek-v3", "gemma-4-31b"],
)
def test_parameters_are_counted(document: dict[str, Any], billions: float) -> None:
    """The count from the config is within 2% of the published number of parameters."""
    assert model_of(document).weights.total / 1e9 == pytest.approx(billions, rel=0.02)


def test_a_window_that_is_switched_off_is_none() -> None:
    """Qwen 2.5 states a window and does not use it."""
    document = LLAMA_70B | {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "sliding_window": 131072,
    }

    assert Counter(cache.reach.value for cache in model_of(document).caches) == {"full": 80}


def test_what_a_file_leaves_out_is_its_class_default() -> None:
    """Gemma 3's own file names no heads; they come from its config class."""
    text = {"hidden_size": 2560, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}
    document = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}
    caches = model_of(document).caches

    assert {(cache.kv_heads, cache.key_width) for cache in caches} == {(4, 256)}
    assert Counter(cache.reach.value for cache in caches) == {"sliding": 29, "full": 5}


def test_a_checkpoint_of_modelopt_decides_the_cache_dtype() -> None:
    """``auto`` means fp8 where a ModelOpt checkpoint asks for it, on engines that follow it."""
    scheme = {"dynamic": False, "num_bits": 8, "type": "float"}
    document = LLAMA_70B | {"quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": scheme}}
    old, new = (kv_layout(model_of(document), EngineFlags(version=version)) for version in ((0, 11), (0, 32)))

    assert old.rank_token_bytes == 2 * new.rank_token_bytes


@pytest.mark.parametrize(
    ("dtype", "head_bytes"),
    [("fp8", 128), ("fp8_per_token_head", 128 + 4), ("int8_per_token_head", 128 + 4), ("nvfp4", 64 + 8)],
)
def test_scaled_and_packed_cache_dtypes(dtype: str, head_bytes: int) -> None:
    """A scale of 4 bytes for each token and head; FP4 with a byte of scale for 16 elements."""
    layout = kv_layout(model_of(LLAMA_70B), EngineFlags(kv_cache_dtype=dtype))

    assert layout.rank_token_bytes == 80 * 8 * 2 * head_bytes


def test_a_compressed_tensors_scheme_decides_the_cache_dtype() -> None:
    """Its presence alone makes the cache 8 bits wide since 0.13; other checkpoints' schemes do not."""
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    stored = {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
    followed, before, other = (
        kv_layout(model_of(LLAMA_70B | {"quantization_config": quantization}), EngineFlags(version=version))
        for quantization, version in (
            (stored, (0, 13)),
            (stored, (0, 12)),
            (stored | {"quant_method": "fp8"}, (0, 32)),
        )
    )

    assert followed.rank_token_bytes == 80 * 8 * 2 * 128
    assert before.rank_token_bytes == other.rank_token_bytes == 80 * 8 * 2 * 128 * 2


def test_an_older_modelopt_checkpoint_keeps_its_quantization_in_a_file_of_its_own(tmp_path: Path) -> None:
    """It is read as the engine reads it: NVFP4 weights of 9/16 byte, an 8-bit cache."""
    beside = {
        "producer": {"name": "modelopt", "version": "0.23.0"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16},
    }
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_70B))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    model = read_model_config(tmp_path)
    weights = weights_per_gpu(model, EngineFlags())

    assert kv_layout(model, EngineFlags()).rank_token_bytes == 80 * 8 * 2 * 128
    assert weights is not None
    tables = 2 * 128256 * 8192 * 2
    assert weights.expected_bytes == pytest.approx(68.45e9 * 9 / 16 + tables, rel=0.01)


@pytest.mark.parametrize(
    ("fields", "longest"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"max_position_embeddings": 32768, "seq_length": 8192}, 8192),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        (
            {"max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40,
             "original_max_position_embeddings": 4096}},
            163840,
        ),
        (
            {"max_position_embeddings": 40960, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
             "original_max_position_embeddings": 32768}},
            131072,
        ),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": "x"}}, 2048),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": [], "factor": 2}}, 2048),
        ({}, None),
    ],
)  # fmt: skip
def test_the_longest_sequence_a_model_was_made_for(fields: dict[str, Any], longest: int | None) -> None:
    """The smallest spelling, or the field that overrides it, times what rope scaling adds."""
    document = {key: value for key, value in LLAMA_70B.items() if key != "max_position_embeddings"} | fields

    assert model_of(document).max_len_tokens == longest


def test_gemma_3_states_its_positions_scaled() -> None:
    """Its linear factor of 8 is in the 131,072 already."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34, "sliding_window": 1024,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0}}  # fmt: skip
    document = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text}

    assert model_of(document).max_len_tokens == 131072


def test_mistrals_own_form_is_read(tmp_path: Path) -> None:
    """A folder with ``params.json`` alone: Mistral Nemo's 40 layers of 8 heads, 12.2 billion parameters."""
    parameters = {
        "dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8,
        "rope_theta": 1000000.0, "norm_eps": 1e-05, "vocab_size": 131072, "max_seq_len": 128000,
    }  # fmt: skip
    (tmp_path / "params.json").write_text(json.dumps(parameters))
    model = read_model_config(tmp_path)

    assert kv_layout(model, EngineFlags()).rank_token_bytes == 40 * 8 * 2 * 128 * 2
    assert model.weights.total / 1e9 == pytest.approx(12.25, rel=0.01)
    assert model.max_len_tokens == 128000


def test_pipeline_stages_take_the_larger_part() -> None:
    """Five layers over two stages leave three on one of them, which sets the block."""
    document = LLAMA_70B | {"num_hidden_layers": 5}
    layout = kv_layout(model_of(document), EngineFlags(pipeline_parallel_size=2))

    assert layout.bytes_per_block == 3 * 16 * 8 * 2 * 128 * 2


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"architectures": ["WibbleForCausalLM"]}, "architectures: WibbleForCausalLM is not known"),
        ({"model_type": "wibble"}, "model_type: wibble is not known"),
        ({"architectures": ["LlamaForCausalLM"]}, "num_hidden_layers: is missing"),
        (LLAMA_70B | {"num_hidden_layers": "80"}, "num_hidden_layers: expected a whole number"),
        (LLAMA_70B | {"head_dim": -1}, "head_dim: expected a whole number"),
        (LLAMA_70B | {"num_attention_heads": None}, "num_attention_heads: is missing"),
        (LLAMA_70B | {"head_dim": float("inf")}, "head_dim: expected a whole number"),
        (LLAMA_70B | {"layer_types_count": {"mamba": 1e300}}, "layer_types_count.mamba: expected a whole"),
        (LLAMA_70B | {"vocab_size": 10**400}, "vocab_size: expected a whole number over zero, not 1000"),
        (LLAMA_70B | {"intermediate_size": [10**5000]}, "intermediate_size: expected a list of whole"),
        (LLAMA_70B | {"mamba_d_state": 16}, "mamba_d_state: sizes a state"),
        (LLAMA_70B | {"num_hidden_layers": 10**9}, "num_hidden_layers: expected at most 10,000 layers"),
        ({**LLAMA_70B, "layer_types": ["full_attention"] * 3}, "layer_types: describes 3 layers of 80"),
        ({**LLAMA_70B, "layer_types": ["psychic"] * 80}, "layer_types: names a kind of layer"),
        (
            {"architectures": ["KimiVLForConditionalGeneration"], "text_config": {"num_hidden_layers": 2,
             "kv_lora_rank": 512}},
            "text_config.qk_rope_head_dim: is missing",
        ),
    ],
)  # fmt: skip
def test_the_field_that_is_wrong_is_named(document: dict[str, Any], message: str) -> None:
    """One line names the file, the field and what is wrong with it."""
    with pytest.raises(InputError) as caught:
        model_of(document)

    assert str(caught.value).startswith(f"config.json: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "expected a JSON object"),
        ("\udcff", "is not JSON"),
        ("[" * 10**5, "is n"),
    ],
)
def test_files_that_are_no_config(content: str, message: str, tmp_path: Path) -> None:
    """A file that is no config gives one line, with its name."""
    path = tmp_path / "config.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))

    with pytest.raises(InputError, match=message):
        read_model_config(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path that cannot be read stands in the problem."""
    with pytest.raises(InputError, match=r"nowhere\.json: cannot be read"):
        read_model_config(tmp_path / "nowhere.json")


_WORDS = st.sampled_from(["", "mamba", "full_attention", "M*-", "bfloat16", "conv", "qwen3_next", "é"])
_SCALARS = st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats(allow_nan=False) | _WORDS
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from([
    "head_dim", "num_key_value_heads", "sliding_window", "layer_types", "text_config", "kv_lora_rank",
    "hidden_size", "num_attention_heads", "num_hidden_layers", "linear_attn_config", "block_configs",
    "quantization_config", "hybrid_override_pattern", "layer_types_count", "attention_chunk_size",
    "no_rope_layers", "mamba_d_state", "architectures", "model_type", "vision_config", "intermediate_size",
    "attn_config", "full_attention_interval", "sliding_window_pattern", "num_kv_shared_layers",
    "torch_dtype", "vocab_size", "num_local_experts", "attn_type_list", "n_inner", "multi_query",
])  # fmt: skip


@settings(max_examples=300)
@given(st.dictionaries(_KEYS, _VALUES, max_size=6))
def test_no_config_ends_in_a_traceback(changes: dict[str, Any]) -> None:
    """Whatever stands in a field, the config is read or the field is named."""
    document = json.loads(json.dumps(LLAMA_70B | {"num_hidden_layers": 4} | changes))
    try:
        model = model_config_from_document(document, Path("config.json"))
    except InputError as error:
        assert error.key  # noqa: PT017 - either outcome is right
    else:
        assert kv_layout(model, EngineFlags()).blocks_per_request(4096) >= 1
