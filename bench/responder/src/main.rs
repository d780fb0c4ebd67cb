//! `firstflight-responder`: answers every first Initial as fast as it can, for measuring the prober.
//!
//! On a wildcard address it serves all addresses of the machine, so that 127.0.0.0/8 is sixteen million servers. What it
//! answers is in `answer.rs`.

mod answer;
mod batch;

use std::io::{ErrorKind, Write};
use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::answer::Answer;
use crate::batch::{BATCH, Batch};

/// Pause before the next receive call when no message was pending.
const PAUSE: Duration = Duration::from_micros(200);

/// Answers QUIC Initials with an instant ACK and a ServerHello, 1200 bytes each.
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
}

fn main() -> ExitCode {
    let options = Options::parse();
    match serve(options.listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-responder: {}: {error}", options.listen);
            ExitCode::from(2)
        }
    }
}

fn serve(listen: SocketAddrV4) -> std::io::Result<()> {
    let socket = batch::open(listen)?;
    println!("READY");
    std::io::stdout().flush()?;
    let (mut received, mut answers) = (Batch::new(BATCH), Batch::new(2 * BATCH));
    let mut answer = Answer::new();
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
            let (datagram, route) = received.get(i);
            if answer.write(datagram).is_some() {
                answers.put(count, &answer.ack, &route);
                answers.put(count + 1, &answer.hello, &route);
                count += 2;
            }
        }
        answers.send(&socket, count)?;
    }
}
