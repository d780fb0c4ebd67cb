//! Identifies the CDN of a response or a certificate with the rules of `--cdn-rules`. firstflight/cdn/rules.py checks
//! the rules when they are loaded. firstflight/cdn/methods.py applies them in Python. tests/cdn/methods.json has test
//! cases for both implementations, and tests/rules compares them on random cases.

pub mod edge;
mod pattern;

use std::collections::HashMap;
use std::path::Path;

use firstflight_certificates::Certificate;
use firstflight_core::Failure;
use firstflight_wire::http3::FieldSection;
use serde::Deserialize;

use pattern::{Pattern, attributes};

/// The CDN if no rule fits.
pub const OTHERS: &str = "Others";

/// Maximum length of a DNS name as text.
const MOST_NAME: usize = 253;

/// Maximum size of a file of rules.
const MOST_BYTES: u64 = 8 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    cdn: String,
    kind: Kind,
    /// The field in a header rule.
    name: String,
    values: Vec<String>,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Cname,
    Header,
    San,
    Subject,
    Issuer,
}

/// The rules, ready for use. Rules for CNAMEs are not used here.
pub struct Rules {
    /// By field: position of the rule, patterns (empty: any value), CDN.
    fields: HashMap<String, Vec<(usize, Vec<Pattern>, String)>>,
    sans: HashMap<String, String>,
    subjects: Vec<Attribute>,
    issuers: Vec<Attribute>,
}

struct Attribute {
    kind: String,
    pattern: Pattern,
    cdn: String,
}

impl Rules {
    /// Reads a file: a JSON list of `{cdn, kind, name, values}`.
    pub fn read(path: &Path) -> Result<Rules, Failure> {
        let unreadable = |why: String| {
            Failure::Input(format!(
                "--cdn-rules {}: {why}; nothing was sent",
                path.display()
            ))
        };
        let file = std::fs::File::open(path).map_err(|e| unreadable(e.to_string()))?;
        let limited = std::io::Read::take(std::io::BufReader::new(file), MOST_BYTES);
        let rules: Vec<Rule> =
            serde_json::from_reader(limited).map_err(|e| unreadable(e.to_string()))?;
        Ok(Rules::new(rules))
    }

    fn new(rules: Vec<Rule>) -> Rules {
        let mut made = Rules {
            fields: HashMap::new(),
            sans: HashMap::new(),
            subjects: Vec::new(),
            issuers: Vec::new(),
        };
        for (order, rule) in rules.into_iter().enumerate() {
            match rule.kind {
                Kind::Cname => {}
                Kind::Header => {
                    let patterns = rule.values.iter().map(|text| Pattern::new(text)).collect();
                    let of_field = made.fields.entry(rule.name).or_default();
                    of_field.push((order, patterns, rule.cdn));
                }
                Kind::San => {
                    let named = rule.values.into_iter().map(|s| (s, rule.cdn.clone()));
                    made.sans.extend(named);
                }
                Kind::Subject => made.subjects.extend(of_attributes(&rule)),
                Kind::Issuer => made.issuers.extend(of_attributes(&rule)),
            }
        }
        made
    }

    /// Returns the CDN from the fields in a response: the CDN of the first rule that fits, or [`OTHERS`].
    pub fn by_headers(&self, fields: &FieldSection) -> &str {
        let mut best: Option<(usize, &str)> = None;
        for (name, value) in fields.iter() {
            let Some(rules) = std::str::from_utf8(name)
                .ok()
                .and_then(|name| self.fields.get(name))
            else {
                continue;
            };
            let value = String::from_utf8_lossy(value);
            for (order, patterns, cdn) in rules {
                if best.is_some_and(|(earlier, _)| earlier < *order) {
                    break;
                }
                if patterns.is_empty() || patterns.iter().any(|pattern| pattern.fits(&value)) {
                    best = Some((*order, cdn));
                    break;
                }
            }
        }
        best.map_or(OTHERS, |(_, cdn)| cdn)
    }

    /// Returns the CDN from a server's certificate: by the names, then by the subject, then by the issuer. If no
    /// rule fits, returns [`OTHERS`], or `None` if part of the certificate could not be read.
    pub fn by_certificate(&self, certificate: &Certificate) -> Option<&str> {
        let names: Vec<String> = serde_json::from_str(&certificate.sans).unwrap_or_default();
        let found = self
            .by_names(&names)
            .or_else(|| by_attributes(&self.subjects, &certificate.subject))
            .or_else(|| by_attributes(&self.issuers, &certificate.issuer));
        found.or_else(|| certificate.error.is_none().then_some(OTHERS))
    }

