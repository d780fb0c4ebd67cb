//! Tests that find the path among given attributes.

use super::{AsWidth, Kind, path};

type Path = Vec<(Kind, Vec<u32>)>;

fn found(bytes: &[u8], stated: usize, width: AsWidth) -> Result<Path, &'static str> {
    let segments = path(bytes, stated, width)?;
    Ok(segments
        .iter()
        .map(|segment| (segment.kind, segment.numbers().collect()))
        .collect())
}

#[test]
fn the_path_is_found_among_the_attributes() {
    let sequence = vec![(Kind::Sequence, vec![0x0102])];
    let wide = vec![(Kind::Sequence, vec![0x0102_0304])];
    let cases: [(&str, &[u8], AsWidth, Path); 8] = [
        ("none", &[], AsWidth::Two, vec![]),
        ("no path", &[0x40, 1, 1, 0], AsWidth::Two, vec![]),
        ("empty path", &[0x40, 2, 0], AsWidth::Two, vec![]),
        (
            "16 bits",
            &[0x40, 2, 4, 2, 1, 1, 2],
            AsWidth::Two,
            sequence.clone(),
        ),
        (
            "32 bits",
            &[0x40, 2, 6, 2, 1, 1, 2, 3, 4],
            AsWidth::Four,
            wide,
        ),
        (
            "two bytes of length",
            &[0x50, 2, 0, 4, 2, 1, 1, 2],
            AsWidth::Two,
            sequence.clone(),
        ),
        (
            "after another",
            &[0x40, 1, 1, 0, 0x40, 2, 4, 2, 1, 1, 2],
            AsWidth::Two,
            sequence,
        ),
        (
            "all kinds of segments",
            &[0x40, 2, 14, 1, 1, 0, 1, 2, 0, 3, 1, 0, 2, 4, 1, 0, 3],
            AsWidth::Two,
            vec![
                (Kind::Set, vec![1]),
                (Kind::Sequence, vec![]),
                (Kind::Confederation, vec![2]),
                (Kind::Confederation, vec![3]),
            ],
        ),
    ];
    for (what, bytes, width, expected) in cases {
        assert_eq!(found(bytes, bytes.len(), width), Ok(expected), "{what}");
    }
}

#[test]
fn what_is_stated_ends_the_attributes() {
    let bytes = [0x40, 1, 1, 0, 0x40, 2, 4, 2, 1, 1, 2];
    // The first attribute has four bytes. The path after it does not belong to the route.
    assert_eq!(found(&bytes, 4, AsWidth::Two), Ok(vec![]));
    assert_eq!(found(&bytes, 5, AsWidth::Two).map(|path| path.len()), Ok(1));
}

#[test]
fn damaged_attributes_are_refused() {
    const SHORT: &str = "it ends within an attribute";
    const CUT: &str = "its path ends within a segment";
    let cases: [(&[u8], &str); 7] = [
        (&[0x40], SHORT),
        (&[0x40, 2], SHORT),
        (&[0x50, 2, 0], SHORT),
        (&[0x40, 2, 1, 2], CUT),
        (&[0x40, 2, 3, 2, 1, 1], CUT),
        // The length exceeds the remaining bytes, which are used.
        (&[0x40, 2, 9, 2, 2, 1, 2], CUT),
        (
            &[0x40, 2, 4, 5, 1, 1, 2],
            "its path has a segment of an unknown type",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(
            found(bytes, bytes.len(), AsWidth::Two),
            Err(expected),
            "{bytes:?}"
        );
    }
}
