"""The flags of ``plan`` that describe an engine, by vLLM's own names."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.engine_version import LATEST, release_of
from vllm_advisor.ceilings.pool import PoolInputs
from vllm_advisor.ceilings.speculation import Speculation
from vllm_advisor.ceilings.weights import QUANTIZATION_BYTES
from vllm_advisor.commands.flag_types import (
    count,
    dtype,
    length,
    positive,
    ratio,
    size,
    size_or_bytes,
    version,
)
from vllm_advisor.errors import InputError, UsageError
from vllm_advisor.sources.model_config import ModelConfig
from vllm_advisor.sources.startup_log import StartupReport

__all__ = ["add_engine_arguments", "engine_flags", "given", "pool_inputs", "refuse_uneven_heads"]


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the engine is started with."""
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--model-config", type=Path, required=True, metavar="PATH", help="config.json or its folder"
    )
    model.add_argument("--parameters", type=positive, metavar="N", help="such as 70e9; else counted")
    model.add_argument("--dtype", type=dtype, help="auto, bfloat16, float16 or float32")
    model.add_argument("--quantization", help="such as fp8, awq, mxfp4; else as the checkpoint says")
    model.add_argument("--weights-memory", type=size, metavar="SIZE", help="of one GPU, such as 17.5GB")
    memory = parser.add_argument_group("the GPU's memory")
    memory.add_argument(
        "--gpu-memory", type=size, metavar="SIZE", help="of one GPU, such as 80GB or 79.19GiB"
    )
    memory.add_argument(
        "--gpu-memory-utilization", type=ratio, metavar="RATIO", help="default 0.92; 0.9 to 0.19"
    )
    memory.add_argument(
        "--headroom", type=size, metavar="SIZE", help="activations, context, graphs; else predicted"
    )
    memory.add_argument(
        "--kv-cache-memory",
        "--kv-cache-memory-bytes",
        type=size_or_bytes,
        metavar="SIZE",
        help="one GPU's pool, as given",
    )
    memory.add_argument("--num-gpu-blocks-override", type=count, metavar="N")
    _add_cache_arguments(parser)
    _add_scheduler_arguments(parser)


def _add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    cache = parser.add_argument_group("the KV cache")
    cache.add_argument("--kv-cache-dtype", type=dtype, help="auto, fp8, fp8_e4m3, fp8_e5m2")
    cache.add_argument("--block-size", type=count, metavar="TOKENS", help="default 16; 64 for MLA")
    cache.add_argument("--max-model-len", type=length, metavar="TOKENS", help="a number, 32k, 32K or auto")
    cache.add_argument("--disable-hybrid-kv-cache-manager", action="store_true")
    caching = argparse.BooleanOptionalAction
    cache.add_argument("--enable-prefix-caching", action=caching, default=None)
    cache.add_argument("--mamba-ssm-cache-dtype", type=dtype, default="auto")
    cache.add_argument("--speculative-config", metavar="JSON", help="as vllm serve takes it")


def _add_scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("ranks and scheduler")
    for name, short in (("tensor", "-tp"), ("pipeline", "-pp"), ("data", "-dp")):
        group.add_argument(f"--{name}-parallel-size", short, type=count, metavar="N")
    group.add_argument("--decode-context-parallel-size", "-dcp", type=count, metavar="N")
    group.add_argument("--max-num-seqs", type=count, metavar="N")
    group.add_argument("--max-num-batched-tokens", type=length, metavar="N")
    group.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--enforce-eager", action="store_true")
    group.add_argument(
        "--enable-expert-parallel", action="store_true", help="taken; the KV cache is the same"
    )
    group.add_argument(
        "--vllm-version", type=version, metavar="VERSION", help=f"default {'.'.join(map(str, LATEST))}"
    )


def given(arguments: argparse.Namespace, report: StartupReport, name: str, default: Any = None) -> Any:  # noqa: ANN401
    """Return a flag from the command line, else from the engine's log, else its default."""
    value = getattr(arguments, name)
    return value if value is not None else report.arguments.get(name, default)


