//! `firstflight-kernel-alone`: makes the system calls of a prober and nothing else, to measure the kernel's CPU time.
//!
//! A pass reads the pending messages (two datagrams and the transmit timestamp of an Initial for each target), then
//! sends a close to each target of the previous pass and an Initial to each new target. It decrypts, decides and
//! records nothing: all Initials are identical. It sends nothing outside 127.0.0.0/8.

mod batch;
mod packets;
mod passes;

use std::process::ExitCode;

use clap::Parser;
use firstflight_usage::tell;
use serde_json::json;

use crate::batch::MOST;

/// Sends Initials to a responder on loopback at a rate, several together, and prints the CPU time that it took as JSON.
#[derive(Parser)]
#[command(
    name = "firstflight-kernel-alone",
    version,
    about,
    after_help = "Example: firstflight-kernel-alone --port 4433 --rate 50 --together 5 (with firstflight-responder running)"
)]
pub struct Options {
    /// Port of the responder, which answers at every address of 127.0.0.0/8
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Initials per second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Initials that leave in one pass
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    together: u32,
    /// Initials in all
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    targets: u32,
}

fn main() -> ExitCode {
    let options: Options =
        match firstflight_usage::parse("firstflight-kernel-alone", "firstflight-kernel-alone") {
            Ok(options) => options,
            Err(status) => return status,
        };
    match passes::run(&options) {
        Ok(found) => {
            println!(
                "{}",
                json!({
                    "targets": options.targets,
                    "sent": found.sent,
                    "datagrams": found.datagrams,
                    "stamps": found.stamps,
                    "passes": found.passes,
                    "cpu_s": found.cpu_s,
                })
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell!("firstflight-kernel-alone: port {}: {error}", options.port);
            ExitCode::from(2)
        }
    }
}
