"""The KV layout and the parameters of published models, from the engine's formulas worked out by hand.

What each layer keeps was written down per model, and blocks, tokens and concurrency follow from the three
formulas beside the ground truth; nothing of the product entered.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory import DATA, model_of, plan_json, saved
from vllm_advisor import cli

_ROWS = json.loads((DATA / "published_models.json").read_text())
_POOL = ("--kv-cache-memory", "40GiB", "--max-num-batched-tokens", "8192")
_NOT_COUNTED = {
    "pixtral-hf": "its config leaves the vision tower's width out",
    "gemma3n-e4b": "its config leaves both towers out",
    "deepseek-vl2-tiny": "its config here has no vision tower",
    "opt-350m": "its embedding is narrower than its layers",
    "falcon-7b": "the published number counts a head that is tied",
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in _ROWS])
def test_a_published_model_takes_what_the_formulas_say(row: dict[str, Any], tmp_path: Path) -> None:
    """Blocks, bytes of a block, blocks of a request, tokens and concurrency are the formulas' own."""
    fits = row["expected"]["max_concurrency"] >= 1
    config = saved(tmp_path, row["config"])
    answer = plan_json("--model-config", config, *_POOL, *row["flags"], status=0 if fits else 1)

    assert {key: answer[key] for key in row["expected"]} == row["expected"]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["name"])
        for row in _ROWS
        if "parameters" in row and row["name"] not in _NOT_COUNTED
    ],
)
def test_a_published_models_parameters_are_counted(row: dict[str, Any]) -> None:
    """The count is within 3% of what the publisher states, and lacks no field."""
    weights = model_of(row["config"]).weights

    assert weights.missing == ()
    assert weights.total == pytest.approx(row["parameters"], rel=0.03)


_WRONG = st.sampled_from([
    None, 0, -1, 1, 3, "8", "", [], {}, [1, 2], ["a"], [None], [[1]], {"a": 1}, 10**6, 10**18, 10**400, 1.5,
    4096.0, 1e300, True, False, [0] * 64, ["full_attention"] * 100, [{"attention": None}] * 100,
    [{"attention": {"n_heads_in_group": 0}}] * 100,
])  # fmt: skip
_ADDED = st.sampled_from([
    "head_dim", "layer_types", "mamba_step", "full_attn_idxs", "attention_other_setting", "block_configs",
    "num_kv_shared_layers", "quantization_config", "hybrid_layer_ids", "encoder_layers", "layer_group_size",
    "decoder_layers", "attn_config", "mamba_d_state", "conv_L_cache", "kv_lora_rank", "sliding_window",
])  # fmt: skip
_FLAGS = st.lists(
    st.sampled_from([
        ("--gpu-memory", "80GB"), ("--gpu-memory", "1GB"), ("--kv-cache-memory", "10GiB"), ("-pp", "7"),
        ("--max-model-len", "auto"), ("--max-model-len", "1000000000"), ("--quantization", "fp8"),
        ("-tp", "3"), ("--dtype", "float32"), ("--max-num-seqs", "1"), ("--kv-tokens", "1000"),
        ("--num-gpu-blocks-override", "5"), ("--block-size", "1"), ("--context-tokens", "99999"),
        ("--speculative-config", '{"num_speculative_tokens": 9}'), ("--vllm-version", "0.6"), ("--json",),
    ]),
    max_size=4,
)  # fmt: skip


@st.composite
def _spoiled(draw: st.DrawFn) -> dict[str, Any]:
    config = json.loads(json.dumps(draw(st.sampled_from(_ROWS))["config"]))
    for _ in range(draw(st.integers(1, 3))):
        sections = [config, *(value for value in config.values() if isinstance(value, dict) and value)]
        section = draw(st.sampled_from(sections))
        name = draw(st.sampled_from(sorted(section) or ["model_type"]) | _ADDED)
        section[name] = json.loads(json.dumps(draw(_WRONG)))
    return config


@settings(max_examples=200, deadline=None)
@given(_spoiled(), _FLAGS)
def test_a_spoiled_config_gives_an_answer_or_one_line(
    config: dict[str, Any], flags: list[tuple[str, ...]]
) -> None:
    """Whatever is wrong with a published config, ``plan`` answers, or exits 1 or 2 and says one line."""
    printed, problems = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(problems),
    ):
        arguments = [value for flag in flags for value in flag]
        code = cli.main(["plan", "--model-config", saved(Path(folder), config), *arguments])

    assert code in {0, 1, 2}
    assert len(problems.getvalue().splitlines()) == (1 if code else 0)
