"""What a container's command line says of its engine: flags of ``vllm serve``, and the image's version."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_advisor.sources.engine_facts import CapSource, EngineFacts, admission_cap
from vllm_advisor.units import parse_size_bytes

__all__ = ["facts_from_arguments", "facts_from_container"]

_SHELL = re.compile(r"(.*/)?(ba|da|k|z)?sh")
_REFERENCE = re.compile(r"\$\((\w+)\)")
_SHELL_REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_CONTINUATION = re.compile(r"\\\r?\n")
_ENDS_OF_COMMANDS = frozenset(";&|()")
_IMAGE_VERSION = re.compile(
    r"(?:^|/)(?:vllm|(?<!lmcache/)vllm-(?:openai|cpu|tpu)[\w.-]*):v?(\d+\.\d+\.\d+\S*?)(@.*)?$"
)
"""Of vLLM's own images and their mirrors; others that have vLLM in them are numbered on their own."""
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""As vLLM reads them (``vllm/engine/arg_utils.py``, ``human_readable_int``)."""
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
    "q": "quantization",
    "sc": "speculative_config",
}


def facts_from_container(content: Mapping[str, Any]) -> EngineFacts:
    """Read a container of a pod's specification; nothing is known of one that does not run vLLM."""
    words = [
        word for part in ("command", "args") for word in content.get(part) or () if isinstance(word, str)
    ]
    environment = {
        one["name"]: one["value"]
        for one in content.get("env") or ()
        if isinstance(one, Mapping) and isinstance(one.get("name"), str) and isinstance(one.get("value"), str)
    }
    image = content.get("image")
    version = _IMAGE_VERSION.search(image) if isinstance(image, str) else None
    return facts_from_arguments(_unwrapped(words, environment), version=version[1] if version else None)


def facts_from_arguments(words: Sequence[str], *, version: str | None = None) -> EngineFacts:
    """Read the words of a ``vllm serve`` command line; a value that cannot be read is not known.

    Args:
        words: the command line, or the arguments alone.
        version: vLLM's version as known from elsewhere.
    """
    flags = _flags(words)
    cap = admission_cap(flags)
    drafter = _drafter(flags)
    return EngineFacts(
        max_model_len=_count(flags.get("max_model_len")),
        max_num_seqs=cap,
        max_num_seqs_source=CapSource.POD_ARGUMENTS if cap else None,
        block_size_tokens=_count(flags.get("block_size")),
        cache_dtype=flags.get("kv_cache_dtype"),
        gpu_memory_utilization_ratio=_ratio(flags.get("gpu_memory_utilization")),
        kv_cache_memory_bytes=_size(flags.get("kv_cache_memory_bytes") or flags.get("kv_cache_memory")),
        num_gpu_blocks_override=_count(flags.get("num_gpu_blocks_override")),
        prefix_caching=_switch(flags, "enable_prefix_caching"),
        vllm_version=version,
        tensor_parallel_size=_count(flags.get("tensor_parallel_size")),
        pipeline_parallel_size=_count(flags.get("pipeline_parallel_size")),
        model=flags.get("model") or _served_model(words),
        dtype=flags.get("dtype"),
        quantization=flags.get("quantization"),
        data_parallel_size=_count(flags.get("data_parallel_size")),
        decode_context_parallel_size=_count(flags.get("decode_context_parallel_size")),
        max_num_batched_tokens=_count(flags.get("max_num_batched_tokens")),
        async_scheduling=_switch(flags, "async_scheduling"),
        disable_hybrid_kv_cache_manager=_switch(flags, "disable_hybrid_kv_cache_manager"),
        enforce_eager=_switch(flags, "enforce_eager"),
        mamba_ssm_cache_dtype=flags.get("mamba_ssm_cache_dtype"),
        speculative_tokens=_count(drafter.get("num_speculative_tokens")),
        speculative_method=drafter.get("method"),
    )


def _unwrapped(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Put the environment in, and take a shell's script apart where the command is one."""
    expanded = [
        _REFERENCE.sub(lambda reference: environment.get(reference[1], reference[0]), word) for word in words
    ]
    shell = next((index for index, word in enumerate(expanded) if _SHELL.fullmatch(word)), None)
    if shell is None:
        return expanded
    try:
        return [word for script in expanded[shell + 1 :] for word in _script_words(script, environment)]
    except ValueError:
        return []


def _script_words(script: str, environment: Mapping[str, str]) -> list[str]:
    """Return the words of a script's commands, as the shell would take them apart."""

    def value(reference: re.Match[str]) -> str:
        otherwise = reference[0] if reference[3] is None else reference[3]
        return environment.get(reference[1] or reference[2], otherwise)

    lexer = shlex.shlex(_CONTINUATION.sub(" ", script), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    return [
        "--" if _ENDS_OF_COMMANDS.issuperset(word) else _SHELL_REFERENCE.sub(value, word) for word in lexer
    ]


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Return every flag with its value, dashes and underscores alike; a bare one has the value ``true``."""
    flags: dict[str, str] = {}
    for word, after in zip(words, [*words, "--"][1:], strict=True):
        if not re.match(r"--?[a-zA-Z]", word):
            continue
        name, equals, value = word.partition("=")
        key = name.lstrip("-").replace("-", "_")
        flags[_SHORT.get(key, key)] = value if equals else "true" if after.startswith("-") else after
    return flags


def _served_model(words: Sequence[str]) -> str | None:
    """Return the word after ``serve``."""
    after = next((words[index + 1] for index, word in enumerate(words[:-1]) if word == "serve"), "-")
    return None if after.startswith("-") else after


def _drafter(flags: Mapping[str, str]) -> dict[str, str]:
    """Return what ``--speculative-config`` says, as JSON or key by key (``--speculative-config.method``)."""
    parts = {
        key.partition(".")[2]: value for key, value in flags.items() if key.startswith("speculative_config.")
    }
    try:
        document = json.loads(flags.get("speculative_config", "{}"))
    except (ValueError, RecursionError):
        return parts
    if isinstance(document, dict):
        parts = {key: str(value) for key, value in document.items() if value is not None} | parts
    return (
        parts if "num_speculative_tokens" in parts or not parts else parts | {"num_speculative_tokens": "1"}
    )


def _switch(flags: Mapping[str, str], name: str) -> bool | None:
    if f"no_{name}" in flags:
        return False
    return True if name in flags else None


def _count(text: str | None) -> int | None:
    match = _COUNT.fullmatch(text or "")
    if match is None:
        return None
    number = float(match[1]) * _COUNT_UNITS[match[2]]
    return int(number) if number >= 1 else None


def _ratio(text: str | None) -> float | None:
    try:
        ratio = float(text or "")
    except ValueError:
        return None
    return ratio if 0 < ratio <= 1 else None


def _size(text: str | None) -> int | None:
    try:
        return _count(text) or parse_size_bytes(text or "")
    except ValueError:
        return None
