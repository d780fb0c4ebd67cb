//! `firstflight-responder`: answers every first Initial, or every DNS question, as fast as it can, for measuring what asks.
//!
//! On a wildcard address it serves all addresses of the machine, so that 127.0.0.0/8 is sixteen million servers. What it
//! answers is in `answer.rs` (QUIC) and `dns.rs`.

mod answer;
mod batch;
mod dns;

use std::io::{ErrorKind, Write};
use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::answer::Answer;
use crate::batch::{BATCH, Batch, Route};

/// Pause before the next receive call when no message was pending.
const PAUSE: Duration = Duration::from_micros(200);

/// Answers QUIC Initials with an instant ACK and a ServerHello, 1200 bytes each, or DNS questions with made-up records.
#[derive(Parser)]
#[command(
    version,
    about,
    after_help = "Example: firstflight-responder --listen 0.0.0.0:4433"
)]
struct Options {
    /// Address and port; prints READY once it is bound
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: SocketAddrV4,
    /// Answer DNS questions instead: about 92 of 100 names have an address in 127.0.0.0/8 that follows from the name
    #[arg(long)]
    dns: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ended = if options.dns {
        let mut room = [0; dns::SIZE];
        serve(options.listen, |message, route, answers, count| {
            dns::answer(message, &mut room).map_or(0, |length| {
                answers.put(count, &room[..length], route);
                1
            })
        })
    } else {
        let mut answer = Answer::new();
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

/// Serves without end. `respond` puts at most two answers to a message into the batch, from the given number on, and returns
/// how many.
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
            // Sleeping on the socket would make every sender pay for waking this process up, which
            // no sender to a real network does.
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
