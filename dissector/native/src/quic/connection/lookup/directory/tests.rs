//! Connections by addresses and connection IDs.

use slotmap::SlotMap;

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Creates `count` live connections.
fn ids(count: usize) -> Vec<Id> {
    let mut map = SlotMap::with_key();
    (0..count).map(|_| map.insert(())).collect()
}

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

#[test]
fn a_tuple_has_no_direction_and_no_equal() {
    let tuples = Tuples::default();
    let ends = [
        ("192.0.2.1:1", "198.51.100.1:443"),
        ("192.0.2.1:2", "198.51.100.1:443"),
        ("192.0.2.1:1", "198.51.100.1:444"),
        ("192.0.2.2:1", "198.51.100.1:443"),
        ("192.0.2.1:1", "198.51.100.2:443"),
        ("192.0.2.1:443", "198.51.100.1:1"),
        ("198.51.100.1:443", "198.51.100.1:443"),
        ("192.0.2.1:1", "192.0.2.1:1"),
        ("[2001:db8::1]:1", "[2001:db8::2]:443"),
        ("[2001:db8::1]:2", "[2001:db8::2]:443"),
        ("[2001:db8::1]:1", "[2001:db8::2]:444"),
        ("[2001:db8::1]:443", "[2001:db8::2]:1"),
        ("[2001:db8::3]:1", "[2001:db8::2]:443"),
        ("[2001:db8:0:1::1]:1", "[2001:db8::2]:443"),
        ("[2001:db8::1]:1", "[2001:db8::9]:443"),
        ("[2001:db8::2]:1", "[2001:db8::9]:443"),
        // As numbers, these addresses equal the first ones.
        ("[::192.0.2.1]:1", "[::198.51.100.1]:443"),
        ("192.0.2.1:1", "[::198.51.100.1]:443"),
    ]
    .map(|(a, b)| (socket(a), socket(b)));
    for (i, (a, b)) in ends.iter().enumerate() {
        let tuple = tuples.tuple(a, b);
        assert_eq!(tuples.tuple(b, a), tuple, "{a} {b}");
        for (c, d) in &ends[..i] {
            assert_ne!(tuples.tuple(c, d), tuple, "{a} {b} and {c} {d}");
        }
    }
}

#[test]
fn tuples_are_remembered_with_and_without_a_connection_id() {
    let tuples = Tuples::default();
    let a = tuples.tuple(&socket("192.0.2.1:1"), &socket("192.0.2.2:443"));
    let b = tuples.tuple(&socket("192.0.2.1:2"), &socket("192.0.2.2:443"));
    let hashes = [
        tuples.with_cid(a, &cid(&[1])),
        tuples.with_cid(a, &cid(&[2])),
        tuples.with_cid(b, &cid(&[1])),
        a.hash(),
        b.hash(),
    ];
    for (i, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..i].contains(hash), "{i}");
    }
    assert_eq!(tuples.with_cid(a, &cid(&[1])), hashes[0]);
}

#[test]
fn connections_on_a_tuple_are_found_in_order_until_they_are_removed() {
    let mut tuples = Tuples::default();
    let tuple = tuples.tuple(&socket("192.0.2.1:1"), &socket("192.0.2.2:443"));
    let other = tuples.tuple(&socket("192.0.2.1:2"), &socket("192.0.2.2:443"));
    let [a, b, c] = ids(3)[..] else {
        panic!("three")
    };
    assert!(tuples.get(tuple).is_empty());
    for (of, id) in [(tuple, a), (tuple, b), (other, c)] {
        tuples.add(of, id);
    }
    assert_eq!(
        (tuples.get(tuple), tuples.get(other)),
        (&[a, b][..], &[c][..])
    );
    tuples.remove(tuple, c);
    tuples.remove(tuple, a);
    assert_eq!((tuples.get(tuple), tuples.ids.len()), (&[b][..], 2));
    tuples.remove(tuple, b);
    assert_eq!((tuples.get(tuple), tuples.ids.len()), (&[][..], 1));
    tuples.remove(tuple, b);
    assert_eq!(tuples.ids.len(), 1);
}

#[test]
fn short_headers_find_the_longest_connection_id_that_is_known() {
    let mut directory = Directory::default();
    let [a, b, c] = ids(3)[..] else {
        panic!("three")
    };
    // Shorter than four bytes: not kept.
    directory.add(cid(&[1, 2, 3]), c);
    directory.add(cid(&[1, 2, 3, 4]), a);
    directory.add(cid(&[1; 20]), b);
    directory.add(cid(&[1, 2, 3, 4, 5]), b);
    for (rest, expected) in [
        (&[1, 2, 3, 4][..], Some(a)),
        (&[1, 2, 3, 4, 6, 7], Some(a)),
        (&[1, 2, 3, 4, 5], Some(b)),
        (&[1, 2, 3, 4, 5, 6], Some(b)),
        (&[1; 20], Some(b)),
        (&[1; 19], None),
        (&[1, 2, 3], None),
        (&[1, 2, 3, 5], None),
    ] {
        let datagram = [&[0x40], rest].concat();
        let longer = [&datagram[..], &[0xee; 20]].concat();
        for datagram in [datagram, longer] {
            assert_eq!(directory.of_short(&datagram), expected, "{datagram:?}");
        }
    }
    assert_eq!(directory.of_short(&[]), None);
    assert_eq!(directory.of_short(&[0x40]), None);
}

#[test]
fn a_connection_id_belongs_to_the_last_connection_that_took_it() {
    let mut directory = Directory::default();
    let [a, b] = ids(2)[..] else { panic!("two") };
    let shared = cid(&[5; 8]);
    directory.add(shared, a);
    directory.add(shared, b);
    assert_eq!(directory.lengths[8], 1);
    let datagram = [5; 30];
    directory.remove(&shared, a);
    assert_eq!(directory.of_short(&datagram), Some(b));
    directory.remove(&shared, b);
    assert_eq!(
        (directory.of_short(&datagram), directory.lengths[8]),
        (None, 0)
    );
    directory.remove(&shared, b);
    assert_eq!(directory.lengths[8], 0);
    let other = cid(&[5; 20]);
    directory.add(other, a);
    assert_eq!(directory.lengths[20], 1);
    assert_eq!(directory.of_short(&datagram), Some(a));
}

#[test]
fn connection_ids_that_nobody_has_any_more_take_no_room() {
    let mut directory = Directory::default();
    let [a, b] = ids(2)[..] else { panic!("two") };
    directory.add(cid(&[9; 8]), a);
    for n in 0..10_000u64 {
        directory.add(cid(&n.to_be_bytes()), b);
        directory.drop_others(|_, id| id == a);
        assert!(directory.ids.len() <= FORGOTTEN + 4);
        assert_eq!(directory.lengths[8], directory.ids.len());
    }
    assert_eq!(
        directory.of_short(&[[0x40; 1].as_slice(), &[9; 8]].concat()),
        Some(a)
    );
}
