//! The command line.

use std::path::PathBuf;

use clap::Parser;
use firstflight_core::arguments::{SendingArguments, positive, seconds};
use firstflight_core::records::OutputArguments;

/// Help texts of the options that all engines share.
const CONTACT: &str = "How owners of probed servers reach you; required outside of --allow-net, but not sent: \
                       a SYN has no room for it";
const PORTS: &str = "Source ports, one per connection in turn (default: the system chooses them)";

/// Opens a TCP connection to each target, reads the agreed options, and resets the connection. Writes one row per
/// target.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-tcp-options",
    bin_name = "firstflight tcp-options",
    version,
    about,
    mut_arg("contact", |arg| arg.help(CONTACT)),
    mut_arg("ports", |arg| arg.help(PORTS)),
    // TCP has no connection IDs.
    mut_arg("cid_key", |arg| arg.hide(true)),
    after_help = "\
Example:
  firstflight tcp-options www.example.org --contact 'research@example.org'
  firstflight tcp-options --targets targets.csv --rate 100 --contact 'research@example.org' \\
    --blocklist blocklist.txt > tcp_options.jsonl

Options that this machine does not offer (sysctls net.ipv4.tcp_ecn, tcp_sack, tcp_window_scaling and \
tcp_timestamps of the network namespace, each 1 to offer it) are null in all rows; the program changes no \
sysctl.

Exit status: 0 done; 1 done, some lines of the list were rejected; 2 wrong use, nothing sent; 3 unreadable \
input or records that cannot be written; 130 interrupted, finished targets are recorded."
)]
pub struct Options {
    /// Target list: CSV with the header ip,domain,port (port empty: 443; domain may be empty), or names to resolve, one
    /// per line or in a column domain without a column ip; - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "names")]
    pub targets: Option<PathBuf>,

    /// Read commands about groups of targets from standard input while connecting: hold, free, refuse
    /// (scanner/native/first_answer/README.md)
    #[arg(long)]
    pub feed: bool,

    #[command(flatten)]
    pub output: OutputArguments,

    /// New connections per second, including repeated connections to a target
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = positive)]
    pub rate: f64,

    #[command(flatten)]
    pub sending: SendingArguments,

    /// Timeout of a connection in seconds, from the first SYN
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub timeout: f64,

    /// Maximum number of connections to one target; after a lost SYN, a new connection offers ECN again
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=10))]
    pub attempts: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_definitions() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        let options =
            Options::try_parse_from(["firstflight-tcp-options", "--targets", "t"]).unwrap();
        assert_eq!(
            (options.rate, options.timeout, options.attempts),
            (100.0, 10.0, 3)
        );
    }

    #[test]
    fn help_says_nothing_of_closes_and_connection_ids() {
        use clap::CommandFactory;
        let wrapped = Options::command().render_long_help().to_string();
        let help = wrapped.split_whitespace().collect::<Vec<_>>().join(" ");
        for (text, is_there) in [
            ("--contact", true),
            ("a SYN has no room", true),
            ("the system chooses them", true),
            ("every close", false),
            ("16 free ones", false),
            ("cid-key", false),
        ] {
            assert_eq!(help.contains(text), is_there, "{text}");
        }
    }
}
