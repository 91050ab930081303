"""TFDS: datasets written under its names, and read by its unmodified code."""

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_jax.data.corpora import tfds
from t2t_jax.data.corpora.tfds import Dataset, hashes, make_ready, num_examples, read
from tests.data.text_corpus import sentence_pairs
from tests.data.tfds_corpus import WMT14, write_own, write_tfds

TRAIN = [*sentence_pairs(99), ("", "")]
VALIDATION = [(f"house {n}", f"Häuser {n}") for n in range(5)]
DATASET = Path("wmt14_translate", "de-en", "1.0.0")


@pytest.fixture(scope="module")
def wmt14(tmp_path_factory) -> Dataset:
    directory = tmp_path_factory.mktemp("wmt14")
    write_tfds(directory, {"train": TRAIN, "validation": VALIDATION})
    return Dataset(WMT14, str(directory), ("en", "de"))


@pytest.fixture
def small(tmp_path) -> Dataset:
    """Of its own for each test, to be damaged: two pairs a file."""
    write_tfds(tmp_path, {"train": TRAIN[:6]})
    return Dataset(WMT14, str(tmp_path), ("en", "de"))


def shard(dataset: Dataset, number: int) -> Path:
    name = f"wmt14_translate-train.array_record-{number:05d}-of-00003"
    return Path(dataset.directory) / DATASET / name


def edit_info(dataset: Dataset, **changes) -> None:
    file = Path(dataset.directory) / DATASET / "dataset_info.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def fail_on_log(line: str) -> None:
    raise AssertionError(line)


def test_the_languages_alone_choose_the_direction(wmt14):
    assert list(read(wmt14, "train")) == TRAIN
    german_first = wmt14._replace(languages=("de", "en"))
    assert list(read(german_first, "train")) == [(german, english) for english, german in TRAIN]


def test_one_language_alone_is_read(wmt14):
    german = wmt14._replace(languages=("de",))
    assert list(read(german, "validation")) == [(german,) for _, german in VALIDATION]


def test_tfds_itself_reads_the_same_sentences(wmt14):
    import tensorflow_datasets

    source = tensorflow_datasets.data_source(WMT14, split="train", data_dir=wmt14.directory)
    pairs = [(example["en"].decode(), example["de"].decode()) for example in source]
    assert list(read(wmt14, "train")) == pairs


@settings(max_examples=40)
@given(st.integers(0, 110), st.none() | st.integers(0, 110))
def test_a_range_is_that_slice_of_the_split(wmt14, start, stop):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tfds, "_BLOCK", 7)
        assert list(read(wmt14, "train", start, stop)) == TRAIN[start:stop]


@pytest.mark.parametrize(
    ("split", "pairs"),
    [
        ("validation", VALIDATION),
        ("train[:10%]", TRAIN[:10]),
        ("train[20:40]", TRAIN[20:40]),
        ("train[-3:]", TRAIN[-3:]),
        ("train[98:]+validation[:20%]", TRAIN[98:] + VALIDATION[:1]),
        ("train+validation", TRAIN + VALIDATION),
    ],
)
def test_splits_are_written_as_tfds_writes_them(wmt14, split, pairs):
    assert num_examples(wmt14, split) == len(pairs)
    assert list(read(wmt14, split)) == pairs
    assert list(read(wmt14, split, 1, 3)) == pairs[1:3]


def test_a_prepared_dataset_is_left_as_it_is(wmt14):
    files = {file: file.stat().st_mtime_ns for file in Path(wmt14.directory).rglob("*")}
    make_ready(wmt14, fail_on_log)
    make_ready(wmt14._replace(name=f"{WMT14}:1.0.0"), fail_on_log)
    assert files == {file: file.stat().st_mtime_ns for file in Path(wmt14.directory).rglob("*")}


def test_the_default_directory_is_that_of_tfds(wmt14, monkeypatch):
    from tensorflow_datasets.core import constants

    monkeypatch.setattr(constants, "DATA_DIR", wmt14.directory)
    assert num_examples(wmt14._replace(directory=""), "train") == 100


