use super::*;

fn sizes(text: &str) -> Vec<u16> {
    parse(text).unwrap().given().to_vec()
}

#[test]
fn sizes_are_numbers_and_ranges() {
    for (text, expected) in [
        ("1200", vec![1200]),
        ("1472,1200", vec![1200, 1472]),
        ("1200-1472/68", vec![1200, 1268, 1336, 1404, 1472]),
        ("1200-1290/50,1252", vec![1200, 1250, 1252]),
        ("1300-1300/1,1300", vec![1300]),
    ] {
        assert_eq!(sizes(text), expected, "{text}");
    }
    assert_eq!(sizes("1200-1262/2").len(), MOST_SIZES);
}

#[test]
fn what_is_no_size_says_why() {
    for (text, expected) in [
        ("", " is not a size"),
        ("1199", "1199 is not a size from 1200 to 1472"),
        ("1473", "1473 is not a size from 1200 to 1472"),
        ("1200,", " is not a size"),
        ("1200-1472", "a range is FIRST-LAST/STEP"),
        ("1200-1472/0", "a step is a whole number above 0"),
        ("1200-1472/x", "a step is a whole number above 0"),
        ("1200-1500/10", "1500 is not a size"),
        ("1300-1200/10", "above the last"),
        ("1200-1264/2", "at most 32 sizes"),
        ("70000", "70000 is not a size"),
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}

#[test]
fn each_target_gets_each_size_once() {
    let sweep = parse("1200,1300,1400").unwrap();
    let mut order = sweep.probes(4).unwrap();
    order.reverse();
    let assigned = sweep.assign(&mut order, 4);
    let mut pairs: Vec<(u32, (u16, u8))> = order
        .iter()
        .enumerate()
        .map(|(place, target)| {
            (
                *target,
                assigned.of(&TargetRef::Listed(place as u32), false),
            )
        })
        .collect();
    assert_eq!(
        pairs[0],
        (3, (1400, 2)),
        "the last probe is of the last target"
    );
    pairs.sort_unstable();
    let expected: Vec<_> = (0..4)
        .flat_map(|target| {
            [
                (target, (1200, 0)),
                (target, (1300, 1)),
                (target, (1400, 2)),
            ]
        })
        .collect();
    assert_eq!(pairs, expected);
}

#[test]
fn without_a_sweep_the_order_is_that_of_the_targets() {
    for (text, by_family) in [
        (None, [Some(1252), Some(1232)]),
        (Some("1300"), [Some(1300), Some(1300)]),
        (Some("1300,1400"), [None, None]),
    ] {
        let sizes = text.map_or(Sizes::default(), |text| parse(text).unwrap());
        assert_eq!(sizes.by_family(), by_family);
        if sizes.is_sweep() {
            continue;
        }
        let mut order = sizes.probes(3).unwrap();
        let assigned = sizes.assign(&mut order, 3);
        assert_eq!(order, [0, 1, 2]);
        for (v6, size) in [false, true].into_iter().zip(by_family) {
            let found = assigned.of(&TargetRef::Listed(2), v6);
            assert_eq!(found, (size.unwrap(), 0));
        }
    }
}

#[test]
fn a_sweep_has_a_limit() {
    let sweep = parse("1200,1300").unwrap();
    assert!(
        sweep
            .probes(5_000_001)
            .unwrap_err()
            .contains("5000001 targets")
    );
    assert!(sweep.probes(10).is_ok());
}
