use super::*;

pub(in crate::probes) fn flight(cid: u8) -> Flight {
    Flight {
        target: TargetRef::Listed(0),
        line: 1,
        to: "127.0.0.1:443".parse().unwrap(),
        port: 3,
        group: 0,
        attempt: 1,
        phase: Phase::Open,
        cut_off: false,
        initial_size: 1252,
        series: 0,
        listening: None,
        token_sent: false,
        after_close: 0,
        ttl: None,
        local: None,
        first_sent: None,
        sent_at: None,
        sent_about: 0,
        exchange: Exchange::new([1; 8], [cid; 8]),
    }
}

#[test]
fn found_until_removed() {
    let mut table = Table::new([9; 3]);
    let a = table.insert(flight(1));
    table.index(a);
    let b = table.insert(flight(2));
    table.index(b);
    let to = "127.0.0.1:443".parse().unwrap();
    assert_eq!(
        (table.find_cid([1; 8]), table.find_cid([2; 8])),
        (Some(a), Some(b))
    );
    assert_eq!(
        (table.find_tuple(to, 3, 0), table.find_tuple(to, 4, 0)),
        (None, None),
        "two probes share port and peer: a stray is neither's"
    );
    assert!(table.remove(a, [[1; 8]].into_iter()).is_some() && table.get(a).is_none());
    assert_eq!(
        (
            table.find_tuple(to, 3, 0),
            table.find_cid([1; 8]),
            table.len()
        ),
        (Some(b), None, 1)
    );
    let c = table.insert(flight(3));
    assert!(c != a && table.get(a).is_none() && table.get(c).is_some());
}

#[test]
fn the_last_connection_ids_are_remembered() {
    let mut table = Table::new([9; 3]);
    for cid in 1..=4 {
        let handle = table.insert(flight(cid));
        table.index(handle);
        assert!(!table.was_removed([cid; 8]));
        table.remove(handle, [[cid; 8]].into_iter());
        assert!(table.was_removed([cid; 8]));
    }
    let remembered = (1..=4).map(|cid| table.was_removed([cid; 8]));
    assert_eq!(remembered.collect::<Vec<_>>(), [false, true, true, true]);
}

#[test]
fn a_slot_is_used_again_under_another_handle() {
    let mut table = Table::new([9; 3]);
    let handles: Vec<Handle> = (0..3).map(|cid| table.insert(flight(cid))).collect();
    assert_eq!((table.len(), table.handles()), (3, handles.clone()));
    let removed = table.remove(handles[1], [].into_iter()).unwrap();
    assert_eq!(removed.exchange.client_cid, [1; 8]);
    assert_eq!(
        (table.len(), table.handles()),
        (2, vec![handles[0], handles[2]])
    );
    assert!(table.remove(handles[1], [].into_iter()).is_none());
    assert_eq!(table.len(), 2, "it was removed before");
    let again = table.insert(flight(7));
    assert_eq!((again.slot, again.generation), (1, 1));
    assert_eq!(table.handles(), [handles[0], again, handles[2]]);
    assert!(table.get(handles[1]).is_none());
    let found = table.get(again).unwrap();
    assert_eq!(found.exchange.client_cid, [7; 8]);
}

#[test]
fn a_probe_is_found_by_the_connection_ids_of_all_attempts_and_by_its_present_port() {
    let mut table = Table::new([9; 3]);
    let handle = table.insert(flight(1));
    let to = "127.0.0.1:443".parse().unwrap();
    assert_eq!(
        (table.find_cid([1; 8]), table.find_tuple(to, 3, 0)),
        (None, None)
    );
    table.index(handle);
    assert_eq!(table.find_tuple(to, 3, 0), Some(handle));
    let probe = table.get(handle).unwrap();
    (probe.port, probe.exchange) = (4, Exchange::new([1; 8], [2; 8]));
    table.index(handle);
    assert_eq!(
        (table.find_tuple(to, 3, 0), table.find_tuple(to, 4, 0)),
        (None, Some(handle))
    );
    let found = [[1; 8], [2; 8], [3; 8]].map(|cid| table.find_cid(cid));
    assert_eq!(found, [Some(handle), Some(handle), None]);
    table.remove(handle, [[1; 8], [2; 8]].into_iter());
    let found = [[1; 8], [2; 8]].map(|cid| table.find_cid(cid));
    assert_eq!(found, [None, None]);
    table.index(handle);
    assert_eq!(table.find_cid([2; 8]), None, "it has left the table");
}

