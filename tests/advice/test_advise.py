"""The dispatch of the rules."""

from __future__ import annotations

from pathlib import Path

from support.advice_pages import ScriptedEngine, Situation, capture, config_file, replayed
from vllm_advisor.advice_config import Thresholds
from vllm_advisor.ceilings.advice import SEVERITY, Advice, Code, advise
from vllm_advisor.ceilings.advice.case import Case, Flag
from vllm_advisor.ceilings.advice.rules import RULES
from vllm_advisor.ceilings.grade import Grade
from vllm_advisor.ceilings.recommendation import Recommendation


def case(folder: Path) -> Case:
    """Return the case of a minute of traffic."""
    pages = capture(folder / "capture.jsonl", ScriptedEngine(), [(Situation(8), 60)])
    found: Recommendation = replayed(config_file(folder), [pages])
    return Case(
        found.deployment,
        found.snapshot,
        found.context,
        found.memory,
        found.latency,
        found.latency_bounds,
        found.max_model_len,
        Flag(None, None, Grade.NONE),
        found.bound_time,
        found.headroom,
    )


def test_a_failing_rule_never_takes_down_the_rest(tmp_path: Path) -> None:
    """The rule before and the rule after it still answer, and the fault is told."""

    def broken(_case: Case, _at: Thresholds) -> Advice | None:
        raise ZeroDivisionError("of course")

    def sound(_case: Case, _at: Thresholds) -> Advice | None:
        return Advice(Code.EVIDENCE_THIN, "Seen.", "Do.")

    rules = {Code.MEMORY_BINDS: sound, Code.SWEEP_NEEDED: broken, Code.EVIDENCE_STALE: sound}
    given, failed = advise(case(tmp_path), Thresholds(), rules)

    assert len(given) == 2
    assert [(one.code, one.problem) for one in failed] == [
        (Code.SWEEP_NEEDED, "ZeroDivisionError: of course")
    ]


def test_every_code_has_its_rule_file_and_severity() -> None:
    """One function in one file of the code's name."""
    assert list(RULES) == list(Code)
    assert set(SEVERITY) == set(Code)
    for code, rule in RULES.items():
        assert rule.__name__ == str(code)
        assert rule.__module__.endswith(f".rules.{code}")


def test_the_docs_have_every_code_and_threshold() -> None:
    """docs/advice.md is the table of codes, with every threshold's key."""
    text = (Path(__file__).parents[2] / "docs" / "advice.md").read_text(encoding="utf-8")

    for code in Code:
        assert f"`{code}`" in text
    for name, field in Thresholds.model_fields.items():
        assert f"`{field.alias or name}: " in text
