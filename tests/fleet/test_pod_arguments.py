"""What a container's command line says, in the forms that people write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import LLAMA_70B
from vllm_advisor.arithmetic import load_arithmetic
from vllm_advisor.config import EngineConfig
from vllm_advisor.sources.engine_facts import CapSource, EngineFacts
from vllm_advisor.sources.pod_arguments import facts_from_arguments, facts_from_container

WHOLE = EngineFacts(
    max_model_len=8192,
    max_num_seqs=64,
    max_num_seqs_source=CapSource.POD_ARGUMENTS,
    gpu_memory_utilization_ratio=0.9,
    tensor_parallel_size=4,
    model="org/model",
)
FORMS: dict[str, dict[str, Any]] = {
    "vllm serve": {
        "command": ["vllm", "serve", "org/model", "--max-model-len", "8192", "--max-num-seqs=64"],
        "args": ["-tp", "4", "--gpu-memory-utilization", "0.9"],
    },
    "the image's own entry point": {
        "args": [
            *("--model", "org/model", "--max-model-len=8192", "--max_num_seqs", "64"),
            *("--tensor-parallel-size=4", "--gpu_memory_utilization=0.9"),
        ]
    },
    "a shell's script over lines": {
        "command": ["/bin/sh", "-c"],
        "args": [
            (
                "vllm serve org/model \\\n  --max-model-len 8K  \\\n  --max-num-seqs 64 \\\n"
                "  -tp=4 --gpu-memory-utilization 0.9"
            )
        ],
    },
    "a shell as the whole command": {
        "command": [
            *("bash", "-c"),
            (
                "exec python3 -m vllm.entrypoints.openai.api_server --model org/model "
                "--max-model-len 8192 --max-num-seqs 64 -tp 4 --gpu-memory-utilization 0.9 # why not"
            ),
        ]
    },
    "a script of several commands": {
        "command": ["tini", "--", "/bin/bash", "-euc"],
        "args": [
            (
                "pip install x && vllm serve \\\n org/model --max-model-len 8192 --max-num-seqs $CAP "
                "-tp ${RANKS:-4} --gpu-memory-utilization 0.9; sleep 2 | tee log\nexit 0"
            )
        ],
        "env": [{"name": "CAP", "value": "64"}],
    },
    "references to the environment": {
        "command": ["vllm", "serve", "$(MODEL)"],
        "args": [
            *("--max-model-len=$(LENGTH)", "--max-num-seqs", "$(CAP)", "-tp", "4"),
            *("--gpu-memory-utilization", "0.9"),
        ],
        "env": [
            {"name": "MODEL", "value": "org/model"},
            {"name": "LENGTH", "value": "8192"},
            {"name": "CAP", "value": "64"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        ],
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form: str) -> None:
    """Flags are read in every form that manifests and charts use."""
    assert facts_from_container(FORMS[form]) == WHOLE


def test_the_version_is_the_images() -> None:
    """A vLLM image's tag is its version; another image, or a tag that is none, says nothing."""
    images = {
        "vllm/vllm-openai:v0.11.0": "0.11.0",
        "registry.local:5000/mirror/vllm-openai:0.10.2@sha256:00": "0.10.2",
        "vllm/vllm-openai:latest": None,
        "vllm/vllm-openai:v0.11.0-cu128": "0.11.0-cu128",
        "lmsysorg/sglang:v0.4.1": None,
        "lmcache/vllm-openai:v0.3.9post2": None,
        "ghcr.io/llm-d/llm-d-vllm:0.3.1": None,
    }
    assert {image: facts_from_container({"image": image}).vllm_version for image in images} == images


