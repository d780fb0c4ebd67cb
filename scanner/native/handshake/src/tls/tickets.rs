//! Session tickets that the first connection to a target passes to the second one.

use std::sync::{Mutex, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The newest ticket from a server (RFC 8446 4.6.1). It is used only once (RFC 8446 C.4). Each target has a separate
/// store that is dropped with the target, so no server receives a ticket of another server.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    newest: Option<Tls13ClientSessionValue>,
    used: bool,
}

impl Tickets {
    /// Returns whether a ticket was used.
    pub fn used(&self) -> bool {
        self.held().used
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _server: ServerName<'static>, _group: NamedGroup) {}

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        // `--key-share` determines the key share of both connections.
        None
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, _session: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.held().newest = Some(ticket);
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut held = self.held();
        let ticket = held.newest.take();
        held.used |= ticket.is_some();
        ticket
    }
}
