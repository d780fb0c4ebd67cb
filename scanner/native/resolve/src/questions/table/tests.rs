use firstflight_core::clock::SECOND;
use firstflight_core::random;
use rand_chacha::rand_core::SeedableRng as _;

use super::*;
use crate::answer::tests::Writer;
use crate::questions::resolvers::Named;
use crate::status::Status;
use std::io;

fn table(attempts: u8, resolvers: usize) -> Table {
    let settings = Settings {
        types: vec![QType::A],
        timeout: SECOND,
        attempts,
        concurrency: 4,
        mixed: true,
    };
    let named: Vec<Named> = (0..resolvers)
        .map(|n| Named::parse(&format!("127.0.0.{}", n + 1)).unwrap())
        .collect();
    Table::new(
        settings,
        Resolvers::new(&named),
        random::seeded_by_system().unwrap(),
    )
}

/// Sends a queue's next question; returns the id and bytes.
fn send(table: &mut Table, resolver: usize, socket: u32, now: Mono) -> (u16, Vec<u8>) {
    let queue = &mut table.queues[resolver];
    let number = queue
        .udp
        .pop_front()
        .or_else(|| queue.tcp.pop_front())
        .unwrap();
    let mut out = [0; query::LONGEST];
    let (length, id) = table.write(number, socket, &mut out);
    table.sent(number, socket, id, now, 1_000 + now as Stamp);
    (id, out[..length].to_vec())
}

/// Returns an answer with one address to the question.
fn answer(question: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = question[..question.len() - 11].to_vec();
    bytes[2..4].copy_from_slice(&[0x81, 0x80]);
    bytes[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    bytes.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\0\x01");
    change(&mut bytes);
    bytes
}

fn begin(table: &mut Table, now: Mono) {
    let text = "www.example.test";
    table.begin(2, text.into(), Name::from_text(text).unwrap(), now);
}

/// Returns the resolver whose queue has a question.
fn waiting(table: &Table) -> usize {
    let mut queues = table.queues.iter();
    queues.position(|queue| !queue.udp.is_empty()).unwrap()
}

#[test]
fn an_answer_finishes_the_name() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    table.message(9, &answer(&question, |_| ()), 25);
    let finished = table.finished.pop().unwrap();
    let outcome = &finished.outcomes[0];
    assert_eq!(
        (finished.line, outcome.status, outcome.duration),
        (2, Status::NoError, 20)
    );
    assert_eq!(
        (outcome.asked_at, outcome.ttl, table.over.as_slice()),
        (1_005, Some(60), &[9][..])
    );
    assert!(table.is_empty() && table.sent.is_empty());
    table.expire(10 * SECOND);
    assert_eq!(table.deadlines.len(), 0);
}

#[test]
fn what_does_not_fit_is_ignored_and_counted() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    let good = answer(&question, |_| ());
    table.message(8, &good, 6);
    table.message(9, &answer(&question, |bytes| bytes[0] ^= 1), 7);
    table.message(9, &answer(&question, |bytes| bytes[17] ^= 1), 8);
    table.message(9, &answer(&question, |bytes| bytes[2] = 1), 9);
    assert_eq!((table.counts.unmatched, table.counts.foreign), (2, 2));
    assert!(table.finished.is_empty() && table.over.is_empty());
    table.message(9, &good, 10);
    table.message(9, &good, 11);
    assert_eq!((table.finished.len(), table.counts.unmatched), (1, 3));
}

#[test]
fn another_case_leads_to_a_question_without_mixing() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    let lower = |question: &[u8]| answer(question, |bytes| bytes[12..30].make_ascii_lowercase());
    let mut asked = question.clone();
    if lower(&question)[12..30] != question[12..30] {
        table.message(9, &lower(&question), 6);
        assert!(table.finished.is_empty());
        asked = send(&mut table, 0, 9, 7).1;
        assert_eq!(table.resolvers.all()[0].case_changed, 1);
    }
    table.message(9, &lower(&asked), 8);
    assert_eq!(table.finished[0].outcomes[0].attempts, 1);
}

/// Returns the name in a question, as it was sent.
fn name_of(question: &[u8]) -> &[u8] {
    &question[12..30]
}

#[test]
fn what_changes_the_case_is_asked_in_lower_case() {
    let mut table = table(1, 1);
    table.random = ChaCha8Rng::seed_from_u64(7);
    // The root has no letters, so its answer does not show whether the case is preserved.
    table.begin_check(0, 0);
    let (_, question) = send(&mut table, 0, 9, 0);
    let mut root = Writer::answer(".", QType::A, 0).bytes(0);
    root[..2].copy_from_slice(&question[..2]);
    table.message(9, &root, 1);
    assert_eq!(table.checks, [(0, None)]);
    for name in 0..4 {
        begin(&mut table, 0);
        let (_, question) = send(&mut table, 0, 9, 5);
        let is_lower = name_of(&question) == b"\x03www\x07example\x04test\0";
        assert_eq!(
            is_lower,
            name == 3,
            "mixed until it was changed three times"
        );
        let lower =
            |question: &[u8]| answer(question, |bytes| bytes[12..30].make_ascii_lowercase());
        table.message(9, &lower(&question), 6);
        if name < 3 {
            let (_, again) = send(&mut table, 0, 9, 7);
            assert_eq!(name_of(&again), b"\x03www\x07example\x04test\0");
            table.message(9, &lower(&again), 8);
        }
        assert_eq!(table.finished.len(), name + 1);
    }
    assert!(!table.resolvers.keeps_case(0));
}

