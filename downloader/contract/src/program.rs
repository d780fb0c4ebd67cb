//! A client as a program: its help and version, and the loop over requests.

use crate::answer::ClientAnswer;
use crate::request::Request;
use std::fmt;
use std::io::{self, BufRead, Write};

/// Why a client stops before the input is over. The text is one sentence.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Input(String),
    Output(String),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Stopped::Input(why) | Stopped::Output(why)) = self;
        f.write_str(why)
    }
}

/// Prints the help or the version on standard output if the first argument asks for it. Returns whether it does.
pub fn explains(
    arguments: &[String],
    name: &str,
    version: &str,
    help: &str,
) -> Result<bool, Stopped> {
    let text = match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => help.to_owned(),
        Some("--version" | "-V") => format!("{name} {version}"),
        _ => return Ok(false),
    };
    say(&mut io::stdout().lock(), &text).map(|()| true)
}

/// Prints that the client is ready, and answers the requests on standard input, in order. `stack` is the name and the
/// version of the QUIC stack, NAME/VERSION. Returns at the end of the input.
pub fn serve(stack: &str, answer: impl FnMut(&Request) -> ClientAnswer) -> Result<(), Stopped> {
    exchange(io::stdin().lock(), io::stdout().lock(), stack, answer)
}

fn exchange(
    input: impl BufRead,
    mut output: impl Write,
    stack: &str,
    mut answer: impl FnMut(&Request) -> ClientAnswer,
) -> Result<(), Stopped> {
    say(&mut output, &format!(r#"{{"ready":"{stack}"}}"#))?;
    for line in input.lines() {
        let line = line.map_err(|error| Stopped::Input(format!("standard input: {error}")))?;
        let request: Request = serde_json::from_str(&line)
            .map_err(|error| Stopped::Input(format!("{line:?} is no request: {error}")))?;
        let text = serde_json::to_string(&answer(&request))
            .map_err(|error| Stopped::Output(error.to_string()))?;
        say(&mut output, &text)?;
    }
    Ok(())
}

/// Writes a line, which the reader gets at once.
fn say(output: &mut impl Write, line: &str) -> Result<(), Stopped> {
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .map_err(|error| Stopped::Output(format!("standard output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::End;

    const REQUEST: &str = r#"{"host":"a.test","ip":"127.0.0.1","port":443,"path":"/","user_agent":"x","timeout_s":1,"max_bytes":1,"roots":"r.pem","verify":true}"#;

    fn run(input: &str) -> (Result<(), Stopped>, Vec<serde_json::Value>) {
        let mut output = Vec::new();
        let ended = exchange(input.as_bytes(), &mut output, "stack/1", |request| {
            ClientAnswer {
                end: End::Complete,
                detail: Some(request.host.clone()),
                ..ClientAnswer::default()
            }
        });
        let text = String::from_utf8(output).expect("UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        (ended, lines.collect())
    }

    #[test]
    fn each_request_has_one_answer_in_order() {
        let other = REQUEST.replace("a.test", "b.test");
        let (ended, lines) = run(&format!("{REQUEST}\n{other}\n"));
        assert_eq!(ended, Ok(()));
        assert_eq!(lines[0]["ready"], "stack/1");
        let details: Vec<_> = lines[1..].iter().map(|line| &line["detail"]).collect();
        assert_eq!(details, ["a.test", "b.test"]);
    }

    #[test]
    fn what_is_no_request_stops_the_client() {
        let (ended, lines) = run(&format!("{REQUEST}\nnonsense\n{REQUEST}\n"));
        let Err(Stopped::Input(why)) = ended else {
            panic!("{ended:?}");
        };
        assert!(why.starts_with("\"nonsense\" is no request: "), "{why}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_reader_that_is_gone_stops_the_client() {
        let mut full = [0_u8; 4];
        let ended = exchange(REQUEST.as_bytes(), &mut full[..], "stack/1", |_| {
            ClientAnswer::default()
        });
        assert!(matches!(ended, Err(Stopped::Output(why)) if why.starts_with("standard output: ")));
    }

    #[test]
    fn other_arguments_explain_nothing() {
        for arguments in [vec![], vec!["allow-net=127.0.0.0/8".to_owned()]] {
            assert_eq!(explains(&arguments, "x", "1", "help"), Ok(false));
        }
    }
}
