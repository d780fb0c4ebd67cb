//! Live flows by key.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use super::expiry::{Bounds, Expiry};
use super::tombstones::Tombstones;

/// Removed flows that are remembered, to distinguish their late packets from new flows.
const REMEMBERED: usize = 1 << 17;

/// A flow's properties that a table needs.
pub trait Live {
    /// Time of the last packet.
    fn last_ns(&self) -> i64;
}

/// The live flows.
pub struct FlowTable<K, V> {
    flows: HashMap<K, (u64, Box<V>)>,
    next_id: u64,
    /// A key may be used again, so a number precedes it.
    expiry: Expiry<(u64, K)>,
    tombstones: Tombstones,
    hasher: RandomState,
}

impl<K: Copy + Ord + Hash, V: Live> FlowTable<K, V> {
    pub fn new(bounds: Bounds) -> Self {
        FlowTable {
            flows: HashMap::new(),
            next_id: 0,
            expiry: Expiry::new(bounds),
            tombstones: Tombstones::new(REMEMBERED),
            hasher: RandomState::new(),
        }
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.flows.get_mut(key).map(|(_, flow)| flow.as_mut())
    }

    /// Whether a flow with this key was recently removed.
    pub fn was_removed(&self, key: &K) -> bool {
        self.tombstones.contains(self.hasher.hash_one(key))
    }

    /// Inserts a flow. Returns the flow that it replaces.
    pub fn insert(&mut self, key: K, flow: V) -> Option<Box<V>> {
        let id = self.next_id;
        self.next_id += 1;
        self.expiry.add((id, key), flow.last_ns());
        let replaced = self.flows.insert(key, (id, Box::new(flow)));
        if replaced.is_some() {
            let flows = &self.flows;
            let is_live = |(id, key): (u64, K)| live(flows, id, &key).is_some();
            self.expiry.drop_removed(flows.len(), is_live);
        }
        replaced.map(|(_, old)| old)
    }

    /// Marks the flow of `key` as closed at `now_ns`, the last packet's time.
    pub fn closed(&mut self, key: K, now_ns: i64) {
        if let Some((id, _)) = self.flows.get(&key) {
            self.expiry.close((*id, key), now_ns);
        }
    }

    /// Removes and returns a flow that is expired at `now_ns`. Call it until it returns `None`.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<V>> {
        let flows = &self.flows;
        let last_ns = |(id, key): (u64, K)| live(flows, id, &key).map(V::last_ns);
        let (_, key) = self.expiry.expired(now_ns, flows.len(), last_ns)?;
        self.remove(&key)
    }

    /// Removes and returns a live flow, oldest first, at the end of a capture.
    pub fn drain(&mut self) -> Option<Box<V>> {
        while let Some((id, key)) = self.expiry.drain() {
            if live(&self.flows, id, &key).is_some() {
                return self.remove(&key);
            }
        }
        None
    }

    /// Flows removed early due to a limit.
    pub fn evicted(&self) -> u64 {
        self.expiry.evicted()
    }

    fn remove(&mut self, key: &K) -> Option<Box<V>> {
        let (_, flow) = self.flows.remove(key)?;
        self.tombstones.add(self.hasher.hash_one(key));
        Some(flow)
    }
}

/// The flow of `key` if it still has the number `id`.
fn live<'a, K: Eq + Hash, V>(
    flows: &'a HashMap<K, (u64, Box<V>)>,
    id: u64,
    key: &K,
) -> Option<&'a V> {
    let (live, flow) = flows.get(key)?;
    (*live == id).then_some(flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Flow(i64);

    impl Live for Flow {
        fn last_ns(&self) -> i64 {
            self.0
        }
    }

    fn table(max_live: usize) -> FlowTable<u8, Flow> {
        FlowTable::new(Bounds {
            idle_ns: 60,
            closing_ns: 10,
            max_live,
        })
    }

    #[test]
    fn idle_flows_expire_and_active_ones_stay() {
        let mut t = table(9);
        t.insert(1, Flow(0));
        t.insert(2, Flow(0));
        t.get_mut(&2).unwrap().0 = 30;
        assert!(t.expired(60).is_none());
        assert_eq!(t.expired(61).map(|f| f.0), Some(0));
        assert!(t.expired(61).is_none() && t.was_removed(&1) && !t.was_removed(&2));
        assert_eq!(t.expired(91).map(|f| f.0), Some(30));
    }

    #[test]
    fn closed_flows_expire_sooner_but_not_their_successors() {
        let mut t = table(9);
        t.insert(1, Flow(0));
        t.closed(1, 0);
        assert!(t.insert(1, Flow(5)).is_some());
        assert!(t.expired(20).is_none());
        t.closed(1, 20);
        assert_eq!(t.expired(31).map(|f| f.0), Some(5));
        assert!(t.drain().is_none());
    }

    #[test]
    fn flows_that_others_replace_take_no_room() {
        let mut t = table(9);
        t.insert(2, Flow(0));
        for ns in 0..10_000 {
            assert_eq!(t.insert(1, Flow(ns)).map(|f| f.0), (ns > 0).then(|| ns - 1));
            t.closed(1, ns);
            assert!(t.expiry.queued() < 5000);
        }
        assert_eq!(t.expired(61).map(|f| f.0), Some(0));
        assert_eq!(t.drain().map(|f| f.0), Some(9999));
        assert!(t.drain().is_none());
    }

    #[test]
    fn of_too_many_the_one_idle_for_longest_expires_not_the_newest() {
        let mut t = table(3);
        for (key, ns) in [(1, 1), (2, 2), (3, 3)] {
            t.insert(key, Flow(ns));
            t.get_mut(&key).unwrap().0 = 10 + ns;
        }
        // The newest flow has only one packet, but it was the last active one.
        t.insert(4, Flow(20));
        assert_eq!(t.expired(20).map(|f| f.0), Some(11));
        assert!(t.expired(20).is_none());
    }

    #[test]
    fn an_active_flow_is_not_evicted() {
        let mut t = table(1);
        t.insert(1, Flow(1));
        t.insert(2, Flow(2));
        // The first flow stays active, so the second has been idle for longest.
        t.get_mut(&1).unwrap().0 = 3;
        assert_eq!(t.expired(3).map(|f| f.0), Some(2));
        assert_eq!((t.evicted(), t.expired(3).is_none()), (1, true));
        assert_eq!(t.drain().map(|f| f.0), Some(3));
    }
}
