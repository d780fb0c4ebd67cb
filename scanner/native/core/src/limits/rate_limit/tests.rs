use super::*;

/// Probes all `ips` (by index) in steps of 1 ms, without a pacer. Returns (time in ms, index).
fn run(limits: &mut RateLimits, ips: &[IpAddr], limit_ms: u64) -> Vec<(u64, u32)> {
    let mut done = Vec::new();
    let mut fresh = 0..ips.len() as u32;
    for ms in 0..limit_ms {
        let now = ms * 1_000_000;
        while let Some(t) = limits.release(now) {
            done.push((ms, t));
        }
        for t in fresh.by_ref() {
            if limits.admit(t, ips[t as usize], now) {
                done.push((ms, t));
            }
        }
    }
    done
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn one_busy_address_does_not_delay_its_prefix() {
    let mut ips = vec![ip("10.0.0.1"); 20];
    ips.extend((1..=10).map(|i| ip(&format!("10.0.0.{}", i + 1))));
    ips.push(ip("10.0.1.1"));
    let mut limits = RateLimits::new(1.0, 10.0, None, ips.len());
    let done = run(&mut limits, &ips, 25_000);
    assert_eq!((done.len(), limits.waiting()), (31, 0));
    let at = |t: u32| done.iter().find(|(_, d)| *d == t).unwrap().0;
    assert_eq!(at(30), 0, "another prefix goes at once");
    assert!((20..30).all(|t| at(t) <= 1_200), "{done:?}");
    let mut same: Vec<u64> = (0..20).map(at).collect();
    same.sort_unstable();
    assert!(same.windows(2).all(|w| w[1] - w[0] >= 1000), "{same:?}");
    assert!(same[19] < 20_500, "{same:?}");
    let mut prefix: Vec<u64> = (0..30).map(at).collect();
    prefix.sort_unstable();
    assert!(prefix.windows(2).all(|w| w[1] - w[0] >= 100));
}

#[test]
fn each_limit_alone_and_none() {
    let ips: Vec<IpAddr> = (0..6).map(|i| ip(&format!("2001:db8:0:{i}::1"))).collect();
    assert_eq!(
        run(&mut RateLimits::new(1.0, 0.0, None, 6), &ips, 10).len(),
        6
    );
    assert_eq!(
        run(&mut RateLimits::new(0.0, 2.0, None, 6), &ips, 1001).len(),
        3,
        "one /48, two a second"
    );
    assert_eq!(
        run(&mut RateLimits::new(0.0, 0.0, None, 6), &ips, 1).len(),
        6
    );
}

#[test]
fn forgets_idle_addresses() {
    let mut limits = RateLimits::new(1.0, 0.0, None, 100_000);
    for t in 0..100_000_u32 {
        assert!(limits.admit(t, IpAddr::V4(t.into()), u64::from(t) * 10_000_000));
    }
    assert!(limits.addresses.len() <= 4096 && limits.prefixes.len() <= 4096);
}

#[test]
fn planned_probes_and_targets_share_the_limits() {
    let ips = [ip("10.0.0.1"), ip("10.0.0.1"), ip("10.0.0.2")];
    let mut limits = RateLimits::new(1.0, 4.0, None, ips.len());
    let mut done: Vec<(u64, IpAddr)> = Vec::new();
    let mut fresh = 0..3_u32;
    for ms in 0..4000 {
        let now = ms * 1_000_000;
        // A planned probe is tried at every moment, before the waiting targets, and still gets only half of
        // the shares.
        {
            match limits.take(ips[0], now, false) {
                Ok(()) => done.push((ms, ips[0])),
                Err(free_at) => assert!(free_at > now),
            }
        }
        while let Some(t) = limits.release(now) {
            done.push((ms, ips[t as usize]));
        }
        for t in fresh.by_ref() {
            if limits.admit(t, ips[t as usize], now) {
                done.push((ms, ips[t as usize]));
            }
        }
    }
    assert_eq!(limits.waiting(), 0, "{done:?}");
    assert!(done.len() > 4 && done.len() <= 8, "{done:?}");
    assert!(
        done.windows(2).all(|w| w[1].0 - w[0].0 >= 250),
        "the prefix: {done:?}"
    );
    let same: Vec<u64> = done.iter().filter(|d| d.1 == ips[0]).map(|d| d.0).collect();
    assert!(same.windows(2).all(|w| w[1] - w[0] >= 1000), "{done:?}");
}

#[test]
fn owned_probes_pass_the_limit_of_the_address_alone() {
    let mut limits = RateLimits::new(1.0, 10.0, None, 0);
    let address = ip("10.0.0.1");
    assert!(limits.take(address, 0, true).is_ok() && limits.take(address, 0, false).is_err());
    assert!(limits.take(address, SECOND / 10, false).is_ok());
    assert_eq!(
        limits.take(address, SECOND / 5, false),
        Err(SECOND / 10 + SECOND),
        "owned probes are not counted there"
    );
    assert!(limits.take(address, SECOND / 5, true).is_ok());
}

/// Windows of the first of two vantage points: half a second in every one-second turn.
fn windows() -> SharedWindows {
    let shared = crate::limits::shared_limits::SharedLimits {
        index: 0,
        of: 2,
        length: SECOND,
        pause: SECOND / 2,
    };
    shared.on_clock(0)
}

#[test]
fn targets_wait_for_their_turn() {
    let ips: Vec<IpAddr> = (0..8).map(|i| ip(&format!("10.0.{}.1", i % 2))).collect();
    let shared = windows();
    let mut limits = RateLimits::new(0.0, 5.0, Some(shared), ips.len());
    let done = run(&mut limits, &ips, 10_000);
    assert_eq!(done.len(), 8);
    for (ms, target) in done {
        let now = ms * 1_000_000;
        assert_eq!(
            shared.allowed_from(prefix_of(ips[target as usize]), now),
            now
        );
    }
}

#[test]
fn what_did_not_leave_in_its_turn_waits_for_the_next_one() {
    let shared = windows();
    let ips: Vec<IpAddr> = (0..=255)
        .map(|i| ip(&format!("10.0.{i}.1")))
        .filter(|ip| shared.allowed_from(prefix_of(*ip), SECOND) == SECOND)
        .take(8)
        .collect();
    for (first_look, next_turn) in [
        (3 * SECOND / 2, 3 * SECOND),
        (2 * SECOND - 1, 3 * SECOND),
        (2 * SECOND, 3 * SECOND),
        (7 * SECOND / 2, 5 * SECOND),
    ] {
        let mut limits = RateLimits::new(1.0, 5.0, Some(shared), ips.len());
        for (target, ip) in (0..).zip(&ips) {
            assert!(!limits.admit(target, *ip, SECOND - 1), "the pause");
        }
        assert_eq!(limits.next_release(), Some(SECOND));
        assert_eq!(limits.release(first_look), None, "{first_look}");
        assert_eq!(
            (limits.waiting(), limits.next_release()),
            (8, Some(next_turn))
        );
        let left = std::iter::from_fn(|| limits.release(next_turn)).count();
        assert_eq!((left, limits.waiting()), (8, 0), "{first_look}");
    }
}

#[test]
fn more_targets_than_a_turn_can_hold_leave_in_turns_alone() {
    let shared = windows();
    let ips: Vec<IpAddr> = (0..50).map(|i| ip(&format!("10.0.{i}.1"))).collect();
    let mut limits = RateLimits::new(1.0, 5.0, Some(shared), ips.len());
    for (target, ip) in (0..).zip(&ips) {
        assert!(!limits.admit(target, *ip, SECOND - 1), "the pause");
    }
    for now in (SECOND..).step_by(100_000_000) {
        if limits.waiting() == 0 {
            break;
        }
        assert!(now < 60 * SECOND, "{} wait", limits.waiting());
        if let Some(target) = limits.release(now) {
            let prefix = prefix_of(ips[target as usize]);
            assert_eq!(shared.allowed_from(prefix, now), now, "{target}");
        }
    }
}

#[test]
fn the_prefixes_of_a_turn_have_an_order_that_the_seed_gives() {
    let ips: Vec<IpAddr> = (0..1000_u32)
        .map(|i| IpAddr::V4((0x0a00_0001 + (i << 8)).into()))
        .collect();
    let order = |seed| {
        let limits = RateLimits::new(1.0, 5.0, Some(windows()), ips.len());
        let mut limits = limits.with_seed(seed);
        for (target, ip) in (0..).zip(&ips) {
            assert!(!limits.admit(target, *ip, SECOND - 1), "the pause");
        }
        std::iter::from_fn(|| limits.release(SECOND)).collect::<Vec<u32>>()
    };
    let (first, other) = (order(1), order(2));
    assert!(first == order(1) && first != other);
    let half = first.len() / 2;
    assert!(half > 200, "{half}");
    for order in [first, other] {
        let ascending = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(ascending.abs_diff(half) < half / 4, "{ascending} of {half}");
    }
}

#[test]
fn prefixes_are_of_24_and_48_bits() {
    for (address, prefix) in [
        ("192.0.2.255", "192.0.2.0"),
        ("255.255.255.255", "255.255.255.0"),
        ("2001:db8:1:2::3", "2001:db8:1::"),
        ("ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::"),
    ] {
        assert_eq!(prefix_of(ip(address)), ip(prefix));
    }
}

#[test]
fn a_target_waits_exactly_as_long_as_its_limits_say() {
    for (address_rate, prefix_rate, gap) in [
        (4.0, 0.0, SECOND / 4),
        (0.0, 5.0, SECOND / 5),
        (4.0, 5.0, SECOND / 4),
        (5.0, 4.0, SECOND / 4),
    ] {
        let mut limits = RateLimits::new(address_rate, prefix_rate, None, 3);
        let address = ip("10.0.0.1");
        assert!(
            limits.admit(0, address, 7)
                && !limits.admit(1, address, 7)
                && !limits.admit(2, address, 7)
        );
        assert_eq!(
            (limits.waiting(), limits.next_release()),
            (2, Some(7 + gap))
        );
        assert_eq!(limits.release(7 + gap - 1), None);
        assert_eq!((limits.release(7 + gap), limits.waiting()), (Some(1), 1));
        assert_eq!(
            limits.release(7 + gap),
            None,
            "the next one waits as long again"
        );
        assert_eq!(
            (limits.release(7 + 2 * gap), limits.waiting()),
            (Some(2), 0)
        );
        assert_eq!(limits.release(7 + 9 * gap), None);
        assert!(limits.admit(0, address, 7 + 3 * gap));
    }
}

#[test]
fn a_probe_that_left_late_delays_the_next_one() {
    let (first, second) = (ip("10.0.0.1"), ip("10.0.0.2"));
    for (address_rate, prefix_rate, other) in
        [(4.0, 0.0, first), (0.0, 4.0, second), (4.0, 5.0, first)]
    {
        let gap = SECOND / 4;
        let mut limits = RateLimits::new(address_rate, prefix_rate, None, 4);
        assert!(
            limits.admit(0, first, 7) && !limits.admit(1, other, 7) && !limits.admit(2, other, 7)
        );
        // The process was stopped for a while.
        limits.left_at(100);
        assert_eq!(limits.release(7 + gap), None);
        assert_eq!(
            (limits.release(99 + gap), limits.release(100 + gap)),
            (None, Some(1))
        );
        limits.left_at(3 * gap);
        assert_eq!(
            (limits.release(4 * gap - 1), limits.release(4 * gap)),
            (None, Some(2))
        );
        // Probes that left immediately cause no further delay.
        limits.left_at(4 * gap);
        assert!(limits.admit(3, other, 5 * gap) && limits.leaving.len() == 1);
    }
}

#[test]
fn a_planned_probe_that_left_late_delays_the_next_one() {
    let (address, gap) = (ip("10.0.0.1"), SECOND / 4);
    for owned in [false, true] {
        let mut limits = RateLimits::new(4.0, 0.0, None, 1);
        assert_eq!(limits.take(address, 7, owned), Ok(()));
        limits.left_at(100);
        let next = limits.take(address, 7 + gap, false);
        assert_eq!(next, if owned { Ok(()) } else { Err(100 + gap) });
    }
}

#[test]
fn without_limits_nothing_is_remembered() {
    let mut limits = RateLimits::new(0.0, 0.0, None, 2);
    let address = ip("10.0.0.1");
    assert!(limits.admit(0, address, 0) && limits.admit(1, address, 0));
    assert_eq!(limits.take(address, 0, false), Ok(()));
    assert!(limits.addresses.is_empty() && limits.next.is_empty());
    assert_eq!((limits.waiting(), limits.next_release()), (0, None));
}

#[test]
fn while_targets_wait_planned_probes_get_every_other_share() {
    let address = ip("10.0.0.1");
    for (owned, address_rate, prefix_rate) in [(false, 2.0, 0.0), (true, 0.0, 2.0)] {
        let gap = SECOND / 2;
        let mut limits = RateLimits::new(address_rate, prefix_rate, None, 3);
        assert!(limits.admit(0, address, 0) && !limits.admit(1, address, 0));
        assert_eq!(limits.take(address, 0, owned), Err(gap));
        assert_eq!(limits.take(address, gap, owned), Ok(()));
        assert_eq!(
            limits.release(gap),
            None,
            "the planned probe took the share"
        );
        assert_eq!(
            limits.take(address, gap, owned),
            Err(3 * gap),
            "a target is first"
        );
        assert_eq!(limits.take(address, 2 * gap, owned), Err(3 * gap));
        assert_eq!(limits.release(2 * gap), Some(1));
        assert_eq!(limits.take(address, 2 * gap, owned), Err(3 * gap));
        assert_eq!(limits.take(address, 3 * gap, owned), Ok(()), "{owned}");
    }
}
