"""The engine may admit more whole-length sequences than the KV pool holds."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.words import tokens

__all__ = ["cap_above_memory_ceiling"]


def cap_above_memory_ceiling(case: Case, _at: Thresholds) -> Advice | None:
    """Say so for interactive work; batch work may well queue inside the engine."""
    cap, memory, length = case.max_num_seqs.configured, case.memory, case.length_tokens
    if cap is None or memory.sequences is None or length is None or case.is_batch:
        return None
    recommended = case.max_num_seqs.recommended
    if cap <= max(memory.sequences, recommended or 0):
        return None
    expected = memory.expected_sequences
    lengths = f", and {expected} of the observed lengths" if expected is not None else ""
    seen = (
        f"The cap is {cap} and the KV pool of {tokens(memory.engine_tokens or memory.predicted_tokens or 0)} "
        f"tokens holds {memory.sequences} sequences of {tokens(length)} tokens{lengths}."
    )
    wanted = recommended if recommended is not None else _at_most(case, memory.sequences)
    risk = "only when many are long at once" if expected is not None and cap <= expected else "often"
    return Advice(
        Code.CAP_ABOVE_MEMORY_CEILING,
        seen,
        f"Set --max-num-seqs {wanted}; expect no more preemptions, which cost work twice and now threaten "
        f"{risk}.",
    )


def _at_most(case: Case, sequences: int) -> int:
    ceiling = case.latency_ceiling_at_most
    return max(1, sequences if ceiling is None else min(sequences, ceiling))
