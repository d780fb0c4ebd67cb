//! The paths of a connection: which addresses it uses, and when its client moved (RFC 9000 9).

use std::net::SocketAddr;

use firstflight_wire::{ConnectionId, Frame};

use super::Connection;

/// Paths kept of a connection.
const KEPT: usize = 64;

/// Address and port of the client, of the server.
pub type Path = (SocketAddr, SocketAddr);

/// Paths beyond the first, and the one in use. Boxed: without keys, hardly any connection has others.
#[derive(Debug, Default)]
pub(super) struct Paths(Option<Box<Moves>>);

#[derive(Debug, Default)]
struct Moves {
    others: Vec<Path>,
    /// `None`: the first.
    current: Option<Path>,
    /// Largest packet number that moved the connection or kept it.
    largest: Option<u64>,
    migrations: u32,
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

    /// The client's 1-RTT packet `number` came on `path`: packets that do more than probe move the connection
    /// there, if none with a larger number came before (RFC 9000 9.1, 9.3).
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

    /// How often the client moved; `None` if its 1-RTT packets could not be opened.
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
