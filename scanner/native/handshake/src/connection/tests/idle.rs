//! Servers that fall silent (RFC 9000 10.1).

use std::time::Duration;

use quinn_proto::{IdleTimeout, TransportConfig, VarInt};

use super::*;

/// A server that drops a connection after `idle_ms` of silence, and sends a PING after `keeps_alive_ms`.
fn server(idle_ms: u32, keeps_alive_ms: Option<u64>) -> World {
    let mut world = World::new(b"h3");
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))));
    transport.keep_alive_interval(keeps_alive_ms.map(Duration::from_millis));
    world.config.transport_config(Arc::new(transport));
    let config = Arc::new(world.config.clone());
    world.endpoint.set_server_config(Some(config));
    world
}

#[test]
fn a_server_that_falls_silent_is_told_from_one_without_a_response() {
    // The client completes the handshake after two delays. The request reaches the server after three delays.
    let dead = 5 * DELAY / 2;
    for (idle_ms, keeps_alive_ms, dies, answer, http) in [
        (3_000, None, dead, Reaction::Response, Http::Idle),
        // Both idle timeouts are longer than the time limit.
        (30_000, None, dead, Reaction::Response, Http::NoResponse),
        (60_000, None, dead, Reaction::Response, Http::NoResponse),
        (3_000, None, Mono::MAX, Reaction::Nothing, Http::Idle),
        (
            3_000,
            Some(1_000),
            Mono::MAX,
            Reaction::Nothing,
            Http::NoResponse,
        ),
        // The last packet arrives less than three seconds before the end.
        (
            3_000,
            Some(1_000),
            8_000 * MS,
            Reaction::Nothing,
            Http::NoResponse,
        ),
        // A partial or complete response has precedence over silence.
        (3_000, None, Mono::MAX, Reaction::Half, Http::Incomplete),
        (3_000, None, Mono::MAX, Reaction::Response, Http::Response),
    ] {
        let mut world = server(idle_ms, keeps_alive_ms);
        (world.dies, world.answer) = (dies, answer);
        let mut client = client();
        world.run(&mut client);
        assert_eq!(
            (client.observed.outcome, client.http()),
            (Some(Outcome::Done), http),
            "{idle_ms} {keeps_alive_ms:?} {dies} {answer:?}"
        );
    }
}

#[test]
fn silence_counts_from_when_something_came_not_from_when_it_was_read() {
    let mut world = server(3_000, None);
    // From before the arrival of the server's first flight until two seconds before the deadline.
    world.suspended = (2 * DELAY, 8_000 * MS);
    let mut client = client();
    world.run(&mut client);
    assert_eq!(client.http(), Http::Idle);
}

#[test]
fn silence_before_the_handshake_is_complete_is_a_timeout() {
    let mut world = server(3_000, None);
    world.dies = 0;
    let mut client = client();
    world.run(&mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::Timeout));
    assert!(!client.idle);
}
