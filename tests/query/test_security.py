"""Who may ask: TLS, mutual TLS, tokens, scopes, masks, audit."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from moneystate.devbroker import DevBroker
from moneystate.errors import ConfigError
from moneystate.serving.callers import READ, READ_PERSONAL, scopes_of
from moneystate.serving.client import Target
from moneystate.serving.options import Security
from moneystate.serving.tokens import BadToken, TokenCheck
from moneystate.state.v1 import state_pb2 as s
from moneystate.state.v1 import status_pb2
from tests.query.certificates import ALL_SCOPES, Pki, pem, sign
from tests.query.serving import Server, failure, new_cluster, wait_for
from tests.query.story import at

ANN = s.RecordName(state="user", key="ann")
GET_ANN = s.GetRequest(name=ANN)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def guarded(broker: DevBroker, pki: Pki, audit: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Mutual TLS and tokens."""
    flags = [*pki.tls(), "--tls-ca", pki.ca, "--token-key", pki.token_key, "--audit-log", str(audit)]
    flags += ["--token-audience", "moneystate", "--token-issuer", "tests"]
    with Server(new_cluster(broker), tmp_path_factory.mktemp("guarded"), *flags) as running:
        yield running.told(**files(pki))


def files(pki: Pki, scope: str = ALL_SCOPES, **claims: Any) -> dict[str, str]:
    """Returns the flags of a client that has all that is asked for."""
    claims = {"aud": "moneystate", "iss": "tests", **claims}
    token = pki.token_file(scope, **claims)
    return {"ca": pki.ca, "cert": pki.client_cert, "key": pki.client_key, "token_file": token}


def ask(server: Server, given: dict[str, str], call: str = "State.Get", request: Any = GET_ANN) -> Any:
    with server.client(**given) as client:
        return client.call(call, request)


def test_with_certificate_token_and_scope_the_answer_is_whole(guarded: Server, pki: Pki) -> None:
    (known,) = ask(guarded, files(pki)).records
    assert (json.loads(known.json)["info"]["residentCountryCode"], list(known.masked)) == ("PT", [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"cert": "", "key": ""},
        {"cert": "stranger.pem", "key": "stranger-key.pem"},
        {"ca": "stranger.pem"},
        {"ca": "", "cert": "", "key": "", "token_file": ""},
    ],
    ids=["no certificate", "a stranger's certificate", "a server that is not the one expected", "no TLS"],
)
def test_without_the_right_certificates_there_is_no_connection(
    guarded: Server, pki: Pki, wrong: dict[str, str]
) -> None:
    given = files(pki) | {name: f"{pki.folder}/{file}" if file else "" for name, file in wrong.items()}
    assert failure(lambda: ask(guarded, given))[0] == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"expires_in_s": -1}, "BAD_TOKEN"),
        ({"exp": None}, "BAD_TOKEN"),
        ({"aud": "another"}, "BAD_TOKEN"),
        ({"aud": None}, "BAD_TOKEN"),
        ({"iss": "another"}, "BAD_TOKEN"),
        ({"nbf": 9_999_999_999}, "BAD_TOKEN"),
    ],
    ids=str,
)
def test_tokens_that_are_not_valid(guarded: Server, pki: Pki, claims: dict[str, Any], reason: str) -> None:
    assert failure(lambda: ask(guarded, files(pki, **claims))) == ("UNAUTHENTICATED", reason)


def test_no_token(guarded: Server, pki: Pki) -> None:
    given = {**files(pki), "token_file": ""}
    assert failure(lambda: ask(guarded, given)) == ("UNAUTHENTICATED", "NO_TOKEN")


@pytest.mark.parametrize(
    ("scope", "call", "request_", "missing"),
    [
        ("", "State.Get", GET_ANN, "state.read"),
        ("state.admin", "Status.GetStatus", status_pb2.GetStatusRequest(), "state.read"),
        ("state.read state.read.personal", "State.Forget", s.ForgetRequest(key="x"), "state.admin"),
        ("state.read", "State.ListStored", s.ListStoredRequest(), "state.read.personal"),
    ],
)  # fmt: skip
def test_a_scope_that_is_missing(guarded: Server, pki: Pki, scope: str, call: str, request_: Any, missing: str) -> None:
    assert failure(lambda: ask(guarded, files(pki, scope), call, request_)) == ("PERMISSION_DENIED", "SCOPE_MISSING")


