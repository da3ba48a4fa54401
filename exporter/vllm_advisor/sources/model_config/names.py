"""How families spell the same field; the first spelling is the one that problems name."""

from __future__ import annotations

__all__ = [
    "EXPERTS",
    "EXPERTS_PER_TOKEN",
    "EXPERT_WIDTH",
    "FEED_FORWARD",
    "HEADS",
    "HEAD_WIDTH",
    "HIDDEN",
    "KV_HEADS",
    "LAYERS",
    "VOCABULARY",
]

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "num_attention_groups",
    "n_kv_heads",
    "kv_n_heads",
)
HEAD_WIDTH = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head")
FEED_FORWARD = (
    "intermediate_size",
    "ffn_dim",
    "n_inner",
    "ffn_hidden_size",
    "decoder_ffn_dim",
    "block_ff_dim",
    "hidden_dim",
)
EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim")
EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_topk",
    "moe_top_k",
)
VOCABULARY = ("vocab_size", "padded_vocab_size")
