//! `firstflight-responder`: answers every first Initial, every QUIC handshake or every DNS question as fast as it can,
//! as the peer of a measured program.
//!
//! On a wildcard address it serves all addresses of the machine, so 127.0.0.0/8 acts as sixteen million servers. The
//! answers are in `answer.rs` (Initials), `handshakes.rs` and `dns.rs`.

mod answer;
mod batch;
mod dns;
mod handshakes;

use std::io::{ErrorKind, Write};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::answer::AnswerDatagrams;
use crate::batch::{BATCH, Batch, Route};

/// Pause before the next receive call when no message was pending.
const PAUSE: Duration = Duration::from_micros(200);

/// Answers QUIC Initials with an instant ACK and a ServerHello, 1200 bytes each; or completes handshakes and answers one
/// HTTP/3 request each; or answers DNS questions with made-up records.
#[derive(Parser)]
#[command(
    version,
    about,
    max_term_width = 100,
    after_help = "Example: firstflight-responder --listen 0.0.0.0:4433"
)]
struct Options {
    /// Address and port; prints READY once it is bound
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: SocketAddrV4,
    /// Answer DNS questions instead: about 92 of 100 names have an address in 127.0.0.0/8 that follows from the name
    #[arg(long)]
    dns: bool,
    /// Complete handshakes with the chain of certificates (PEM) in FILE
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "dns")]
    chain: Option<PathBuf>,
    /// Key (PEM) of the first certificate
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,
    /// Milliseconds from a request to its response
    #[arg(long, value_name = "N", default_value_t = 0, requires = "chain")]
    delay_ms: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ended = if let Some(files) = options.chain.as_deref().zip(options.key.as_deref()) {
        let delay = Duration::from_millis(options.delay_ms);
        handshakes::serve(options.listen, files, delay)
    } else if options.dns {
        let mut room = [0; dns::SIZE];
        serve(options.listen, |message, route, answers, count| {
            dns::answer(message, &mut room).map_or(0, |length| {
                answers.put(count, &room[..length], route);
                1
            })
        })
    } else {
        let mut answer = AnswerDatagrams::new();
        serve(options.listen, |message, route, answers, count| {
            answer.write(message).map_or(0, |()| {
                answers.put(count, &answer.ack, route);
                answers.put(count + 1, &answer.hello, route);
                2
            })
        })
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-responder: {}: {error}", options.listen);
            ExitCode::from(2)
        }
    }
}

/// Serves forever. `respond` puts at most two answers to a message into the batch, starting at the given index, and
/// returns their number.
fn serve(
    listen: SocketAddrV4,
    mut respond: impl FnMut(&[u8], &Route, &mut Batch, usize) -> usize,
) -> std::io::Result<()> {
    let socket = batch::open(listen)?;
    println!("READY");
    std::io::stdout().flush()?;
    let (mut received, mut answers) = (Batch::new(BATCH), Batch::new(2 * BATCH));
    loop {
        let came = match received.receive(&socket) {
            Ok(came) => came,
            // Sleeping on the socket would charge senders for waking this process, which a sender to a real
            // network does not pay for.
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) =>
            {
                continue;
            }
            Err(e) => return Err(e),
        };
        let mut count = 0;
        for i in 0..came {
            let (message, route) = received.get(i);
            count += respond(message, &route, &mut answers, count);
        }
        answers.send(&socket, count)?;
    }
}
