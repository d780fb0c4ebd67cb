//! What leaves now: tokens and closes from the port of their probe, new connections in batches from a random port.

use super::Engine;
use super::batch::Kind;
use firstflight_core::egress::mmsg::BATCH;
use firstflight_core::targets::TargetRef;

/// Most batches of new probes, and of further connections, in one round.
const BATCHES: usize = 16;

impl Engine {
    /// Tokens, then closes of one port; `at_once`: closes do not wait for company.
    pub(super) fn send_outgoing(&mut self, port: usize, at_once: bool) {
        let now = self.clock.now();
        if !self.outgoing[port].is_due(now, !at_once) {
            return;
        }
        let mut room = self.pacer.others(now) as usize;
        let mut batch = Vec::new();
        while room > 0 {
            let out = &mut self.outgoing[port];
            let token = out.tokens.pop_front().map(|handle| (handle, Kind::Token));
            let Some((handle, kind)) =
                token.or_else(|| out.closes.pop_front().map(|handle| (handle, Kind::Close)))
            else {
                break;
            };
            room -= 1;
            self.put(&mut batch, handle, kind, None);
            if self.egress.is_full() {
                self.flush(port, &mut batch);
            }
        }
        self.flush(port, &mut batch);
    }

    /// Further connections for targets that did not answer, each from another port than before.
    pub(super) fn send_again(&mut self) {
        for _ in 0..BATCHES {
            for v4 in [true, false] {
                let room = self.pacer.others(self.clock.now()) as usize;
                let count = self.again.len().min(room).min(BATCH);
                if count > 0 && !self.ports.of(v4).is_empty() {
                    let port = self.random_port(v4);
                    self.send_again_from(port, v4, count);
                }
            }
        }
    }

    /// The first `count` further connections, as far as they may come from `port`.
    fn send_again_from(&mut self, port: u16, v4: bool, count: usize) {
        let mut batch = Vec::new();
        for _ in 0..count {
            let Some(handle) = self.again.pop_front() else {
                break;
            };
            let Some(flight) = self.table.get(handle) else {
                continue;
            };
            if flight.to.is_ipv4() != v4 || flight.port == port {
                self.again.push_back(handle);
                continue;
            }
            let fresh = self.next_attempt(handle);
            self.put(&mut batch, handle, Kind::Again, fresh);
        }
        self.flush(usize::from(port), &mut batch);
    }

    /// New probes.
    pub(super) fn send_new(&mut self) {
        if self.stopping {
            return;
        }
        let now = self.clock.now();
        let most = self
            .pacer
            .new_probes(now)
            .min((BATCHES * BATCH) as u64)
            .min(self.room_in_flight() as u64);
        let mut families = [Vec::new(), Vec::new()];
        for _ in 0..most {
            let Some((target, to)) = self.next_target(now) else {
                break;
            };
            families[usize::from(to.is_ipv6())].push((target, to));
        }
        for targets in families {
            for some in targets.chunks(BATCH) {
                let v4 = some[0].1.is_ipv4();
                if self.ports.of(v4).is_empty() {
                    self.no_such_family(some, v4);
                    continue;
                }
                let port = self.random_port(v4);
                let mut batch = Vec::with_capacity(some.len());
                for (target, to) in some {
                    let handle = self.connect(TargetRef::Listed(*target), *to, port);
                    self.put(&mut batch, handle, Kind::New, None);
                }
                self.flush(usize::from(port), &mut batch);
            }
        }
    }
}
