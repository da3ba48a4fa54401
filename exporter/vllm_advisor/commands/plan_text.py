"""``plan``'s answer in words: where each gigabyte goes, and what another choice would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vllm_advisor.ceilings.estimate import Estimate
from vllm_advisor.ceilings.kv_pages import Keeps
from vllm_advisor.ceilings.needs import gpus_for, utilization_for
from vllm_advisor.ceilings.pool import PoolPrediction
from vllm_advisor.commands.plan_answer import PlanAnswer
from vllm_advisor.sources.startup_log import StartupReport
from vllm_advisor.units import format_bytes

__all__ = ["plan_text"]

_GIB = 2**30


def plan_text(answer: PlanAnswer, report: StartupReport) -> str:
    """Return the whole answer as text.

    Args:
        answer: what was worked out.
        report: what the engine logged, empty without a log.
    """
    sections = (
        _flags(answer),
        _memory(answer.prediction),
        _logged(report),
        _layout(answer),
        _lengths(answer),
        _what_it_takes(answer),
        _comparison(answer),
        iter(answer.notes),
    )
    return "\n\n".join(text for section in sections if (text := "\n".join(section)))


def _flags(answer: PlanAnswer) -> Iterator[str]:
    yield f"--max-model-len    {_count(answer.max_model_len)}"
    yield f"--max-num-seqs     {_count(answer.recommended_max_num_seqs)}  ({answer.binding} binds)"
    yield f"memory ceiling     {_count(answer.memory_ceiling)} sequences of full length"
    yield f"latency ceiling    {_count(answer.latency.sequences if answer.latency else None)}"


def _memory(prediction: PoolPrediction) -> Iterator[str]:
    """Where each gigabyte of one GPU goes."""
    if prediction.pool is None:
        return
    yield "Memory of one GPU"
    for share in prediction.shares:
        yield _row(share.name, share.size)
    yield _row("KV pool", prediction.pool)
    pool_bytes = prediction.pool.expected_bytes
    if pool_bytes > 0:
        yield f"  Sets the pool without profiling: --kv-cache-memory-bytes {pool_bytes}"
    if prediction.shares:
        yield "  The smallest rank's pool rules. Activations follow --max-num-batched-tokens and"
        yield "  --max-num-seqs, since the engine profiles its largest batch."


def _row(name: str, size: Estimate) -> str:
    spread = ""
    if size.low_bytes != size.high_bytes:
        spread = f"  ({size.low_bytes / 1e9:.1f} to {size.high_bytes / 1e9:.1f})"
    basis = "" if size.basis == "given" else f"  {size.basis}"
    gigabytes = f"{size.expected_bytes / 1e9:8.2f} GB {size.expected_bytes / _GIB:8.2f} GiB"
    return f"  {name:30} {gigabytes}{spread}{basis}"


def _logged(report: StartupReport) -> Iterator[str]:
    """Where the engine itself says that one GPU's memory went."""
    logged = {
        "weights": report.weights_bytes,
        "activation peak": report.activation_bytes,
        "non-torch memory": report.non_torch_bytes,
        "CUDA graphs": report.graphs_bytes,
        "KV pool": report.available_bytes,
    }
    rows = [_row(name, Estimate.given(size)) for name, size in logged.items() if size is not None]
    if rows:
        yield "As the engine logged it"
        yield from rows


def _layout(answer: PlanAnswer) -> Iterator[str]:
    prediction, length = answer.prediction, answer.max_model_len
    layout, blocks = prediction.layout, prediction.blocks
    kinds = Counter[Keeps]()
    for group in layout.groups:
        kinds[group.keeps] += group.layers
    described = ", ".join(f"{count} of {keeps}" for keeps, count in kinds.items())
    yield f"KV cache: {described}, in {len(layout.groups)} group{'s'[: len(layout.groups) - 1]}"
    yield f"  a token takes {layout.model_token_bytes:,} bytes, {layout.rank_token_bytes:,} on each rank"
    yield f"  a block of {layout.block_size_tokens} tokens takes {layout.bytes_per_block:,} bytes on a rank"
    if blocks is None or length is None or answer.tokens is None or answer.max_concurrency is None:
        return
    yield (
        f"  {blocks:,} blocks: {answer.tokens:,} tokens, maximum concurrency for {length:,} tokens "
        f"{answer.max_concurrency:.2f}x"
    )
    yield from _why_lines_differ(prediction, length)
    yield "  Shorter sequences run in larger numbers; what does not fit waits or is preempted."


def _why_lines_differ(prediction: PoolPrediction, length: int) -> Iterator[str]:
    layout = prediction.layout
    need = layout.blocks_per_request(length)
    yield f"  a request of full length takes {need:,} blocks"
    if layout.is_plain:
        return
    for keeps in dict.fromkeys(group.keeps for group in layout.groups):
        alike = [group for group in layout.groups if group.keeps is keeps]
        each = alike[0].blocks_per_request(length, layout.in_flight_tokens, layout.context_ranks)
        yield f"    {len(alike)} x {each:,} for {keeps}"
    shortest = layout.blocks_per_request(1)
    yield f"  the shortest request takes {shortest:,} blocks"
    yield "  The concurrency line is the one to trust: it counts blocks group by group. The token line is it"
    yield "  times the length (one group's blocks before 0.21), so it changes with --max-model-len."


def _lengths(answer: PlanAnswer) -> Iterator[str]:
    """What a shorter context would give."""
    length, prediction = answer.max_model_len, answer.prediction
    if length is None or not prediction.blocks:
        return
    yield "Sequences by --max-model-len"
    for shorter in (length, length // 2, length // 4, length // 8):
        if shorter >= 512:
            yield f"  {shorter:>10,} {_count(prediction.sequences(shorter)):>8}"


def _what_it_takes(answer: PlanAnswer) -> Iterator[str]:
    """What more sequences, or another utilization, would take."""
    length, prediction = answer.max_model_len, answer.prediction
    if length is None or prediction.inputs.gpu_memory_bytes is None or prediction.pool is None:
        return
    wanted = prediction.flags.max_num_seqs or 2 * max(1, answer.memory_ceiling or 0)
    ratio = utilization_for(prediction, length, wanted)
    yield f"For {wanted:,} sequences of {length:,} tokens"
    if ratio is not None and ratio <= 1:
        yield f"  --gpu-memory-utilization {ratio:.3f}"
    ranks = gpus_for(prediction, length, wanted)
    if ranks is not None:
        yield (
            f"  or --tensor-parallel-size {ranks}"
            if ratio and ratio <= 1
            else f"  --tensor-parallel-size {ranks}"
        )
    elif ratio is None or ratio > 1:
        yield "  no tensor-parallel size up to 64: ranks beyond the KV heads replicate them. A shorter"
        yield "  context, an fp8 cache or more data-parallel engines would."
    step_bytes = prediction.inputs.gpu_memory_bytes // 100
    tokens = step_bytes // max(1, prediction.layout.rank_token_bytes)
    yield f"Each 0.01 of utilization buys {format_bytes(step_bytes)} a GPU, or {tokens:,} tokens. What it"
    yield "leaves alone holds graphs and whatever runs beside the engine: above 0.95 the warm-up may fail."


def _comparison(answer: PlanAnswer) -> Iterator[str]:
    if answer.engine_tokens is None:
        return
    error = "unknown" if answer.error_ratio is None else f"{answer.error_ratio:+.2%}"
    yield f"The engine reports {answer.engine_tokens:,} tokens; the prediction differs by {error}."
    if answer.diagnosis:
        yield answer.diagnosis.text


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
