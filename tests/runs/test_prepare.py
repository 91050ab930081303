"""What a run adds to preparing: lines, progress, and which corpus a model can take."""

from t2t_jax.runs import prepare
from t2t_jax.training.progress import Progress
from tests.runs.configs import smallest


def test_lines_and_progress_go_to_standard_error(tmp_path, monkeypatch, capsys):
    bars = []

    def prepare_data(config, log, vocabulary, *, make_bar, original=prepare.prepare_data):
        bars.append(make_bar)
        return original(config, log, vocabulary, make_bar=make_bar)

    monkeypatch.setattr(prepare, "prepare_data", prepare_data)
    prepared = prepare.prepare(smallest(tmp_path))
    out, err = capsys.readouterr()
    assert bars == [Progress] and out == ""
    assert err.splitlines()[0] == "vocabulary: 200 bpe pieces learned from train"
    assert err.splitlines()[-1] == f"prepared data written to {prepared.directory}"
