use super::*;
use firstflight_wire::Writer;
use firstflight_wire::transport::{TransportParameters, write_integer_parameter, write_parameter};
use serde_json::Value;

const MOST: usize = 64;

/// Transport parameters from servers of each implementation: name, fingerprint.
fn captured() -> Vec<(String, String)> {
    let text = include_str!("../../../../../tests/handshake/stacks.json");
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
    let captured = captured();
    assert_eq!(captured.len(), 16);
    for (stack, fingerprint) in &captured {
        let found: Vec<&str> = KNOWN
            .iter()
            .filter(|known| fits(known, fingerprint))
            .map(|known| known.name)
            .collect();
        assert_eq!(found, [stack.as_str()], "{fingerprint}");
        assert_eq!(name(fingerprint), Some(stack.as_str()));
    }
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    names.dedup();
    let of_captures: Vec<&str> = captured.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, of_captures);
}

#[test]
fn another_order_value_or_number_is_another_server() {
    for (stack, fingerprint) in captured() {
        let known = KNOWN
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
fn two_names_for_one_fingerprint_are_none() {
    let entry = |name, parameters, any_order| {
        Entry::new(&Known {
            name,
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
    for known in KNOWN {
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
        assert_eq!(ids.len(), all, "{}", known.name);
    }
}
