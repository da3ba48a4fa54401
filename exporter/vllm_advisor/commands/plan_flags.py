"""The flags of ``plan`` that describe an engine, by vLLM's own names."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from vllm_advisor.ceilings.engine_flags import DTYPE_BYTES, EngineFlags
from vllm_advisor.ceilings.engine_version import LATEST, parse_version
from vllm_advisor.ceilings.pool import PoolInputs
from vllm_advisor.ceilings.weights import QUANTIZATION_BYTES
from vllm_advisor.errors import InputError
from vllm_advisor.sources.model_config import ModelConfig
from vllm_advisor.sources.startup_log import StartupReport
from vllm_advisor.units import parse_size_bytes

__all__ = ["add_engine_arguments", "engine_flags", "given", "pool_inputs"]

Parsed = TypeVar("Parsed")
_LENGTH_UNITS = {"": 1, "k": 1000, "K": 1024, "m": 10**6, "M": 2**20}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the engine is started with."""
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--model-config", type=Path, required=True, metavar="PATH", help="config.json or its folder"
    )
    model.add_argument("--parameters", type=_positive, metavar="N", help="such as 70e9; else counted")
    model.add_argument("--dtype", default=None, help="auto, bfloat16, float16 or float32")
    model.add_argument("--quantization", help="such as fp8, awq, mxfp4; else as the checkpoint says")
    model.add_argument("--weights-memory", type=_size, metavar="SIZE", help="of one GPU, such as 17.5GB")
    memory = parser.add_argument_group("the GPU's memory")
    memory.add_argument(
        "--gpu-memory", type=_size, metavar="SIZE", help="of one GPU, such as 80GB or 79.19GiB"
    )
    memory.add_argument(
        "--gpu-memory-utilization", type=_ratio, metavar="RATIO", help="default 0.92; 0.9 to 0.19"
    )
    memory.add_argument(
        "--headroom", type=_size, metavar="SIZE", help="activations, context, graphs; else predicted"
    )
    memory.add_argument(
        "--kv-cache-memory",
        "--kv-cache-memory-bytes",
        type=_bytes,
        metavar="SIZE",
        help="one GPU's pool, as given",
    )
    memory.add_argument("--num-gpu-blocks-override", type=_count, metavar="N")
    _add_cache_arguments(parser)
    _add_scheduler_arguments(parser)


def _add_cache_arguments(parser: argparse.ArgumentParser) -> None:
    cache = parser.add_argument_group("the KV cache")
    cache.add_argument("--kv-cache-dtype", default=None, help="auto, fp8, fp8_e4m3, fp8_e5m2")
    cache.add_argument("--block-size", type=_count, metavar="TOKENS", help="default 16; 64 for MLA")
    cache.add_argument("--max-model-len", type=_length, metavar="TOKENS", help="a number, 32k, 32K or auto")
    cache.add_argument("--disable-hybrid-kv-cache-manager", action="store_true")
    caching = argparse.BooleanOptionalAction
    cache.add_argument("--enable-prefix-caching", action=caching, default=None)
    cache.add_argument("--mamba-ssm-cache-dtype", default="auto")
    cache.add_argument("--speculative-config", metavar="JSON", help="as vllm serve takes it")


def _add_scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("ranks and scheduler")
    for name, short in (("tensor", "-tp"), ("pipeline", "-pp"), ("data", "-dp")):
        group.add_argument(f"--{name}-parallel-size", short, type=_count, metavar="N")
    group.add_argument("--decode-context-parallel-size", "-dcp", type=_count, metavar="N")
    group.add_argument("--max-num-seqs", type=_count, metavar="N")
    group.add_argument("--max-num-batched-tokens", type=_length, metavar="N")
    group.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=None)
    group.add_argument("--enforce-eager", action="store_true")
    group.add_argument(
        "--enable-expert-parallel", action="store_true", help="taken; the KV cache is the same"
    )
    group.add_argument("--vllm-version", type=_version, metavar="VERSION", help=f"default {_dotted(LATEST)}")


def given(arguments: argparse.Namespace, report: StartupReport, name: str, default: Any = None) -> Any:  # noqa: ANN401
    """Return a flag from the command line, else from the engine's log, else its default."""
    value = getattr(arguments, name)
    return value if value is not None else report.arguments.get(name, default)


