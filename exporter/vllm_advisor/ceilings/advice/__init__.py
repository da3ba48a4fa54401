"""Advice: what was seen and what to do about it, one function a code."""

from vllm_advisor.ceilings.advice.advise import RuleFailure, advise
from vllm_advisor.ceilings.advice.codes import SEVERITY, Advice, Code, Severity

__all__ = ["SEVERITY", "Advice", "Code", "RuleFailure", "Severity", "advise"]
