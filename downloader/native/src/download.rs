//! One download: one QUIC connection to one address, and one request. The body is counted and discarded.

use crate::connection::{self, DATAGRAM_BYTES};
use crate::observer::Observer;
use crate::plain;
use crate::response::{self, Failed};
use crate::socket::Socket;
use firstflight_contract::answer::now_ns;
use firstflight_contract::{ClientAnswer, End, Http, Request};
use quiche::RecvInfo;
use quiche::h3::{self, NameValue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

const H3_NO_ERROR: u64 = 0x100;
const BODY_CHUNK: usize = 64 << 10;
/// The maximum size of a header section (RFC 9114 4.2.2).
const HEADER_SECTION: u64 = 64 << 10;
/// TLS alerts (RFC 8446 6) for a certificate that was not accepted, as QUIC error codes.
const BAD_CERTIFICATE: [u64; 6] = [0x12a, 0x12b, 0x12c, 0x12d, 0x12e, 0x130];

/// Downloads, and returns how it ended. TLS secrets are appended to `keys`. `observer` sees the connection.
pub fn run(request: &Request, keys: Option<&Path>, observer: &mut dyn Observer) -> ClientAnswer {
    let mut transfer = Transfer {
        request,
        begun: Instant::now(),
        answer: ClientAnswer {
            started_at: Some(now_ns()),
            ..ClientAnswer::default()
        },
        stream: None,
        wire_bytes: 0,
    };
    let cpu = cpu_us();
    let (end, detail) = match transfer.run(keys, observer) {
        Ok(end) => (end, None),
        Err((end, detail)) => (end, Some(detail)),
    };
    let mut answer = transfer.answer;
    answer.end = end;
    answer.detail = detail;
    answer.cpu_us = Some(cpu_us() - cpu);
    answer.wire_bytes = Some(transfer.wire_bytes);
    answer
}

/// The state of a sent request.
enum Asked {
    Three(Box<h3::Connection>),
    Plain,
}

struct Transfer<'a> {
    request: &'a Request,
    begun: Instant,
    answer: ClientAnswer,
    stream: Option<u64>,
    /// Size of the received datagrams, with their headers.
    wire_bytes: u64,
}

