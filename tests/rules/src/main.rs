//! Applies the engines' rules, for the comparison with the rules in Python (tests/rules): which addresses may be
//! contacted, and which CDN a response or a certificate belongs to. One JSON object per line on standard input, one JSON
//! value per line on standard output. It sends no packets.

#![forbid(unsafe_code)]

use clap::Parser;
use firstflight_certificates::Certificate;
use firstflight_core::Failure;
use firstflight_core::policy::list_line::{self, Entry};
use firstflight_core::policy::{Namespace, Policy};
use firstflight_handshake::cdn::{Rules, edge};
use firstflight_wire::Writer;
use firstflight_wire::http3::{FieldSection, ResponseStream, write_request};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufWriter, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Maximum size of the fields in a response.
const MOST_BYTES: usize = 1 << 16;

type Error = Box<dyn std::error::Error>;

#[derive(Parser)]
#[command(
    name = "firstflight-rules",
    version,
    about = "Applies the engines' rules to addresses, names and responses",
    max_term_width = 100,
    after_help = r#"Example: echo '{"address": ["192.0.2.1", "example.org"]}' | firstflight-rules"#
)]
struct Args {}

/// A line of the input.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    /// The meaning of a line in a block or opt-out list.
    Line(String),
    /// Uses another policy. The answer is the message if it is refused, else null.
    Policy(Lists),
    /// Why the policy forbids an address for a name, or null.
    Address(IpAddr, String),
    /// Uses the CDN rules in a file.
    Rules(PathBuf),
    /// The CDN and the location for a response with these fields.
    Fields(Vec<(String, String)>),
    /// The CDN for a certificate: subject, issuer, names.
    Certificate(String, String, Vec<String>),
}

/// The parts of a policy.
#[derive(Deserialize)]
struct Lists {
    allow: Vec<String>,
    block: String,
    optout: String,
    own: Vec<String>,
    servers: Vec<IpAddr>,
}

impl Lists {
    fn policy(&self) -> Result<Policy, Failure> {
        let list = |name: &str, text: &String| [(name.to_owned(), text.clone())];
        let policy = Policy::new(
            &self.allow,
            &list("block", &self.block),
            &list("optout", &self.optout),
            Namespace::here(&[])?.with_own(&self.own)?,
        )?;
        Ok(policy.with_servers(&self.servers))
    }
}

/// What earlier lines of the input chose.
#[derive(Default)]
struct InForce {
    policy: Option<Policy>,
    rules: Option<Rules>,
}

impl InForce {
    fn answer(&mut self, question: Question) -> Result<Value, Error> {
        Ok(match question {
            Question::Line(line) => meaning(&line),
            Question::Policy(lists) => match lists.policy() {
                Ok(policy) => {
                    self.policy = Some(policy);
                    Value::Null
                }
                Err(failure) => failure.to_string().into(),
            },
            Question::Address(ip, name) => {
                let policy = self.policy.as_ref().ok_or("there is no policy yet")?;
                policy
                    .check(ip, &name)
                    .err()
                    .map(|why| why.to_string())
                    .into()
            }
            Question::Rules(path) => {
                self.rules = Some(Rules::read(&path)?);
                Value::Null
            }
            Question::Fields(fields) => {
                let fields = decoded(&fields)?;
                json!([self.rules()?.by_headers(&fields), edge::location(&fields)])
            }
            Question::Certificate(subject, issuer, names) => {
                let certificate = Certificate {
                    subject,
                    issuer,
                    sans: serde_json::to_string(&names)?,
                    ..Certificate::default()
                };
                self.rules()?.by_certificate(&certificate).into()
            }
        })
    }

    fn rules(&self) -> Result<&Rules, &'static str> {
        self.rules.as_ref().ok_or("there are no rules yet")
    }
}

/// Returns `[first, last]`, a name, null for a line without content, or `{"error": FAULT}`.
fn meaning(line: &str) -> Value {
    match list_line::content(line).and_then(|text| text.map(list_line::entry).transpose()) {
        Ok(None) => Value::Null,
        Ok(Some(Entry::Addresses(first, last))) => json!([first, last]),
        Ok(Some(Entry::Name(name))) => name.into(),
        Err(fault) => json!({ "error": fault }),
    }
}

/// Returns the fields as an engine reads them from a response.
fn decoded(fields: &[(String, String)]) -> Result<FieldSection, Error> {
    let fields = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<_> = [(":status", "200")].into_iter().chain(fields).collect();
    let mut room = vec![0; MOST_BYTES];
    let mut writer = Writer::new(&mut room);
    write_request(&mut writer, &fields)?;
    let mut stream = ResponseStream::new(MOST_BYTES);
    stream.push(writer.written())?;
    let response = stream.response().ok_or("the fields are no response")?;
    Ok(response.fields.clone())
}

fn run() -> Result<(), Error> {
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut in_force = InForce::default();
    for line in std::io::stdin().lock().lines() {
        let answer = in_force.answer(serde_json::from_str(&line?)?)?;
        writeln!(output, "{answer}")?;
    }
    Ok(output.flush()?)
}

fn main() -> ExitCode {
    Args::parse();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "firstflight-rules: {error}");
            ExitCode::FAILURE
        }
    }
}
