"""Recommendations stand still while nothing changes, and a change of traffic is reported."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from support.advice_pages import START_SECONDS
from support.week_of_traffic import DAY_SECONDS, Traffic, evaluations
from vllm_advisor.config import DeploymentConfig, config_for_target
from vllm_advisor.pipeline import DeploymentPipeline

HOUR_SECONDS = 3600.0


@pytest.fixture
def config() -> DeploymentConfig:
    """Return an interactive deployment with a target of 50 ms at the 0.99 quantile."""
    return config_for_target("vllm-0:8000", slo_tpot="50ms").deployments[0]


def test_a_week_of_days_and_nights_changes_each_flag_once_at_most(config: DeploymentConfig) -> None:
    """After the first day a flag moves once at most, and a plain day-night cycle is no change of shape."""
    traffic = Traffic(night_output_factor=1.2)
    week = list(evaluations(DeploymentPipeline(config), traffic, 7 * DAY_SECONDS, every_seconds=3600))
    settled = [recommendation for passed, recommendation in week if passed >= DAY_SECONDS]

    for flags in ([r.max_model_len for r in settled], [r.max_num_seqs for r in settled]):
        assert all(flag.recommended is not None for flag in flags)
        assert sum(before.recommended != after.recommended for before, after in pairwise(flags)) <= 1
    given = {str(advice.code) for recommendation in settled for advice in recommendation.advice}
    assert not given & {"traffic_shape_changed", "mixed_workloads"}


def test_a_restart_of_the_advisor_changes_nothing(config: DeploymentConfig) -> None:
    """Before the first page after a restart both flags stand as they were published, and since when."""
    pipeline = DeploymentPipeline(config)
    *_, (passed, before) = evaluations(pipeline, Traffic(), DAY_SECONDS / 2, every_seconds=3600)
    again = DeploymentPipeline(config)
    again.restore(json.loads(json.dumps(pipeline.state())))
    after = again.recommend(START_SECONDS + passed + 60)

    assert before.max_num_seqs.recommended is not None
    for old, new in (
        (before.max_model_len, after.max_model_len),
        (before.max_num_seqs, after.max_num_seqs),
    ):
        assert (new.recommended, new.since_seconds) == (old.recommended, old.since_seconds)
    assert after.binding is before.binding


def test_twice_as_long_answers_are_reported_within_an_hour(config: DeploymentConfig) -> None:
    """From ten in the morning of the second day on answers double; by eleven the advice says so."""
    change_seconds = DAY_SECONDS + 10 * HOUR_SECONDS
    traffic = Traffic(longer_from_seconds=change_seconds)
    reported = [
        passed - change_seconds
        for passed, recommendation in evaluations(
            DeploymentPipeline(config), traffic, change_seconds + HOUR_SECONDS, every_seconds=1200
        )
        if any(advice.code == "traffic_shape_changed" for advice in recommendation.advice)
    ]

    assert reported
    assert 0 < min(reported) <= HOUR_SECONDS
    assert max(reported) == HOUR_SECONDS
