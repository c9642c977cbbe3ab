"""The largest memory of a process, for code that benchmarks run in a process of its own."""

from __future__ import annotations

import resource
from pathlib import Path

IMPORT = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from _memory import peak\n"


def peak() -> int:
    """KiB that this process has held at most.

    Linux counts the peak of the process that started it into ``ru_maxrss``, so a benchmark that runs after larger ones
    would be charged with theirs; its own peak stands in /proc.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    own = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