    /// Returns the CDN from names. The longest suffix of whole labels decides, and the first one of the same length.
    fn by_names(&self, names: &[String]) -> Option<&str> {
        let mut best: Option<(usize, &str)> = None;
        for name in names {
            let lower = name.strip_prefix("*.").unwrap_or(name).to_lowercase();
            let mut rest = lower.strip_suffix('.').unwrap_or(&lower);
            if rest.chars().take(MOST_NAME + 1).count() > MOST_NAME {
                continue;
            }
            while !rest.is_empty() {
                if let Some(cdn) = self.sans.get(rest) {
                    if best.is_none_or(|(length, _)| rest.len() > length) {
                        best = Some((rest.len(), cdn));
                    }
                    break;
                }
                rest = rest.split_once('.').map_or("", |(_, rest)| rest);
            }
        }
        best.map(|(_, cdn)| cdn)
    }
}

fn of_attributes(rule: &Rule) -> impl Iterator<Item = Attribute> + '_ {
    rule.values.iter().map(|text| {
        let (kind, pattern) = text.split_once('=').unwrap_or(("", text));
        Attribute {
            kind: kind.to_uppercase(),
            pattern: Pattern::new(pattern),
            cdn: rule.cdn.clone(),
        }
    })
}

/// Returns the CDN of the first rule that fits an attribute in a distinguished name.
fn by_attributes<'a>(rules: &'a [Attribute], name: &str) -> Option<&'a str> {
    let there = attributes(name);
    let fits = |rule: &&Attribute| {
        there
            .iter()
            .any(|(kind, value)| kind.to_uppercase() == rule.kind && rule.pattern.fits(value))
    };
    rules.iter().find(fits).map(|rule| rule.cdn.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::Writer;
    use firstflight_wire::http3::{ResponseStream, write_request};
    use serde_json::Value;

    const CASES: &str = include_str!("../../../../tests/cdn/methods.json");

    fn cases() -> (Rules, Value) {
        let cases: Value = serde_json::from_str(CASES).unwrap();
        let rules: Vec<Rule> = serde_json::from_value(cases["rules"].clone()).unwrap();
        (Rules::new(rules), cases)
    }

    fn fields(given: &[(String, String)]) -> FieldSection {
        let mut out = vec![0; 20_000];
        let mut w = Writer::new(&mut out);
        let all: Vec<_> = given
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let all: Vec<_> = [(":status", "200")].into_iter().chain(all).collect();
        write_request(&mut w, &all).unwrap();
        let mut stream = ResponseStream::new(40_000);
        stream.push(w.written()).unwrap();
        stream.response().unwrap().fields.clone()
    }

    #[test]
    fn headers_tell_what_the_cases_say() {
        let (rules, cases) = cases();
        for case in cases["headers"].as_array().unwrap() {
            let given: Vec<(String, String)> =
                serde_json::from_value(case["fields"].clone()).unwrap();
            assert_eq!(rules.by_headers(&fields(&given)), case["cdn"], "{case}");
        }
    }

    #[test]
    fn certificates_tell_what_the_cases_say() {
        let (rules, cases) = cases();
        for case in cases["certificates"].as_array().unwrap() {
            let text = |name: &str| case[name].as_str().unwrap().to_owned();
            let mut certificate = Certificate {
                subject: text("subject"),
                issuer: text("issuer"),
                sans: case["sans"].to_string(),
                ..Certificate::default()
            };
            let found = rules.by_certificate(&certificate);
            assert_eq!(found, case["cdn"].as_str(), "{case}");
            certificate.error = Some("cut".into());
            let known = Some(text("cdn")).filter(|cdn| cdn != OTHERS);
            assert_eq!(
                rules.by_certificate(&certificate),
                known.as_deref(),
                "{case}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_list_of_rules_is_one_sentence() {
        let path = std::env::temp_dir().join(format!("cdn-rules-{}.json", std::process::id()));
        for text in [
            "",
            "{}",
            "[1]",
            r#"[{"cdn":"A","kind":"x","name":"","values":[]}]"#,
        ] {
            std::fs::write(&path, text).unwrap();
            let failure = Rules::read(&path).err().unwrap().to_string();
            assert!(
                failure.contains("--cdn-rules") && !failure.contains('\n'),
                "{failure}"
            );
        }
        std::fs::write(&path, "[]").unwrap();
        assert!(Rules::read(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(Rules::read(&path).is_err());
    }
}
