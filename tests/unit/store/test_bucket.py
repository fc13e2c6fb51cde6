"""An s3:// store, against a few lines of a server that know just enough of the protocol."""

import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from farm.errors import FarmUnavailable, InputError
from farm.namespace import Namespace
from farm.store.errors import StoreDamaged, StoreMissing
from farm.store.store import FarmIdentity, Store


class Bucket(BaseHTTPRequestHandler):
    """GET, HEAD, PUT (with If-None-Match), DELETE and the listing of one bucket named ``b``."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    @property
    def name(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/b").removeprefix("/")

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if self.name == "":
            prefix = query.get("prefix", [""])[0]
            rows = "".join(
                f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f'<ETag>"e"</ETag><Size>{len(data)}</Size></Contents>'
                for key, data in sorted(self.objects.items())
                if key.startswith(prefix)
            )
            self.answer(200, f"<ListBucketResult>{rows}</ListBucketResult>".encode())
        elif self.name in self.objects:
            when = "Thu, 01 Jan 2026 00:00:00 GMT"
            self.answer(200, self.objects[self.name], ETag='"e"', Last_Modified=when)
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("If-None-Match") == "*" and self.name in self.objects:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.objects[self.name] = data
            self.answer(200, ETag='"e"')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.objects.pop(key, None)
        rows = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{rows}</DeleteResult>".encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def objects(monkeypatch) -> dict[str, bytes]:
    objects: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Bucket,), {"objects": objects}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    yield objects
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_same_promises_as_in_a_folder(objects: dict[str, bytes]) -> None:
    store = Store.open("s3://b/some/prefix")
    store.self_test()
    assert objects == {}
    with pytest.raises(StoreMissing):
        store.get("a/b")
    store.put("a/b", b"data")
    store.put("a/b", b"data")
    with pytest.raises(StoreDamaged):
        store.put("a/b", b"other")
    assert store.get("a/b") == b"data"
    assert store.exists("a/b")
    assert not store.exists("a/c")
    assert store.write_identity(FarmIdentity("farm", 1)) == FarmIdentity("farm", 1)
    assert store.largest_generation(Namespace("a", "soc")) == 0
    for n in (3, 11):
        store.put(f"a/soc/generations/{n}", b"")
    assert store.largest_generation(Namespace("a", "soc")) == 11
    assert objects["some/prefix/a/b"] == b"data"


def test_a_bucket_that_does_not_answer_is_told_within_five_seconds(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = Store.open("s3://b/prefix")
    began = time.monotonic()
    with pytest.raises(FarmUnavailable, match="s3://b/prefix"):
        store.read_identity()
    assert time.monotonic() - began < 5


def test_credentials_are_not_in_the_error(objects: dict[str, bytes], monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setattr(Bucket, "do_GET", lambda self: self.answer(403, b"<Error/>"))
    with pytest.raises(FarmUnavailable) as told:
        Store.open("s3://b").get("a")
    assert "hush" not in str(told.value)


def test_a_malformed_bucket_is_an_input_error() -> None:
    with pytest.raises(InputError):
        Store.open("s3:///prefix")