#[test]
fn without_mixing_a_name_is_asked_for_in_lower_case() {
    let mut table = table(1, 1);
    table.settings.mixed = false;
    let name = Name::from_text("wwW.Example.TEST").unwrap();
    table.begin(2, "wwW.Example.TEST".into(), name, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    assert_eq!(name_of(&question), b"\x03www\x07example\x04test\0");
}

#[test]
fn silence_ends_by_timeout_and_waits_before_the_next_attempt() {
    let mut table = table(2, 2);
    begin(&mut table, 0);
    let first = waiting(&table);
    send(&mut table, first, 9, 0);
    assert_eq!(table.next_at(), Some(SECOND));
    table.expire(SECOND - 1);
    assert_eq!(table.len(), 1);
    table.expire(SECOND);
    let due = table.next_at().unwrap();
    assert!(
        (SECOND + SECOND / 4..=SECOND + 3 * SECOND / 4).contains(&due),
        "{due}"
    );
    table.expire(due);
    let second = waiting(&table);
    assert_ne!(first, second, "the other resolver is asked");
    send(&mut table, second, 9, due);
    table.expire(due + SECOND);
    let outcome = &table.finished[0].outcomes[0];
    assert_eq!(
        (outcome.status, outcome.attempts, outcome.resolver),
        (Status::Timeout, 2, second)
    );
    assert_eq!((outcome.duration, table.silence), (SECOND, 1));
    assert_eq!(table.over, [9, 9]);
}

#[test]
fn a_timer_ends_no_later_question_of_its_number() {
    let mut table = table(1, 1);
    // The first timer stays in the queue, and all later timers follow it.
    begin(&mut table, 0);
    send(&mut table, 0, 9, 0);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 1);
    table.message(9, &answer(&question, |_| ()), 2);
    begin(&mut table, SECOND / 2);
    send(&mut table, 0, 9, SECOND / 2);
    table.expire(SECOND + 1);
    assert_eq!((table.len(), table.finished.len()), (1, 2));
    assert_eq!(table.next_at(), Some(3 * SECOND / 2));
    table.expire(3 * SECOND / 2);
    let outcome = &table.finished[2].outcomes[0];
    assert_eq!(
        (outcome.status, outcome.duration),
        (Status::Timeout, SECOND)
    );
}

#[test]
fn waits_are_spread_from_half_to_one_and_a_half() {
    const NAMES: usize = 1000;
    let mut table = table(3, 1);
    table.random = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..NAMES {
        begin(&mut table, 0);
    }
    let mut now = 0;
    for wait in [SECOND / 2, SECOND] {
        while !table.queues[0].udp.is_empty() {
            send(&mut table, 0, 9, now);
        }
        now += SECOND;
        table.expire(now);
        let due = table.backoffs.iter().map(|Reverse((due, _, _))| *due - now);
        let mut waits: Vec<Mono> = due.collect();
        waits.sort_unstable();
        assert_eq!(waits.len(), NAMES);
        assert!(waits[0] >= wait / 2 && waits[NAMES - 1] <= wait * 3 / 2);
        // The waits are uniform: each tenth of the range has about a tenth of them.
        for tenth in 0..10 {
            let from = wait / 2 + wait * tenth / 10;
            let within = from..from + wait / 10;
            let count = waits.iter().filter(|wait| within.contains(*wait)).count();
            assert!((60..140).contains(&count), "{tenth}: {count}");
        }
        now += wait * 3 / 2;
        table.expire(now);
    }
}

#[test]
fn without_edns_the_same_resolver_is_asked_again() {
    let mut table = table(1, 2);
    begin(&mut table, 0);
    let first = waiting(&table);
    let (_, question) = send(&mut table, first, 9, 5);
    table.message(9, &answer(&question, |bytes| bytes[3] |= 1), 6);
    assert_eq!(waiting(&table), first);
    let (_, again) = send(&mut table, first, 9, 7);
    assert_eq!((again.len() + 11, again[11]), (question.len(), 0));
    let as_long = [&again[..], &[0; 11]].concat();
    table.message(9, &answer(&as_long, |_| ()), 8);
    let outcome = &table.finished[0].outcomes[0];
    assert_eq!((outcome.status, outcome.attempts), (Status::NoError, 1));
    assert_eq!((outcome.resolver, outcome.duration), (first, 2));
}

