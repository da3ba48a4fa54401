"""What a number of sequences would need: a utilization, or more GPUs."""

from __future__ import annotations

from dataclasses import replace

from vllm_advisor.ceilings.pool import PoolPrediction, predict_pool

__all__ = ["gpus_for", "pool_bytes_for", "utilization_for"]

_RANKS = (1, 2, 4, 8, 16, 32, 64)


def pool_bytes_for(prediction: PoolPrediction, max_model_len: int, sequences: int) -> int:
    """Return one GPU's pool that holds some sequences of full length, the placeholder block included."""
    blocks = sequences * prediction.layout.blocks_per_request(max_model_len) + 1
    return blocks * prediction.layout.bytes_per_block


def utilization_for(prediction: PoolPrediction, max_model_len: int, sequences: int) -> float | None:
    """Return the ``--gpu-memory-utilization`` that some sequences need, over 1 where none is enough.

    None where the GPU's memory is not known.
    """
    total_bytes = prediction.inputs.gpu_memory_bytes
    at_cap = prediction.with_max_num_seqs(sequences)
    if total_bytes is None or at_cap.pool is None:
        return None
    missing_bytes = pool_bytes_for(prediction, max_model_len, sequences) - at_cap.pool.expected_bytes
    return prediction.flags.utilization_ratio + missing_bytes / total_bytes


def gpus_for(prediction: PoolPrediction, max_model_len: int, sequences: int) -> int | None:
    """Return the smallest tensor-parallel size that holds some sequences, None where 64 is too few.

    Ranks that do not divide the attention heads are left out, since vLLM would not start.
    Weights that were given for one GPU are shared out over the larger number.
    """
    now, heads = prediction.flags.tensor_parallel_size, prediction.model.attention_heads
    for ranks in _RANKS:
        if heads is not None and heads % ranks:
            continue
        weights = prediction.inputs.weights_bytes
        inputs = replace(prediction.inputs, weights_bytes=weights * now // ranks if weights else None)
        flags = replace(prediction.flags, tensor_parallel_size=ranks, max_num_seqs=sequences)
        found = predict_pool(prediction.model, flags, inputs).sequences(max_model_len)
        if ranks >= now and found is not None and found >= sequences:
            return ranks
    return None
