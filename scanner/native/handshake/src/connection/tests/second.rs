//! Second connections, which use the ticket and the token of a first one.

use super::*;

/// A server that issues tokens and tickets for 0-RTT, and accepts or rejects 0-RTT.
fn resuming_world(early_data: bool) -> World {
    let mut world = World::new(b"h3");
    world.allow_early_data(early_data);
    world
}

fn second(world: &mut World, first: &mut Connection) -> Connection {
    world.server = None;
    world.answered = false;
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let request = Requests::new("/".to_owned(), "test".to_owned()).to("a.test", (ip, 443).into());
    let memory = first.memory();
    assert!(memory.is_some(), "{:?}", first.observed);
    let shared = first.context.clone();
    let cids = ([6; 8], [5; 8]);
    Connection::begin(
        shared,
        ("a.test", ip),
        cids,
        request,
        1252,
        world.now,
        memory,
    )
    .unwrap()
}

fn remembering() -> Connection {
    let tls = Tls::new(KeyShare::X25519, Verify::Signature, None, false).unwrap();
    client_with(Arc::new(Context {
        tls: tls.with_tickets(true),
        versions: vec![Version::V1],
        control: control().unwrap().into(),
        contact: Vec::new(),
        timeout: 10_000 * MS,
    }))
}

#[test]
fn a_second_connection_asks_in_its_first_flight() {
    for (permitted, accepted, early) in [
        (true, true, Some(true)),
        (true, false, Some(false)),
        (false, false, None),
    ] {
        let mut world = resuming_world(permitted);
        let mut first = remembering();
        world.run(&mut first);
        assert_eq!(first.observed.outcome, Some(Outcome::Done));
        assert_eq!(
            (first.observed.early_data, first.again),
            (permitted, Again::default())
        );
        world.allow_early_data(accepted);
        let begun = world.now;
        let mut client = second(&mut world, &mut first);
        world.run(&mut client);
        let (observed, again) = (&client.observed, &client.again);
        assert_eq!(
            (observed.outcome, client.http()),
            (Some(Outcome::Done), Http::Response),
            "{observed:?}"
        );
        assert!(again.ticket && again.token && again.resumed == Some(true));
        assert_eq!(again.early_data, early, "{permitted} {accepted}");
        let passed = |at: observed::Milestone| at.map(|(at, _)| (at as u64 - begun) / DELAY);
        let response = if early == Some(true) { 2 } else { 4 };
        assert_eq!(
            (passed(observed.hello), passed(observed.response)),
            (Some(2), Some(response))
        );
        assert!(client.certificate().is_none() && client.note.signature_valid.is_none());
        assert!(
            client.memory().is_none(),
            "nothing is kept of a second connection"
        );
    }
}

#[test]
fn a_second_connection_survives_the_loss_of_any_datagram_and_a_retry() {
    let losses = [0, 1]
        .into_iter()
        .flat_map(|from| (0..5).map(move |number| (from, number)));
    for (retry, lost) in losses
        .map(|lost| (false, lost))
        .chain([(true, (0, usize::MAX))])
    {
        let mut world = resuming_world(true);
        let mut first = remembering();
        world.run(&mut first);
        (world.sent, world.retry_always) = ([0; 2], retry);
        world.fate = (lost.0, lost.1, Fate::Lost);
        let mut client = second(&mut world, &mut first);
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, client.http(), observed.retry),
            (Some(Outcome::Done), Http::Response, retry),
            "{lost:?} {observed:?}"
        );
        assert_eq!(client.again.early_data, Some(true), "{lost:?}");
    }
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let mut client = client();
    resuming_world(true).run(&mut client);
    assert!(client.observed.tickets > 0 && client.memory().is_none());
}
