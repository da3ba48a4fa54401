"""Reads what an engine says of its memory while it starts, in the words of any version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vllm_advisor.sources.engine_facts import CapSource, EngineFacts, admission_cap
from vllm_advisor.sources.log_lines import log_lines

__all__ = ["StartupReport", "facts_from_startup", "read_startup_log", "startup_report"]

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class StartupReport:
    """One start as logged; None where the log does not say. Bytes are one GPU's, rounded as printed.

    Args:
        kv_tokens: the token line; the smallest where every rank printed one.
        max_concurrency: at ``max_model_len``.
        num_gpu_blocks: before the engine's tokens line there was only this (V0).
        available_bytes: memory found for the KV cache, negative where none was left.
        needed_bytes: what one sequence of full length would take, of an engine that refused to start.
        longest_tokens: the longest sequence that such an engine could have served.
        arguments: flags that were given, by their Python names.
    """

    version: str | None = None
    max_model_len: int | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    num_gpu_blocks: int | None = None
    available_bytes: int | None = None
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    graphs_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    utilization_ratio: float | None = None
    needed_bytes: int | None = None
    longest_tokens: int | None = None
    refused: bool = False
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a start was found."""
        return self == StartupReport()


def read_startup_log(path: Path) -> StartupReport:
    """Read the last start in a log.

    Args:
        path: a file, a folder of rotated ones, with or without a container's wrapping.

    Raises:
        InputError: it cannot be read.
    """
    return startup_report(log_lines(path))


def startup_report(lines: Iterable[str]) -> StartupReport:
    """Return the last start that some lines tell of; only numbers and flags are kept of them."""
    report = StartupReport()
    for line in lines:
        if not _WORTH_READING.search(line):
            continue
        if _BEGINS.search(line) and (report.kv_tokens or report.num_gpu_blocks or report.refused):
            report = StartupReport()
        for pattern, read in _readers():
            if match := pattern.search(line):
                report = read(report, match)
    return report


def facts_from_startup(report: StartupReport) -> EngineFacts:
    """Return what a start says of an engine's configuration."""
    cap = admission_cap(report.arguments)
    dtype = report.arguments.get("kv_cache_dtype")
    return EngineFacts(
        max_model_len=report.max_model_len,
        max_num_seqs=cap,
        max_num_seqs_source=CapSource.STARTUP_LOG if cap else None,
        kv_pool_tokens=report.kv_tokens,
        kv_max_concurrency=report.max_concurrency,
        num_gpu_blocks=report.num_gpu_blocks,
        cache_dtype=dtype if isinstance(dtype, str) else None,
        gpu_memory_utilization_ratio=report.utilization_ratio,
        vllm_version=report.version,
    )


_WORTH_READING = re.compile(
    r"(?i)kv.?cache|blocks|concurrency|non-default|version|LLM engine|weights|loading|memory|max.model.len"
)
_BEGINS = re.compile(r"non-default args|API server version|LLM engine \(v|[▀█▄]\s+version ")

_Reader = Callable[[StartupReport, re.Match[str]], StartupReport]
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?(?!\d)"
_GIB_FIGURE = rf"\(?(-?{_NUMBER})\s*Gi?B"
_INTEGER = r"(\d[\d,]{0,17})(?![\d,])"


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def _bytes(text: str) -> int:
    return round(float(text) * _GIB)


def _tokens(report: StartupReport, match: re.Match[str]) -> StartupReport:
    tokens = _count(match[1])
    return replace(report, kv_tokens=min(tokens, report.kv_tokens or tokens), refused=False)


def _concurrency(report: StartupReport, match: re.Match[str]) -> StartupReport:
    concurrency = float(match[2])
    smallest = min(concurrency, report.max_concurrency or concurrency)
    return replace(report, max_model_len=_count(match[1]), max_concurrency=smallest)


def _blocks(report: StartupReport, match: re.Match[str]) -> StartupReport:
    return replace(report, num_gpu_blocks=_count(match[1]))


def _available(report: StartupReport, match: re.Match[str]) -> StartupReport:
    size_bytes = _bytes(match[1])
    smallest = size_bytes if report.available_bytes is None else min(size_bytes, report.available_bytes)
    return replace(report, available_bytes=smallest)


def _refusal(report: StartupReport, match: re.Match[str]) -> StartupReport:
    return replace(
        report,
        refused=True,
        max_model_len=_count(match[1]),
        needed_bytes=_bytes(match[2]),
        available_bytes=_bytes(match[3]),
    )


def _old_refusal(report: StartupReport, match: re.Match[str]) -> StartupReport:
    return replace(report, refused=True, max_model_len=_count(match[1]), longest_tokens=_count(match[2]))


def _budget(report: StartupReport, match: re.Match[str]) -> StartupReport:
    ratio = float(match[2])
    return replace(
        report, gpu_memory_bytes=_bytes(match[1]), utilization_ratio=ratio if 0 < ratio <= 1 else None
    )


def _consumed(report: StartupReport, match: re.Match[str]) -> StartupReport:
    """Newer engines print weights and non-torch memory as one figure."""
    if report.weights_bytes is None:
        return report
    return replace(report, non_torch_bytes=_bytes(match[1]) - report.weights_bytes)


