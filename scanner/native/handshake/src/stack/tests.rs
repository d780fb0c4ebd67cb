use super::*;
use firstflight_wire::Writer;
use firstflight_wire::transport::{TransportParameters, write_integer_parameter, write_parameter};
use serde_json::Value;

const MOST: usize = 64;

/// Transport parameters from servers of each implementation: name, fingerprint.
fn captured() -> Vec<(String, String)> {
    let text = include_str!("../../../../../tests/handshake/stacks/stacks.json");
    let Value::Object(cases) = serde_json::from_str(text).unwrap() else {
        panic!("no object");
    };
    let fingerprint = |parameters: &Value| {
        let mut out = [0; 4_096];
        let mut w = Writer::new(&mut out);
        for parameter in parameters.as_array().unwrap() {
            let id = u64::from_str_radix(&parameter["id"].as_str().unwrap()[2..], 16).unwrap();
            match &parameter["value"] {
                Value::Number(number) => {
                    write_integer_parameter(&mut w, id, number.as_u64().unwrap()).unwrap();
                }
                Value::Bool(_) => write_parameter(&mut w, id, &[]).unwrap(),
                text => {
                    let hex = text.as_str().unwrap().as_bytes();
                    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
                    let bytes: Vec<u8> = hex.chunks(2).map(|pair| byte(pair).unwrap()).collect();
                    write_parameter(&mut w, id, &bytes).unwrap();
                }
            }
        }
        let n = w.position();
        TransportParameters::new(&out[..n])
            .fingerprint(MOST)
            .unwrap()
    };
    cases
        .iter()
        .map(|(name, parameters)| (name.clone(), fingerprint(parameters)))
        .collect()
}

fn fits(known: &Known<'_>, fingerprint: &str) -> bool {
    Entry::new(known).fits(&Fingerprint::new(fingerprint))
}

#[test]
fn each_captured_server_fits_its_own_entry_alone() {
    let (captured, table) = (captured(), known());
    assert_eq!(captured.len(), 16);
    for (stack, fingerprint) in &captured {
        let found: Vec<&str> = table
            .iter()
            .filter(|known| fits(known, fingerprint))
            .map(|known| known.stack)
            .collect();
        assert_eq!(found, [stack.as_str()], "{fingerprint}");
        assert_eq!(name(fingerprint), Some(stack.as_str()));
    }
    assert!(table.is_sorted_by_key(|known| known.stack));
}

#[test]
fn another_order_value_or_number_is_another_server() {
    let table = known();
    for (stack, fingerprint) in captured() {
        let known = table
            .iter()
            .find(|known| fits(known, &fingerprint))
            .unwrap();
        let is_same = |parameters: &[&str]| name(&parameters.join(",")) == Some(&stack);
        let there: Vec<&str> = fingerprint.split(',').collect();
        for i in 1..there.len() {
            let mut other = there.clone();
            other.swap(i - 1, i);
            assert_eq!(is_same(&other), known.any_order, "{other:?}");
        }
        for (i, parameter) in there.iter().copied().enumerate() {
            let (id, value) = split(parameter);
            let mut wanted = known.parameters.split(',').map(Element::new);
            let element = wanted.find(|element| element.id == id).unwrap();
            let mut without = there.clone();
            without.remove(i);
            assert_eq!(is_same(&without), element.optional, "{stack} without {id}");
            let mut twice = there.clone();
            twice.insert(i, parameter);
            assert_eq!(name(&twice.join(",")), None, "{stack}, {id} twice");
            let changed = format!("{id}=77");
            let mut other = there.clone();
            other[i] = &changed;
            if value.is_some() {
                assert_eq!(
                    is_same(&other),
                    element.value.is_none(),
                    "{stack}, {changed}"
                );
            }
        }
        assert_eq!(name(&format!("{fingerprint},+1")), None);
        assert_eq!(name(&format!("{fingerprint},77")), None);
    }
    for none in ["", ",", "00", "g", "00,,01", "="] {
        assert_eq!(name(none), None, "{none}");
    }
}

