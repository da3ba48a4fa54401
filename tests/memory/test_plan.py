"""``plan`` beyond the worked example: what it compares, solves, and says when it cannot answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.memory import DATA, LLAMA_70B, ground_truth, plan_json, plan_text, predicted, saved
from vllm_advisor.ceilings.engine_flags import EngineFlags
from vllm_advisor.ceilings.needs import gpus_for, utilization_for
from vllm_advisor.cli import main

_CONFIGS = {row["name"]: row["config"] for row in ground_truth()["rows"]}
_GPU = {"gpu_memory_bytes": 80 * 10**9, "quantization": "fp8"}


def test_a_startup_log_is_compared_with(tmp_path: Path) -> None:
    """Flags and length come from the log, and the prediction agrees with its token line."""
    answer = plan_json(
        "--model-config", saved(tmp_path, _CONFIGS["granite4"]),
        "--startup-log", str(DATA / "logs" / "startup-granite4.log"), "--block-size", "128",
    )  # fmt: skip

    assert (answer["max_model_len"], answer["engine_tokens"], answer["error_ratio"]) == (8192, 180224, 0.0)
    assert answer["diagnosis"] is None


def test_uneven_groups_are_the_engines_own(tmp_path: Path) -> None:
    """22 windows beside 4 full layers leave two groups a layer short, as a logged engine has them."""
    kinds = ["full_attention" if (layer + 1) % 6 == 0 else "sliding_attention" for layer in range(26)]
    document = _CONFIGS["gemma3-5to1"] | {"num_hidden_layers": 26, "layer_types": kinds}
    answer = plan_json(
        "--model-config", saved(tmp_path, document), "--block-size", "128", "--no-async-scheduling",
        "--max-num-batched-tokens", "4096", "--startup-log", str(DATA / "logs" / "startup-gemma3-26L.log"),
    )  # fmt: skip

    assert (answer["kv_pool_tokens"], answer["engine_tokens"]) == (70197, 70197)
    assert any("2 layers' worth" in note for note in answer["notes"])


def test_fewer_batched_tokens_give_a_window_model_more(tmp_path: Path) -> None:
    """An engine started with 512 batched tokens reported 222,953 tokens in the same pool."""
    answer = plan_json(
        "--model-config", saved(tmp_path, _CONFIGS["gemma3-5to1"]), "--block-size", "128",
        "--no-async-scheduling", "--max-num-batched-tokens", "512", "--max-model-len", "32768",
        "--kv-cache-memory-bytes", "268435456",
    )  # fmt: skip

    assert answer["kv_pool_tokens"] == 222953


def test_a_gap_to_the_engine_is_explained(tmp_path: Path) -> None:
    """Twice the tokens on the engine's side is an fp8 cache."""
    arguments = (
        "--model-config", saved(tmp_path, LLAMA_70B), "--kv-cache-memory", "40GB", "-tp", "4",
        "--max-model-len", "8192", "--kv-tokens", str(2 * 488272),
    )  # fmt: skip
    answer = plan_json(*arguments)

    assert answer["error_ratio"] == pytest.approx(-0.5, abs=0.001)
    assert "values in 8 bits" in answer["diagnosis"]
    assert answer["diagnosis"] in plan_text(*arguments)


def test_what_the_engine_logged_stands_beside_the_prediction(tmp_path: Path) -> None:
    """The text lists the engine's own breakdown as well, to see who took what."""
    log = tmp_path / "engine.log"
    log.write_text(
        "Model loading took 14.99 GiB memory and 3.1 seconds\nAvailable KV cache memory: 58.11 GiB\n"
        "GPU KV cache size: 476,016 tokens\nMaximum concurrency for 8,192 tokens per request: 58.11x\n"
    )
    text = plan_text("--model-config", saved(tmp_path, LLAMA_70B), "--startup-log", str(log))
    rows = text.split("As the engine logged it\n")[1].splitlines()[:2]

    assert ["14.99 GiB" in rows[0], "58.11 GiB" in rows[1]] == [True, True]


