"""Asks every rule; one that fails never takes down the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice.case import Case
from vllm_advisor.ceilings.advice.codes import Advice, Code
from vllm_advisor.ceilings.advice.rules import RULES

__all__ = ["RuleFailure", "advise"]


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule that raised instead of answering."""

    code: Code
    problem: str


def advise(
    case: Case,
    thresholds: Thresholds,
    rules: Mapping[Code, Callable[[Case, Thresholds], Advice | None]] = RULES,
) -> tuple[tuple[Advice, ...], tuple[RuleFailure, ...]]:
    """Return all advice that a case calls for, in the order of the rules, and the rules that failed."""
    given, failed = [], []
    for code, rule in rules.items():
        try:
            advice = rule(case, thresholds)
        except Exception as error:  # noqa: BLE001 - a fault in one rule must not silence the others
            failed.append(RuleFailure(code, f"{type(error).__name__}: {error}"))
        else:
            given += [advice] if advice is not None else []
    return tuple(given), tuple(failed)
