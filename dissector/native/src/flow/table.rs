//! Live flows by key, and when one is over: silent for too long, closed, or pushed out by others.

use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Flows written out whose late packets are still told from new flows.
const REMEMBERED: usize = 1 << 17;

/// What a table must know of a flow.
pub trait Live {
    /// Time of its last packet.
    fn last_ns(&self) -> i64;
}

/// What bounds a table.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Silence after which a flow is over.
    pub idle_ns: i64,
    /// The same once it is known to be closed.
    pub closing_ns: i64,
    pub max_flows: usize,
}

/// The live flows.
pub struct FlowTable<K, V> {
    bounds: Bounds,
    flows: HashMap<K, (u64, Box<V>)>,
    next_id: u64,
    /// (time of the last look, id, key), the earliest first: whoever spoke since goes back with the time when it did.
    idle: BinaryHeap<Reverse<(i64, u64, K)>>,
    closing: VecDeque<(i64, u64, K)>,
    gone: HashSet<u64>,
    gone_order: VecDeque<u64>,
    hasher: RandomState,
    /// Flows written out early because there were too many.
    pub evicted: u64,
}

impl<K: Copy + Ord + Hash, V: Live> FlowTable<K, V> {
    pub fn new(bounds: Bounds) -> Self {
        FlowTable {
            bounds,
            flows: HashMap::new(),
            next_id: 0,
            idle: BinaryHeap::new(),
            closing: VecDeque::new(),
            gone: HashSet::new(),
            gone_order: VecDeque::new(),
            hasher: RandomState::new(),
            evicted: 0,
        }
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.flows.get_mut(key).map(|(_, flow)| flow.as_mut())
    }

    /// Whether the last flow of that key was written out not long ago.
    pub fn is_gone(&self, key: &K) -> bool {
        self.gone.contains(&self.hasher.hash_one(key))
    }

    /// Puts a flow in; gives the one whose place it takes, if there was one.
    pub fn insert(&mut self, key: K, flow: V) -> Option<Box<V>> {
        let id = self.next_id;
        self.next_id += 1;
        self.idle.push(Reverse((flow.last_ns(), id, key)));
        self.flows
            .insert(key, (id, Box::new(flow)))
            .map(|(_, old)| old)
    }

    /// Says that the flow of `key` was closed by its packet at `now_ns`.
    pub fn closed(&mut self, key: K, now_ns: i64) {
        if let Some((id, _)) = self.flows.get(&key) {
            self.closing.push_back((now_ns, *id, key));
        }
    }

    /// A flow that is over by `now_ns`, if there is one; call it until there is none.
    pub fn expired(&mut self, now_ns: i64) -> Option<Box<V>> {
        if let Some(flow) = self.expired_closing(now_ns) {
            return Some(flow);
        }
        let is_full = self.flows.len() > self.bounds.max_flows;
        while let Some(Reverse((looked_ns, id, key))) = self.idle.peek().copied() {
            let is_over = looked_ns.saturating_add(self.bounds.idle_ns) < now_ns;
            if !is_over && !is_full {
                return None;
            }
            self.idle.pop();
            match self.flows.get(&key) {
                // It spoke since: look again when its silence may have lasted long enough.
                Some((live, flow)) if *live == id && flow.last_ns() > looked_ns => {
                    self.idle.push(Reverse((flow.last_ns(), id, key)));
                }
                Some((live, _)) if *live == id => {
                    // Of all that live, it has been silent for longest.
                    self.evicted += u64::from(!is_over);
                    return self.remove(&key);
                }
                _ => {}
            }
        }
        None
    }

    fn expired_closing(&mut self, now_ns: i64) -> Option<Box<V>> {
        let limit = self.bounds.closing_ns;
        while let Some((looked_ns, id, key)) = self.closing.front().copied() {
            if looked_ns.saturating_add(limit) >= now_ns {
                break;
            }
            self.closing.pop_front();
            match self.flows.get(&key) {
                Some((live, flow)) if *live == id && flow.last_ns() > looked_ns => {
                    self.closing.push_back((flow.last_ns(), id, key));
                }
                Some((live, _)) if *live == id => return self.remove(&key),
                _ => {}
            }
        }
        None
    }

    /// Any live flow, oldest first: for the end of a capture.
    pub fn drain(&mut self) -> Option<Box<V>> {
        while let Some(Reverse((_, id, key))) = self.idle.pop() {
            if self.flows.get(&key).is_some_and(|(live, _)| *live == id) {
                return self.remove(&key);
            }
        }
        None
    }

    fn remove(&mut self, key: &K) -> Option<Box<V>> {
        let (_, flow) = self.flows.remove(key)?;
        let hash = self.hasher.hash_one(key);
        if self.gone.insert(hash) {
            self.gone_order.push_back(hash);
        }
        if self.gone_order.len() > REMEMBERED
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
        Some(flow)
    }
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

    fn table(max_flows: usize) -> FlowTable<u8, Flow> {
        FlowTable::new(Bounds {
            idle_ns: 60,
            closing_ns: 10,
            max_flows,
        })
    }

    #[test]
    fn silence_ends_a_flow_and_speech_keeps_it() {
        let mut t = table(9);
        t.insert(1, Flow(0));
        t.insert(2, Flow(0));
        t.get_mut(&2).unwrap().0 = 30;
        assert!(t.expired(60).is_none());
        assert_eq!(t.expired(61).map(|f| f.0), Some(0));
        assert!(t.expired(61).is_none() && t.is_gone(&1) && !t.is_gone(&2));
        assert_eq!(t.expired(91).map(|f| f.0), Some(30));
    }

    #[test]
    fn closed_flows_go_sooner_but_not_their_successors() {
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
    fn of_too_many_the_most_silent_goes_not_the_newest() {
        let mut t = table(3);
        for (key, ns) in [(1, 1), (2, 2), (3, 3)] {
            t.insert(key, Flow(ns));
            t.get_mut(&key).unwrap().0 = 10 + ns;
        }
        // The newest has said one thing only, and yet was heard last.
        t.insert(4, Flow(20));
        assert_eq!(t.expired(20).map(|f| f.0), Some(11));
        assert!(t.expired(20).is_none());
    }

    #[test]
    fn too_many_push_out_the_oldest() {
        let mut t = table(1);
        t.insert(1, Flow(1));
        t.insert(2, Flow(2));
        // The first speaks on, so the second is the one that is silent.
        t.get_mut(&1).unwrap().0 = 3;
        assert_eq!(t.expired(3).map(|f| f.0), Some(2));
        assert_eq!((t.evicted, t.expired(3).is_none()), (1, true));
        assert_eq!(t.drain().map(|f| f.0), Some(3));
    }
}
