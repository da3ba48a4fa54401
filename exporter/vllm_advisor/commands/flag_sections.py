"""Sections of the configuration that are given as flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from vllm_advisor.config import SloConfig
from vllm_advisor.config_words import expectation
from vllm_advisor.errors import UsageError

__all__ = ["slo_of", "validated"]

_Section = TypeVar("_Section", bound=BaseModel)


def slo_of(tpot: str, quantile: str) -> SloConfig:
    """Return the target that ``--slo.tpot`` and ``--slo.quantile`` give.

    Raises:
        UsageError: one of them is wrong.
    """
    flags = {"tpot": "--slo.tpot", "quantile": "--slo.quantile"}
    return validated(SloConfig, {"tpot": tpot, "quantile": quantile}, flags)


def validated(section: type[_Section], values: Mapping[str, object], flags: Mapping[str, str]) -> _Section:
    """Build a section from flags.

    Args:
        section: which.
        values: by its keys.
        flags: each key's flag; what is wrong with several is told of the last.

    Raises:
        UsageError: a value is wrong; names its flag.
    """
    try:
        return section.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][0]) if problem["loc"] else [*flags][-1]
        raise UsageError(expectation(problem), key=flags[key]) from error