def test_flags_that_decide_the_pool() -> None:
    """What `plan` takes of an engine is read of a pod too."""
    facts = facts_from_arguments(
        [
            *("--decode-context-parallel-size", "2", "-dp=4", "--mamba-ssm-cache-dtype=float32"),
            *("--enforce-eager", "--max-num-batched-tokens", "8k", "--no-async-scheduling"),
            *("--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 3}'),
            *("--disable-hybrid-kv-cache-manager", "--dtype", "bfloat16", "--quantization", "fp8"),
        ]
    )
    assert facts == EngineFacts(
        decode_context_parallel_size=2,
        data_parallel_size=4,
        mamba_ssm_cache_dtype="float32",
        enforce_eager=True,
        max_num_batched_tokens=8000,
        async_scheduling=False,
        speculative_tokens=3,
        speculative_method="eagle3",
        disable_hybrid_kv_cache_manager=True,
        dtype="bfloat16",
        quantization="fp8",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--speculative-config.method=mtp", "--speculative-config.num_speculative_tokens", "2"], (2, "mtp")),
        (["-sc", '{"method": "mtp"}'], (1, "mtp")),
        (["--speculative-config", "[["], (None, None)),
        (["--speculative-config", '{"num_speculative_tokens": null, "method": null}'], (None, None)),
    ],
)
def test_drafters(words: list[str], expected: tuple[int | None, str | None]) -> None:
    """A drafter is JSON or comes key by key; one token is vLLM's default, what is no JSON says nothing."""
    facts = facts_from_arguments(words)
    assert (facts.speculative_tokens, facts.speculative_method) == expected


FLAGS_THAT_CHANGE_A_POOL = {
    "decode context": ("--decode-context-parallel-size=2", {"decode_context_parallel_size": 2}),
    "a drafter": (
        '--speculative-config={"num_speculative_tokens": 3, "method": "eagle3"}',
        {"speculative_config": {"num_speculative_tokens": 3, "method": "eagle3"}},
    ),
    "eager": ("--enforce-eager", {"enforce_eager": True}),
    "a batch": ("--max-num-batched-tokens=32768", {"max_num_batched_tokens": 32768}),
    "dtype": ("--dtype=float32", {"dtype": "float32"}),
}


@pytest.mark.parametrize("name", FLAGS_THAT_CHANGE_A_POOL)
def test_a_pods_flag_does_what_the_configurations_does(name: str, tmp_path: Path) -> None:
    """The pool by arithmetic is the same, and another than without the flag."""
    word, configured = FLAGS_THAT_CHANGE_A_POOL[name]
    model = LLAMA_70B | {"max_position_embeddings": 131072}
    (tmp_path / "config.json").write_text(json.dumps(model), encoding="utf-8")
    engine = {"model_config": str(tmp_path / "config.json"), "gpu_memory": "141GB", "max_num_seqs": 64}

    def tokens(pod: EngineFacts, **more: object) -> int | None:
        given = EngineConfig.model_validate(engine | {"tensor_parallel_size": 16} | more)
        prediction = load_arithmetic(given).predict(pod)
        assert prediction
        return prediction.tokens(32768)

    nothing = EngineFacts()
    assert tokens(facts_from_arguments([word])) == tokens(nothing, **configured) != tokens(nothing)


def test_what_cannot_be_read_is_unknown() -> None:
    """Values that are no numbers, references that nothing resolves, and switches say no more than they do."""
    facts = facts_from_arguments(
        [
            *("--max-model-len", "auto", "--max-num-seqs", "$(CAP)", "--gpu-memory-utilization=high"),
            *("--no-enable-prefix-caching", "--kv-cache-dtype", "fp8", "--kv-cache-memory-bytes", "20G"),
        ]
    )
    assert facts == EngineFacts(cache_dtype="fp8", prefix_caching=False, kv_cache_memory_bytes=20 * 2**30)
    assert facts_from_container({"command": ["sh", "-c"], "args": ["vllm serve 'unclosed"]}) == EngineFacts()


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_command_line_is_an_error(words: list[str]) -> None:
    """Whatever words a container has, reading them raises nothing."""
    facts_from_container({"command": words, "args": words, "image": "".join(words), "env": None})
