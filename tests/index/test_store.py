"""An index written and read again is the same lineage; a damaged or foreign file is refused in a sentence."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prefixscope.errors import IndexFileError
from prefixscope.index import store
from prefixscope.index.lineage import NO_TIME, Labels, Lineage


def full_lineage() -> Lineage:
    return Lineage.from_lengths(
        [10, 20, 30],
        [0, 8, 10],
        [-1, 0, 0],
        sequence_tokens=[10, 25, 30],
        time_ns=np.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_002, 1_700_000_000_000_000_003], np.int64),
        finished_ns=np.array([NO_TIME, 1_700_000_000_000_000_009, NO_TIME], np.int64),
        file=Labels.of(["a", "b", "a"]),
        model=Labels.of(["m", None, "m"]),
        session=Labels.of([None, None, None]),
        request_id=np.array(["x", None, ""], object),
        reads_cache=np.array([True, False, True]),
        output=np.array([0, 3, 1], np.int64),
        output_tokens=np.array([-1, 6, -1], np.int64),
        namespaces=("base",),
        provenance={"files": ["a", "b"]},
    )


def assert_equal(a: Lineage, b: Lineage) -> None:
    for field in dataclasses.fields(Lineage):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, Labels):
            assert [left[row] for row in range(len(left))] == [right[row] for row in range(len(right))], field.name
        elif isinstance(left, np.ndarray):
            assert left.tolist() == right.tolist(), field.name
        else:
            assert left == right, field.name


def written(lineage: Lineage, path: Path) -> Path:
    with path.open("wb") as file:
        store.write_index(lineage, file, tool_version="1")
    return path


def test_round_trip(tmp_path: Path) -> None:
    lineage = full_lineage()
    assert_equal(store.read_index(str(written(lineage, tmp_path / "x.parquet"))), lineage)


def test_empty_table_round_trip(tmp_path: Path) -> None:
    lineage = Lineage.from_lengths([], [], [])
    assert len(store.read_index(str(written(lineage, tmp_path / "x.parquet")))) == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_byte_is_refused_or_harmless(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = written(full_lineage(), tmp_path / "x.parquet")
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(data))
    try:
        read = store.read_index(str(path))
    except IndexFileError as error:
        assert str(path) in str(error)
    else:
        # A flip in parts that carry no data (statistics, page headers' optional fields) may go unnoticed.
        assert read.prompt_tokens.tolist() == [10, 20, 30]


def test_truncated_file(tmp_path: Path) -> None:
    path = written(full_lineage(), tmp_path / "x.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(IndexFileError, match="damaged"):
        store.read_index(str(path))


def test_newer_schema_names_the_version_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "INDEX_SCHEMA", "prefixscope.index/7")
    path = written(full_lineage(), tmp_path / "x.parquet")
    monkeypatch.undo()
    with pytest.raises(IndexFileError, match=r"prefixscope 1 with schema prefixscope\.index/7"):
        store.read_index(str(path))


def test_other_parquet_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(IndexFileError, match="not an index"):
        store.read_index(str(tmp_path / "x.parquet"))


def test_unknown_columns_are_ignored(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    store.write_index(full_lineage(), buffer, tool_version="1")
    table = pq.read_table(io.BytesIO(buffer.getvalue()))
    pq.write_table(table.append_column("later", pa.array([1, 2, 3])), tmp_path / "x.parquet")
    assert_equal(store.read_index(str(tmp_path / "x.parquet")), full_lineage())
