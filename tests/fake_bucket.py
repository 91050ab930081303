"""A Google Cloud Storage bucket inside this process, or that of another one.

    python -m tests.fake_bucket MODULE ARGUMENT ...

runs a module that finds there the bucket served by the process that started it.

Objects are written whole, have a generation, and can be neither renamed nor appended to; what looks
like a directory is a prefix of object names. TensorStore, which writes arrays and locks, uses the
JSON API over HTTP; Orbax and our code use etils, as if gcsfs were installed.
"""

import contextlib
import fnmatch
import http.server
import io
import itertools
import json
import os
import runpy
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest
from etils.epath import backend, gpath, stat_utils
from orbax.checkpoint._src.path import gcs_utils

_API = "/storage/v1/b/"
_UPLOAD = "/upload/storage/v1/b/"
_ADDRESS = "TENSORSTORE_GCS_HTTP_URL"


class Bucket:
    """Objects by their names, such as gs://b/run/config.json."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._generations = itertools.count(1)
        self.writes: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def names(self, prefix: str = "") -> list[str]:
        """The names that begin so, in order."""
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        """The content of an object.

        Raises:
          FileNotFoundError: there is none.
        """
        return self.read_generation(name)[0]

    def read_generation(self, name: str) -> tuple[bytes, int]:
        """The same, and its generation."""
        with self._lock:
            if name not in self._objects:
                raise FileNotFoundError(name)
            return self._objects[name]

    def write(self, name: str, content: bytes, if_generation: int | None = None) -> int | None:
        """Writes an object; its generation, or None where it was not the one that is expected."""
        with self._lock:
            _, now = self._objects.get(name, (b"", 0))
            if if_generation is not None and if_generation != now:
                return None
            generation = next(self._generations)
            self._objects[name] = content, generation
            self.writes.append(name)
            return generation

    def delete(self, name: str, if_generation: int | None = None) -> bool | None:
        """Deletes an object; None where it was not the expected one."""
        with self._lock:
            if name not in self._objects:
                return False
            if if_generation is not None and if_generation != self._objects[name][1]:
                return None
            del self._objects[name]
            return True

    def copy(self, source: str, destination: str) -> None:
        """Copies what begins with one name to another."""
        for name in self.names(source):
            self.write(destination + name.removeprefix(source), self.read(name))


class _Elsewhere:
    """The same, of a bucket that another process serves at an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __contains__(self, name: str) -> bool:
        return name in self.names(name)

    def names(self, prefix: str) -> list[str]:
        place, _, rest = prefix.removeprefix("gs://").partition("/")
        query = urllib.parse.urlencode({"prefix": rest})
        items = json.loads(self._answer(f"{_API}{place}/o?{query}"))["items"]
        return [f"gs://{place}/{item['name']}" for item in items]

    def read(self, name: str) -> bytes:
        return self._answer(self._path(name))

    def write(self, name: str, content: bytes) -> None:
        place, _, rest = name.removeprefix("gs://").partition("/")
        query = urllib.parse.urlencode({"name": rest})
        self._answer(f"{_UPLOAD}{place}/o?{query}", content, "POST")

    def delete(self, name: str) -> bool:
        try:
            self._answer(self._path(name), method="DELETE")
        except FileNotFoundError:
            return False
        return True

    def _path(self, name: str) -> str:
        place, _, rest = name.removeprefix("gs://").partition("/")
        return f"{_API}{place}/o/{urllib.parse.quote(rest, safe='')}"

    def _answer(self, path: str, content: bytes | None = None, method: str = "GET") -> bytes:
        request = urllib.request.Request(self._address + path, content, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise FileNotFoundError(path) from None
            raise


class _Backend(backend.Backend):
    """What etils does with a path."""

    def __init__(self, bucket: Bucket | _Elsewhere) -> None:
        self._bucket = bucket

    @contextlib.contextmanager
    def open(self, path, mode) -> Iterator[io.IOBase]:
        binary = mode.replace("t", "")
        if binary.strip("b") not in ("r", "w"):
            raise NotImplementedError(f"an object is read or written whole, not {mode!r}")
        if "r" in mode:
            content = self._bucket.read(str(path))
            yield io.BytesIO(content) if "b" in mode else io.StringIO(content.decode())
            return
        stream = io.BytesIO() if "b" in mode else io.StringIO()
        yield stream
        content = stream.getvalue()
        self._bucket.write(str(path), content if isinstance(content, bytes) else content.encode())

    def exists(self, path) -> bool:
        return str(path) in self._bucket or self.isdir(path)

    def isdir(self, path) -> bool:
        return bool(self._bucket.names(str(path).rstrip("/") + "/"))

    def listdir(self, path) -> list[str]:
        prefix = str(path).rstrip("/") + "/"
        return sorted({name[len(prefix) :].split("/")[0] for name in self._bucket.names(prefix)})

    def glob(self, path) -> list[str]:
        depth = str(path).count("/")
        names = self._bucket.names("/".join(str(path).split("/")[:3]) + "/")
        heads = {"/".join(name.split("/")[: depth + 1]) for name in names}
        return sorted(head for head in heads if fnmatch.fnmatch(head, str(path)))

    def walk(self, top, *, top_down=True, on_error=None):
        prefix = str(top).rstrip("/") + "/"
        by_directory: dict[str, list[str]] = {}
        for name in self._bucket.names(prefix):
            directory, _, file = name.rpartition("/")
            by_directory.setdefault(directory, []).append(file)
        for directory, files in by_directory.items():
            yield directory, [], files

    def makedirs(self, path, *, exist_ok=False, mode=None) -> None:
        pass

    def mkdir(self, path, *, exist_ok=False, mode=None) -> None:
        pass

    def rmtree(self, path) -> None:
        for name in self._bucket.names(str(path).rstrip("/") + "/"):
            self._bucket.delete(name)

    def remove(self, path) -> None:
        if not self._bucket.delete(str(path)):
            raise FileNotFoundError(path)

    def rename(self, path, dst) -> None:
        raise NotImplementedError("a bucket renames nothing")

    replace = rename

    def copy(self, path, dst, overwrite) -> None:
        self._bucket.write(str(dst), self._bucket.read(str(path)))

    def stat(self, path) -> stat_utils.StatResult:
        is_directory = self.isdir(path)
        length = 0 if is_directory else len(self._bucket.read(str(path)))
        return stat_utils.StatResult(is_directory, length, 0, None, None, None)


def _handler(bucket: Bucket) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """The few requests of the JSON API that are made."""

        protocol_version = "HTTP/1.1"

        def _asked(self) -> tuple[str, dict[str, str]]:
            split = urllib.parse.urlsplit(self.path)
            query = {key: value[0] for key, value in urllib.parse.parse_qs(split.query).items()}
            return split.path, query

        def _answer(self, status: int, content: bytes = b"", generation: int | None = None):
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            if generation is not None:
                self.send_header("x-goog-generation", str(generation))
            self.end_headers()
            self.wfile.write(content)

        def _name(self, path: str) -> str:
            place, _, name = path.partition("/o/")
            return f"gs://{place.removeprefix(_API)}/{urllib.parse.unquote(name)}"

        def do_GET(self):
            path, query = self._asked()
            if "/o/" not in path:
                return self._list(path, query)
            try:
                content, generation = bucket.read_generation(self._name(path))
            except FileNotFoundError:
                return self._answer(404)
            if query.get("ifGenerationNotMatch") == str(generation):
                return self._answer(304)
            span = self.headers.get("Range")
            if span is None:
                return self._answer(200, content, generation)
            first, _, last = span.removeprefix("bytes=").partition("-")
            if not first:
                part = content[-int(last) :]
                begin = len(content) - len(part)
            else:
                begin = int(first)
                part = content[begin : int(last) + 1 if last else None]
            self.send_response(206)
            self.send_header("Content-Length", str(len(part)))
            end = f"{begin}-{begin + len(part) - 1}/{len(content)}"
            self.send_header("Content-Range", f"bytes {end}")
            self.send_header("x-goog-generation", str(generation))
            self.end_headers()
            self.wfile.write(part)

        def _list(self, path: str, query: dict[str, str]):
            place = f"gs://{path.removeprefix(_API).removesuffix('/o')}/"
            names = [name.removeprefix(place) for name in bucket.names(place)]
            first, last = query.get("startOffset", ""), query.get("endOffset")
            prefix = query.get("prefix", "")
            items = [
                {"name": name, "size": str(len(bucket.read(place + name)))}
                for name in names
                if name >= first and (last is None or name < last) and name.startswith(prefix)
            ]
            self._answer(200, json.dumps({"items": items}).encode())

        def do_POST(self):
            path, query = self._asked()
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            place = path.removeprefix(_UPLOAD).removesuffix("/o")
            name, expected = f"gs://{place}/{query['name']}", query.get("ifGenerationMatch")
            generation = bucket.write(name, content, None if expected is None else int(expected))
            if generation is None:
                return self._answer(412)
            about = {"name": query["name"], "generation": str(generation)}
            about["size"] = str(len(content))
            self._answer(200, json.dumps(about).encode())

        def do_DELETE(self):
            path, query = self._asked()
            expected = query.get("ifGenerationMatch")
            done = bucket.delete(self._name(path), None if expected is None else int(expected))
            self._answer({True: 204, False: 404, None: 412}[done])

        def log_message(self, *_):
            pass

    return Handler


def _mean_by_gs(bucket: Bucket | _Elsewhere, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(gpath._PREFIX_TO_BACKEND, "gs", _Backend(bucket))
    patch.setattr(gpath, "_is_tf_installed", lambda: False)
    # Orbax asks google-cloud-storage, which comes with gcsfs, what kind of bucket it is.
    patch.setattr(gcs_utils, "get_bucket", lambda name: object())


@contextlib.contextmanager
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket that gs:// means, whatever its name."""
    bucket = Bucket()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(bucket)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(_ADDRESS, f"http://127.0.0.1:{server.server_port}")
        _mean_by_gs(bucket, monkeypatch)
        yield bucket
        server.shutdown()


if __name__ == "__main__":
    _mean_by_gs(_Elsewhere(os.environ[_ADDRESS]), pytest.MonkeyPatch())
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
