import pytest

from experiments.benchmarks.records import make_record, read_records
from experiments.benchmarks.results import Measured
from experiments.run import accelerators


def test_a_record_is_read_as_it_was_written(tmp_path):
    result = Measured("ours", "tokens/s", [2.0, 3.0]).result("step", "tiny", "make bench")
    record = make_record()._replace(results=[result])
    path = record.write(tmp_path)
    assert record.write(tmp_path) == path  # with each part that is done the same one
    assert read_records(tmp_path) == [record]
    assert path.stat().st_size < 2_000


def test_a_record_says_what_its_figures_depend_on(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some")
    monkeypatch.setenv("T2T_JAX_COMMIT", "0123456789abcdef-dirty")
    monkeypatch.setattr(accelerators, "nvidia", lambda: {"gpus": "1 x NVIDIA H100 80GB HBM3"})
    record = make_record()
    assert record.machine["gpus"] == "1 x NVIDIA H100 80GB HBM3"
    assert {"cpu", "cores", "memory_gib", "python", "jax", "jaxlib"} <= set(record.machine)
    assert record.machine["XLA_FLAGS"] == "--some"
    assert record.short_commit == "0123456-dirty"


def test_the_oldest_comes_first_and_no_directory_is_no_record(tmp_path):
    for when in ("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"):
        make_record()._replace(when=when).write(tmp_path)
    assert [record.when[5:7] for record in read_records(tmp_path)] == ["01", "02"]
    assert read_records(tmp_path / "none") == []


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 2}', '{"format": 1, "results": [{}]}'])
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "one.json").write_text(text)
    with pytest.raises(ValueError, match="one.json is "):
        read_records(tmp_path)
