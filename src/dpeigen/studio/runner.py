"""Runs one command of dpeigen in a separate process, and records its exit code.

    python -c "from dpeigen.studio.runner import main; main()" FOLDER pca visits.csv --config … --out …

It calls the same function as the script ``dpeigen``, with the same arguments. The process does not depend on the
server: a paid release is saved and recorded even if the server is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

__all__ = ["ENDED", "PROGRESS", "main"]

ENDED, PROGRESS = "ended.json", "progress.jsonl"


def _stop(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(number)


def main() -> None:
    """Run ``sys.argv[2:]``; the exit code goes to a file in the folder ``sys.argv[1]``."""
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, _stop)  # until the command itself waits for signals
    code = 1
    try:
        from dpeigen.cli.app import main as command

        sys.argv = ["dpeigen", *arguments]
        command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        code = 130
        print("dpeigen: Stopped. Nothing was reserved or spent.", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with suppress(OSError):  # it shows how fast rows were read, and is needed no longer
            (folder / PROGRESS).unlink(missing_ok=True)
        part = folder / f"{ENDED}.part"
        part.write_text(json.dumps({"code": code}), encoding="utf-8")
        os.replace(part, folder / ENDED)
    sys.exit(code)
