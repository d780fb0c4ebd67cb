//! When a connection is over: silent for too long, closed, or pushed out by others.

use std::cmp::Reverse;

use super::Connection;
use super::directory::Id;
use super::table::Table;

impl Table {
    /// A connection that is over by the time `now_ns`, if there is one; call it until there is none.
    #[inline]
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        let is_due = self.connections.len() > self.limits.max_connections
            || is_over(self.limits.closing_ns, self.closing.front(), now_ns)
            || is_over(self.limits.idle_ns, self.idle.peek().map(|r| &r.0), now_ns);
        if is_due {
            self.look_for_expired(now_ns)
        } else {
            None
        }
    }

    fn look_for_expired(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        if let Some(connection) = self.expired_closing(now_ns) {
            return Some(connection);
        }
        let is_full = self.connections.len() > self.limits.max_connections;
        while let Some(Reverse((looked_ns, id))) = self.idle.peek().copied() {
            let is_over = looked_ns.saturating_add(self.limits.idle_ns) < now_ns;
            if !is_over && !is_full {
                return None;
            }
            self.idle.pop();
            match self.connections.get(id) {
                // It spoke since: look again when its silence may have lasted long enough.
                Some(connection) if connection.last_ns > looked_ns => {
                    self.idle.push(Reverse((connection.last_ns, id)));
                }
                Some(_) => {
                    // Of all that live, it has been silent for longest.
                    self.counters.evicted += u64::from(!is_over);
                    return self.remove(id);
                }
                None => {}
            }
        }
        None
    }

    fn expired_closing(&mut self, now_ns: i64) -> Option<Box<Connection>> {
        let limit = self.limits.closing_ns;
        while is_over(limit, self.closing.front(), now_ns)
            && let Some((looked_ns, id)) = self.closing.pop_front()
        {
            match self.connections.get(id) {
                Some(connection) if connection.last_ns > looked_ns => {
                    self.closing.push_back((connection.last_ns, id));
                }
                Some(_) => return self.remove(id),
                None => {}
            }
        }
        None
    }

    /// Any live connection, oldest first: for the end of a capture.
    pub fn drain(&mut self) -> Option<Box<Connection>> {
        while let Some(Reverse((_, id))) = self.idle.pop() {
            if let Some(connection) = self.remove(id) {
                return Some(connection);
            }
        }
        None
    }

    fn remove(&mut self, id: Id) -> Option<Box<Connection>> {
        let mut connection = self.connections.remove(id)?;
        connection.prefetch_row();
        connection.merge_counts();
        for (client, server) in connection.other_paths() {
            self.by_tuple
                .remove(self.by_tuple.tuple(client, server), id);
        }
        let tuple = self.by_tuple.tuple(&connection.client, &connection.server);
        self.by_tuple.remove(tuple, id);
        for cid in connection.server_cids.iter() {
            self.by_cid.remove(cid, id);
        }
        self.tombstones
            .add(self.by_tuple.with_cid(tuple, &connection.odcid));
        self.tombstones.add(tuple.hash());
        Some(connection)
    }

    /// Takes back a connection that was written out: its memory is still at hand for the next one.
    pub fn give_back(&mut self, connection: Box<Connection>) {
        self.spare = Some(connection);
    }
}

/// Whether the first in a queue was silent for longer than `limit_ns` when it was looked at.
fn is_over(limit_ns: i64, first: Option<&(i64, Id)>, now_ns: i64) -> bool {
    first.is_some_and(|(looked_ns, _)| looked_ns.saturating_add(limit_ns) < now_ns)
}
