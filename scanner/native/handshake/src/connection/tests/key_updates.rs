//! A server that updates its keys (RFC 9001 6).

use super::*;

#[test]
fn a_server_that_updates_its_keys_is_followed() {
    let cases: [(&[Mono], u64); 4] = [
        (&[], 0),
        (&[100], 1),
        // quinn waits for some round trips before the next update.
        (&[100, 1000], 2),
        (&[100, 1000, 2000], 3),
    ];
    for (updates, generation) in cases {
        let mut world = World::new(b"h3");
        world.answer = Reaction::Nothing;
        world.updates = updates.iter().map(|at| at * MS).collect();
        let mut client = client();
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            observed.outcome,
            Some(Outcome::Done),
            "{updates:?} {observed:?}"
        );
        assert_eq!(observed.discarded, 0, "{updates:?} {observed:?}");
        let keys = client.spaces[Level::Data as usize].keys.as_ref().unwrap();
        assert_eq!(keys.generation(), generation, "{updates:?}");
        // The server has received our ACKs and our close, which are in the new phase.
        let (_, server) = world.server.as_mut().unwrap();
        assert!(
            server.is_drained() || server.is_closed(),
            "{updates:?}: the server does not have the close"
        );
        assert_eq!(observed.detail, None, "{updates:?}");
    }
}

#[test]
fn what_comes_late_is_opened_with_the_keys_before_an_update() {
    for late in 3..8 {
        let mut world = World::new(b"h3");
        world.answer = Reaction::Nothing;
        world.updates = [100 * MS, 1000 * MS].into();
        world.fate = (1, late, Fate::Late);
        let mut client = client();
        world.run(&mut client);
        let observed = &client.observed;
        let found = (observed.outcome, observed.discarded);
        assert_eq!(found, (Some(Outcome::Done), 0), "{late} {observed:?}");
    }
}

#[test]
fn a_packet_with_another_phase_that_does_not_authenticate_changes_nothing() {
    for number in 0..8 {
        let mut world = World::new(b"h3");
        world.answer = Reaction::Nothing;
        world.updates = [100 * MS].into();
        world.fate = (1, number, Fate::Broken);
        let mut client = client();
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(observed.outcome, Some(Outcome::Done), "{number}");
        let keys = client.spaces[Level::Data as usize].keys.as_ref().unwrap();
        assert_eq!(keys.generation(), 1, "{number}");
    }
}
