"""Access to `store serve`, and clients that do not speak its protocol."""

from __future__ import annotations

import datetime
import ipaddress
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from clickhouse_driver.errors import NetworkError, ServerException
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from firstflight.errors import UsageError
from store import open_store
from store.clickhouse import connection
from store.clickhouse.counts import ServerCounts
from store.clickhouse.session import ClientSession
from store.protocol import compression, packets
from store.protocol.blocks import NativeBlock
from store.protocol.wire import text, varint
from tests.store.served.serving import Served, serving

PASSWORD = "secret: with ü, 'quotes' and %40"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return paths


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]
) -> Iterator[tuple[Served, Path]]:
    """A read-only server with user, password and TLS, and the certificate."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    options = ["--user", "reader", "--password-file", str(folder / "password"), "--read-only"]
    options += ["--certificate", str(certificate[0]), "--key", str(certificate[1])]
    with serving(folder / "store", *options) as served:
        yield served, certificate[0]
    assert PASSWORD not in served.log.read_text(encoding="utf-8")


def test_user_password_and_certificate_must_fit(guarded: tuple[Served, Path]) -> None:
    served, authority = guarded
    right = {"user": "reader", "password": PASSWORD, "secure": True, "ca_certs": str(authority)}
    with served.client(**right) as client:
        assert client.execute("SELECT number FROM numbers(3)") == [(0,), (1,), (2,)]
        rows = client.execute_iter(
            "SELECT number, sleepEachRow(0.01) FROM numbers(90000)", settings={"max_block_size": 10}
        )
        assert next(rows)[0] == 0
        began = time.monotonic()
        client.cancel()
        assert time.monotonic() - began < 300, "it would run for 900 s"
    for wrong in ({"user": "default"}, {"password": "other"}, {"password": ""}, {"user": ""}):
        with pytest.raises(ServerException) as caught, served.client(**{**right, **wrong}) as client:
            client.execute("SELECT 1")
        assert caught.value.code == 516
        assert PASSWORD not in str(caught.value)
    for without in ({"ca_certs": None}, {"secure": False}):
        with (
            pytest.raises((NetworkError, EOFError, OSError)),
            served.client(**{**right, **without}) as client,
        ):
            client.execute("SELECT 1")


def test_firstflight_connects_by_tls(guarded: tuple[Served, Path]) -> None:
    served, authority = guarded
    address = f"127.0.0.1:{served.port}"
    url = f"clickhouse://reader:{quote(PASSWORD, safe='')}@{address}/firstflight?secure=1"
    with open_store(f"{url}&ca_certs={authority}") as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]
        # A user without the right to change settings gets no settings, and only runs queries without them.
        assert store.formatted("SELECT 2 AS two", "TSV").content == b"2\n"
        assert b"12080.4 " in store.formatted("SELECT 12080.400000000001 AS sum", "PrettyCompact").content
        assert store.formatted("SELECT 12080.400000000001 AS sum", "TSV").content == b"12080.400000000001\n"
    with open_store(f"{url}&verify=0") as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]
    message = f"the certificate of clickhouse://{address}/firstflight is not trusted: self-signed"
    with pytest.raises(UsageError, match=message), open_store(url):
        pass
    with (
        pytest.raises(UsageError, match="lets the user of FIRSTFLIGHT_STORE only read"),
        open_store(f"{url}&ca_certs={authority}", write=True),
    ):
        pass


def test_a_reading_user_cannot_write(guarded: tuple[Served, Path]) -> None:
    served, authority = guarded
    right = {"user": "reader", "password": PASSWORD, "secure": True, "ca_certs": str(authority)}
    for settings in ({}, {"readonly": 0}, {"max_threads": 1}, {"readonly": 2}):
        with served.client(**right) as client, pytest.raises(ServerException) as caught:
            client.execute("CREATE TABLE t (a Int8) ENGINE = Memory", settings=settings)
        assert caught.value.code == 164
    with served.client(**right) as client:
        for threads in (1, 2, 1):  # settings may still differ
            asked = client.execute("SELECT getSetting('max_threads')", settings={"max_threads": threads})
            assert asked == [(threads,)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("open") / "store", "--no-password") as found:
        yield found


def hello(revision: int = packets.REVISION, database: str = "") -> bytes:
    names = b"".join(text(part) for part in (database, "default", ""))
    return varint(0) + text("test") + varint(1) + varint(1) + varint(revision) + names


def query(statement: str, compressed: int = 0) -> bytes:
    """Return a query packet from a client with revision 54429, which has the fewest fields."""
    info = b"\x01" + text("") * 3 + b"\x01" + text("") * 3 + varint(1) * 3 + text("") + varint(0)
    return varint(1) + text("") + info + text("") + varint(2) + varint(compressed) + text(statement)


END_OF_TABLES = varint(2) + text("") + NativeBlock().wire(54429)


def talk(served: Served, *parts: bytes) -> bytes:
    """Send parts; return all bytes received until the server closes. The server has a minute to close."""
    answer = b""
    with socket.create_connection((served.host, served.port), timeout=60) as sock:
        try:
            for part in parts:
                sock.sendall(part)
            while received := sock.recv(65536):
                answer += received
                if not parts:
                    break
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
    return answer


def alive(served: Served) -> bool:
    with served.client() as client:
        return bool(client.execute("SELECT 1") == [(1,)])


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"the first packet of a client must be a hello"),
        (b"\x16\x03\x01\x02\x00\x01", b"the first packet of a client must be a hello"),
        (b"\xff" * 40, b"longer than 64 bits"),
        (hello(revision=54000), b"older than 54429"),
        (varint(0) + varint(2**40) + b"x", b"at most 4096 are allowed"),
        (varint(0) + varint(3) + b"\xff\xfe\xfd", b"not UTF-8"),
        (hello(54429) + varint(99), b"packet 99 where a query was expected"),
        (hello(54429) + varint(2), b"packet 2 where a query was expected"),
        (hello(54429) + query("SELECT 1") + varint(4), b"followed by the end of its external tables"),
        (hello(54429) + query("SELECT 1", 1) + varint(2) + text("") + bytes(60), b"impossible length"),
        (
            hello(54429) + query("SELECT 1", 1) + varint(2) + text("") + bytes(16)
            + struct.pack("<BII", 0x82, 20, 5) + bytes(11), b"hash of a compressed frame",
        ),
        (
            hello(54429) + query("SELECT 1") + varint(2) + text("x")
            + NativeBlock(["a"], ["Int8"], 1, [b"\x01"]).wire(54429), b"no external tables",
        ),
        (
            hello(54429) + query("SELECT 1") + varint(2) + text("") + b"\x00" + varint(1) + varint(2**50)
            + text("a") + text("Int64"), b"a block has more than",
        ),
        (
            hello(54429) + query("SELECT 1") + varint(2) + text("") + b"\x00" + varint(1) + varint(1)
            + text("a") + text("Array(" * 3000), b"type has more than 4096 bytes",
        ),
        (
            hello(54429) + query("SELECT 1") + varint(2) + text("") + b"\x00" + varint(1) + varint(1)
            + text("a") + text("Array(" * 33 + "Int8" + ")" * 33), b"a type has more than 32 levels",
        ),
        (hello(54429, database="nowhere"), b"nowhere"),
    ],
)  # fmt: skip
def test_garbage_gets_one_sentence_and_an_end(served: Served, sent: bytes, message: bytes) -> None:
    assert message in talk(served, sent)
    assert alive(served)


def test_a_newer_client_uses_the_older_protocol(served: Served) -> None:
    # An unknown packet type follows the ping, so that the server closes the connection.
    answer = talk(served, hello(packets.REVISION + 30) + text("") + varint(4) + varint(99))
    welcome, _, error = answer.rpartition(varint(4) + varint(2))  # Pong, Exception
    assert welcome.startswith(varint(0) + text("ClickHouse"))
    assert varint(packets.REVISION) in welcome
    assert b"packet 99 where a query was expected" in error


def test_random_bytes_affect_no_other_client(served: Served) -> None:
    moments = random.Random(20261120)
    good = hello(54429) + query("INSERT INTO FUNCTION null('a Int8') VALUES") + END_OF_TABLES + END_OF_TABLES
    packed = compression.pack(NativeBlock(["a"], ["String"], 2, [b"\x01x\x02yy"]).wire(54429))
    good += query("SELECT 1", 1) + varint(2) + text("") + packed
    for _ in range(40):
        broken = bytearray(good)
        for _ in range(moments.randrange(1, 6)):
            broken[moments.randrange(len(broken))] = moments.randrange(256)
        with socket.create_connection((served.host, served.port), timeout=60) as sock:
            sock.sendall(bytes(broken[: moments.randrange(1, len(broken))]))
            if moments.random() < 0.3:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    assert alive(served)


def test_the_silent_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HELLO_S", 0.1)
    client, server = socket.socketpair()
    silent = connection.NativeConnection(server, _nobody, lambda: None, (26, 9, 2), "UTC", ServerCounts())
    thread = threading.Thread(target=silent.run)
    thread.start()
    client.settimeout(60)
    assert client.recv(1) == b""
    thread.join(60)
    assert not thread.is_alive()
    client.close()


def _nobody(hello: packets.Hello) -> ClientSession:
    raise AssertionError(f"{hello} came in")