#[test]
fn settings_do_not_change_the_name() {
    for (fingerprint, expected) in [
        // The servers of the lab and the testbed, which have other settings than the captured ones.
        ("00,01,03=65527,04,06,07,08,09,0a=3,0b=25,0f", "quiche"),
        ("00,02,0f,06,07,04,08,09,01,0e=7,2ab2,11", "ngtcp2"),
        (
            "05,04,08,01,03=1440,09,06,07,0e=8,0b=10,0f,00,02,20,17f7586d2cb571",
            "picoquic",
        ),
        (
            "02,06,04,07,g,03=1472,0f,20,00,01,09,0e=5,05,08,ff04de1b=1000",
            "quinn",
        ),
        // Settings of quiche: datagrams, a token for stateless resets, migration, delays of ACKs, no idle timeout.
        (
            "00,01,02,03=1350,04,05,06,07,08,09,0a=3,0b=25,0c,0f,20",
            "quiche",
        ),
        ("00,03=1200,04,06,08,0a=8,0b=60,0f", "quiche"),
        (
            "00,01,03=1350,04,05,06,07,08,09,0a=3,0b=25,0e=4,0f,20",
            "quiche",
        ),
        // Paths and a preferred address, which quiche does not have.
        (
            "00,01,02,03=1500,04,05,06,07,08,09,0a=3,0b=25,0d,0e=2,0f,f739bbc1b666d05",
            "tquic",
        ),
        // Settings of the other programs.
        (
            "04,09,08,05,06,07,01,03=1472,0c,0e=4,0b=25,0a=3,00,0f,02",
            "nginx",
        ),
        ("00,02,0f,05,06,07,04,08,09,0a=4,0c,01,20", "ngtcp2"),
        (
            "g,05,06,07,04,08,09,01,03=1452,0b=26,02,00,0e=4,0f,20,1d,17f7586d2cb571",
            "quic-go",
        ),
        ("04,05,06,07,08,20,0b=40,0c,00,02,0f", "s2n-quic"),
        ("g,0f,ff04de1b=1000,07,00,02,06,04,05", "quinn"),
        (
            "00,02,03=1472,04,05,06,07,08,0a=8,0b=41,0e=4,0f,20,11,ff04de1b=1000",
            "msquic",
        ),
        (
            "03=1472,05,06,07,04,01,00,0f,02,08,0a=10,ff04de1b=25000,0e=4",
            "quicly",
        ),
        (
            "03=1472,05,06,07,04,01,00,0f,02,08,0a=10,ff03de1a=25000,0c,0e=4,20",
            "quicly",
        ),
    ] {
        assert_eq!(name(fingerprint), Some(expected), "{fingerprint}");
    }
}

#[test]
fn what_two_programs_write_has_no_name() {
    for fingerprint in [
        // quiche and tquic with a limit of connection IDs.
        "00,01,03=65527,04,05,06,07,08,09,0a=3,0b=25,0e=4,0f",
        "00,01,02,03=65527,04,05,06,07,08,09,0a=3,0b=25,0c,0e=2,0f",
        // No known program.
        "00,02,0f,06,07,04,08,0a=10,ff04de1b=25000,0e=4",
        "00,01,04,05,06,07,08,09,0f",
    ] {
        assert_eq!(name(fingerprint), None, "{fingerprint}");
    }
}

#[test]
fn two_names_for_one_fingerprint_are_none() {
    let entry = |stack, parameters, any_order| {
        Entry::new(&Known {
            stack,
            parameters,
            any_order,
        })
    };
    let table = [
        entry("a", "00,01,0f?", false),
        entry("b", "01,00,0e=2", true),
        entry("b", "00,01,0e?", false),
    ];
    for (fingerprint, expected) in [
        ("00,01,0f", Some("a")),
        ("00,01", None),
        ("00,01,0e=2", Some("b")),
        ("0e=2,01,00", Some("b")),
        ("00,01,0e=3", Some("b")),
        ("0e=3,01,00", None),
    ] {
        assert_eq!(only(&table, fingerprint), expected, "{fingerprint}");
    }
}

#[test]
fn entries_are_fingerprints() {
    for known in known() {
        let mut ids = Vec::new();
        for text in known.parameters.split(',') {
            let element = Element::new(text);
            assert!(
                element.id == "g" || u64::from_str_radix(element.id, 16).is_ok(),
                "{text}"
            );
            assert!(
                element
                    .value
                    .is_none_or(|value| value.parse::<u64>().is_ok()),
                "{text}"
            );
            ids.push(element.id);
        }
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{}", known.stack);
    }
}