impl Transfer<'_> {
    fn run(&mut self, keys: Option<&Path>, observer: &mut dyn Observer) -> Result<End, Failed> {
        let failed = |error: String| (End::Failed, error);
        let limit = self.request.limit().map_err(failed)?;
        let server = self.request.address();
        let refused = |error: std::io::Error| (End::ConnectFailed, error.to_string());
        let mut socket = Socket::connect(server).map_err(refused)?;
        let local = socket.local().map_err(refused)?;
        self.answer.client_ip = Some(local.ip());
        self.answer.client_port = Some(local.port());
        let mut quic = connection::open(self.request, local, server, keys)?;
        observer.opened(&mut quic).map_err(failed)?;
        let deadline = self.begun + limit;
        let end = self.exchange(&mut quic, &mut socket, (server, local), deadline);
        self.answer.duration_us.get_or_insert(self.elapsed_us());
        (self.answer.receive_buffer, self.answer.udp_drops) = socket.state();
        // The last datagram closes the connection. Without it, the server keeps the connection until the idle timeout.
        let _ = quic.close(true, H3_NO_ERROR, b"");
        let _ = flush(&mut quic, &socket);
        let seen = observer.over().map_err(failed);
        end.and_then(|end| seen.map(|()| end))
    }

    /// Exchanges datagrams until the body is complete, a limit is reached, or nothing more can arrive.
    fn exchange(
        &mut self,
        quic: &mut quiche::Connection,
        socket: &mut Socket,
        (from, to): (SocketAddr, SocketAddr),
        deadline: Instant,
    ) -> Result<End, Failed> {
        let mut asked: Option<Asked> = None;
        let mut body = vec![0_u8; BODY_CHUNK];
        loop {
            flush(quic, socket).map_err(|error| self.broken(&error.to_string()))?;
            if quic.is_closed() {
                return Err(self.closed(quic));
            }
            let now = Instant::now();
            let Some(left) = deadline
                .checked_duration_since(now)
                .filter(|d| !d.is_zero())
            else {
                let established = self.answer.tls_us.is_some();
                let end = if established {
                    End::Timeout
                } else {
                    End::ConnectFailed
                };
                return Err((end, "timed out".to_owned()));
            };
            let wait = quic.timeout().map_or(left, |timeout| timeout.min(left));
            if !readable(socket, wait) && Instant::now() >= now + wait {
                quic.on_timeout();
            }
            let mut wrong = None;
            let headers = header_bytes(from);
            let arrived = &mut self.wire_bytes;
            socket
                .receive(|datagram| {
                    *arrived += datagram.len() as u64 + headers;
                    match quic.recv(datagram, RecvInfo { from, to }) {
                        Ok(_) | Err(quiche::Error::Done) => {}
                        Err(error) => wrong = Some(error),
                    };
                })
                .map_err(|error| self.broken(&error.to_string()))?;
            if self
                .request
                .max_wire_bytes
                .is_some_and(|most| self.wire_bytes > most)
            {
                return Err((
                    End::WireLimit,
                    format!(
                        "received {} bytes from the network for {} bytes of the body",
                        self.wire_bytes, self.answer.body_bytes
                    ),
                ));
            }
            if let Some(quiche::Error::TlsFail) = wrong {
                let _ = flush(quic, socket);
                return Err(self.closed(quic));
            }
            if quic.is_established() && self.answer.tls_us.is_none() {
                self.answer.tls_us = Some(self.elapsed_us());
                self.answer.tls_version = Some("TLSv1.3");
                self.answer.tls_verified = self.request.verify.then_some(true);
            }
            if quic.is_established() && asked.is_none() {
                asked = Some(match self.request.http {
                    Http::Three => Asked::Three(Box::new(self.ask(quic)?)),
                    Http::Plain => {
                        plain::ask(quic, &self.request.path)?;
                        Asked::Plain
                    }
                });
            }
            let end = match &mut asked {
                Some(Asked::Three(http)) => self.take(quic, http, &mut body)?,
                Some(Asked::Plain) => {
                    let elapsed_us = self.elapsed_us();
                    plain::take(quic, &mut body, self.request, &mut self.answer, elapsed_us)?
                }
                None => None,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn ask(&mut self, quic: &mut quiche::Connection) -> Result<h3::Connection, Failed> {
        let failed = |error: h3::Error| (End::Failed, format!("HTTP/3: {error}"));
        let mut config = h3::Config::new().map_err(failed)?;
        config.set_max_field_section_size(HEADER_SECTION);
        let mut http = h3::Connection::with_transport(quic, &config).map_err(failed)?;
        let authority = self.request.authority();
        let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
        let headers = [
            header(":method", self.request.method.name()),
            header(":scheme", "https"),
            header(":authority", &authority),
            header(":path", &self.request.path),
            header("user-agent", &self.request.user_agent),
            header("accept", "*/*"),
            header("accept-encoding", "identity"),
        ];
        self.stream = Some(http.send_request(quic, &headers, true).map_err(failed)?);
        Ok(http)
    }

    /// Processes the received part of the response; returns `Some` when the response is complete.
    fn take(
        &mut self,
        quic: &mut quiche::Connection,
        http: &mut h3::Connection,
        body: &mut [u8],
    ) -> Result<Option<End>, Failed> {
        loop {
            match http.poll(quic) {
                Ok((_, h3::Event::Headers { list, .. })) => self.headers(&list)?,
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(read) = http.recv_body(quic, stream, body) {
                        let limit = response::take_body(&mut self.answer, read, self.request);
                        if limit.is_some() {
                            return Ok(limit);
                        }
                    }
                }
                Ok((_, h3::Event::Finished)) => {
                    return response::end(&self.answer, self.request.method).map(Some);
                }
                Ok((_, h3::Event::Reset(code))) => {
                    return Err((
                        End::Reset,
                        format!("the server reset the stream: {code:#x}"),
                    ));
                }
                // The server does not answer requests from this stream on (RFC 9114 5.2).
                Ok((from, h3::Event::GoAway)) if self.stream.is_some_and(|own| own >= from) => {
                    return Err((End::Reset, "the server sent GOAWAY".to_owned()));
                }
                Ok((_, h3::Event::GoAway | h3::Event::PriorityUpdate)) => {}
                Err(h3::Error::Done) => return Ok(None),
                Err(error) => return Err((End::Reset, format!("HTTP/3: {error}"))),
            }
        }
    }

    fn headers(&mut self, list: &[h3::Header]) -> Result<(), Failed> {
        let elapsed = self.elapsed_us();
        self.answer.first_byte_us.get_or_insert(elapsed);
        let fields = list.iter().map(|header| (header.name(), header.value()));
        response::take_headers(&mut self.answer, fields)
    }

    /// Why the connection is closed: by the server, by a TLS alert from this side, or by a timeout.
    fn closed(&mut self, quic: &quiche::Connection) -> Failed {
        let established = self.answer.tls_us.is_some();
        if let Some(error) = quic.peer_error() {
            let reason = response::shortened(&error.reason);
            let detail = format!("the server closed: {:#x} {reason}", error.error_code);
            let tls = (0x100..0x200).contains(&error.error_code) && !error.is_app;
            let end = match (established, tls) {
                (false, true) => End::TlsFailed,
                (false, false) => End::ConnectFailed,
                (true, _) => End::Reset,
            };
            return (end, detail);
        }
        if let Some(error) = quic.local_error() {
            if BAD_CERTIFICATE.contains(&error.error_code) {
                self.answer.tls_verified = Some(false);
            }
            let end = if established {
                End::Reset
            } else {
                End::TlsFailed
            };
            return (end, format!("closed with {:#x}", error.error_code));
        }
        let end = if established {
            End::Timeout
        } else {
            End::ConnectFailed
        };
        (end, "the server stopped answering".to_owned())
    }

    fn broken(&self, error: &str) -> Failed {
        let established = self.answer.tls_us.is_some();
        let end = if established {
            End::Reset
        } else {
            End::ConnectFailed
        };
        (end, error.to_owned())
    }

    fn elapsed_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }
}

fn flush(quic: &mut quiche::Connection, socket: &Socket) -> std::io::Result<()> {
    let mut datagram = [0_u8; DATAGRAM_BYTES];
    // `Done`, or an error after which quiche closes the connection itself.
    while let Ok((length, _)) = quic.send(&mut datagram) {
        socket.send(&datagram[..length])?;
    }
    Ok(())
}

/// Waits until the socket is readable, for at most `wait`. Returns whether it is readable.
fn readable(socket: &Socket, wait: Duration) -> bool {
    let limit = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    let mut waits = [PollFd::new(socket.as_fd(), PollFlags::IN)];
    poll(&mut waits, Some(&limit)).is_ok_and(|ready| ready > 0)
}

/// Size of the headers of each datagram from this peer: Ethernet, IP without options, UDP.
fn header_bytes(peer: SocketAddr) -> u64 {
    if peer.is_ipv4() {
        14 + 20 + 8
    } else {
        14 + 40 + 8
    }
}

fn cpu_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

#[cfg(test)]
mod tests;