def from_0_to_2(request: Any) -> Any:
    getattr(request, "from").CopyFrom(at(0))
    return request


PERSONAL_ANSWERS: list[tuple[str, Any]] = [
    ("State.Get", GET_ANN),
    ("State.BatchGet", s.BatchGetRequest(names=[ANN, s.RecordName(state="user", key="bob")])),
    ("State.List", s.ListRequest(state="user")),
    ("State.ListEntries", s.ListEntriesRequest(map="sessions", key="ann")),
    ("State.ListEntries", s.ListEntriesRequest(map="waiting", key="ann", at=at(1))),
    ("State.Explain", s.ExplainRequest(name=ANN)),
    ("State.Diff", from_0_to_2(s.DiffRequest())),
]
PERSONAL = ['"ES"', '"PT"', '"FR"', '"CA"', '"1980"', '"1999"']  # countries and years of birth


@pytest.mark.parametrize(("call", "request_"), PERSONAL_ANSWERS, ids=str)
def test_personal_fields_are_masked_everywhere(guarded: Server, pki: Pki, call: str, request_: Any) -> None:
    masked = list(records_of(ask(guarded, files(pki, READ), call, request_)))
    whole = list(records_of(ask(guarded, files(pki), call, request_)))
    assert any(record.masked for record in masked)
    assert not any(record.masked for record in whole)
    assert [r.name for r in masked] == [r.name for r in whole]
    assert any(value in r.json for r in whole for value in PERSONAL)
    assert not any(value in r.json for r in masked for value in PERSONAL)


def test_personal_fields_are_masked_in_a_watch(guarded: Server, pki: Pki) -> None:
    stream = s.WatchRequest(after=at(0).version)
    with guarded.client(**files(pki, READ)) as client:
        told = list(records_of(next(m for m in client.stream("State.Watch", stream) if m.changes)))
    assert any(record.masked for record in told)
    assert not any(value in record.json for record in told for value in PERSONAL)


def records_of(message: Any) -> Iterator[s.Record]:
    """All records that exist, wherever they stand in an answer."""
    if isinstance(message, s.Record):
        if message.HasField("json"):
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from records_of(inner)


def test_a_stream_ends_with_its_token(guarded: Server, pki: Pki) -> None:
    with guarded.client(**files(pki, expires_in_s=3)) as client:
        stream = client.stream("State.Watch", s.WatchRequest())
        assert failure(lambda: list(stream)) == ("UNAUTHENTICATED", "BAD_TOKEN")


def test_who_read_personal_fields_is_on_record(guarded: Server, pki: Pki, audit: Path) -> None:
    subject = "auditor-7"
    ask(guarded, files(pki, READ, sub=subject))  # masked: nothing to record
    request = s.BatchGetRequest(names=[s.RecordName(state="user", key=key) for key in ("ann", "nobody", "bob")])
    ask(guarded, files(pki, f"{READ} {READ_PERSONAL}", sub=subject), "State.BatchGet", request)

    def records() -> list[Any]:
        return [json.loads(line) for line in audit.read_text().splitlines()]

    (line,) = wait_for(lambda: [line for line in records() if line["subject"] == subject])
    assert (line["call"], line["keys"], line["outcome"]) == ("State.BatchGet", ["ann", "bob"], "OK")
    assert line["event"] == "read personal fields"
    assert line["version"].endswith("/2")
    assert line["peer"]
    assert line["timestamp"]
    by_chance = ("timestamp", "peer")  # a time or a port may have the digits of a year
    told = [{name: value for name, value in record.items() if name not in by_chance} for record in records()]
    assert "1999" not in str(told)  # who and what, never the values


def test_who_read_entries_is_on_record_with_their_users(guarded: Server, pki: Pki, audit: Path) -> None:
    scope = f"{READ} {READ_PERSONAL}"
    ask(guarded, files(pki, scope, sub="comparer"), "State.ListStored", s.ListStoredRequest(page_size=2, at=at(0)))

    def lines() -> list[Any]:
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        return [line for line in records if line["subject"] == "comparer"]

    (line,) = wait_for(lines)
    assert (line["call"], line["keys"], line["outcome"]) == ("State.ListStored", ["ann"], "OK")


