//! The paths of a connection: which addresses it uses, and when its client moved (RFC 9000 9).

use std::net::SocketAddr;

use firstflight_wire::{ConnectionId, Frame};

use super::Connection;

/// Paths kept of a connection.
const KEPT: usize = 64;

/// Address and port of the client, of the server.
pub type Path = (SocketAddr, SocketAddr);

/// Paths beyond the first, and the one in use.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Boxed: hardly any connection has others.
    others: Option<Box<Others>>,
    /// Largest packet number that moved the connection or kept it.
    largest: Option<u64>,
    migrations: u32,
}

#[derive(Debug, Default)]
struct Others {
    paths: Vec<Path>,
    /// `None`: the first.
    current: Option<Path>,
}

impl Connection {
    /// Whether a datagram from `src` to `dst` was sent by the client; `None` if it is on no path of the
    /// connection.
    pub(super) fn sender(&self, src: &SocketAddr, dst: &SocketAddr) -> Option<bool> {
        let is_on = |client: &SocketAddr, server: &SocketAddr| {
            *client == self.client && *server == self.server
                || self.other_paths().contains(&(*client, *server))
        };
        if is_on(src, dst) {
            Some(true)
        } else {
            is_on(dst, src).then_some(false)
        }
    }

    /// Paths beyond the first.
    pub(super) fn other_paths(&self) -> &[Path] {
        let others = self.paths.others.as_deref();
        others.map_or(&[], |others| &others.paths)
    }

    /// Records a path and returns whether it is kept.
    pub(super) fn add_path(&mut self, path: Path) -> bool {
        let others = self.paths.others.get_or_insert_default();
        let fits = others.paths.len() < KEPT;
        if fits {
            others.paths.push(path);
        }
        fits
    }

    /// The client's 1-RTT packet `number` came on `path`: packets that do more than probe move the connection
    /// there, if none with a larger number came before (RFC 9000 9.1, 9.3).
    pub(super) fn client_moves(&mut self, path: Path, number: u64, frames: &[Frame<'_>]) {
        let probes = frames.iter().all(|frame| {
            matches!(
                frame,
                Frame::PathChallenge(_)
                    | Frame::PathResponse(_)
                    | Frame::NewConnectionId { .. }
                    | Frame::Padding { .. }
            )
        });
        if probes || self.paths.largest.is_some_and(|largest| number < largest) {
            return;
        }
        self.paths.largest = Some(number);
        let current = self.paths.others.as_ref().and_then(|o| o.current);
        if current.unwrap_or((self.client, self.server)) != path {
            self.paths.others.get_or_insert_default().current = Some(path);
            self.paths.migrations = self.paths.migrations.saturating_add(1);
        }
    }

    /// How often the client moved; `None` if its 1-RTT packets could not be opened.
    pub fn migrations(&self) -> Option<u32> {
        self.paths.largest.map(|_| self.paths.migrations)
    }

    /// Address pairs that were used.
    pub fn path_count(&self) -> usize {
        1 + self.other_paths().len()
    }

    pub(super) fn new_connection_id(&mut self, from_client: bool, cid: ConnectionId) {
        if from_client {
            self.client_cids.add(cid);
        } else if self.server_cids.add(cid) {
            self.new_server_cids.push(cid);
        }
    }
}

#[cfg(test)]
mod tests;
