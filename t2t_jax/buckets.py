"""A directory in a bucket, gs://BUCKET/DIRECTORY, for a run or for prepared corpora.

Objects are written whole, and cannot be appended to, renamed or locked. So only Orbax works in the
bucket itself. A run's other files, all small, are in a local directory: fetched when a process
starts, if a verb reads them, and uploaded whole whenever a checkpoint is saved and at the end. That
directory stands for the run; `checkpoints_of` says where its checkpoints are.

Instead of a lock there is an object, `.train.lock`: created if missing, which the bucket decides,
and renewed every few seconds. One not renewed for long belongs to a process that is gone.
"""

import atexit
import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from t2t_jax.json_files import AnyPath
from t2t_jax.locks import IsTakenError, Tell, named, this_process

SCHEME = "gs://"
LOCK_FILE = ".train.lock"
_CHECKPOINTS = "checkpoints"
# Large, or rewritten by each process; no verb reads them.
_NOT_FETCHED = (
    _CHECKPOINTS,
    "checkpoints_damaged",
    "tensorboard",
    "nonfinite",
    "profile",
    LOCK_FILE,
)
_LAST = ["training.json", "record.json"]  # uploaded last: if these exist, everything else does

_SECONDS_BETWEEN_BEATS = 20.0
# By the waiting process's clock: one silent for so long is gone. Patience for a lock is longer.
_SECONDS_OF_SILENCE = 90.0
_TAKEN_OVER = os.EX_TEMPFAIL


class _Copy:
    """The small files of a directory in a bucket, on this machine."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Resolved, as are the paths in messages that name the address instead.
        root = Path(tempfile.mkdtemp(prefix="t2t_jax_gs_")).resolve()
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        # Messages name it, so it ends like the address.
        self.directory = root / url.removeprefix(SCHEME)
        self.directory.mkdir(parents=True)
        self._there: dict[str, tuple[int, int]] = {}
        self.fetch()

    def fetch(self) -> None:
        """Fetches what is there, except for what has changed here since the last upload."""
        here, there = self._files(), self._there
        own = {name for name in here | there if here.get(name) != there.get(name)}
        _fetch(place(self.url), self.directory, without=(*_NOT_FETCHED, *own))
        fetched = {name: state for name, state in self._files().items() if name not in own}
        self._there = fetched | {name: there[name] for name in own & there.keys()}

    def upload(self) -> None:
        """Uploads what has changed, and deletes what is gone."""
        files = self._files()
        changed = [name for name, state in files.items() if self._there.get(name) != state]
        for name in sorted(changed, key=lambda name: _LAST.index(name) if name in _LAST else -1):
            _put(place(self.url), name, (self.directory / name).read_bytes())
            self._there[name] = files[name]
        for name in {*self._there} - files.keys():  # a copy: see `upload_one`
            (place(self.url) / name).unlink(missing_ok=True)
            del self._there[name]

    def upload_one(self, name: str) -> None:
        """Uploads one file, perhaps in another thread."""
        path = self.directory / name
        state = path.stat()
        _put(place(self.url), name, path.read_bytes())
        self._there[name] = state.st_mtime_ns, state.st_size

    def _files(self) -> dict[str, tuple[int, int]]:
        """Each file's time and size; without hidden files, which belong to this machine."""
        found = {}
        for path in self.directory.rglob("*"):
            name = str(path.relative_to(self.directory))
            if path.is_file() and not any(part.startswith(".") for part in Path(name).parts):
                state = path.stat()
                found[name] = state.st_mtime_ns, state.st_size
        return found


_copies: dict[Path, _Copy] = {}


def is_bucket(name: str | os.PathLike[str]) -> bool:
    """Whether `name` is an address in a bucket."""
    return str(name).startswith(SCHEME)


def local_path(name: str, what: str) -> Path:
    """A path on this machine, as typed by the user.

    Raises:
      ValueError: it is empty, or an address, where `what` cannot be.
    """
    if not name:
        raise ValueError(f"{what} is empty: name a path")
    if "://" in name:
        raise ValueError(
            f"{what}={name} must be a path of this machine: only --workdir of t2t-jax and of "
            "experiments.run, and data.cache, can be in a bucket"
        )
    return Path(name).expanduser()


