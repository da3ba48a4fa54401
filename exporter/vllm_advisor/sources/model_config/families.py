"""Which model families are known, and what their config classes supply for fields left out of a file.

Defaults are those of the classes in Hugging Face transformers 5.19: a published ``config.json`` may leave out
what equals them (Gemma 3 does), and vLLM reads it through these classes. Where a class's value belongs to no
published model of the family, the family's own stands instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["class_defaults", "is_known_architecture", "model_type_of"]

_KNOWN = re.compile(
    r"(?i)^(afmoe|apertus|aquila|arcee|arctic|aria|audioflamingo|axk|aya|bagel|baichuan|bailing|bamba|bart|bee|blip|"
    r"bloom|chameleon|chatglm|cogvlm|cohere|command|cwm|dbrx|deci|deepseek|dots|emu3|ernie|exaone|fairseq|falcon|"
    r"flex|florence|fuyu|gemma|glm|gpt|granite|gritlm|grok|h2ovl|hcxvision|hunyuan|hyperclova|idefics|intern|iquest|"
    r"isaac|jais|jamba|kanana|keye|kimi|kormo|lfm|lightonocr|llama|llava|longcat|mamba|mbart|midashenglm|mimo|"
    r"mindlink|mini|mistral|mixtral|molmo|moonshot|mpt|nemotron|nvlm|olmo|opencua|opt|orion|ouro|ovis|paddleocr|"
    r"paligemma|pangu|persimmon|phi|pixtral|plamo|quantmixtral|qwen|refinedweb|rw|sarvam|seed|skywork|smollm|smolvlm|"
    r"solar|stable|starcoder|step|tarsier|tele|teuken|ultravox|voxtral|whisper|xverse|yi|youtu|zamba)"
)
_UNSUPPORTED = re.compile(r"(?i)deepseek_?v4|rwkv|mllama")

_TYPE_BY_ARCHITECTURE = (
    ("gptbigcode", "gpt_bigcode"),
    ("gpt2", "gpt2"),
    ("gptoss", "gpt_oss"),
    ("gemma3n", "gemma3n_text"),
    ("gemma4", "gemma4_text"),
    ("gemma3", "gemma3_text"),
    ("paligemma", "gemma"),
    ("gemma2", "gemma2"),
    ("gemma", "gemma"),
    ("llama4", "llama4_text"),
    ("qwen3_5", "qwen3_5_text"),
    ("qwen3next", "qwen3_next"),
    ("qwen3moe", "qwen3_moe"),
    ("qwen3", "qwen3"),
    ("qwen2", "qwen2"),
    ("mixtral", "mixtral"),
    ("mistral3", "mistral3_text"),
    ("mistral", "mistral"),
    ("phi3", "phi3"),
    ("cohere2", "cohere2"),
    ("olmo3", "olmo3"),
    ("exaone4", "exaone4"),
    ("falconh1", "falcon_h1"),
    ("falconmamba", "falcon_mamba"),
    ("falcon", "falcon"),
    ("granitemoehybrid", "granitemoehybrid"),
    ("granitemoe", "granitemoe"),
    ("granite", "granite"),
    ("jamba", "jamba"),
    ("bamba", "bamba"),
    ("nemotronh", "nemotron_h"),
    ("zamba2", "zamba2"),
    ("mamba2", "mamba2"),
    ("mamba", "mamba"),
    ("minicpm3", "minicpm3"),
    ("whisper", "whisper"),
    ("opt", "opt"),
    ("llama", "llama"),
)

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma": {"head_dim": 256, "vocab_size": 256000, "tie_word_embeddings": True},
    "gemma2": {
        "head_dim": 256,
        "vocab_size": 256000,
        "sliding_window": 4096,
        "num_key_value_heads": 4,
        "num_attention_heads": 8,
        "tie_word_embeddings": True,
    },
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
    },
    "gemma3n_text": {
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 262400,
        "sliding_window": 512,
        "sliding_window_pattern": 5,
        "num_kv_shared_layers": 15,
        "tie_word_embeddings": True,
    },
    "gemma4_text": {
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "vocab_size": 262144,
        "tie_word_embeddings": True,
    },
    "gpt_oss": {"head_dim": 64, "sliding_window": 128, "sliding_window_pattern": 2, "vocab_size": 201088},
    "llama4_text": {
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "no_rope_layer_interval": 4,
        "vocab_size": 202048,
        "num_experts_per_tok": 1,
    },
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4, "tie_word_embeddings": True},
    "olmo3": {"sliding_window": 4096, "sliding_window_pattern": 4, "vocab_size": 100278},
    "exaone4": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "qwen2": {"use_sliding_window": False, "vocab_size": 151936, "attention_bias": True},
    "qwen2_moe": {"use_sliding_window": False, "vocab_size": 151936, "attention_bias": True},
    "qwen3": {"use_sliding_window": False, "head_dim": 128, "vocab_size": 151936},
    "qwen3_moe": {"use_sliding_window": False, "vocab_size": 151936},
    "qwen3_next": {
        "full_attention_interval": 4,
        "linear_num_value_heads": 32,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "head_dim": 256,
        "vocab_size": 151936,
    },
    "qwen3_5_text": {
        "full_attention_interval": 4,
        "linear_num_value_heads": 32,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "head_dim": 256,
        "vocab_size": 248320,
    },
    "mistral": {"vocab_size": 32768},
    "mistral3_text": {"vocab_size": 131072},
    "mixtral": {"vocab_size": 32000, "sliding_window": None},
    "phi3": {"vocab_size": 32064},
    "granite": {"vocab_size": 49155, "tie_word_embeddings": True},
    "granitemoehybrid": {
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_head": "auto",
        "vocab_size": 100352,
        "tie_word_embeddings": True,
    },
    "bamba": {
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_head": "auto",
    },
    "falcon_h1": {
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_n_heads": 128,
        "mamba_n_groups": 1,
        "mamba_d_head": "auto",
    },
    "nemotron_h": {
        "mamba_ssm_cache_dtype": "float32",
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "head_dim": 128,
        "attention_head_dim": 128,
    },
    "jamba": {
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "expert_layer_period": 2,
        "num_experts": 16,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
    },
    "zamba2": {
        "mamba_d_state": 64,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "n_mamba_heads": 8,
        "mamba_ngroups": 1,
    },
    "mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
    "falcon_mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
    "mamba2": {
        "state_size": 128,
        "num_heads": 128,
        "head_dim": 64,
        "n_groups": 8,
        "conv_kernel": 4,
        "expand": 2,
    },
    "gpt2": {"tie_word_embeddings": True},
    "gpt_bigcode": {"multi_query": True, "tie_word_embeddings": True},
    "bloom": {"tie_word_embeddings": True},
    "mpt": {"tie_word_embeddings": True},
    "falcon": {"multi_query": True, "tie_word_embeddings": True},
    "cohere": {"tie_word_embeddings": True},
    "lfm2": {"block_auto_adjust_ff_dim": True, "tie_word_embeddings": True},
    "minicpm3": {"qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64},
    "whisper": {"max_source_positions": 1500, "tie_word_embeddings": True},
    "opt": {"vocab_size": 50272, "tie_word_embeddings": True},
    "llama": {"vocab_size": 32000},
}
_SECTION_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    },
    "qwen2": {
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
    },
}
"""What multimodal configs leave out of their language model's section (LLaVA, Qwen2-Audio)."""
_NESTED = {
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe_text": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "mistral3": "mistral3_text",
    "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon",
}


def is_known_architecture(name: str) -> bool:
    """Whether an architecture or model type belongs to a family whose cache is described here."""
    return bool(_KNOWN.match(name)) and not _UNSUPPORTED.search(name)


def model_type_of(model_type: str | None, architecture: str | None, *, interval: bool = False) -> str:
    """Return the text model's type; from the architecture's name where the config does not say.

    Args:
        model_type: as written.
        architecture: the class's name.
        interval: whether the config has ``full_attention_interval``, which one family alone uses.
    """
    if model_type:
        return _NESTED.get(model_type, model_type)
    name = (architecture or "").lower()
    if not name and interval:
        return "qwen3_next"
    return next((found for start, found in _TYPE_BY_ARCHITECTURE if name.startswith(start)), "")


def class_defaults(model_type: str, *, nested: bool = False) -> Mapping[str, Any]:
    """Return what the config class supplies for fields left out.

    Args:
        model_type: of the language model.
        nested: whether it is one section of a multimodal config, which states as little as it can; a plain
            config without its shape is broken.
    """
    defaults = _DEFAULTS.get(model_type, {})
    return {**_SECTION_DEFAULTS.get(model_type, {}), **defaults} if nested else defaults