#[test]
fn equal_hashes_are_resolved_by_peer_and_port() {
    let peers: [SocketAddr; 2] =
        ["127.0.0.1:443", "127.0.0.1:444"].map(|peer| peer.parse().unwrap());
    for (peer, port, found) in [
        (peers[0], 3, true),
        (peers[0], 4, false),
        (peers[1], 3, false),
        (peers[1], 4, false),
    ] {
        let mut table = Table::new([9; 3]);
        let handle = table.insert(flight(1));
        table.index(handle);
        table.tuples[0] = table.tuple(peer, port);
        let expected = found.then_some(handle);
        assert_eq!(table.find_tuple(peer, port, 0), expected, "{peer} {port}");
    }
}

#[test]
fn strays_are_looked_up_until_the_budget_of_the_second_is_used() {
    let mut table = Table::new([9; 3]);
    let to = "127.0.0.1:443".parse().unwrap();
    let handle = table.insert(flight(1));
    table.index(handle);
    table.insert(flight(2));
    let lookup = |table: &mut Table, now| table.find_tuple(to, 3, now).is_some();
    assert!(lookup(&mut table, 0));
    assert_eq!(
        table.budget,
        BUDGET - 2,
        "a look-up costs as much as there are slots"
    );
    table.budget = 3;
    let start = SECOND + SECOND / 2;
    for (now, found) in [
        (0, true),
        (SECOND - 1, false),
        (start, true),
        (start + 1, true),
    ] {
        assert_eq!(lookup(&mut table, now), found, "{now}");
    }
    table.budget = 1;
    for (now, found) in [(start + SECOND - 1, false), (start + SECOND, true)] {
        assert_eq!(lookup(&mut table, now), found, "{now}");
    }
}

#[test]
fn tuples_are_hashed_with_all_their_bits_and_the_key() {
    let key = [
        0x0123_4567_89ab_cdef,
        0xfedc_ba98_7654_3210,
        0x0f1e_2d3c_4b5a_6978,
    ];
    let table = Table::new(key);
    for (peer, port, hash) in [
        ("192.0.2.7:443", 3, 0x0aad_9902_fd1a_cdee),
        ("192.0.2.7:443", 4, 0xd97c_bd54_ccd9_d5d0),
        ("192.0.2.7:444", 3, 0x0f55_d9ff_16fe_3787),
        ("[2001:db8:1:2:3:4:5:6]:8443", 15, 0x1815_02d1_dfa8_c58b),
        ("[2001:db8:1:3:3:4:5:6]:8443", 15, 0x7a7e_47a5_4619_9764),
    ] {
        assert_eq!(
            table.tuple(peer.parse().unwrap(), port),
            hash,
            "{peer} {port}"
        );
    }
}

#[test]
fn uniform_keys_are_their_own_hash() {
    for key in [0, 1, 77, u64::MAX] {
        let mut hasher = AsIs::default();
        hasher.write_u64(key);
        assert_eq!(hasher.finish(), key);
    }
}

#[test]
fn a_missing_stamp_is_replaced_by_our_own_clock() {
    let mut probe = flight(1);
    probe.sent_about = 50;
    assert_eq!(probe.sent(), 50);
    probe.sent_at = Some(60);
    assert_eq!(probe.sent(), 60);
}
