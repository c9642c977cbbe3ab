"""Files of reports from anyone: what they declare is looked at before they are unpacked."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer

PARAMETERS = LocalParameters(2, 1.0, 0.0)
LARGE = pa.table({"report": pa.array([b"x" * 10**6] * 60, type=pa.binary())})
NULLS = pa.table({"report": pa.nulls(10**7, pa.binary())})


@pytest.fixture(scope="module")
def reports():
    client = LocalRandomizer.from_parameters(PARAMETERS)
    return [client.report([0.3, 0.4]) for _ in range(200)]


def refused(path):
    return dict(LocalAggregator(PARAMETERS).add_files(path).refused)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "use_dictionary": False},
        {"compression": "gzip"},
        {"compression": "snappy", "use_dictionary": False},
        {"compression": "none"},  # one value, and a number for each row
        {"compression": "none", "use_dictionary": False, "column_encoding": {"report": "DELTA_BYTE_ARRAY"}},
    ],
)
def test_a_small_parquet_file_that_stands_for_a_large_one_is_refused(tmp_path, options):
    pq.write_table(LARGE, tmp_path / "bomb.parquet", **options)
    assert refused(tmp_path / "bomb.parquet") == {"unreadable file": 1}


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_arrow_file_that_stands_for_a_large_one_is_refused(tmp_path, compression):
    feather.write_feather(LARGE, tmp_path / "bomb.arrow", compression=compression)
    assert refused(tmp_path / "bomb.arrow") == {"unreadable file": 1}


def test_more_rows_than_fit_a_file_are_refused(tmp_path):
    pq.write_table(NULLS, tmp_path / "nulls.parquet")
    feather.write_feather(NULLS, tmp_path / "nulls.arrow", compression="lz4")
    assert refused(tmp_path) == {"unreadable file": 2}


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.binary()), pa.string(), pa.list_(pa.binary())])
def test_other_kinds_of_columns_are_refused_as_a_whole(tmp_path, kind):
    values = [[b"x"]] * 3 if kind == pa.list_(pa.binary()) else ["x"] * 3 if kind == pa.string() else [b"x"] * 3
    column = pa.array(values, pa.binary()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(values)
    feather.write_feather(pa.table({"report": column}), tmp_path / "a.arrow", compression="uncompressed")
    assert refused(tmp_path / "a.arrow") == {"unreadable file": 1}


def test_offsets_that_point_elsewhere_are_refused(tmp_path):
    """A reader that believes them reads memory that is not the file's."""
    good = pa.table({"report": pa.array([b"y" * 100], pa.binary())})
    feather.write_feather(good, tmp_path / "a.arrow", compression="uncompressed")
    content = (tmp_path / "a.arrow").read_bytes()
    place = content.index(b"\0\0\0\0\x64\0\0\0")  # offsets 0 and 100
    (tmp_path / "a.arrow").write_bytes(content[: place + 4] + b"\xff\xff\xff\x7f" + content[place + 8 :])
    assert refused(tmp_path / "a.arrow") == {"unreadable file": 1}


@pytest.mark.parametrize(
    "name", ["none.parquet", "snappy.parquet", "uncompressed.feather", "lz4.feather", "zstd.arrow"]
)
def test_honest_files_of_other_writers_are_read(tmp_path, reports, name):
    table = pa.table({"report": pa.array(reports, pa.large_binary()), "note": ["same"] * len(reports)})
    compression, _, ending = name.partition(".")
    write = pq.write_table if ending == "parquet" else feather.write_feather
    write(table, tmp_path / name, compression=compression)
    server = LocalAggregator(PARAMETERS).add_files(tmp_path / name)
    assert (server.n_reports, dict(server.refused)) == (200, {})
