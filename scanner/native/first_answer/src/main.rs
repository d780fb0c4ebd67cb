//! `firstflight-prober`: how QUIC servers answer the first flight of a connection.

mod backlog;
mod cid;
mod clock;
mod cmsg;
mod counts;
mod csv;
mod door;
mod ended;
mod engine;
mod error;
mod evidence;
mod exchange;
mod feed;
mod gate;
mod groups;
mod hold;
mod host_name;
mod list_line;
mod lists;
mod mmsg;
mod namespace;
mod networks;
mod options;
mod order;
mod outcome;
mod outgoing;
mod outputs;
mod pace;
mod packets;
mod poll;
mod ports;
mod progress;
mod report;
mod row;
mod rtnetlink;
mod segments;
mod setup;
mod signals;
mod skips;
mod slots;
mod socket;
mod special;
mod stamps;
mod summary;
mod table;
mod targets;
mod timers;
mod turns;
mod writer;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let options: Options = match firstflight_usage::parse("firstflight probe", "firstflight probe")
    {
        Ok(options) => options,
        Err(status) => return status,
    };
    match setup::run(&options) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("firstflight probe: {failure}");
            ExitCode::from(failure.exit_status())
        }
    }
}