def _arguments(report: StartupReport, match: re.Match[str]) -> StartupReport:
    given = _flags(_ARGUMENT.findall(match[1]))
    if "num_speculative_tokens" in given:
        given["speculative_config"] = {name: given[name] for name in _SPECULATION if name in given}
    return replace(report, arguments=MappingProxyType({**report.arguments, **given}))


def _engine_config(report: StartupReport, match: re.Match[str]) -> StartupReport:
    found = _flags(_CONFIG.findall(match[2]))
    found = {_CONFIG_NAMES.get(name, name): value for name, value in found.items() if value is not None}
    length = found.pop("max_model_len", None)
    return replace(
        report,
        version=match[1],
        max_model_len=length if isinstance(length, int) else report.max_model_len,
        arguments=MappingProxyType({**found, **report.arguments}),
    )


_ARGUMENT = re.compile(r"'(\w+)': ('[^']*'|-?\d{1,18}(?:\.\d+)?(?!\d)|True|False|None)")


def _flags(found: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return flags with their values, those left out that no engine starts with."""
    values = {name: _value(text) for name, text in found}
    return {
        name: value
        for name, value in values.items()
        if not _COUNTED.search(name) or value is None or (type(value) is int and value > 0)
    }


_COUNTED = re.compile(r"_(size|seqs|tokens|bytes|override)$")
_SPECULATION = ("num_speculative_tokens", "method")
_CONFIG = re.compile(
    r"\b(dtype|max_seq_len|tensor_parallel_size|pipeline_parallel_size|data_parallel_size|"
    r"decode_context_parallel_size|quantization|kv_cache_dtype|enforce_eager)=([^,\s]+)"
)
_CONFIG_NAMES = {"max_seq_len": "max_model_len"}
_WORDS = {"None": None, "True": True, "False": False}


def _value(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    text = text.strip("'").removeprefix("torch.")
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _stores(name: str, convert: Callable[[str], object]) -> _Reader:
    return lambda report, match: replace(report, **{name: convert(match[1])})  # type: ignore[arg-type]


_PATTERNS: tuple[tuple[str, _Reader], ...] = (
    (rf"KV cache size: {_INTEGER} tokens", _tokens),
    (rf"[Mm]aximum concurrency for {_INTEGER} tokens per request: ({_NUMBER})x", _concurrency),
    (rf"# (?:GPU|gpu|CUDA|cuda|HPU|TPU|NPU) blocks: {_INTEGER}", _blocks),
    (rf"Available KV cache memory: {_GIB_FIGURE}", _available),
    (rf"rest of the memory reserved for KV Cache is {_GIB_FIGURE}", _available),
    (r"Available memory: (-?\d{1,18}), total memory: \d+", _stores("available_bytes", int)),
    (rf"reserved {_GIB_FIGURE} memory for KV Cache", _available),
    (rf"Explicitly set \(({_NUMBER})/[\d.]+\) GiB for KV cache", _available),
    (
        rf"(?:Model loading|[Ll]oading model weights|Loading weights) took {_GIB_FIGURE}",
        _stores("weights_bytes", _bytes),
    ),
    (rf"[Mm]odel weights take {_GIB_FIGURE}", _stores("weights_bytes", _bytes)),
    (rf"{_GIB_FIGURE} for weight", _stores("weights_bytes", _bytes)),
    (rf"{_GIB_FIGURE} for peak activation", _stores("activation_bytes", _bytes)),
    (rf"activation peak memory takes {_GIB_FIGURE}", _stores("activation_bytes", _bytes)),
    (rf"{_GIB_FIGURE} for non-torch memory", _stores("non_torch_bytes", _bytes)),
    (rf"non_torch_memory takes {_GIB_FIGURE}", _stores("non_torch_bytes", _bytes)),
    (rf"{_GIB_FIGURE} for consumed memory", _consumed),
    (rf"{_GIB_FIGURE} for CUDAGraph memory", _stores("graphs_bytes", _bytes)),
    (
        rf"total_gpu_memory \(({_NUMBER})\s*Gi?B\) x gpu_memory_utilization \(({_NUMBER})\)",
        _budget,
    ),
    (rf"Free memory on device \([\d.]+/({_NUMBER}) GiB\).*?utilization is \(({_NUMBER})", _budget),
    (
        rf"max seq len \({_INTEGER}\), \({_GIB_FIGURE} KV cache is needed.*?cache memory {_GIB_FIGURE}",
        _refusal,
    ),
    (rf"estimated maximum model length is {_INTEGER}", _stores("longest_tokens", _count)),
    (rf"Auto-fit max_model_len: reduced from \d+ to {_INTEGER}", _stores("max_model_len", _count)),
    (
        rf"max seq len \({_INTEGER}\) is larger than the maximum number.*? in KV cache \({_INTEGER}\)",
        _old_refusal,
    ),
    (r"LLM engine \(v(\d+\.\d[^)\s]*)\) with config: (.*)", _engine_config),
    (r"(?:API server version:?|[▀█▄]\s+version) v?(\d+\.\d\S*)", _stores("version", str)),
    (r"non-default args: (\{.*)", _arguments),
)


@cache
def _readers() -> tuple[tuple[re.Pattern[str], _Reader], ...]:
    """Compile the patterns once there is a log to read: `plan` without one starts sooner."""
    return tuple((re.compile(pattern), reader) for pattern, reader in _PATTERNS)
