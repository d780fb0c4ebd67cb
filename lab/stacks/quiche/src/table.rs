//! A server's connections, found by address and connection ID.

use crate::connection::Connection;
use firstflight_listener::Releases;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

/// A client's address, and a connection ID that it uses: the key for the datagrams.
pub type Key = (SocketAddr, Vec<u8>);

/// Identifies a connection. Unique until the server exits.
pub type Id = u64;

struct Known {
    connection: Connection,
    keys: [Key; 2],
}

/// Connections, and for some time the keys of closed connections, so that copies of their packets do not start new
/// ones.
#[derive(Default)]
pub struct Connections {
    known: HashMap<Id, Known>,
    by_key: HashMap<Key, Id>,
    next: Id,
    forgotten: Releases<(Id, [Key; 2])>,
}

impl Connections {
    /// Inserts a new connection under both keys.
    pub fn insert(&mut self, connection: Connection, keys: [Key; 2]) -> Id {
        let id = self.next;
        self.next += 1;
        for key in &keys {
            self.by_key.insert(key.clone(), id);
        }
        self.known.insert(id, Known { connection, keys });
        id
    }

    /// Returns a datagram's connection; it may be closed.
    pub fn find(&self, key: &Key) -> Option<Id> {
        self.by_key.get(key).copied()
    }

    /// Returns `None` for a closed connection.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut Connection> {
        self.known.get_mut(&id).map(|known| &mut known.connection)
    }

    /// Removes a closed connection; its keys are removed at `until`.
    pub fn bury(&mut self, id: Id, until: Instant) {
        if let Some(known) = self.known.remove(&id) {
            self.forgotten.push(until, (id, known.keys));
        }
    }

    /// Returns when the next keys expire.
    pub fn next_at(&self) -> Option<Instant> {
        self.forgotten.next_at()
    }

    /// Removes expired keys.
    pub fn forget(&mut self, now: Instant) {
        while let Some((id, keys)) = self.forgotten.pop_due(now) {
            for key in keys {
                // The key may belong to a newer connection now.
                if self.by_key.get(&key) == Some(&id) {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::behaviour::{Behaviour, Mode};
    use crate::connection::Sending;
    use std::time::Duration;

    fn connection(local: SocketAddr, peer: SocketAddr) -> Connection {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        let scid = quiche::ConnectionId::from_ref(b"server's");
        let quic = quiche::accept(&scid, None, local, peer, &mut config).unwrap();
        let behaviour = Behaviour {
            mode: Mode::Wait,
            delay: Duration::ZERO,
            certificate: 0,
            endpoint: 0,
        };
        Connection::new(quic, local, peer, behaviour, Sending::Single, None)
    }

    #[test]
    fn keys_stay_for_a_while_and_then_serve_another() {
        let local: SocketAddr = "127.0.0.1:443".parse().unwrap();
        let peer: SocketAddr = "127.0.0.1:50000".parse().unwrap();
        let keys = || [(peer, b"client's".to_vec()), (peer, b"server's".to_vec())];
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(5));
        let mut connections = Connections::default();
        let id = connections.insert(connection(local, peer), keys());
        assert!(keys().iter().all(|key| connections.find(key) == Some(id)));
        assert!(connections.get_mut(id).is_some());

        connections.bury(id, later);
        assert!(connections.get_mut(id).is_none());
        connections.forget(now);
        assert_eq!(connections.find(&keys()[0]), Some(id));
        assert_eq!(connections.next_at(), Some(later));

        let younger = connections.insert(connection(local, peer), keys());
        connections.forget(later);
        assert_eq!(connections.find(&keys()[1]), Some(younger));
        assert_eq!(connections.next_at(), None);
    }
}
