//! Tests of origins by the kinds and numbers of a path's segments.

use crate::attributes::{AsWidth, Kind, Segment};

use super::of;

/// AS numbers encoded in 32 bits.
fn written(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

fn origin(path: &[(Kind, &[u32])]) -> Option<(u32, bool)> {
    let bytes: Vec<_> = path.iter().map(|(_, numbers)| written(numbers)).collect();
    let segments: Vec<_> = path
        .iter()
        .zip(&bytes)
        .map(|((kind, _), numbers)| Segment::new(*kind, numbers, AsWidth::Four))
        .collect();
    of(&segments)
}

#[test]
fn the_last_usable_as_of_the_path_is_its_origin() {
    use Kind::{Confederation, Sequence, Set};
    type Path = &'static [(Kind, &'static [u32])];
    let cases: [(Path, Option<(u32, bool)>); 15] = [
        (&[], None),
        (&[(Sequence, &[])], None),
        (&[(Sequence, &[3320, 13335])], Some((13335, false))),
        (&[(Sequence, &[3320, 64512])], Some((3320, false))),
        (&[(Sequence, &[64512, 0])], None),
        (&[(Sequence, &[3320]), (Set, &[9, 7, 8])], Some((7, true))),
        (&[(Sequence, &[3320]), (Set, &[64512, 8])], Some((8, true))),
        (&[(Sequence, &[3320]), (Set, &[64512])], Some((3320, false))),
        (&[(Set, &[7])], None),
        (&[(Confederation, &[7])], None),
        (
            &[(Confederation, &[7]), (Sequence, &[3320])],
            Some((3320, false)),
        ),
        (
            &[
                (Confederation, &[7]),
                (Confederation, &[8]),
                (Sequence, &[3320]),
                (Set, &[9]),
            ],
            Some((9, true)),
        ),
        (&[(Confederation, &[7]), (Set, &[3320])], None),
        (&[(Sequence, &[3320]), (Confederation, &[7])], None),
        (
            &[(Sequence, &[3320]), (Confederation, &[7]), (Sequence, &[8])],
            Some((8, false)),
        ),
    ];
    for (path, expected) in cases {
        assert_eq!(origin(path), expected, "{path:?}");
    }
}

#[test]
fn reserved_numbers_are_no_origin() {
    let cases = [
        (0, false),
        (1, true),
        (64_495, true),
        (64_496, false),
        (131_071, false),
        (131_072, true),
        (999_999, true),
        (1_000_000, false),
        (u32::MAX, false),
    ];
    for (number, is_origin) in cases {
        let expected = is_origin.then_some((number, false));
        assert_eq!(origin(&[(Kind::Sequence, &[number])]), expected, "{number}");
    }
}