def test_a_certificate_that_was_renewed_is_used_without_a_restart(guarded: Server, pki: Pki, tmp_path: Path) -> None:
    before = (Path(pki.cert).read_bytes(), Path(pki.key).read_bytes())
    other = trustme.CA()
    other_ca = tmp_path / "other-ca.pem"
    other_ca.write_bytes(other.cert_pem.bytes())
    given = files(pki) | {"ca": str(other_ca)}
    assert failure(lambda: ask(guarded, given))[0] == "UNAVAILABLE"
    try:
        Path(pki.cert).write_bytes(b"half of a certificate")
        assert ask(guarded, files(pki)).records[0].name.key == "ann"  # the pair before stays in use
        pki.issue("server", other)
        assert ask(guarded, given).records[0].name.key == "ann"
    finally:
        Path(pki.cert).write_bytes(before[0])
        Path(pki.key).write_bytes(before[1])


# -- tokens and flags, without a server


KEYS: list[tuple[str, Any]] = [
    ("RS256", rsa.generate_private_key(65_537, 2_048)),
    ("ES256", ec.generate_private_key(ec.SECP256R1())),
    ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
]


@pytest.mark.parametrize(("algorithm", "key"), KEYS, ids=[k[0] for k in KEYS])
def test_the_key_fixes_the_algorithm(pki: Pki, algorithm: str, key: Any) -> None:
    public = pki.public(key, f"{algorithm}.pem")
    check = TokenCheck(public, "", "", scopes_of)
    granted = check.check(sign(key, algorithm, f"{READ} unheard.of"))
    assert (granted.subject, granted.rights) == ("tester", frozenset({READ}))
    secret = Path(public).read_bytes()
    forged = [sign(other, name) for name, other in KEYS if name != algorithm]
    forged += [jwt.encode({"exp": 9e9, "scope": READ}, "", "none"), hmac_token(secret), "", "a.b.c", "x" * 10_000]
    for token in forged:
        with pytest.raises(BadToken):
            check.check(token)


def hmac_token(public_pem: bytes) -> str:
    """Signed with the public key as if it were a shared secret: the classic confusion of algorithms."""

    def part(content: bytes) -> bytes:
        return base64.urlsafe_b64encode(content).rstrip(b"=")

    body = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(b'{"exp":9000000000,"scope":"state.read"}')
    return (body + b"." + part(hmac.digest(public_pem, body, "sha256"))).decode()


def test_a_token_that_was_checked_once_expires_nevertheless(pki: Pki) -> None:
    check = TokenCheck(pki.token_key, "", "", scopes_of)
    token = pki.token(expires_in_s=2)
    check.check(token)

    def expired() -> bool:
        try:
            check.check(token)
        except BadToken:
            return True
        return False

    wait_for(expired)


def test_keys_that_are_none_or_too_weak_are_refused(pki: Pki) -> None:
    weak: list[Any] = [rsa.generate_private_key(65_537, 1_024), ec.generate_private_key(ec.SECP384R1())]
    paths = [pki.public(key, f"weak-{n}.pem") for n, key in enumerate(weak)]
    private = pki.write("private.pem", pem(pki.token_secret))
    for path in [*paths, private, pki.ca, "/nowhere.pem"]:
        with pytest.raises(ConfigError, match="--token-key"):
            TokenCheck(path, "", "", scopes_of)


def jwk(key: Any, algorithm: str, **members: str) -> dict[str, Any]:
    """The public key's."""
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True), **members}


def jwks(pki: Pki, *members: dict[str, Any]) -> str:
    return pki.write("keys.json", json.dumps({"keys": members}).encode())


def is_valid(check: TokenCheck[frozenset[str]], token: str) -> bool:
    try:
        check.check(token)
    except BadToken:
        return False
    return True


def test_keys_of_a_set_are_told_apart_by_their_kid(pki: Pki) -> None:
    (rs, rsa_key), (es, ec_key), (ed, ed_key) = KEYS
    unsupported = jwk(ec.generate_private_key(ec.SECP384R1()), "ES384", kid="large")
    encrypts = jwk(rsa_key, rs, kid="enc", use="enc")
    members = [jwk(rsa_key, rs, kid="one", use="sig"), jwk(ec_key, es, kid="two"), unsupported, encrypts]
    check = TokenCheck(jwks(pki, *members), "", "", scopes_of)
    assert is_valid(check, sign(rsa_key, rs, kid="one"))
    assert is_valid(check, sign(ec_key, es, kid="two"))
    for token in (
        sign(rsa_key, rs),
        sign(rsa_key, rs, kid="two"),
        sign(rsa_key, rs, kid="enc"),
        sign(ec_key, es, kid="large"),
        sign(ed_key, ed, kid="three"),
    ):
        assert not is_valid(check, token)


