//! Downloads on loopback from a server in this process, which answers as each case specifies.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::x509::X509;

use super::*;
use crate::tests::request;
use firstflight_contract::Method;
use quiche::ConnectionId;

const SILENCE: Duration = Duration::from_secs(120);

/// The server's reaction to the request on a stream.
type Respond = fn(&mut h3::Connection, &mut quiche::Connection, u64);

/// PEM files of the certificate and the key, which all tests share.
fn certificate() -> &'static (PathBuf, PathBuf) {
    static FILES: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    FILES.get_or_init(|| {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a group");
        let key = PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key");
        let mut builder = X509::builder().expect("a certificate");
        builder.set_version(2).expect("version");
        builder.set_pubkey(&key).expect("key");
        let (from, to) = (Asn1Time::days_from_now(0), Asn1Time::days_from_now(1));
        builder.set_not_before(&from.expect("time")).expect("begin");
        builder.set_not_after(&to.expect("time")).expect("end");
        builder
            .sign(&key, MessageDigest::sha256())
            .expect("signature");
        let folder = std::env::temp_dir().join(format!("quic-download-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let files = (folder.join("chain.pem"), folder.join("key.pem"));
        std::fs::write(&files.0, builder.build().to_pem().expect("PEM")).expect("a file");
        std::fs::write(&files.1, key.private_key_to_pem_pkcs8().expect("PEM")).expect("a file");
        files
    })
}

fn server_config() -> quiche::Config {
    let (chain, key) = certificate();
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    config
        .load_cert_chain_from_pem_file(&chain.to_string_lossy())
        .expect("a chain");
    config
        .load_priv_key_from_pem_file(&key.to_string_lossy())
        .expect("a key");
    config
        .set_application_protos(&[b"h3", b"hq-interop"])
        .expect("protocols");
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);
    config.set_initial_max_streams_bidi(10);
    config.set_initial_max_streams_uni(10);
    // A header section is sent in one flight or not at all.
    config.set_initial_congestion_window_packets(1000);
    config
}

/// Serves one connection until it is closed.
fn serve(socket: &UdpSocket, respond: Respond) {
    let local = socket.local_addr().expect("an address");
    let mut config = server_config();
    let mut quic: Option<quiche::Connection> = None;
    let mut http: Option<h3::Connection> = None;
    let mut buffer = vec![0; 65_535];
    while quic.as_ref().is_none_or(|quic| !quic.is_closed()) {
        let wait = quic
            .as_ref()
            .and_then(|quic| quic.timeout())
            .unwrap_or(SILENCE);
        socket
            .set_read_timeout(Some(wait.max(Duration::from_millis(1))))
            .expect("a wait");
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                let quic = quic.get_or_insert_with(|| {
                    let scid = ConnectionId::from_ref(&[7; 8]);
                    quiche::accept(&scid, None, local, from, &mut config).expect("a connection")
                });
                let _ = quic.recv(&mut buffer[..length], RecvInfo { from, to: local });
            }
            Err(_) => match &mut quic {
                Some(quic) => quic.on_timeout(),
                None => return,
            },
        }
        let Some(quic) = &mut quic else { return };
        let is_plain = quic.application_proto() == Http::Plain.protocol();
        if is_plain {
            respond_plain(quic);
        } else if quic.is_established() && http.is_none() {
            let config = h3::Config::new().expect("a configuration");
            http = h3::Connection::with_transport(quic, &config).ok();
        }
        while let Some(http) = &mut http
            && let Ok((stream, event)) = http.poll(quic)
        {
            if let h3::Event::Headers { .. } = event {
                respond(http, quic, stream);
            }
        }
        while let Ok((length, info)) = quic.send(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], info.to);
        }
    }
}

/// Answers HTTP/0.9: `GET /NUMBER` with NUMBER bytes, and `GET /reset` with a reset of the stream.
fn respond_plain(quic: &mut quiche::Connection) {
    for stream in quic.readable().collect::<Vec<u64>>() {
        let mut line = [0; 100];
        let Ok((length, true)) = quic.stream_recv(stream, &mut line) else {
            continue;
        };
        let line = std::str::from_utf8(&line[..length]).expect("text");
        let path = line
            .strip_prefix("GET /")
            .and_then(|rest| rest.strip_suffix("\r\n"));
        match path.expect("a request").parse() {
            Ok(bytes) => assert_eq!(quic.stream_send(stream, &vec![0; bytes], true), Ok(bytes)),
            Err(_) => quic
                .stream_shutdown(stream, quiche::Shutdown::Write, 7)
                .expect("a reset"),
        }
    }
}

/// The client's answer for a server that reacts with `respond`.
fn answer(method: Method, verify: bool, respond: Respond) -> ClientAnswer {
    answer_to(
        Request {
            method,
            verify,
            ..request(1000)
        },
        respond,
    )
}

/// The client's answer to a request for the server, which reacts with `respond`.
fn answer_to(asked: Request, respond: Respond) -> ClientAnswer {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let asked = Request {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: socket.local_addr().expect("an address").port(),
        timeout_s: SILENCE.as_secs_f64(),
        roots: certificate().0.to_string_lossy().into_owned(),
        ..asked
    };
    thread::scope(|scope| {
        scope.spawn(|| serve(&socket, respond));
        run(&asked, None, &mut crate::observer::Nothing)
    })
}

