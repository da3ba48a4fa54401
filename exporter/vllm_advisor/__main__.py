"""Lets ``python -m vllm_advisor`` run the command line."""

import sys

from vllm_advisor.cli import main

sys.exit(main())
