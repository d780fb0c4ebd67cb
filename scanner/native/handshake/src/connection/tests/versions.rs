//! Version negotiation with a server that supports only version 1, and answers other versions with Version Negotiation.

use super::*;
use crate::connection::observed::VersionChange;

fn client(versions: &[Version], second: bool) -> Connection {
    let several = versions.len() > 1;
    let tls = Tls::new(KeyShare::X25519, Verify::Signature, None, several).unwrap();
    client_with(Arc::new(Context {
        tls: tls.with_tickets(second),
        versions: versions.to_vec(),
        control: control().unwrap().into(),
        contact: Vec::new(),
        timeout: 10_000 * MS,
    }))
}

#[test]
fn version_negotiation_leads_to_a_second_attempt() {
    for lost in [None, Some((0, 0)), Some((0, 1)), Some((1, 0)), Some((1, 1))] {
        let mut world = World::new(b"h3");
        if let Some((from, number)) = lost {
            world.fate = (from, number, Fate::Lost);
        }
        let mut client = client(&[Version::V2, Version::V1], false);
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(observed.stage(), Stage::Response, "{lost:?} {observed:?}");
        assert_eq!(client.version(), Version::V1);
        assert_eq!(observed.version_change, Some(VersionChange::Incompatible));
        let listed = observed.versions.as_deref().unwrap();
        assert!(listed.split(',').any(|version| version == "0x00000001"));
        assert_eq!(observed.hello_datagrams, 1);
        // Only the second attempt counts.
        let whole = observed.first_flight.datagrams < observed.received.datagrams;
        assert!(whole && observed.first_answer().is_some());
    }
}

#[test]
fn without_a_common_version_it_ends() {
    let mut world = World::new(b"h3");
    let mut client = client(&[Version::V2], false);
    world.run(&mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::VersionNegotiation));
    assert_eq!(client.observed.version_change, None);
    assert!(client.observed.versions.is_some());
}

#[test]
fn who_speaks_the_first_version_changes_nothing() {
    let mut world = World::new(b"h3");
    let mut client = client(&[Version::V1, Version::V2], true);
    world.run(&mut client);
    assert_eq!(client.observed.stage(), Stage::Response);
    assert_eq!(client.observed.version_change, None);
    assert_eq!(client.version(), Version::V1);
    let memory = client.memory().unwrap();
    assert_eq!(memory.version, Some(Version::V1));
}
