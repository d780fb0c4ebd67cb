//! Holds datagrams back. s2n-quic receives the datagrams from a client when the delay after its complete ClientHello is
//! over; later ones pass immediately.

use super::delay::Delay;
use crate::hello::Hello;
use s2n_quic::provider::io;
use s2n_quic_core::endpoint::{CloseError, Endpoint, Type};
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::inet::datagram::Header;
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{Handle, RemoteAddress, mtu};
use s2n_quic_core::time::{Clock, Timestamp};
use std::task::{Context, Poll};
use std::time::Duration;

/// Time after its last datagram until a client is forgotten.
const FORGET: Duration = Duration::from_secs(10);
/// Maximum number of clients with delayed datagrams; other clients are not delayed.
const MOST_CLIENTS: usize = 10_000;

/// s2n-quic's sockets, with or without waiting.
pub struct Io {
    sockets: io::tokio::Provider,
    delay: Option<Duration>,
}

impl Io {
    pub fn new(sockets: io::tokio::Provider, delay: Option<Duration>) -> Self {
        Self { sockets, delay }
    }
}

impl io::Provider for Io {
    type PathHandle = <io::tokio::Provider as io::Provider>::PathHandle;
    type Error = std::io::Error;

    fn start<E: Endpoint<PathHandle = Self::PathHandle>>(
        self,
        endpoint: E,
    ) -> Result<SocketAddress, Self::Error> {
        let Some(delay) = self.delay else {
            return io::Provider::start(self.sockets, endpoint);
        };
        let waiting = Waiting {
            inner: endpoint,
            delay,
            clients: Vec::new(),
            ready: Datagrams(Vec::new()),
        };
        io::Provider::start(self.sockets, waiting)
    }
}

/// Datagrams in order of arrival.
struct Datagrams<H>(Vec<(Header<H>, Vec<u8>)>);

impl<H: Handle> rx::Queue for Datagrams<H> {
    type Handle = H;

    fn for_each<F: FnMut(Header<H>, &mut [u8])>(&mut self, mut on_packet: F) {
        for (header, mut bytes) in self.0.drain(..) {
            on_packet(header, &mut bytes);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Client<H> {
    address: RemoteAddress,
    hello: Hello,
    held: Vec<(Header<H>, Vec<u8>)>,
    /// Starts when the ClientHello is complete.
    delay: Option<Delay>,
    open: bool,
    last: Timestamp,
}

/// An endpoint that gets its datagrams after the delay.
struct Waiting<E: Endpoint> {
    inner: E,
    delay: Duration,
    clients: Vec<Client<E::PathHandle>>,
    /// Released datagrams that `inner` has not received yet.
    ready: Datagrams<E::PathHandle>,
}

impl<E: Endpoint> Waiting<E> {
    fn take(&mut self, header: Header<E::PathHandle>, bytes: &[u8], now: Timestamp) {
        let address = header.path.remote_address();
        let known = self
            .clients
            .iter()
            .position(|client| client.address == address);
        if known.is_none() {
            self.clients
                .retain(|client| now.saturating_duration_since(client.last) < FORGET);
            if self.clients.len() >= MOST_CLIENTS {
                self.ready.0.push((header, bytes.to_vec()));
                return;
            }
            self.clients.push(Client {
                address,
                hello: Hello::default(),
                held: Vec::new(),
                delay: None,
                open: false,
                last: now,
            });
        }
        let number = known.unwrap_or(self.clients.len() - 1);
        let client = &mut self.clients[number];
        client.last = now;
        if client.open {
            self.ready.0.push((header, bytes.to_vec()));
            return;
        }
        client.held.push((header, bytes.to_vec()));
        if client.delay.is_none() && client.hello.read(bytes) {
            client.delay = Some(Delay::new(self.delay));
        }
    }

    /// Releases the datagrams of clients with an expired delay; returns the number of these clients.
    fn release(&mut self, cx: &Context<'_>) -> usize {
        let mut released = 0;
        for client in &mut self.clients {
            let due = client
                .delay
                .as_ref()
                .is_some_and(|delay| delay.is_due(cx.waker()));
            if due && !client.open {
                client.open = true;
                client.delay = None;
                self.ready.0.append(&mut client.held);
                released += 1;
            }
        }
        released
    }
}

impl<E: Endpoint> Endpoint for Waiting<E> {
    type PathHandle = E::PathHandle;
    type Subscriber = E::Subscriber;

    const ENDPOINT_TYPE: Type = E::ENDPOINT_TYPE;

    fn receive<Rx: rx::Queue<Handle = Self::PathHandle>, C: Clock>(
        &mut self,
        rx: &mut Rx,
        clock: &C,
    ) {
        let now = clock.get_time();
        rx.for_each(|header, bytes| self.take(header, bytes, now));
    }

    fn transmit<Tx: tx::Queue<Handle = Self::PathHandle>, C: Clock>(
        &mut self,
        tx: &mut Tx,
        clock: &C,
    ) {
        // The event loop calls this after each `receive`, and after a wake-up.
        if !self.ready.0.is_empty() {
            self.inner.receive(&mut self.ready, clock);
        }
        self.inner.transmit(tx, clock);
    }

    fn poll_wakeups<C: Clock>(
        &mut self,
        cx: &mut Context<'_>,
        clock: &C,
    ) -> Poll<Result<usize, CloseError>> {
        let released = self.release(cx);
        match self.inner.poll_wakeups(cx, clock) {
            Poll::Pending if released > 0 => Poll::Ready(Ok(released)),
            woken => woken,
        }
    }

    fn timeout(&self) -> Option<Timestamp> {
        self.inner.timeout()
    }

    fn set_mtu_config(&mut self, mtu_config: mtu::Config) {
        self.inner.set_mtu_config(mtu_config);
    }

    fn subscriber(&mut self) -> &mut Self::Subscriber {
        self.inner.subscriber()
    }
}