def directory_of(name: str, what: str = "--workdir") -> Path:
    """The directory of a run, as typed by the user; for a bucket, the local directory of its files.

    Raises:
      ValueError: it is another kind of address, or the libraries for buckets are not installed.
      OSError: the bucket cannot be read.
    """
    if not is_bucket(name):
        return local_path(name, what)
    url = name.rstrip("/")
    if url.count("/") < 3:
        raise ValueError(f"{what}={name} is a whole bucket; name a directory in it: {url}/RUN")
    for copy in _copies.values():
        if copy.url == url:
            return copy.directory
    copy = _Copy(url)
    _copies[copy.directory] = copy
    return copy.directory


def is_copy(workdir: Path) -> bool:
    """Whether a run's directory is the local copy of one in a bucket."""
    return workdir in _copies


def name_of(workdir: Path) -> str:
    """The user's name for this directory of a run."""
    return _copies[workdir].url if workdir in _copies else str(workdir)


def place_of(workdir: Path) -> AnyPath:
    """The directory of a run itself, where Orbax writes: maybe in a bucket."""
    return place(_copies[workdir].url) if workdir in _copies else workdir


def checkpoints_of(workdir: Path) -> AnyPath:
    """Where the checkpoints of a run are."""
    return place_of(workdir) / _CHECKPOINTS


def upload(workdir: Path) -> None:
    """Uploads what has changed in a run's directory, if it is in a bucket."""
    if workdir in _copies:
        _copies[workdir].upload()


def fetch_again(workdir: Path) -> None:
    """Fetches what others have written to a run's directory, if it is in a bucket."""
    if workdir in _copies:
        _copies[workdir].fetch()


def upload_one(workdir: Path, name: str) -> None:
    """Uploads one file of a run's directory, if it is in a bucket."""
    if workdir in _copies:
        _copies[workdir].upload_one(name)


@contextlib.contextmanager
def kept_up(may_write: Callable[[], bool]) -> Iterator[None]:
    """Uploads at the end what has changed in any directory, also after a failure.

    Args:
      may_write: whether this process is its job's writer.

    Raises:
      OSError: the upload fails; after an earlier failure, this is only printed.
    """
    try:
        yield
    except BaseException:
        try:
            _upload_all(may_write())
        except Exception as error:
            print(f"the last files did not reach the bucket: {error}", file=sys.stderr)
        raise
    _upload_all(may_write())


def _upload_all(may_write: bool) -> None:
    if may_write:
        for copy in _copies.values():
            copy.upload()


def told(sentence: str) -> str:
    """The sentence with bucket addresses instead of local directories."""
    for copy in _copies.values():
        sentence = sentence.replace(str(copy.directory), copy.url)
    return sentence


def place(url: str) -> AnyPath:
    """A path in a bucket.

    Raises:
      ValueError: the library for buckets is not installed.
    """
    from etils import epath
    from fsspec.config import conf

    # Otherwise a listing would never show what another machine has written since the first one.
    conf.setdefault("gs", {})["use_listings_cache"] = False
    path: Any = epath.Path(url)
    try:
        path.exists()
    except ImportError as error:
        raise ValueError(
            f"{url} needs gcsfs, which is not installed: pip install -c constraints.txt -e '.[gcs]'"
        ) from error
    return path


def local_cache(url: str) -> Path:
    """Where this machine caches prepared corpora fetched from a bucket."""
    return Path("~/.cache/t2t_jax/buckets").expanduser() / url.removeprefix(SCHEME)


def fetch(url: str, directory: Path) -> None:
    """Downloads all files of a directory in a bucket."""
    _fetch(place(url), directory, without=())


def send(directory: Path, url: str, last: str) -> None:
    """Uploads all files of a directory to a bucket, and `last`, which marks completion, last."""
    there = place(url)
    names = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
    for name in sorted(names, key=lambda name: (name == last, name)):
        _put(there, name, (directory / name).read_bytes())


def move(source: AnyPath, destination: AnyPath) -> None:
    """Renames a directory; in a bucket, object by object."""
    if isinstance(source, Path):
        source.rename(destination)
        return
    for file in _files_below(source, without=()):
        _put(destination, str(file.relative_to(source)), file.read_bytes())
    there: Any = source
    there.rmtree()


