"""The configuration file: YAML in, one frozen model out, every problem named with its line."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from vllm_advisor.addresses import is_address
from vllm_advisor.advice_config import StabilityConfig, Thresholds
from vllm_advisor.config_discovery import Discovery
from vllm_advisor.config_fields import Bytes, Count, Name, Seconds, Section
from vllm_advisor.config_file import load_file, read_file
from vllm_advisor.config_paths import FilePath, GlobPattern
from vllm_advisor.config_words import expectation
from vllm_advisor.errors import InputError, UsageError

__all__ = [
    "AccessLogConfig",
    "AdvisorConfig",
    "ContextConfig",
    "DeploymentConfig",
    "EngineConfig",
    "GlobalConfig",
    "LogField",
    "SloConfig",
    "SpeculativeConfig",
    "StaticConfig",
    "StorageConfig",
    "config_for_target",
    "config_problems",
    "load_config",
]

DEFAULT_SLO_TPOT_SECONDS = 0.04


def _slo_quantile(value: object) -> float | str:
    if value == "mean":
        return "mean"
    try:
        quantile = float(str(value))
    except ValueError:
        quantile = math.nan
    if 0.5 <= quantile <= 0.999:
        return quantile
    raise ValueError(f"expected mean, or a quantile from 0.5 to 0.999, not {value!r}")


SloQuantile = Annotated[float | Literal["mean"], BeforeValidator(_slo_quantile)]


def _target(text: str) -> str:
    if not is_address(text):
        raise ValueError(f"expected host:port or an address such as http://host:8000, not {text!r}")
    return text


EngineAddress = Annotated[Name, AfterValidator(_target)]
"""``host:port`` or a whole URL."""


def _compiles(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    if missing := {"prompt_tokens", "completion_tokens"} - groups.keys():
        raise ValueError(f"needs the named group {min(missing)}")
    return pattern


Pattern = Annotated[Name, AfterValidator(_compiles)]
"""A regular expression with a named group for each field it finds."""


class GlobalConfig(Section):
    """How often engines are scraped, and how long a scrape may take."""

    scrape_interval_seconds: Seconds = Field(5.0, alias="scrape_interval")
    scrape_timeout_seconds: Seconds = Field(4.0, alias="scrape_timeout")
    evaluation_interval_seconds: Seconds = Field(15.0, alias="evaluation_interval")
    page_limit_bytes: Bytes = Field(32_000_000, alias="page_limit")

    @model_validator(mode="after")
    def _timeout_within_interval(self) -> GlobalConfig:
        if self.scrape_timeout_seconds > self.scrape_interval_seconds:
            raise ValueError("scrape_timeout must not be longer than scrape_interval")
        return self


class StorageConfig(Section):
    """Where evidence is kept over a restart."""

    path: FilePath = Path("data")


class SloConfig(Section):
    """The latency target of an interactive deployment."""

    tpot_seconds: Seconds = Field(DEFAULT_SLO_TPOT_SECONDS, alias="tpot")
    quantile: SloQuantile = 0.99
    ttft_seconds: Seconds | None = Field(None, alias="ttft")

    @property
    def tpot_is_assumed(self) -> bool:
        """Whether the target is the default, since none was given."""
        return "tpot_seconds" not in self.model_fields_set

    @property
    def statistic(self) -> str:
        """The name of the statistic the target is about: ``mean``, ``p50``, ``p99``, ``p99.9``."""
        return "mean" if isinstance(self.quantile, str) else f"p{self.quantile * 100:g}"


class ContextConfig(Section):
    """How max-model-len follows from the lengths seen."""

    quantile: Annotated[float, Field(ge=0.5, lt=1)] = 0.999
    margin_ratio: Annotated[float, Field(ge=0, le=10)] = Field(0.25, alias="margin")
    round_up_to_tokens: Count = Field(1024, alias="round_up_to")
    window_seconds: Seconds = Field(604800.0, alias="window")


class SpeculativeConfig(Section):
    """What of ``--speculative-config`` memory depends on; vLLM's other keys are taken and not used."""

    model_config = ConfigDict(extra="ignore")

    num_speculative_tokens: Count = 1
    method: Name = "mtp"


def _speculative(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError("expected a mapping, or a JSON object as vllm serve takes it") from error


class EngineConfig(Section):
    """What cannot be read off the engine; the keys are `plan`'s flags, and values read win over these."""

    max_model_len: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    model_config_path: FilePath | None = Field(None, alias="model_config")
    startup_log_path: FilePath | None = Field(None, alias="startup_log")
    parameters: Annotated[float, Field(gt=0)] | None = None
    dtype: Name | None = None
    quantization: Name | None = None
    weights_memory_bytes: Bytes | None = Field(None, alias="weights_memory")
    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Count = 1
    data_parallel_size: Count = 1
    decode_context_parallel_size: Count = 1
    gpu_memory_bytes: Bytes | None = Field(None, alias="gpu_memory")
    gpu_memory_utilization_ratio: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, alias="gpu_memory_utilization"
    )
    headroom_bytes: Bytes | None = Field(None, alias="headroom")
    kv_cache_memory_bytes: Bytes | None = Field(None, alias="kv_cache_memory")
    kv_cache_dtype: Name | None = None
    block_size_tokens: Count | None = Field(None, alias="block_size")
    num_gpu_blocks_override: Count | None = None
    vllm_version: Name | None = None
    async_scheduling: bool | None = None
    enable_prefix_caching: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    mamba_ssm_cache_dtype: Name | None = None
    speculative_config: Annotated[SpeculativeConfig, BeforeValidator(_speculative)] | None = None
    enforce_eager: bool = False


