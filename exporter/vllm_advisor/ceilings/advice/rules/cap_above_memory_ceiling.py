"""The engine may admit more whole-length sequences than the KV pool holds."""

from __future__ import annotations

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.flags import set_cap
from vllm_advisor.ceilings.advice.words import sequences, tokens
from vllm_advisor.ceilings.bound_time import Bound

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
    pool_tokens = memory.engine_tokens or memory.predicted_tokens
    pool = f"the KV pool of {tokens(pool_tokens)} tokens" if pool_tokens else "the KV pool"
    held = f"{sequences(memory.sequences)} of {tokens(length)} tokens{lengths}"
    seen = f"The cap is {cap} and {pool} holds {held}."
    return Advice(Code.CAP_ABOVE_MEMORY_CEILING, seen, _action(case, cap, memory.sequences))


def _action(case: Case, cap: int, ceiling: int) -> str:
    """Name a flag where one is published or the pool ran short; else there is no telling yet."""
    if case.max_num_seqs.recommended is None and not case.bound_time.ratio_or_zero(Bound.MEMORY):
        return (
            "Nothing needs to change yet, for the pool never ran short: what to set follows with the latency "
            f"ceiling, and will not be above {ceiling}."
        )
    return f"{set_cap(case, case.cap_to_set or ceiling)}. {_expected(case, cap)}"


def _expected(case: Case, cap: int) -> str:
    """Say what comes of it: preemptions end where there were some, and cannot begin where there were none."""
    preemptions, expected = case.snapshot.occupancy.preemptions, case.memory.expected_sequences
    if preemptions:
        return (
            f"Expect preemptions to end, of which there were {tokens(preemptions)}: each does the work of a "
            "sequence a second time."
        )
    when = "if many requests are long at once" if expected is not None and cap <= expected else "under load"
    return f"Expect the pool never to run out, as it can now {when}."