def _put(directory: AnyPath, name: str, content: bytes) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _fetch(there: AnyPath, directory: Path, without: tuple[str, ...]) -> None:
    for file in _files_below(there, without):
        name = str(file.relative_to(there))
        if name in without:
            continue
        here = directory / name
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_bytes(file.read_bytes())


def _files_below(directory: AnyPath, without: tuple[str, ...]) -> Iterator[AnyPath]:
    """The files below a directory, except top-level names in `without`."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if path.name in without:
            continue
        if path.is_dir():
            yield from _files_below(path, ())
        else:
            yield path


@contextlib.contextmanager
def locked(workdir: Path, does: str, *, patience: float, tell: Tell) -> Iterator[None]:
    """Holds the lock of a run's directory in a bucket, fetched again: it may have had an owner.

    If another process assumes this one is gone and takes over the lock, this one ends at once.

    Args:
      does: what only one process at a time may do, as in "trains in W".
      patience: seconds to wait until another process leaves or counts as gone.
      tell: takes a line about waiting.

    Raises:
      IsTakenError: another process still renews it then.
    """
    lock = _Lock(_copies[workdir].url)
    lock.take(does, patience, tell)
    ended = threading.Event()
    renewing = threading.Thread(target=lock.renew_until, args=(ended,), daemon=True)
    renewing.start()
    try:
        _copies[workdir].fetch()
        yield
    finally:
        ended.set()
        renewing.join()
        lock.give_back()


class _Lock:
    """An object that is written only if its generation has not changed since it was read."""

    def __init__(self, url: str) -> None:
        import tensorstore

        self._address = f"{url}/{LOCK_FILE}"
        self._store: Any = tensorstore.KvStore.open(f"{url}/").result()
        self._owner = uuid.uuid4().hex
        self._generation = b""

    def take(self, does: str, patience: float, tell: Tell) -> None:
        """See `locked`."""
        started = since = time.monotonic()
        seen, has_told = None, False
        while True:
            found = self._store.read(LOCK_FILE).result()
            now = time.monotonic()
            if found.stamp.generation != seen:
                seen, since = found.stamp.generation, now
            if found.state == "missing" or now - since >= _SECONDS_OF_SILENCE:
                if self._write(found.stamp.generation):
                    return
                continue  # somebody else was faster
            who = named(found.value)
            if now - started >= patience:
                raise IsTakenError(
                    f"{who} {does}; if that is gone, wait {_SECONDS_OF_SILENCE:.0f} s or remove "
                    f"{self._address}"
                )
            if not has_told:
                tell(f"{who} {does}: waiting for it, or until it is silent for long")
                has_told = True
            time.sleep(min(_SECONDS_OF_SILENCE / 20, patience))

    def renew_until(self, ended: threading.Event) -> None:
        """Renews the lock as long as it is ours."""
        renewed = time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_BEATS):
            try:
                is_ours = self._write(self._generation) or self._is_ours()
            except Exception:  # the bucket does not answer; others may think us gone
                is_ours = time.monotonic() - renewed < _SECONDS_OF_SILENCE
            else:
                renewed = time.monotonic()
            if not is_ours:
                sentence = f"another process has taken over {self._address}: this one ends"
                print(sentence, file=sys.stderr, flush=True)
                os._exit(_TAKEN_OVER)

    def give_back(self) -> None:
        """Removes the lock if it is ours; ignores errors, since it expires by itself."""
        with contextlib.suppress(Exception):
            self._store.write(LOCK_FILE, None, if_equal=self._generation).result()

    def _write(self, generation: bytes) -> bool:
        """Writes the lock if it still has this generation; returns whether it had."""
        values = {"owner": self._owner, **this_process()}
        content = json.dumps(values).encode()
        written = self._store.write(LOCK_FILE, content, if_equal=generation).result().generation
        if written:
            self._generation = written
        return bool(written)

    def _is_ours(self) -> bool:
        """Whether the current lock is ours, written although the answer was lost."""
        found = self._store.read(LOCK_FILE).result()
        is_ours = found.state == "value" and self._owner in found.value.decode(errors="replace")
        if is_ours:
            self._generation = found.stamp.generation
        return is_ours
