"""The body of a request: its content type, its encoding, its size."""

from __future__ import annotations

import gzip
import json

from backports import zstd

from readoff.serve.body import MEMBERS

from .rig import ASK, ONE, Held, client_of


def test_content_types() -> None:
    engine = Held()
    engine.open.set()
    data = json.dumps(ONE).encode()
    kinds = {
        "application/json; charset=utf-8": 200,
        "application/vnd.x+json": 200,
        "text/plain": 415,
        "application/x-www-form-urlencoded": 415,
        "multipart/form-data; boundary=x": 415,
        "": 200,
    }
    with client_of(engine) as client:
        for kind, status in kinds.items():
            response = client.post(ASK, content=data, headers={"content-type": kind})
            assert response.status_code == status, kind
        assert client.post(ASK, content=data).status_code == 200  # none at all


def test_compressed_bodies() -> None:
    engine = Held()
    engine.open.set()
    data = json.dumps(ONE).encode()
    packed = gzip.compress(data)
    cases = [
        (packed, "gzip", 200),
        (data, "identity", 200),
        (data, "gzip", 400),
        (packed[:-9], "gzip", 400),
        (gzip.compress(b" " * 10_000_000), "gzip", 413),
        (gzip.compress(data[:9]) + gzip.compress(b"") + gzip.compress(data[9:]), "gzip", 200),
        (packed + b"more", "gzip", 400),
        (packed + packed[:-9], "gzip", 400),
        (packed + b"\0", "gzip", 400),
        (b"", "gzip", 400),
        (packed + gzip.compress(b"") * (MEMBERS - 1), "gzip", 200),
        (packed + gzip.compress(b"") * MEMBERS, "gzip", 400),
        (gzip.compress(data + b" " * 300_000, 0), "gzip", 200),  # several windows
        (gzip.compress(b" " * 4_000_000) * 2, "gzip", 413),
        (zstd.compress(data) + b"more", "zstd", 400),
        (zstd.compress(data), "zstd", 200),
        (data, "zstd", 400),
        (zstd.compress(data)[:-3], "zstd", 400),
        (zstd.compress(b" " * 10_000_000), "zstd", 413),
        (data, "br", 415),
    ]
    with client_of(engine) as client:
        for body, encoding, status in cases:
            headers = {"content-encoding": encoding, "content-type": "application/json"}
            response = client.post(ASK, content=body, headers=headers)
            assert response.status_code == status, (encoding, status)


def test_ten_megabytes_are_413() -> None:
    with client_of(Held()) as client:
        response = client.post(ASK, json=ONE | {"state": "a" * 10_000_000})
    assert response.status_code == 413
    assert "4194304" in response.json()["detail"]["message"]
