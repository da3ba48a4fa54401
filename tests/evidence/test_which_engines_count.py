"""Engines of a deployment are pooled where they are alike; what is not known of one is no difference."""

from __future__ import annotations

import json
from dataclasses import replace

from vllm_advisor.evidence.deployment import DeploymentEvidence, DeploymentSnapshot
from vllm_advisor.sources.engine_facts import EngineFacts
from vllm_advisor.sources.engine_sample import EngineSample

PAGE = EngineSample("0", "m", running=4.0, generation_tokens=1000.0, itl_sum=100.0)
KNOWN = EngineFacts(vllm_version="0.32.0", max_model_len=16384)
OTHER = replace(KNOWN, vllm_version="0.31.0")


def observe(evidence: DeploymentEvidence, targets: str, seconds: float) -> None:
    """Take in a page of each target, and settle."""
    for target in targets:
        tokens, decoded = 1000.0 + 300 * seconds, 100.0 + 6 * seconds
        page = replace(PAGE, generation_tokens=tokens, itl_sum=decoded)
        evidence.observe_page(target, seconds, [page])
    evidence.settle(seconds)


def observed_seconds(snapshot: DeploymentSnapshot) -> float:
    """Return how much of all engines' time counts."""
    return snapshot.occupancy.observed_seconds


def agreeing(snapshot: DeploymentSnapshot) -> str:
    """Return the targets that count."""
    return "".join(one.engine_id[0] for one in snapshot.engines if one.agrees)


def test_an_engine_of_which_little_is_known_counts() -> None:
    """One that is only in a store tells no version; another version is left out."""
    evidence = DeploymentEvidence(86400.0)
    for target, facts in (("a", KNOWN), ("b", OTHER), ("c", KNOWN)):
        evidence.observe_facts(target, facts)
    for seconds in (0.0, 10.0, 20.0):
        observe(evidence, "abcd", seconds)
    snapshot = evidence.snapshot(20.0)
    assert agreeing(snapshot) == "acd"
    assert observed_seconds(snapshot) == 3 * 20
    assert (snapshot.facts.vllm_version, snapshot.facts.max_model_len) == ("0.32.0", 16384)


def test_two_versions_are_not_one_for_want_of_knowledge() -> None:
    """Engines that tell nothing agree with either version, which does not make the two alike."""
    evidence = DeploymentEvidence(86400.0)
    evidence.observe_facts("a", KNOWN)
    evidence.observe_facts("b", OTHER)
    for seconds in (0.0, 10.0, 20.0):
        observe(evidence, "abcde", seconds)
    assert agreeing(evidence.snapshot(20.0)) in {"acde", "bcde"}


def test_other_flags_after_the_daemon_was_away_begin_anew() -> None:
    """What was known before a restart of the daemon holds until the engine tells something else."""
    evidence = DeploymentEvidence(86400.0)
    evidence.observe_facts("a", KNOWN)
    observe(evidence, "a", 0.0)
    observe(evidence, "a", 10.0)
    restored = DeploymentEvidence(86400.0)
    restored.restore(json.loads(json.dumps(evidence.state())))
    for seconds in (20.0, 30.0):
        observe(restored, "a", seconds)
    assert observed_seconds(restored.snapshot(30.0)) == 20
    restored.observe_facts("a", OTHER)
    observe(restored, "a", 40.0)
    assert observed_seconds(restored.snapshot(40.0)) == 0
