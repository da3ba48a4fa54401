"""``python -m monitoring rules|dashboards|metrics``: write the generated files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from monitoring.dashboards.files import dashboard_files
from monitoring.metrics_page import metrics_page
from monitoring.rule_files import DEFAULT_RUNBOOK_BASE, rule_files

ROOT = Path(__file__).parents[2]

_WRITERS = {"rules": rule_files, "dashboards": dashboard_files, "metrics": metrics_page}


def main() -> int:
    """Write what was asked for below the repository's root."""
    parser = argparse.ArgumentParser(prog="monitoring", description=__doc__)
    parser.add_argument("what", choices=tuple(_WRITERS))
    parser.add_argument("--runbook-base", default=DEFAULT_RUNBOOK_BASE)
    arguments = parser.parse_args()
    _write(_WRITERS[arguments.what](arguments.runbook_base))
    return 0


def _write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
