//! Answers datagrams with scripts, and stores the datagrams that are still to be sent.

use crate::modes::{Behaviour, behaviour};
use crate::session::Session;
use firstflight_listener::{Arrival, Config, Host, Releases, Routes, Sockets};
use firstflight_wire::ConnectionId;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A copy of an Initial within this time is not answered again.
const REMEMBERED: Duration = Duration::from_secs(5);

type Key = (SocketAddr, ConnectionId);

struct Outgoing {
    local: SocketAddr,
    peer: SocketAddr,
    datagram: Vec<u8>,
}

pub struct Rogue {
    routes: Routes<Behaviour>,
    answered: HashSet<Key>,
    forget: Releases<Key>,
    outgoing: Releases<Outgoing>,
}

impl Rogue {
    /// Checks every endpoint's mode. Errors are sentences for display.
    pub fn new(config: &Config) -> Result<Self, String> {
        config.transport.refuse()?;
        Ok(Self {
            routes: Routes::new(config, behaviour)?,
            answered: HashSet::new(),
            forget: Releases::default(),
            outgoing: Releases::default(),
        })
    }
}

impl Host for Rogue {
    fn arrived(&mut self, sockets: &Sockets, arrival: Arrival, bytes: &mut [u8]) {
        let Some(session) = Session::open(bytes, arrival.at) else {
            return;
        };
        let Some(behaviour) = self.routes.find(arrival.local.ip(), session.sni.as_deref()) else {
            return;
        };
        let key = (arrival.peer, session.odcid);
        if !self.answered.insert(key) {
            return;
        }
        self.forget.push(arrival.at + REMEMBERED, key);
        let script = match behaviour.play(&session) {
            Ok(script) => script,
            Err(error) => {
                eprintln!(
                    "firstflight-rogue: an answer to {} could not be built: {error}.",
                    arrival.peer
                );
                return;
            }
        };
        let (now, later): (Vec<_>, Vec<_>) = script
            .steps
            .into_iter()
            .partition(|(after, _)| after.is_zero());
        for (_, datagram) in now {
            sockets.send(arrival.local, arrival.peer, &datagram);
        }
        let departed = Instant::now();
        for (after, datagram) in later {
            let outgoing = Outgoing {
                local: arrival.local,
                peer: arrival.peer,
                datagram,
            };
            self.outgoing.push(departed + after, outgoing);
        }
    }

    fn next_due(&mut self) -> Option<Instant> {
        [self.outgoing.next_at(), self.forget.next_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn due(&mut self, sockets: &Sockets, now: Instant) {
        while let Some(Outgoing {
            local,
            peer,
            datagram,
        }) = self.outgoing.pop_due(now)
        {
            sockets.send(local, peer, &datagram);
        }
        while let Some(key) = self.forget.pop_due(now) {
            self.answered.remove(&key);
        }
    }
}
