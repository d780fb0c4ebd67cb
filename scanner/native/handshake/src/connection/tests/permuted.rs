//! A server that permutes its transport parameters: quinn.

use std::collections::HashSet;

use firstflight_wire::transport::TransportParameters;
use quinn_proto::{Endpoint, EndpointConfig, TransportConfig, VarInt};

use super::*;
use crate::stack;

/// Completes a handshake, and returns the fingerprint of the server's parameters.
fn fingerprint(world: &mut World) -> String {
    let mut client = client();
    world.run(&mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::Done));
    let bytes = client.tls().quic_transport_parameters().unwrap();
    TransportParameters::new(bytes).fingerprint(64).unwrap()
}

#[test]
fn a_stack_that_permutes_is_known_in_every_order() {
    let mut orders = HashSet::new();
    let mut sets = HashSet::new();
    for retry in [false, false, true, true] {
        let mut world = World::new(b"h3");
        world.retry = retry;
        let found = fingerprint(&mut world);
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

#[test]
fn a_stack_is_known_with_other_settings() {
    let few = VarInt::from_u32(3);
    let mut counts = HashSet::new();
    for setting in 0..5 {
        let mut transport = TransportConfig::default();
        let mut endpoint = EndpointConfig::default();
        match setting {
            0 => transport.max_idle_timeout(None),
            1 => transport.datagram_receive_buffer_size(None),
            2 => transport.max_concurrent_uni_streams(few),
            3 => transport.receive_window(VarInt::from_u32(1 << 20)),
            _ => &mut transport,
        };
        if setting == 4 {
            endpoint.grease_quic_bit(false);
            endpoint.max_udp_payload_size(1_300).unwrap();
        }
        let mut world = World::new(b"h3");
        world.config.transport_config(Arc::new(transport));
        world.config.migration(setting % 2 == 0);
        let config = Some(Arc::new(world.config.clone()));
        world.endpoint = Endpoint::new(Arc::new(endpoint), config, true, None);
        let found = fingerprint(&mut world);
        assert_eq!(stack::name(&found), Some("quinn"), "{found}");
        counts.insert(found.split(',').count());
    }
    assert!(counts.len() > 1, "{counts:?}");
}
