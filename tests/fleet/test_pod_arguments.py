"""What a container's command line says, in the forms that people write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        "lmsysorg/sglang:v0.4.1": None,
    }
    assert {image: facts_from_container({"image": image}).vllm_version for image in images} == images


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