fn send(
    http: &mut h3::Connection,
    quic: &mut quiche::Connection,
    stream: u64,
    fields: &[(&str, &str)],
    body: usize,
) {
    let header = |(name, value): &(&str, &str)| h3::Header::new(name.as_bytes(), value.as_bytes());
    let list: Vec<h3::Header> = fields.iter().map(header).collect();
    http.send_response(quic, stream, &list, body == 0)
        .expect("headers");
    if body > 0 {
        http.send_body(quic, stream, &vec![0; body], true)
            .expect("a body");
    }
}

/// Name, method and server reaction; the expected end, status and number of body bytes.
type Case = (&'static str, Method, Respond, End, Option<u16>, u64);

#[test]
fn a_download_ends_as_its_server_lets_it() {
    let cases: [Case; 10] = [
        (
            "whole",
            Method::Get,
            |h, q, s| send(h, q, s, &[(":status", "200"), ("content-length", "9")], 9),
            End::Complete,
            Some(200),
            9,
        ),
        (
            "head",
            Method::Head,
            |h, q, s| send(h, q, s, &[(":status", "200"), ("content-length", "9")], 0),
            End::Complete,
            Some(200),
            0,
        ),
        (
            "missing",
            Method::Head,
            |h, q, s| send(h, q, s, &[(":status", "404")], 0),
            End::Complete,
            Some(404),
            0,
        ),
        (
            "limit",
            Method::Get,
            |h, q, s| send(h, q, s, &[(":status", "200")], 2000),
            End::Limit,
            Some(200),
            1000,
        ),
        (
            "too short",
            Method::Get,
            |h, q, s| send(h, q, s, &[(":status", "200"), ("content-length", "10")], 9),
            End::Short,
            Some(200),
            9,
        ),
        (
            "too long",
            Method::Get,
            |h, q, s| send(h, q, s, &[(":status", "200"), ("content-length", "8")], 9),
            End::Failed,
            Some(200),
            9,
        ),
        (
            "no number",
            Method::Get,
            |h, q, s| {
                send(
                    h,
                    q,
                    s,
                    &[(":status", "200"), ("content-length", "nine")],
                    9,
                )
            },
            End::Failed,
            Some(200),
            0,
        ),
        (
            "giant headers",
            Method::Get,
            |h, q, s| {
                let long = "x".repeat(1000);
                send(
                    h,
                    q,
                    s,
                    &[(":status", "200")]
                        .into_iter()
                        .chain([("a", long.as_str()); 100])
                        .collect::<Vec<_>>(),
                    9,
                );
            },
            End::Reset,
            None,
            0,
        ),
        (
            "reset",
            Method::Get,
            |_, q, s| {
                q.stream_shutdown(s, quiche::Shutdown::Write, 0x10c)
                    .expect("a reset")
            },
            End::Reset,
            None,
            0,
        ),
        (
            "goaway",
            Method::Get,
            |h, q, _| h.send_goaway(q, 0).expect("a GOAWAY"),
            End::Reset,
            None,
            0,
        ),
    ];
    for (name, method, respond, end, status, body) in cases {
        let found = answer(method, false, respond);
        assert_eq!(
            (found.end, found.status, found.body_bytes),
            (end, status, body),
            "{name}: {found:?}"
        );
        assert_eq!(
            found.detail.is_some(),
            matches!(end, End::Failed | End::Reset),
            "{name}"
        );
        assert!(
            found.tls_us.is_some() && found.duration_us.is_some(),
            "{name}"
        );
    }
}

#[test]
fn a_server_that_closes_has_its_reason_in_the_answer() {
    let found = answer(Method::Get, false, |_, quic, _| {
        quic.close(true, 0x107, &[b'x'; 900]).expect("a close");
    });
    let detail = found.detail.unwrap_or_default();
    assert_eq!(found.end, End::Reset);
    assert!(
        detail.starts_with("the server closed: 0x107 xxx"),
        "{detail}"
    );
}

#[test]
fn a_certificate_for_no_name_is_not_accepted() {
    let found = answer(Method::Get, true, |_, _, _| {});
    assert_eq!(
        (found.end, found.tls_verified),
        (End::TlsFailed, Some(false)),
        "{found:?}"
    );
}

#[test]
fn http09_is_a_line_and_a_body() {
    for (path, end, body, detail) in [
        ("/0", End::Complete, 0, None),
        ("/10", End::Complete, 10, None),
        ("/1000", End::Limit, 1000, None),
        ("/2000", End::Limit, 1000, None),
        (
            "/reset",
            End::Reset,
            0,
            Some("the server reset the stream: 0x7"),
        ),
    ] {
        let asked = Request {
            path: path.to_owned(),
            http: Http::Plain,
            verify: false,
            ..request(1000)
        };
        let answer = answer_to(asked, |_, _, _| unreachable!("HTTP/3"));
        assert_eq!((answer.end, answer.body_bytes), (end, body), "{path}");
        assert_eq!(answer.detail.as_deref(), detail);
        let version = (end != End::Reset).then_some("0.9");
        assert_eq!((answer.http_version, answer.status), (version, None));
        assert_eq!(answer.first_byte_us.is_some(), version.is_some());
    }
}