#[test]
fn another_resolver_is_asked_with_edns_again() {
    let mut table = table(2, 2);
    begin(&mut table, 0);
    let first = waiting(&table);
    for time in [5, 7] {
        let (_, question) = send(&mut table, first, 9, time);
        // FORMERR, with and without EDNS.
        let with_edns = if question[11] == 1 {
            question
        } else {
            [&question[..], &[0; 11]].concat()
        };
        table.message(9, &answer(&with_edns, |bytes| bytes[3] |= 1), time + 1);
    }
    table.expire(SECOND);
    let second = waiting(&table);
    assert_ne!(first, second);
    let (_, question) = send(&mut table, second, 9, SECOND);
    assert_eq!(question[11], 1, "one additional record");
}

#[test]
fn truncated_answers_lead_to_tcp() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    table.message(9, &answer(&question, |bytes| bytes[2] |= 2), 6);
    assert_eq!(
        (table.queues[0].udp.len(), table.queues[0].tcp.len()),
        (0, 1)
    );
    let (_, question) = send(&mut table, 0, 10, 7);
    table.message(10, &answer(&question, |_| ()), 8);
    assert_eq!(
        table.finished[0].outcomes[0].transport.map(|t| t.name()),
        Some("tcp")
    );
}

#[test]
fn another_case_over_tcp_leads_to_a_question_over_tcp() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    let (_, question) = send(&mut table, 0, 9, 5);
    table.message(9, &answer(&question, |bytes| bytes[2] |= 2), 6);
    let (_, question) = send(&mut table, 0, 10, 7);
    let other_case = answer(&question, |bytes| {
        for byte in bytes[12..30].iter_mut().filter(|b| b.is_ascii_alphabetic()) {
            *byte ^= 0x20;
        }
    });
    table.message(10, &other_case, 8);
    let queues = &table.queues[0];
    assert_eq!(
        (queues.udp.len(), queues.tcp.len(), queues.connections),
        (0, 1, 0)
    );
    let (_, question) = send(&mut table, 0, 11, 9);
    table.message(11, &answer(&question, |_| ()), 10);
    let outcome = &table.finished[0].outcomes[0];
    assert_eq!(
        (outcome.status, outcome.transport.map(|t| t.name())),
        (Status::NoError, Some("tcp"))
    );
    assert_eq!(table.queues[0].connections, 0);
}

#[test]
fn a_socket_that_fails_ends_its_questions() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    begin(&mut table, 0);
    send(&mut table, 0, 9, 5);
    send(&mut table, 0, 10, 5);
    table.failed(9, &io::Error::from_raw_os_error(111), 6);
    assert_eq!(
        table.finished[0].outcomes[0].detail.as_deref(),
        Some("Connection refused")
    );
    assert_eq!((table.finished.len(), table.len()), (1, 1));
    assert_eq!(table.over, [9], "its questions are over");
}

#[test]
fn an_error_ends_no_question_that_is_about_to_leave() {
    let mut table = table(1, 1);
    begin(&mut table, 0);
    begin(&mut table, 0);
    send(&mut table, 0, 9, 5);
    let number = table.queues[0].udp.pop_front().unwrap();
    let (_, id) = table.write(number, 9, &mut [0; query::LONGEST]);
    table.reserve(9, id, number);
    table.failed(9, &io::Error::from_raw_os_error(111), 6);
    assert_eq!((table.finished.len(), table.len()), (1, 1));
    table.sent(number, 9, id, 7, 1_007);
    table.expire(7 + SECOND);
    assert_eq!(table.finished[1].outcomes[0].status, Status::Timeout);
}

#[test]
fn checks_say_which_resolver_answers() {
    let mut table = table(1, 2);
    table.begin_check(1, 0);
    let (_, question) = send(&mut table, 1, 9, 0);
    let mut refused = Writer::answer(".", QType::A, 5).bytes(0);
    refused[..2].copy_from_slice(&question[..2]);
    table.message(9, &refused, 1);
    assert_eq!(table.checks, [(1, None)]);
    table.checks.clear();
    table.begin_check(0, 0);
    let mut now = 0;
    while table.checks.is_empty() {
        if !table.queues[0].udp.is_empty() {
            send(&mut table, 0, 9, now);
        }
        now = table.next_at().unwrap();
        table.expire(now);
    }
    assert_eq!(table.checks, [(0, Some(String::new()))]);
    assert_eq!(table.resolvers.all()[0].asked, 3);
}

#[test]
fn names_wait_for_room() {
    let mut table = table(1, 1);
    for _ in 0..4 {
        assert!(table.has_room());
        begin(&mut table, 0);
    }
    assert!(!table.has_room());
}

#[test]
fn hostile_messages_end_an_attempt_at_most() {
    let mut table = table(1, 1);
    for length in 0..60 {
        begin(&mut table, 0);
        let (_, question) = send(&mut table, 0, 9, 5);
        let whole = answer(&question, |_| ());
        table.message(9, &whole[..length.min(whole.len() - 1)], 6);
        let malformed = table
            .finished
            .pop()
            .map(|finished| finished.outcomes[0].status);
        assert_eq!(
            malformed,
            (length > 1).then_some(Status::Malformed),
            "{length}"
        );
        if malformed.is_none() {
            table.message(9, &whole, 7);
            table.finished.clear();
        }
    }
}
