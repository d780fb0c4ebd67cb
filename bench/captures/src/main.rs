//! Makes a capture of any number of QUIC handshakes from recorded ones, and its key log.
//!
//! Decrypts each recorded handshake once with its key log. Every copy gets a different client address and different
//! connection IDs, client random and secrets. All its packets are encrypted again with keys derived from these secrets.
//! Packet contents, sizes and the times between packets are the same as in the recording.

mod copy;
mod recording;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use copy::Copier;
use recording::Recording;

#[derive(Debug, Parser)]
#[command(
    name = "firstflight-captures",
    version,
    about = "Copies recorded handshakes, each with its own addresses, IDs and secrets, sealed again",
    max_term_width = 100,
    after_help = "Example: firstflight-captures quiche.pcap --handshakes 50000 --keys many.keys --out many.pcap"
)]
struct Args {
    /// Captures with one handshake each (microsecond pcap; IPv4 on Ethernet or PPP); NAME.pcap needs NAME.keys next to it
    #[arg(required = true)]
    recordings: Vec<PathBuf>,
    /// Handshakes to write
    #[arg(long, default_value_t = 10_000)]
    handshakes: u64,
    /// Number of the first handshake: it determines addresses, IDs and secrets
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Handshakes that start per second
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// File for the key log (default: no key log)
    #[arg(long)]
    keys: Option<PathBuf>,
    /// File for the capture (default: standard output)
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firstflight-captures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn create(path: &PathBuf) -> Result<Box<dyn Write>, String> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Box::new(file))
}

fn run(args: &Args) -> Result<(), String> {
    let recordings: Vec<Recording> = args
        .recordings
        .iter()
        .map(|path| Recording::read(path))
        .collect::<Result<_, _>>()?;
    let copiers: Vec<Copier> = recordings.iter().map(Copier::new).collect();
    let out = match &args.out {
        Some(path) => create(path)?,
        None => Box::new(io::stdout()),
    };
    let keys = match &args.keys {
        Some(path) => create(path)?,
        None => Box::new(io::sink()),
    };
    let written = write(
        args,
        &copiers,
        &mut BufWriter::with_capacity(1 << 20, out),
        &mut BufWriter::with_capacity(1 << 20, keys),
    );
    written.map_err(|error| format!("the capture cannot be written: {error}"))
}

/// Writes the handshakes with their frames in order of time.
fn write(
    args: &Args,
    copiers: &[Copier<'_>],
    out: &mut impl Write,
    keys: &mut impl Write,
) -> io::Result<()> {
    // pcap in nanoseconds, link type raw IP.
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, 101] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut waiting = BinaryHeap::new();
    let mut order = 0u64;
    for n in args.first..args.first + args.handshakes {
        let start_ns = 1_700_000_000_000_000_000 + n * 1_000_000_000 / args.rate;
        write_until(&mut waiting, start_ns, out)?;
        let copier = &copiers[(n % copiers.len() as u64) as usize];
        keys.write_all(copier.key_log(n).as_bytes())?;
        for (after_ns, packet) in copier.frames(n) {
            waiting.push(Reverse((start_ns + after_ns, order, packet)));
            order += 1;
        }
    }
    write_until(&mut waiting, u64::MAX, out)?;
    out.flush()?;
    keys.flush()
}

type Waiting = BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>;

fn write_until(waiting: &mut Waiting, end_ns: u64, out: &mut impl Write) -> io::Result<()> {
    while waiting
        .peek()
        .is_some_and(|Reverse((at_ns, _, _))| *at_ns <= end_ns)
    {
        let Some(Reverse((at_ns, _, packet))) = waiting.pop() else {
            break;
        };
        let length = packet.len() as u32;
        let (seconds, nanos) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        for word in [seconds as u32, nanos as u32, length, length] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&packet)?;
    }
    Ok(())
}
