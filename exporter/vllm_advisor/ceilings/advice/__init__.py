"""Advice: what was seen and what to do about it, one function a code."""

from vllm_advisor.ceilings.advice.codes import SEVERITY, Advice, Code, Severity
from vllm_advisor.ceilings.advice.rules import advise

__all__ = ["SEVERITY", "Advice", "Code", "Severity", "advise"]
