use super::*;

#[test]
fn values_are_checked() {
    assert_eq!(ports("61000-61003"), Ok((61000, 61003)));
    assert!(
        ports("5-5").is_err()
            && ports("0-9").is_err()
            && ports("1-2000").is_err()
            && ports("x").is_err()
    );
    assert!(
        positive("0").is_err()
            && positive("nan").is_err()
            && rate("0").is_ok()
            && rate("-1").is_err()
    );
    assert!(shared_limits("3/4:15:3.5").is_ok_and(|t| t.pause == 3_500_000_000 && t.index == 3));
    for text in ["4/4:15:3", "0/1:3:3", "0/1:-3:1", "0:15:3", "0/2:15"] {
        assert!(shared_limits(text).is_err(), "{text}");
    }
    assert!(contact(" ").is_err() && seconds("61").is_err());
}

#[test]
fn rates_and_times_have_limits() {
    type Read = fn(&str) -> Result<f64, String>;
    let (any, above_0, from_0, up_to_60): (Read, Read, Read, Read) =
        (number, positive, rate, seconds);
    for (name, read, text, expected) in [
        ("number", any, "1e7", Some(1e7)),
        ("number", any, "10000000.1", None),
        ("number", any, "-3", Some(-3.0)),
        ("number", any, "inf", None),
        ("number", any, "-inf", None),
        ("number", any, "NaN", None),
        ("number", any, "", None),
        ("positive", above_0, "0.001", Some(0.001)),
        ("positive", above_0, "0", None),
        ("positive", above_0, "-1", None),
        ("rate", from_0, "0", Some(0.0)),
        ("rate", from_0, "20", Some(20.0)),
        ("rate", from_0, "-0.1", None),
        ("seconds", up_to_60, "60", Some(60.0)),
        ("seconds", up_to_60, "60.1", None),
        ("seconds", up_to_60, "3", Some(3.0)),
        ("seconds", up_to_60, "0", None),
    ] {
        assert_eq!(read(text).ok(), expected, "{name} {text}");
    }
}

#[test]
fn port_ranges_have_two_to_1024_ports() {
    for (text, expected) in [
        ("1-2", Some((1, 2))),
        ("61000-61015", Some((61_000, 61_015))),
        (" 5 - 9 ", Some((5, 9))),
        ("1-1024", Some((1, 1024))),
        ("1-1025", None),
        ("0-3", None),
        ("7-7", None),
        ("9-8", None),
        ("65534-65535", Some((65_534, 65_535))),
        ("65535-65536", None),
        ("61000", None),
    ] {
        assert_eq!(ports(text).ok(), expected, "{text}");
    }
}

#[test]
fn shared_limits_are_of_at_most_1000_vantage_points_and_leave_time_to_probe() {
    let limits = |index, of, length, pause| SharedLimits {
        index,
        of,
        length,
        pause,
    };
    for (text, expected) in [
        ("0/1:1:0", Some(limits(0, 1, 1_000_000_000, 0))),
        ("1/3:0.5:0.25", Some(limits(1, 3, 500_000_000, 250_000_000))),
        (
            "999/1000:2:1",
            Some(limits(999, 1000, 2_000_000_000, 1_000_000_000)),
        ),
        ("0/1001:2:1", None),
        ("3/3:2:1", None),
        ("0/0:2:1", None),
        ("0/2:2:2", None),
        ("0/2:2:3", None),
        ("0/2:x:1", None),
        ("0/2:2:x", None),
        ("x/2:2:1", None),
        ("0/x:2:1", None),
        ("0:2:1", None),
    ] {
        assert_eq!(shared_limits(text).ok(), expected, "{text}");
    }
}

#[test]
fn a_contact_is_one_line_of_at_most_500_bytes() {
    let (longest, longer) = ("x".repeat(500), "x".repeat(501));
    for (text, expected) in [
        (" research@example.org ", Some("research@example.org")),
        (&longest[..], Some(&longest[..])),
        (&longer[..], None),
        ("", None),
        (" \t", None),
        ("a\nb", None),
        ("a\u{7f}b", None),
    ] {
        assert_eq!(contact(text).ok().as_deref(), expected, "{text}");
    }
}