def engine_flags(arguments: argparse.Namespace, report: StartupReport, model: ModelConfig) -> EngineFlags:
    """Put together what the command line and the log say of the engine.

    Raises:
        InputError: a dtype is not known, or the speculative config cannot be read.
    """

    def flag(name: str, default: Any = None) -> Any:  # noqa: ANN401
        return given(arguments, report, name, default)

    tokens, layers = _speculation(flag("speculative_config"), model)
    length = flag("max_model_len", model.max_len_tokens)
    version = arguments.vllm_version or (parse_version(report.version) if report.version else LATEST)
    return EngineFlags(
        version=version,
        dtype=_dtype("--dtype", flag("dtype", "auto")),
        kv_cache_dtype=_dtype("--kv-cache-dtype", flag("kv_cache_dtype", "auto")),
        tensor_parallel_size=flag("tensor_parallel_size", 1),
        pipeline_parallel_size=flag("pipeline_parallel_size", 1),
        data_parallel_size=flag("data_parallel_size", 1),
        decode_context_parallel_size=flag("decode_context_parallel_size", 1),
        block_size_tokens=flag("block_size"),
        max_model_len=length if length and length > 0 else None,
        max_num_seqs=flag("max_num_seqs"),
        max_num_batched_tokens=flag("max_num_batched_tokens"),
        async_scheduling=flag("async_scheduling"),
        prefix_caching=flag("enable_prefix_caching"),
        hybrid_manager=not (
            arguments.disable_hybrid_kv_cache_manager
            or report.arguments.get("disable_hybrid_kv_cache_manager")
        ),
        num_gpu_blocks_override=flag("num_gpu_blocks_override"),
        speculative_tokens=tokens,
        speculative_layers=layers,
        mamba_ssm_cache_dtype=_dtype("--mamba-ssm-cache-dtype", arguments.mamba_ssm_cache_dtype),
        enforce_eager=bool(arguments.enforce_eager or report.arguments.get("enforce_eager")),
        utilization=arguments.gpu_memory_utilization or report.utilization_ratio,
    )


def pool_inputs(arguments: argparse.Namespace, report: StartupReport) -> PoolInputs:
    """Return what the pool's size follows from; the log's own available memory where no GPU is given.

    Raises:
        InputError: the quantization is not known.
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
        raise InputError(
            f"{name} is not known; expected one of {', '.join(QUANTIZATION_BYTES)}", key="--quantization"
        )
    return known


def _speculation(config: str | None, model: ModelConfig) -> tuple[int, int]:
    """Return the proposed tokens and the layers that a drafter inside the model's pool adds."""
    if not config:
        return 0, 0
    try:
        document = json.loads(config)
        tokens = int(document.get("num_speculative_tokens") or 1)
        method = str(document.get("method") or "mtp")
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            "expected a JSON object with num_speculative_tokens", key="--speculative-config"
        ) from error
    if "ngram" in method or "suffix" in method:
        return tokens, 0
    return tokens, model.drafter_layers or 1


def _dtype(key: str, value: object) -> str:
    if value == "auto" or value in DTYPE_BYTES:
        return str(value)
    raise InputError(f"{value} is not known; expected auto or one of {', '.join(DTYPE_BYTES)}", key=key)


def _checked(parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _size(text: str) -> int:
    return _checked(parse_size_bytes, text)


def _bytes(text: str) -> int:
    return int(text) if text.isdecimal() else _size(text)


def _version(text: str) -> tuple[int, ...]:
    return _checked(parse_version, text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number over zero, not {text!r}")
    return int(text)


def _positive(text: str) -> float:
    value = _checked(float, text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number over zero, not {text!r}")
    return value


def _ratio(text: str) -> float:
    value = _checked(float, text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share over 0 and at most 1, not {text!r}")
    return value


def _length(text: str) -> int:
    """Read a length as vLLM does: ``32k`` is 32,000, ``32K`` 32,768; ``auto`` gives -1."""
    if text in {"auto", "-1"}:
        return -1
    match = _LENGTH.fullmatch(text)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected tokens such as 32768, 32k or auto, not {text!r}")
    return int(float(match[1]) * _LENGTH_UNITS[match[2]])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
