"""vllm-advisor: the --max-model-len and --max-num-seqs that production traffic supports."""

__version__ = "0.1.0"