def engine_flags(arguments: argparse.Namespace, report: StartupReport, model: ModelConfig) -> EngineFlags:
    """Put together what the command line and the log say of the engine.

    Raises:
        InputError: the log has a dtype that is not known.
        UsageError: the speculative config cannot be read.
    """

    def flag(name: str, default: Any = None) -> Any:  # noqa: ANN401
        return given(arguments, report, name, default)

    drafter = _speculation(flag("speculative_config"))
    longest = flag("max_model_len", model.max_len_tokens)
    return EngineFlags(
        version=arguments.vllm_version or release_of(report.version),
        dtype=_logged_dtype("--dtype", flag("dtype", "auto")),
        kv_cache_dtype=_logged_dtype("--kv-cache-dtype", flag("kv_cache_dtype", "auto")),
        tensor_parallel_size=flag("tensor_parallel_size", 1),
        pipeline_parallel_size=flag("pipeline_parallel_size", 1),
        data_parallel_size=flag("data_parallel_size", 1),
        decode_context_parallel_size=flag("decode_context_parallel_size", 1),
        block_size_tokens=flag("block_size"),
        max_model_len=longest if longest and longest > 0 else None,
        max_num_seqs=flag("max_num_seqs"),
        max_num_batched_tokens=flag("max_num_batched_tokens"),
        async_scheduling=flag("async_scheduling"),
        prefix_caching=flag("enable_prefix_caching"),
        hybrid_manager=not (
            arguments.disable_hybrid_kv_cache_manager
            or report.arguments.get("disable_hybrid_kv_cache_manager")
        ),
        num_gpu_blocks_override=flag("num_gpu_blocks_override"),
        speculative_tokens=drafter.tokens,
        speculative_layers=drafter.layers(model),
        mamba_ssm_cache_dtype=arguments.mamba_ssm_cache_dtype,
        enforce_eager=bool(arguments.enforce_eager or report.arguments.get("enforce_eager")),
        utilization=arguments.gpu_memory_utilization or report.utilization_ratio,
    )


def refuse_uneven_heads(flags: EngineFlags, model: ModelConfig) -> None:
    """Refuse ranks that vLLM would not start with (``config/model.py:verify_with_parallel_config``).

    Raises:
        InputError: the attention heads do not divide by the tensor-parallel ranks.
    """
    ranks, heads = flags.tensor_parallel_size, model.attention_heads
    if heads is not None and heads % ranks:
        raise InputError(
            f"{heads} attention heads do not divide by {ranks}, so vLLM refuses to start",
            key="--tensor-parallel-size",
        )


def pool_inputs(arguments: argparse.Namespace, report: StartupReport) -> PoolInputs:
    """Return what the pool's size follows from; the log's own available memory where no GPU is given.

    Raises:
        UsageError: the quantization is not known.
    """
    quantization = given(arguments, report, "quantization")
    if quantization is not None and quantization not in QUANTIZATION_BYTES:
        quantization = _known_quantization(quantization, from_flag=arguments.quantization is not None)
    pool_bytes = arguments.kv_cache_memory or report.arguments.get("kv_cache_memory_bytes")
    if pool_bytes is None and arguments.gpu_memory is None:
        pool_bytes = report.available_bytes
    return PoolInputs(
        kv_cache_memory_bytes=pool_bytes,
        gpu_memory_bytes=arguments.gpu_memory,
        weights_bytes=arguments.weights_memory,
        parameters=arguments.parameters,
        quantization=quantization,
        headroom_bytes=arguments.headroom,
    )


def _known_quantization(name: str, *, from_flag: bool) -> str | None:
    known = next((method for method in QUANTIZATION_BYTES if name.startswith(method)), None)
    if (
        known is None
        and from_flag
        and name not in {"compressed-tensors", "modelopt", "gguf", "torchao", "quark"}
    ):
        raise UsageError(
            f"{name} is not known; expected one of {', '.join(QUANTIZATION_BYTES)}", key="--quantization"
        )
    return known


def _speculation(config: str | Mapping[str, Any] | None) -> Speculation:
    if not config:
        return Speculation()
    try:
        document = json.loads(config) if isinstance(config, str) else config
        return Speculation(
            int(document.get("num_speculative_tokens") or 1), str(document.get("method") or "mtp")
        )
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UsageError(
            "expected a JSON object with num_speculative_tokens", key="--speculative-config"
        ) from error


def _logged_dtype(key: str, value: object) -> str:
    try:
        return dtype(str(value))
    except argparse.ArgumentTypeError as error:
        raise InputError(f"in the startup log: {error}", key=key) from error
