use firstflight_core::arguments::with_version_option;

use super::*;

#[test]
fn the_options_fit_together() {
    use clap::CommandFactory;
    Options::command().debug_assert();
}

#[test]
fn wrong_use_is_one_line() {
    let sentence_for = |arguments: &[&str]| {
        let error = Options::try_parse_from([&["firstflight-prober"], arguments].concat()).err()?;
        firstflight_usage::sentence(&error, "firstflight probe")
    };
    let long = "x".repeat(5000);
    for (arguments, expected) in [
        (
            &["--targets", "t", "--rate", "nan"][..],
            "'nan' for '--rate <N>': not a number",
        ),
        (&["--targets", "t", "--nosuch"], "'--nosuch'"),
        (&[], "were not provided: --targets <FILE>"),
        (
            &["--targets", "t", "--format", "x"],
            "[possible values: jsonl, text]",
        ),
        (
            &["--targets", "t", "--contact", &long],
            "must not be longer than 500 bytes",
        ),
        (&["--targets", "t", "--contact", "a\nb"], "must be one line"),
    ] {
        let sentence = sentence_for(arguments).unwrap();
        assert!(sentence.contains(expected), "{sentence}");
        assert!(sentence.ends_with(" (see firstflight probe --help)"));
        assert!(
            !sentence.contains('\n') && sentence.len() < 300,
            "{sentence}"
        );
    }
    assert_eq!(sentence_for(&["--help"]), None);
    assert_eq!(sentence_for(&["--version"]), None);
}

/// Parses these arguments together with `--targets`.
fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
    Options::try_parse_from([&["firstflight-prober", "--targets", "t"], arguments].concat())
}

#[test]
fn waits_attempts_and_sizes_have_limits() {
    for (option, value, allowed) in [
        ("--settle-ms", "0", true),
        ("--settle-ms", "60000", true),
        ("--settle-ms", "60001", false),
        ("--linger-ms", "60000", true),
        ("--linger-ms", "-1", false),
        ("--attempts", "1", true),
        ("--attempts", "5", true),
        ("--attempts", "0", false),
        ("--attempts", "6", false),
        ("--initial-size", "1199", false),
        ("--initial-size", "1200", true),
        ("--initial-size", "1472", true),
        ("--initial-size", "1473", false),
        ("--initial-size", "1200-1472/68", true),
        ("--initial-size", "1200-1472", false),
        ("--listen", "60", true),
        ("--listen", "0", false),
        ("--listen", "61", false),
        ("--clock-offset-ms", "5", false),
    ] {
        assert_eq!(
            parsed(&[option, value]).is_ok(),
            allowed,
            "{option} {value}"
        );
    }
    let offset = parsed(&["--turn", "0/2:4:1", "--clock-offset-ms", "-5"]).unwrap();
    assert_eq!(offset.sending.clock_offset_ms, -5);
}

#[test]
fn initials_have_the_size_of_their_family_or_the_one_given() {
    for (arguments, sizes) in [
        (&[][..], [Some(1252), Some(1232)]),
        (&["--initial-size", "1300"], [Some(1300); 2]),
        (&["--initial-size", "1300,1400"], [None; 2]),
    ] {
        assert_eq!(parsed(arguments).unwrap().sizes().by_family(), sizes);
    }
}

#[test]
fn defaults_are_those_of_the_definitions() {
    let options = parsed(&[]).unwrap();
    assert_eq!(
        (
            options.rate,
            options.sending.per_address_rate,
            options.sending.per_prefix_rate
        ),
        (500.0, 1.0, 20.0)
    );
    assert_eq!(
        (
            options.timeout,
            options.settle_ms,
            options.linger_ms,
            options.attempts
        ),
        (3.0, 100, 500, 2)
    );
    assert_eq!(
        (
            options.output.format,
            options.sending.ports,
            options.sending.turn
        ),
        (None, None, None)
    );
}

#[test]
fn a_version_with_a_value_is_that_of_the_initial() {
    let parsed = |arguments: &[&str]| {
        let arguments = [&["p", "--targets", "t"], arguments].concat();
        Options::try_parse_from(with_version_option(arguments.iter().map(Into::into)))
    };
    for (arguments, expected) in [
        (&[][..], Offered::V1),
        (&["--version", "1"], Offered::V1),
        (&["--version", "reserved"], Offered::Reserved),
        (&["--version=reserved"], Offered::Reserved),
    ] {
        assert_eq!(
            parsed(arguments).unwrap().offered,
            expected,
            "{arguments:?}"
        );
    }
    for arguments in [&["--version"][..], &["--version", "--rate", "3"]] {
        let kind = parsed(arguments).unwrap_err().kind();
        assert_eq!(
            kind,
            clap::error::ErrorKind::DisplayVersion,
            "{arguments:?}"
        );
    }
    assert!(parsed(&["--version", "2"]).is_err());
}

#[test]
fn marks_are_a_closed_list() {
    assert_eq!(parsed(&[]).unwrap().ecn, None);
    assert_eq!(parsed(&["--ecn", "ect0"]).unwrap().ecn, Some(Mark::Ect0));
    assert_eq!(parsed(&["--ecn", "ect1"]).unwrap().ecn, Some(Mark::Ect1));
    assert!(parsed(&["--ecn", "ce"]).is_err());
}
