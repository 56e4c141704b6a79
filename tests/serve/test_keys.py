"""Who may ask, where keys come from, and that nothing of them is logged."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from readoff.serve import keys as keys_module
from readoff.serve.errors import StartError
from readoff.serve.keys import Keys
from readoff.serve.log import Log

from .rig import ASK, DECIDE, ONE, Held, client_of

KEY, OTHER = "sk-first-5f3a", "sk-second"
BEARER = {"authorization": f"Bearer {KEY}"}


def test_with_keys_only_those_who_have_one_are_answered() -> None:
    engine = Held()
    engine.open.set()
    text = StringIO()
    log = Log("debug", text)
    with client_of(engine, keys=[KEY, OTHER], log=log) as client:
        for header in (BEARER, {"authorization": f"bearer  {OTHER} "}):
            assert client.post(ASK, json=ONE, headers=header).status_code == 200
        missing = client.post(ASK, json=ONE)
        basic = client.post(ASK, json=ONE, headers={"authorization": f"Basic {KEY}"})
        empty = client.post(ASK, json=ONE, headers={"authorization": "Bearer "})
        wrong = client.post(ASK, json=ONE, headers={"authorization": f"Bearer {KEY}x"})
        bytes_ = client.post(ASK, json=ONE, headers={"authorization": b"Bearer \xff\xfe"})
    log.close()
    for response, status in ((missing, 403), (basic, 403), (empty, 403), (wrong, 401)):
        assert response.status_code == status
        assert response.json()["detail"]["error_type"] == "authentication_error"
    assert bytes_.status_code == 401
    assert wrong.headers["www-authenticate"] == "Bearer"
    assert wrong.headers["x-typesafe-request-id"]
    assert engine.asked == 2
    assert KEY not in text.getvalue()
    assert OTHER not in text.getvalue()
    assert text.getvalue().count('"status": 403') == 3


def test_what_is_protected_and_what_is_not() -> None:
    with client_of(Held(), keys=[KEY]) as client:
        for path in ("/v1/models", "/metrics"):
            assert client.get(path).status_code == 403, path
            assert client.get(path, headers=BEARER).status_code == 200, path
        for path in ("/health/live", "/health/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200, path
        refused = client.post(DECIDE, json={})
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "invalid_api_key"


def test_a_body_is_not_read_for_a_stranger() -> None:
    """Nothing of it is parsed: what isn't JSON gets the same answer."""
    with client_of(Held(), keys=[KEY]) as client:
        assert client.post(ASK, content=b"{").status_code == 403


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    whole = keys_module.hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return whole(a, b)

    monkeypatch.setattr(keys_module.hmac, "compare_digest", compare)
    keys = Keys([KEY, OTHER, "third"])
    keys.check(f"Bearer {KEY}".encode())
    assert len(compared) == 3  # the first matches, and the others are compared all the same
    assert all(len(a) == len(b) == 32 for a, b in compared)


def test_keys_are_read_from_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"\ufeff# ours\n\n  {KEY}  \r\n{OTHER}\n")
    assert len(Keys.load(path, {})) == 2
    assert len(Keys.load(path, {"READOFF_API_KEYS": "a, b ,"})) == 4
    assert len(Keys.load(None, {})) == 0
    keys = Keys.load(None, {"READOFF_API_KEYS": KEY})
    keys.check(f"Bearer {KEY}".encode())
    assert KEY not in repr(vars(keys))


def test_bad_key_files(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    with pytest.raises(StartError, match=r"can't be read \(No such file"):
        Keys.load(path, {})
    with pytest.raises(StartError, match="can't be read"):
        Keys.load(tmp_path, {})
    path.write_text("# none yet\n\n")
    with pytest.raises(StartError, match="holds no key"):
        Keys.load(path, {})
    path.write_bytes(b"\xff\xfe\x00k")
    with pytest.raises(StartError, match="not text"):
        Keys.load(path, {})
    for bad in ("two words", "schlüssel", "tab\there"):
        path.write_text(f"good\n{bad}\n", "utf-8")
        with pytest.raises(StartError, match="key 2 of 2") as caught:
            Keys.load(path, {})
        assert bad not in str(caught.value)
    with pytest.raises(StartError, match="holds no key"):
        Keys.load(None, {"READOFF_API_KEYS": " , "})
