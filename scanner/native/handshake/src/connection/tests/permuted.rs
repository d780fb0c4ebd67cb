//! A server that permutes its transport parameters: quinn.

use std::collections::HashSet;

use firstflight_wire::transport::TransportParameters;

use super::*;
use crate::stack;

#[test]
fn a_stack_that_permutes_is_known_in_every_order() {
    let mut orders = HashSet::new();
    let mut sets = HashSet::new();
    for retry in [false, false, true, true] {
        let mut world = World::new(b"h3");
        world.retry = retry;
        let mut client = client();
        world.run(&mut client);
        assert_eq!(client.observed.outcome, Some(Outcome::Done));
        let bytes = client.tls().quic_transport_parameters().unwrap();
        let found = TransportParameters::new(bytes).fingerprint(64).unwrap();
        assert_eq!(stack::name(&found), Some("quinn"), "{found}");
        let mut set: Vec<String> = found.split(',').map(str::to_owned).collect();
        set.sort();
        sets.insert(set);
        orders.insert(found);
    }
    // There are 16! orders.
    assert!(orders.len() > 1, "{orders:?}");
    assert_eq!(sets.len(), 1, "{sets:?}");
}