class StaticConfig(Section):
    """Engines listed by hand, as ``host:port`` or a whole URL."""

    targets: Annotated[tuple[EngineAddress, ...], Field(min_length=1)]


AccessLogFormat = Literal[
    "auto",
    "apisix",
    "apisix_access",
    "azure_llm_trace",
    "burstgpt",
    "cloudflare",
    "csv",
    "envoy",
    "envoy_ai_gateway",
    "higress",
    "json",
    "kong",
    "langfuse",
    "litellm",
    "litellm_spendlogs",
    "mooncake",
    "nginx",
    "openai",
    "otlp",
    "portkey",
    "production_stack",
    "regex",
    "vllm",
]
"""What `sources.access_logs.formats` reads, and ``auto`` for the one that a file's lines show."""
LogField = Literal[
    "time",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "max_tokens",
    "n",
    "status",
    "error",
    "finish_reason",
    "cached",
    "id",
    "model",
    "path",
    "method",
]
"""What `sources.access_logs.fields` looks up."""


class AccessLogConfig(Section):
    """Access logs of one shape.

    ``fields`` says where a format's fields are where not at their usual place, ``pattern`` has them as named
    groups. Only lines of one of ``models``, and with the values that ``match`` asks of some fields, count.
    """

    paths: Annotated[tuple[GlobPattern, ...], Field(min_length=1)]
    format: AccessLogFormat = "auto"
    fields: dict[LogField, Name] = Field(default_factory=dict)
    pattern: Pattern | None = None
    models: tuple[Name, ...] = ()
    match: dict[Name, Name] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _pattern_with_regex(self) -> AccessLogConfig:
        if (self.format == "regex") != (self.pattern is not None):
            raise ValueError("pattern goes with format: regex, and the other way round")
        return self


class DeploymentConfig(Discovery):
    """Engines that serve one model with one set of flags and one target."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$")]
    workload: Literal["interactive", "batch"] = "interactive"
    slo: SloConfig = SloConfig()
    context: ContextConfig = ContextConfig()
    engine: EngineConfig = EngineConfig()
    advice: Thresholds = Thresholds()
    stability: StabilityConfig = StabilityConfig()
    static_configs: tuple[StaticConfig, ...] = ()
    access_logs: tuple[AccessLogConfig, ...] = ()
    sweep_path: FilePath | None = Field(None, alias="sweep")

    @model_validator(mode="after")
    def _has_somewhere_to_look(self) -> DeploymentConfig:
        engines = self.static_configs or self.discovers or self.prometheus
        if not (engines or self.access_logs or self.sweep_path):
            raise ValueError(
                "needs somewhere to look: static_configs, *_sd_configs, prometheus, access_logs or sweep"
            )
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """Every engine listed, as written."""
        return tuple(target for static in self.static_configs for target in static.targets)


class AdvisorConfig(Section):
    """The whole file."""

    global_: GlobalConfig = Field(GlobalConfig(), alias="global")
    storage: StorageConfig = StorageConfig()
    deployments: Annotated[tuple[DeploymentConfig, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_differ(self) -> AdvisorConfig:
        names = [deployment.name for deployment in self.deployments]
        for index, name in enumerate(names):
            if name in names[:index]:
                problem = ValueError(f"the name {name!r} is used twice")
                place = ("deployments", index, "name")
                raise ValidationError.from_exception_data(
                    "deployments",
                    [{"type": "value_error", "loc": place, "input": name, "ctx": {"error": problem}}],
                )
        return self


def load_config(path: Path) -> AdvisorConfig:
    """Read a configuration file; relative paths in it start from its folder.

    Raises:
        InputError: the first problem found, with its line and key.
    """
    return load_file(path, AdvisorConfig)


def config_problems(path: Path) -> list[InputError]:
    """Return every problem of a configuration file, by line."""
    return read_file(path, AdvisorConfig)[1]


def config_for_target(
    target: str, *, slo_tpot: str | None = None, slo_quantile: str | None = None
) -> AdvisorConfig:
    """Return the configuration of one engine given on the command line, everything else at its default.

    Raises:
        UsageError: a flag's value is wrong.
    """
    slo = {"tpot": slo_tpot, "quantile": slo_quantile}
    given = {key: value for key, value in slo.items() if value is not None}
    deployment = {"name": "default", "slo": given, "static_configs": [{"targets": [target]}]}
    try:
        return AdvisorConfig.model_validate({"deployments": [deployment]})
    except ValidationError as error:
        problem = error.errors()[0]
        flag = next((f"--slo.{part}" for part in problem["loc"] if part in slo), "--target")
        raise UsageError(expectation(problem), key=flag) from error