def test_keys_are_rotated_without_a_restart(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    """A key that was taken away ends tokens that were found valid before."""
    (rs, old), (es, new), _ = KEYS
    check = TokenCheck(jwks(pki, jwk(old, rs, kid="old")), "", "", scopes_of)
    before, after = sign(old, rs, kid="old"), sign(new, es, kid="new")
    assert (is_valid(check, before), is_valid(check, after)) == (True, False)
    jwks(pki, jwk(old, rs, kid="old"), jwk(new, es, kid="new"))
    wait_for(lambda: is_valid(check, after))
    assert is_valid(check, before)
    pki.write("keys.json", b'{"keys": [{"half of')
    wait_for(lambda: is_valid(check, before) and "The previous ones stay in use" in caplog.text)
    assert is_valid(check, after)
    jwks(pki, jwk(new, es, kid="new"))
    wait_for(lambda: not is_valid(check, before))
    assert is_valid(check, after)


def test_sets_without_a_key_that_does_are_refused(pki: Pki) -> None:
    rs, key = KEYS[0]
    private = jwt.get_algorithm_by_name(rs).to_jwk(key, as_dict=True)
    for members in (
        [],
        [jwk(key, rs, use="enc")],
        [jwk(key, rs, alg="RS512")],
        [jwk(key, rs), jwk(KEYS[1][1], "ES256")],
        [jwk(key, rs, kid="a"), jwk(KEYS[1][1], "ES256", kid="a")],
        [private],
        [{"kty": "oct", "k": "c2VjcmV0"}],
    ):
        with pytest.raises(ConfigError, match="--token-key"):
            TokenCheck(jwks(pki, *members), "", "", scopes_of)
    for content in (b"{}", b'{"keys": 1}', b"[]", b"{"):
        with pytest.raises(ConfigError, match="--token-key"):
            TokenCheck(pki.write("keys.json", content), "", "", scopes_of)


def test_tokens_of_any_audience_are_warned_of(pki: Pki) -> None:
    (line,) = Security(token_key=pki.token_key).warnings()
    assert line.startswith("without --token-audience")
    assert Security(token_key=pki.token_key, token_audience="moneystate").warnings() == []


def test_what_others_could_reach_needs_tls_and_someone_to_know(pki: Pki) -> None:
    anywhere = "0.0.0.0:8484"
    tls = {"tls_cert": pki.cert, "tls_key": pki.key}
    for security in (
        Security(),
        Security(**tls),
        Security(token_key=pki.token_key),
        Security(**tls, client_ca=pki.ca),  # says who, but not what they may do
    ):
        with pytest.raises(ConfigError, match="--listen"):
            security.check(anywhere)
    Security(**tls, token_key=pki.token_key).check(anywhere)
    Security(**tls, client_ca=pki.ca, scopes="state.read").check(anywhere)
    Security().check("127.0.0.1:8484")
    Security().check("[::1]:8484")


@pytest.mark.parametrize(
    "security",
    [
        {"tls_cert": "CERT"},
        {"client_ca": "CA"},
        {"tls_cert": "CERT", "tls_key": "STRANGER"},
        {"tls_cert": "/nowhere.pem", "tls_key": "KEY"},
        {"token_issuer": "x"},
        {"scopes": "state.everything"},
        {"scopes": "state.read", "token_key": "TOKEN"},
        {"audit_log": "/nowhere/audit.log"},
    ],
    ids=str,
)
def test_flags_that_do_not_fit_are_one_line(pki: Pki, security: dict[str, str]) -> None:
    names = {"CERT": pki.cert, "KEY": pki.key, "CA": pki.ca, "STRANGER": pki.stranger_key, "TOKEN": pki.token_key}
    given = Security(**{flag: names.get(value, value) for flag, value in security.items()})
    with pytest.raises(ConfigError):
        given.check("127.0.0.1:0")


def test_a_token_is_not_sent_in_clear_to_another_machine(pki: Pki) -> None:
    with pytest.raises(ConfigError, match="--token-file"):
        Target("192.0.2.1:8484", token_file=pki.token_file()).channel()