@pytest.mark.parametrize(
    ("changes", "split", "message"),
    [
        ({}, "dev", r"no split 'dev', only 'train' \(100 examples\), 'validation' \(5 examples\)"),
        ({}, "train+dev", r"no split 'train\+dev', only 'train' "),
        ({}, "train[:101]", r"no split 'train\[:101\]', only 'train' \(100 examples\)"),
        ({}, "train[:1O%]", r"no split 'train\[:1O%\]', only 'train' "),
        ({}, "", "no split '', only 'train' "),
        ({}, "train[:0]", r"split 'train\[:0\]' has no examples"),
        ({}, "train[20:19]", r"split 'train\[20:19\]' has no examples"),
        ({}, "validation+train[20:19]", "has no examples"),
        ({}, "train[20:10]", r"split 'train\[20:10\]' has no examples"),
        ({"languages": ("en", "fr")}, "train", "no language 'fr', only de, en"),
        ({"name": "wmt14_translat/de-en"}, "train", "not exist, .* did you mean wmt14_translate "),
        ({"name": "qwertyuiop"}, "train", "not exist, neither .* among the prepared datasets$"),
        ({"name": "wmt14_translate/en-de"}, "train", "no 'en-de', only cs-en, de-en, fr-en, hi-en"),
        ({"name": "wmt14_translate/de-en:9.0.0"}, "train", "at version 9.0.0, only: 1.0.0"),
        ({"name": "wmt14 translate"}, "train", "is no name: write one such as 'wmt14_tr.*de-en'"),
        ({"name": "mtnt/en-fr"}, "train", "has 0 Translation features, .* has src/Text, dst/Text"),
        ({"name": "ted_multi_translate"}, "train", "has translations/TranslationVariableLanguages"),
        ({"name": "wmt15_translate/de-en"}, "train", r"not prepared: .*/1.0.0 does not exist"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(wmt14, changes, split, message):
    dataset = wmt14._replace(**changes)
    for function in (num_examples, read, hashes):
        with pytest.raises(ValueError, match=message) as caught:
            function(dataset, split)
        text = str(caught.value)
        assert text.startswith(f"TFDS dataset {dataset.name!r}") and "\n" not in text
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_dataset_in_another_format_is_refused(small):
    edit_info(small, fileFormat="tfrecord")
    for function in (lambda: num_examples(small, "train"), lambda: make_ready(small, fail_on_log)):
        with pytest.raises(ValueError, match="prepared as tfrecord in .*, only array_record can"):
            function()


def test_array_record_beside_another_format_is_read(small):
    edit_info(small, fileFormat="tfrecord", alternativeFileFormats=["array_record"])
    # TFDS looks for other formats only where the version is given.
    dataset = small._replace(name=f"{WMT14}:1.0.0")
    assert list(read(dataset, "train")) == TRAIN[:6]
    assert all("array_record" in name for name in hashes(dataset, "train"))


def test_a_missing_file_is_told_before_anything_is_read(small):
    shard(small, 1).unlink()
    with pytest.raises(ValueError, match="is not whole: .*train.array_record-00001-of-00003 is"):
        read(small, "train")
    assert list(read(small, "train[:2]")) == TRAIN[:2]


def test_a_damaged_file_is_told(small):
    file = shard(small, 1)
    file.write_bytes(file.read_bytes()[:-70_000])
    with pytest.raises(ValueError, match=r"split 'train', examples 0 to 5: damaged file \("):
        list(read(small, "train"))


def test_a_record_without_the_texts_is_told(small):
    from array_record.python.array_record_module import ArrayRecordWriter

    for record in (b"", b"\xff"):
        writer = ArrayRecordWriter(str(shard(small, 1)), "group_size:1")
        writer.write(record)
        writer.write(record)
        writer.close()
        with pytest.raises(ValueError, match="'train', example 2 .*: no text in one of en, de"):
            list(read(small, "train"))


def test_a_description_that_cannot_be_read_is_told(tmp_path):
    write_own(tmp_path, "own", [{"id": "1", "translation": {"en": "a", "de": "b", "fr": "c"}}])
    (tmp_path / "own" / "1.0.0" / "dataset_info.json").write_text("{")
    with pytest.raises(ValueError, match="^TFDS dataset 'own' cannot be opened: Failed to load"):
        num_examples(Dataset("own", str(tmp_path), ("de",)), "train")


def test_a_dataset_without_its_description_is_told(small):
    (Path(small.directory) / DATASET / "dataset_info.json").unlink()
    for function in (lambda: num_examples(small, "train"), lambda: make_ready(small, str)):
        with pytest.raises(ValueError, match="there is no dataset_info.json in it; delete .* and"):
            function()


def test_text_that_is_not_utf8_is_told(tmp_path):
    write_tfds(tmp_path, {"train": [*TRAIN[:4], ("caf\u00e9", "Caf\u00e9".encode("latin-1"))]})
    english = Dataset(WMT14, str(tmp_path), ("en",))
    assert len(list(read(english, "train"))) == 5
    message = r"'train', example 4 \(the first is 0\): not UTF-8 \(byte 0xe9 at position 3\)"
    with pytest.raises(ValueError, match=message):
        list(read(english._replace(languages=("en", "de")), "train"))


def test_other_datasets_are_read_too(tmp_path):
    write_tfds(
        tmp_path,
        {"train": [("obrigado", "thank you")]},
        "ted_hrlr_translate/pt_to_en",
        languages=("pt", "en"),
        num_shards=1,
    )
    dataset = Dataset("ted_hrlr_translate/pt_to_en", str(tmp_path), ("en", "pt"))
    assert list(read(dataset, "train")) == [("thank you", "obrigado")]


def test_a_dataset_that_tfds_does_not_know_is_read_from_disk(tmp_path):
    example = {"id": "1", "translation": {"en": "bee", "de": "Biene", "fr": "abeille"}}
    write_own(tmp_path, "own", [example])
    dataset = Dataset("own", str(tmp_path), ("fr", "en"))
    make_ready(dataset, fail_on_log)
    assert list(read(dataset, "train")) == [("abeille", "bee")]


def test_hashes_tell_what_a_split_is_made_of(small):
    before = hashes(small, "train")
    name = "wmt14_translate/de-en/1.0.0/wmt14_translate-train.array_record"
    assert list(before) == [f"{name}-0000{n}-of-00003[0:2]" for n in range(3)]
    assert list(hashes(small, "train[1:3]")) == [
        f"{name}-00000-of-00003[1:2]",
        f"{name}-00001-of-00003[0:1]",
    ]
    file = shard(small, 2)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    after = hashes(small, "train")
    assert [name for name in before if before[name] != after[name]] == [
        f"{name}-00002-of-00003[0:2]"
    ]


@pytest.mark.parametrize(
    "split",
    [
        "train[:50%]+train[:50%]",
        "train[50%:]+train[:50%]",
        "train[1:2]+train[0:1]",
        "train+train",
        "train[0:1]+train[1:2]+train[0:1]",
    ],
)
def test_hashes_tell_how_often_and_in_which_order_slices_are_read(small, split):
    pairs = list(read(small, split))
    other_splits = [
        "train",
        "train[:50%]",
        "train[:50%]+train[50%:]",
        "train[0:1]",
        "train[:2]",
        "train[0:1]+train[1:2]",
        "train[0:1]+train[0:1]+train[1:2]",
    ]
    for other in other_splits:
        same = list(read(small, other)) == pairs
        assert same or hashes(small, other) != hashes(small, split), other
    assert set(hashes(small, split).values()) <= set(hashes(small, "train").values())


def test_sums_in_the_order_of_the_files_have_the_names_that_they_have_alone(wmt14):
    alone = hashes(wmt14, "train") | hashes(wmt14, "validation")
    assert hashes(wmt14, "train+validation") == alone
    assert hashes(wmt14, "validation+train") != alone


def archive(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


# What WMT14's builder downloads for de-en, by the last part of the address.
ARCHIVES = {
    "training-parallel-europarl-v7.tgz": archive(
        {"training/europarl-v7.de-en.de": "Bär\n", "training/europarl-v7.de-en.en": "bear\n"}
    ),
    "training-parallel-commoncrawl.tgz": archive(
        {"commoncrawl.de-en.de": "Kuh\n", "commoncrawl.de-en.en": "cow\n"}
    ),
    "training-parallel-nc-v9.tgz": archive(
        {
            "training/news-commentary-v9.de-en.de": "Ente\n",
            "training/news-commentary-v9.de-en.en": "duck\n",
        }
    ),
    "dev.tgz": archive(
        {
            "dev/newstest2013.de": "Katze",
            "dev/newstest2013.en": "cat",
            "dev/newstest2014-deen-src.de.sgm": '<seg id="1">Maus</seg>',
            "dev/newstest2014-deen-ref.en.sgm": '<seg id="1">mouse</seg>',
        }
    ),
}


class Proxy(BaseHTTPRequestHandler):
    """Answers for the hosts of WMT, whatever the host."""

    def do_GET(self):
        content = ARCHIVES[self.path.rpartition("/")[2]]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def use_proxy(monkeypatch, port: int) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")


@pytest.fixture
def proxy(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        use_proxy(monkeypatch, server.server_port)
        yield
        server.shutdown()
        thread.join()


def test_wmt14_is_downloaded_and_prepared_without_tensorflow(tmp_path, monkeypatch, proxy):
    from tensorflow_datasets.core.download import checksums
    from tensorflow_datasets.translate.wmt14 import Wmt14Translate

    monkeypatch.setattr(checksums, "get_all_url_infos", dict)
    monkeypatch.setattr(Wmt14Translate, "url_infos", {})
    dataset, lines = Dataset(WMT14, str(tmp_path), ("de", "en")), []
    make_ready(dataset, lines.append)
    assert lines == [f"TFDS downloads {WMT14} and prepares it in {tmp_path / DATASET}"]
    assert sorted(read(dataset, "train")) == [("Bär", "bear"), ("Ente", "duck"), ("Kuh", "cow")]
    assert list(read(dataset, "validation")) == [("Katze", "cat")]
    assert list(read(dataset, "test")) == [("Maus", "mouse")]


def test_a_dataset_that_another_process_has_finished_meanwhile_is_used(tmp_path, monkeypatch):
    import tensorflow_datasets

    def too_late(builder, file_format):
        patch.undo()
        write_tfds(tmp_path, {"train": TRAIN[:6]})
        raise OSError(f"Cannot rename: {builder.data_dir} already exists")

    dataset = Dataset(WMT14, str(tmp_path), ("en", "de"))
    with monkeypatch.context() as patch:
        its_builder = tensorflow_datasets.core.DatasetBuilder
        patch.setattr(its_builder, "download_and_prepare", too_late)
        make_ready(dataset, str)
    assert list(read(dataset, "train")) == TRAIN[:6]


def test_a_download_that_is_not_what_tfds_expects_leaves_no_dataset(tmp_path, proxy):
    dataset = Dataset(WMT14, str(tmp_path), ("de", "en"))
    with pytest.raises(ValueError, match="not prepared in .* downloaded: .* has wrong checksum"):
        make_ready(dataset, str)
    with pytest.raises(ValueError, match="is not prepared: .*/1.0.0 does not exist"):
        read(dataset, "train")


def test_without_network_one_sentence_says_so(tmp_path, monkeypatch):
    use_proxy(monkeypatch, 9)  # where nobody listens
    monkeypatch.setattr("tensorflow_datasets.core.download.downloader.MAX_RETRIES", 0)
    with pytest.raises(ValueError, match="not prepared in .* could not be downloaded: HTTP") as e:
        make_ready(Dataset(WMT14, str(tmp_path), ("de", "en")), str)
    assert "\n" not in str(e.value)


def test_what_fails_halfway_leaves_no_dataset(tmp_path):
    with pytest.raises(RuntimeError, match="Failed to encode"):
        write_own(tmp_path, "own", [{"id": "1", "translation": {"de": "Biene"}}])
    with pytest.raises(ValueError, match="TFDS dataset 'own' does not exist"):
        num_examples(Dataset("own", str(tmp_path), ("de", "en")), "train")


def test_a_fresh_process_reads_quietly_and_imports_no_tensorflow(wmt14, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise AssertionError('imported')")
    assert pickle.loads(pickle.dumps(wmt14)) == wmt14
    script = f"""if True:
        import sys
        from t2t_jax.data.corpora.tfds import Dataset, hashes, make_ready, read
        assert "tensorflow_datasets" not in sys.modules
        dataset = {wmt14!r}
        make_ready(dataset, print)
        hashes(dataset, "train")
        print(len(list(read(dataset, "train"))))
        assert not {{"jax", "tensorflow"}} & set(sys.modules)
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stdout, run.stderr) == (0, "100\n", "")


def test_a_dataset_in_a_bucket_is_told(monkeypatch):
    there = types.SimpleNamespace(data_dir="gs://b/wmt14_translate")
    monkeypatch.setattr("tensorflow_datasets.builder", lambda *_, **__: there)
    with pytest.raises(ValueError, match="is in gs://b/wmt14_translate: copy it, and give"):
        num_examples(Dataset(WMT14, "gs://b", ("en", "de")), "train")