def test_a_refusal_in_the_log_is_told(tmp_path: Path) -> None:
    """A log of an engine that refused to start is answered with what it said."""
    answer = plan_json(
        "--model-config", saved(tmp_path, _CONFIGS["llama-gqa"]), "--block-size", "128",
        "--startup-log", str(DATA / "logs" / "startup-error-pool-too-small.log"), status=1,
    )  # fmt: skip

    assert answer["memory_ceiling"] == 0
    assert any("needs 0.25 GiB of 0.06 GiB; it could have served 32,640" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--gpu-memory=80GB"], "the KV pool holds no sequence of 8,192 tokens"),
        (["--kv-cache-memory=1GB"], "the KV pool holds no sequence of 8,192 tokens"),
        (["--num-gpu-blocks-override=2"], "the KV pool holds no sequence of 8,192 tokens"),
    ],
)
def test_without_room_for_a_sequence_a_script_is_told(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No cap is no answer: what there is gets printed, one line says what lacks, and the exit code is 1."""
    arguments = ["--model-config", saved(tmp_path, LLAMA_70B), "--max-model-len=8192", "--json", *flags]

    assert main(["plan", *arguments]) == 1
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert (answer["memory_ceiling"], answer["recommended_max_num_seqs"]) == (0, None)
    assert printed.err == f"vllm-advisor plan: no --max-num-seqs: {words}\n"


def test_bytes_per_token_alone_are_an_answer(tmp_path: Path) -> None:
    """Without GPU, pool and sweep nobody asked for a cap."""
    answer = plan_json("--model-config", saved(tmp_path, LLAMA_70B))

    assert (answer["kv_bytes_per_token"], answer["recommended_max_num_seqs"]) == (327680, None)


def test_a_negative_pool_is_shown_as_one(tmp_path: Path) -> None:
    """Weights larger than the GPU leave a pool below zero, no tokens and no sequences."""
    arguments = "--model-config", saved(tmp_path, LLAMA_70B), "--gpu-memory", "80GB", "-tp", "1"
    answer = plan_json(*arguments, status=1)

    assert answer["kv_pool_bytes_per_gpu"] < -60e9
    assert (answer["kv_pool_tokens"], answer["memory_ceiling"]) == (0, 0)
    assert answer["recommended_max_num_seqs"] is None
    assert any("Nothing is left for the KV cache" in note for note in answer["notes"])
    assert "--kv-cache-memory-bytes" not in plan_text(*arguments, status=1)


def test_cap_and_pool_are_solved_together() -> None:
    """The largest cap that its own pool holds: one more sequence to profile would leave too little."""
    prediction = predicted(LLAMA_70B, EngineFlags(tensor_parallel_size=4), **_GPU)
    cap = prediction.largest_cap(4096)

    assert cap is not None
    assert prediction.with_max_num_seqs(cap).sequences(4096) >= cap
    assert prediction.with_max_num_seqs(cap + 1).sequences(4096) < cap + 1
    assert cap > (prediction.sequences(4096) or 0)


@pytest.mark.parametrize("sequences", [10, 40, 60])
def test_the_utilization_for_some_sequences_is_enough(sequences: int) -> None:
    """An engine run at the utilization that is named holds them, and one block less would not do."""
    flags = EngineFlags(tensor_parallel_size=4, max_num_seqs=sequences)
    prediction = predicted(LLAMA_70B, flags, **_GPU)
    ratio = utilization_for(prediction, 8192, sequences)

    assert ratio is not None
    enough = predicted(
        LLAMA_70B, EngineFlags(tensor_parallel_size=4, max_num_seqs=sequences, utilization=ratio), **_GPU
    )
    assert enough.blocks == pytest.approx(sequences * 512 + 1, abs=1)


def test_the_gpus_for_some_sequences_are_enough() -> None:
    """The smallest number of ranks that holds them: half of it does not."""
    prediction = predicted(LLAMA_70B, EngineFlags(tensor_parallel_size=2), **_GPU)
    ranks = gpus_for(prediction, 32768, 40)
    half, whole = (
        predicted(LLAMA_70B, EngineFlags(tensor_parallel_size=number, max_num_seqs=60), **_GPU).sequences(
            32768
        )
        for number in ((ranks or 0) // 2, ranks or 0)
    )

    assert ranks == 8
    assert (half or 0) < 40 <= (whole or 0)


def test_more_ranks_than_kv_heads_do_not_help() -> None:
    """Eight KV heads are replicated beyond eight ranks, so what does not fit eight is not promised."""
    prediction = predicted(LLAMA_70B, EngineFlags(tensor_parallel_size=2), **_GPU)

    assert gpus_for(prediction, 32768, 400) is None


def test_gpus_that_do_not_divide_the_heads_are_not_named() -> None:
    """Of 48 heads 16 ranks have 3 each; of 40 they cannot, so what does not fit 8 has no answer."""
    found = []
    for heads in (48, 40):
        document = LLAMA_70B | {"num_attention_heads": heads, "num_key_value_heads": heads}
        prediction = predicted(document, EngineFlags(tensor_parallel_size=2), **_GPU)
        found.append(gpus_for(prediction, 32768, 8))

    assert found == [16, None]


def test_without_a_gpu_the_bytes_of_a_token_are_answered(tmp_path: Path) -> None:
    """What does not follow from what was given is null, and the notes say what is missing."""
    answer = plan_json("--model-config", saved(tmp_path, LLAMA_70B), "--max-model-len", "32K")

    assert (answer["kv_bytes_per_token"], answer["max_model_len"]) == (327680, 32768)
    assert (answer["kv_pool_tokens"], answer["memory_ceiling"], answer["binding"]) == (None, None, "none")
    assert "The pool cannot be sized without the GPU's memory." in answer["notes"]


def test_the_models_own_maximum_bounds_the_traffic(tmp_path: Path) -> None:
    """Traffic that asks for more than the model was made for gets the model's maximum, and is told."""
    document = LLAMA_70B | {"max_position_embeddings": 8192}
    answer = plan_json("--model-config", saved(tmp_path, document), "--context-tokens", "9500")

    assert answer["max_model_len"] == 8192
    assert any("asks for 12,288 tokens" in note for note in answer["notes"])


def test_the_text_explains_a_hybrid(tmp_path: Path) -> None:
    """Why the two lines of a hybrid differ, what a request takes and what a shorter length gives."""
    text = plan_text(
        "--model-config", saved(tmp_path, _CONFIGS["granite4"]), "--kv-cache-memory-bytes", "268435456",
        "--max-model-len", "8192", "--block-size", "128",
    )  # fmt: skip

    assert "maximum concurrency for 8,192 tokens 22.00x" in text
    assert "3 x 3 for state" in text
    assert "the shortest request takes 10 blocks" in text
    assert "The concurrency line is the one to trust" in text
    assert "       4,096       34" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--kv-cache-dtype", "fp3"], 2, "--kv-cache-dtype: fp3 is not known"),
        (["--quantization", "magic"], 2, "--quantization: magic is not known"),
        (["--speculative-config", "{"], 2, "--speculative-config: expected a JSON object"),
        (["--startup-log", "nowhere.log"], 1, "nowhere.log: cannot be read"),
        (["--speculative-config", '{"num_speculative_tokens": 1e999}'], 2, "expected a JSON object"),
        (["--startup-log", "config.json"], 1, "config.json: tells of no engine's start"),
        (["--context-tokens", "0"], 2, "--context-tokens: expected a whole number over zero, not '0'"),
        (["--context-tokens", "-5"], 2, "--context-tokens: expected a whole number over zero, not '-5'"),
        (["--round-up-to", "0"], 2, "--round-up-to: expected a whole number over zero, not '0'"),
        (["--margin", "-1"], 2, "--margin: expected a number from 0 to 10, such as 0.25, not '-1'"),
        (["--margin", "nan"], 2, "--margin: expected a number from 0 to 10, such as 0.25, not 'nan'"),
        (["--kv-tokens", "x"], 2, "--kv-tokens: expected a whole number over zero, not 'x'"),
        (["--gpu-memory", f"{'9' * 400}GB"], 2, "expected a size such as 80GB"),
        (["--max-model-len", "9" * 400], 2, "expected tokens such as 32768, 32k or auto"),
        (["--kv-cache-memory", "9" * 5000], 2, "expected a size such as 80GB"),
        (["--parameters", "1e308"], 2, "--parameters: expected a number over zero"),
        (
            ["--weights-memory", "9e90GB"],
            2,
            "--weights-memory: expected a size such as 80GB, over 0 to 1000TB",
        ),
        (["--gpu-memory", "0GB"], 2, "--gpu-memory: expected a size such as 80GB, over 0 to 1000TB"),
        (["-tp", "3"], 1, "--tensor-parallel-size: 64 attention heads do not divide by 3, so vLLM refuses"),
        (["--gpu-memory", "80"], 2, "expected a size such as 80GB"),
        (["--vllm-version", "latest"], 2, "expected a vLLM version such as 0.32.0"),
        (["--gpu-memory-utilization", "92"], 2, "expected a share over 0 and at most 1"),
        (["--max-model-len", "long"], 2, "expected tokens such as 32768, 32k or auto"),
    ],
)
def test_wrong_flags_are_named(arguments: list[str], status: int, message: str, tmp_path: Path) -> None:
    """One line on stderr: exit 2 for a flag that cannot be right, 1 where model or file do not fit."""
    command = [sys.executable, "-m", "vllm_advisor", "plan", "--model-config", saved(tmp_path, LLAMA_70B)]
    if "--gpu-memory" not in arguments:
        command += ["--gpu-memory", "80GB"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert message in done.stderr


SWEEP = "concurrency,tpot_mean,tpot_p50\n4,0.010,0.009\n16,0.020,0.019\n64,0.050,0.049\n"


@pytest.mark.parametrize(
    ("target", "ceiling", "cap", "note"),
    [
        ("40ms", 48, 11, None),
        ("15ms", 10, 10, None),
        ("5ms", None, None, "misses a mean time per output token of 5ms at every level, at 4 sequences"),
        ("90ms", None, 11, "meets a mean time per output token of 90ms at every level, up to 64 sequences"),
    ],
)
def test_a_sweep_that_does_not_cross_tells_on_which_side(
    target: str, ceiling: int | None, cap: int | None, note: str | None, tmp_path: Path
) -> None:
    """Missed everywhere gives no cap; met up to more sequences than memory holds leaves memory to rule."""
    path = tmp_path / "sweep.csv"
    path.write_text(SWEEP)
    answer = plan_json(
        "--model-config", saved(tmp_path, LLAMA_70B), "--kv-cache-memory", "4GB", "-tp", "4",
        "--max-model-len", "4096", "--sweep", str(path), "--slo.tpot", target, "--slo.quantile", "mean",
        status=0 if cap else 1,
    )  # fmt: skip

    assert (answer["latency_ceiling"], answer["recommended_max_num_seqs"]) == (ceiling, cap)
    assert note is None or any(note in one for one in answer["notes"])


def test_a_sweep_met_everywhere_below_the_memory_ceiling_gives_no_cap(tmp_path: Path) -> None:
    """Beyond the last level nothing was measured, so a larger memory ceiling is no answer."""
    path = tmp_path / "sweep.csv"
    path.write_text(SWEEP)
    answer = plan_json(
        "--model-config", saved(tmp_path, LLAMA_70B), "--kv-cache-memory", "40GB", "-tp", "4",
        "--max-model-len", "4096", "--sweep", str(path), "--slo.tpot", "90ms", "--slo.quantile", "mean",
        status=1,
    )  # fmt: skip

    assert (answer["recommended_max_num_seqs"], answer["binding"]) == (None, "none")


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        ([], 2, "--slo.tpot: is needed with --sweep"),
        (
            ["--slo.tpot=40"],
            2,
            "--slo.tpot: expected a duration such as 40ms",
        ),
        (["--slo.tpot=40ms", "--slo.quantile=2"], 2, "--slo.quantile: expected mean, or a quantile"),
        (
            ["--slo.tpot=40ms"],
            1,
            "sweep.csv: tpot_p99: is missing for this --slo.quantile; there is tpot_mean",
        ),
    ],
)
def test_a_sweep_needs_its_target(
    flags: list[str], status: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a target, or without the column that the target is about, there is no answer."""
    path = tmp_path / "sweep.csv"
    path.write_text(SWEEP)
    arguments = ["plan", "--model-config", saved(tmp_path, LLAMA_70B), "--sweep", str(path), *flags]

    assert main(arguments) == status
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_length_beyond_the_models_own_is_told(tmp_path: Path) -> None:
    """An engine refuses to start at such a length, unless told to allow it."""
    config = saved(tmp_path, LLAMA_70B | {"max_position_embeddings": 8192})
    beyond = plan_json("--model-config", config, "--max-model-len", "1000000")
    within = plan_json("--model-config", config, "--max-model-len", "8192")

    assert any("VLLM_ALLOW_LONG_MAX_MODEL_LEN" in note for note in beyond["notes"])
    assert not any("VLLM_ALLOW_LONG_MAX_MODEL_LEN" in note for note in within["notes"])


def test_of_two_lengths_it_is_told_which_counts(tmp_path: Path) -> None:
    """With --max-model-len beside --context-tokens the traffic's own length is answered."""
    config = saved(tmp_path, LLAMA_70B)
    answer = plan_json("--model-config", config, "--context-tokens", "9500", "--max-model-len", "32K")

    assert answer["max_model_len"] == 12288
    assert any(note.startswith("--context-tokens was used") for note in answer["notes"])


def test_a_zero_in_the_config_is_told_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that is there and zero is not called missing."""
    path = saved(tmp_path, LLAMA_70B | {"num_attention_heads": 0})

    assert main(["plan", "--model-config", path]) == 1
    assert "num_attention_heads: expected a whole number over zero, not 0" in capsys.readouterr().err


def test_a_config_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """An unknown architecture ends in one line that names file and field."""
    path = saved(tmp_path, {"architectures": ["WibbleForCausalLM"]})
    command = [sys.executable, "-m", "vllm_advisor", "plan", "--model-config", path, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"{path}: architectures: WibbleForCausalLM is not known" in done.stderr
    assert len(done.stderr.splitlines()) == 1
