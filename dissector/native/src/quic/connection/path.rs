//! A connection's paths: its addresses, and the client's migrations (RFC 9000 9).

use std::net::SocketAddr;

use firstflight_wire::{ConnectionId, Frame};

use super::Connection;

/// Maximum number of paths kept per connection.
const KEPT: usize = 64;

/// Address and port of the client, of the server.
pub type Path = (SocketAddr, SocketAddr);

/// Additional paths and the current one. Boxed: without keys, hardly any connection has additional paths.
#[derive(Debug, Default)]
pub(super) struct Paths(Option<Box<Moves>>);

#[derive(Debug, Default)]
struct Moves {
    others: Vec<Path>,
    /// `None`: the first path.
    current: Option<Path>,
    /// Largest packet number that determined the current path.
    largest: Option<u64>,
    migrations: u32,
}

impl Connection {
    /// Whether the client sent the datagram from `src` to `dst`; `None` if this is no path of the connection.
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

    /// Paths other than the first.
    pub(super) fn other_paths(&self) -> &[Path] {
        let moves = self.paths.0.as_deref();
        moves.map_or(&[], |moves| &moves.others)
    }

    /// Records a path and returns whether it is kept.
    pub(super) fn add_path(&mut self, path: Path) -> bool {
        let others = &mut self.paths.0.get_or_insert_default().others;
        let fits = others.len() < KEPT;
        if fits {
            others.push(path);
        }
        fits
    }

    /// The client's 1-RTT packet `number` arrived on `path`. A packet that is not only a probe moves the connection to
    /// this path, unless a packet with a larger number arrived before (RFC 9000 9.1, 9.3).
    pub(super) fn client_moves(&mut self, path: Path, number: u64, frames: &[Frame<'_>]) {
        let probes = frames.iter().all(|frame| {
            matches!(
                frame,
                Frame::PathChallenge(_)
                    | Frame::PathResponse(_)
                    | Frame::NewConnectionId { .. }
                    | Frame::PathNewConnectionId { .. }
                    | Frame::Padding { .. }
            )
        });
        if probes {
            return;
        }
        let moves = self.paths.0.get_or_insert_default();
        if moves.largest.is_some_and(|largest| number < largest) {
            return;
        }
        moves.largest = Some(number);
        if moves.current.unwrap_or((self.client, self.server)) != path {
            moves.current = Some(path);
            moves.migrations = moves.migrations.saturating_add(1);
        }
    }

    /// Number of moves of the client; `None` if its 1-RTT packets could not be decrypted.
    pub fn migrations(&self) -> Option<u32> {
        let moves = self.paths.0.as_ref()?;
        moves.largest.map(|_| moves.migrations)
    }

    /// Address pairs that were used.
    pub fn path_count(&self) -> usize {
        1 + self.other_paths().len()
    }

    pub(super) fn new_connection_id(&mut self, from_client: bool, cid: ConnectionId) {
        if from_client {
            self.client_cids.add(cid);
        } else if self.server_cids.add(cid) {
            self.new_server_cids.get_or_insert_default().push(cid);
        }
    }
}

#[cfg(test)]
mod tests;
