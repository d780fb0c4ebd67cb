//! The command line.

use std::path::PathBuf;

use clap::Parser;
use firstflight_core::arguments::{
    SendingArguments, VERSION_OPTION, milliseconds, positive, seconds,
};
use firstflight_core::records::OutputArguments;
use firstflight_wire::Version;

use crate::tls::{Ech, KeyShare, Sni, Verify};

/// UDP payloads: IP packets of 1280 bytes in both families.
const SIZES: [u16; 2] = [1252, 1232];

/// Completes a QUIC handshake with each target and sends an HTTP/3 HEAD request. Writes one row per target, with
/// negotiated parameters, certificates, the response, and times from the kernel's timestamps.
#[derive(Parser, Debug)]
#[command(
    name = "firstflight-handshake",
    bin_name = "firstflight handshake",
    version,
    about,
    after_help = "\
Example:
  firstflight handshake www.example.org --contact 'research@example.org'
  firstflight handshake --targets targets.csv --rate 50 --contact 'research@example.org' \\
    --blocklist blocklist.txt --verify chain > handshakes.jsonl

Exit status: 0 done; 1 done, some lines of the list were rejected; 2 wrong use, nothing sent; 3 unreadable \
input or records that cannot be written; 130 interrupted, finished targets are recorded."
)]
pub struct Options {
    /// Target list: CSV with the header ip,domain,port (port empty: 443; domain empty: no SNI), or names to resolve, one
    /// per line or in a column domain without a column ip; - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "names")]
    pub targets: Option<PathBuf>,

    /// Read commands about groups of targets from standard input while connecting: hold, free, refuse
    /// (scanner/native/handshake/README.md)
    #[arg(long)]
    pub feed: bool,

    #[command(flatten)]
    pub output: OutputArguments,

    /// New connections per second
    #[arg(long, value_name = "N", default_value_t = 50.0, value_parser = positive)]
    pub rate: f64,

    #[command(flatten)]
    pub sending: SendingArguments,

    /// Maximum duration of a connection in seconds, from the first Initial
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub timeout: f64,

    /// Milliseconds after the end of a connection during which late datagrams are counted
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = milliseconds())]
    pub linger_ms: u32,

    /// Group of the key share in the ClientHello; x25519mlkem768 needs two datagrams
    #[arg(long, value_enum, default_value_t = KeyShare::X25519)]
    pub key_share: KeyShare,

    /// QUIC versions to offer, as --version 1 or --version 1,2. The first packet has the first version, and the server
    /// may choose the other one (RFC 9368). Without a value, --version prints the program's version
    #[arg(
        long = VERSION_OPTION,
        value_name = "VERSION[,VERSION]",
        default_value = "1",
        value_parser = versions
    )]
    pub versions: Versions,

    /// Offer Encrypted ClientHello: none, or a GREASE extension. Servers that support ECH answer GREASE with their
    /// configurations
    #[arg(long, value_enum, default_value_t = Ech::None)]
    pub ech: Ech,

    /// Offer real Encrypted ClientHello to the names in FILE: CSV with the header domain,ech (the ech parameter of
    /// their HTTPS records, base64)
    #[arg(long, value_name = "FILE")]
    pub ech_configs: Option<PathBuf>,

    /// Whether the ClientHello names the server; the request and the certificate check always use the name
    #[arg(long, value_enum, default_value_t = Sni::Target)]
    pub sni: Sni,

    /// Application protocols to offer, by preference; the request is sent if the server chooses h3
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "h3", value_parser = protocol)]
    pub alpn: Vec<String>,

    /// Connect to each target a second time, with ticket and token from the first connection. The request is sent in
    /// 0-RTT packets if the ticket permits it. Second connections count in all rates
    #[arg(long)]
    pub second: bool,

    /// Check nothing, the signature of the handshake, or the signature and the chain up to a root. Failures are
    /// recorded and do not abort the handshake
    #[arg(long, value_enum, default_value_t = Verify::Signature)]
    pub verify: Verify,

    /// File of root certificates (PEM) for --verify chain (default: Mozilla's)
    #[arg(long, value_name = "FILE")]
    pub roots: Option<PathBuf>,

    /// Append the secrets of all connections to FILE, for dissectors (NSS key log format)
    #[arg(long, value_name = "FILE")]
    pub keylog: Option<PathBuf>,

    /// Rules that identify CDNs from headers and certificates (default: firstflight's rules)
    #[arg(long, value_name = "FILE")]
    pub cdn_rules: Option<PathBuf>,

    /// Path of the request
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    pub path: String,
}

/// Versions to offer, without repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions(pub Vec<Version>);

impl Options {
    /// Returns the UDP payload of Initials on IPv4 and on IPv6.
    pub fn initial_sizes(&self) -> [u16; 2] {
        SIZES
    }

    /// Returns the product and the contact, for the user agent of requests.
    pub fn user_agent(&self) -> String {
        let product = concat!("firstflight/", env!("CARGO_PKG_VERSION"));
        match &self.sending.contact {
            Some(contact) => format!("{product} ({contact})"),
            None => product.to_owned(),
        }
    }
}

/// Parses the versions to offer.
fn versions(text: &str) -> Result<Versions, String> {
    let mut found = Vec::new();
    for name in text.split(',') {
        let version = match name {
            "1" => Version::V1,
            "2" => Version::V2,
            _ => return Err("must be 1, 2, or both with a comma between them".into()),
        };
        if found.contains(&version) {
            return Err(format!("must list version {name} only once"));
        }
        found.push(version);
    }
    Ok(Versions(found))
}

/// Parses a path that fits into a request.
fn path(text: &str) -> Result<String, String> {
    let fits = text.starts_with('/')
        && text.len() <= 256
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("must begin with / and have at most 256 visible ASCII characters".into())
    }
}

/// Parses the name of an application protocol (RFC 7301 3.1).
fn protocol(text: &str) -> Result<String, String> {
    let fits = (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("each name must have 1 to 32 visible ASCII characters".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["firstflight-handshake", "--targets", "t"], arguments].concat())
    }

    #[test]
    fn defaults_are_those_of_the_definitions() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        let options = parsed(&[]).unwrap();
        assert_eq!(
            (options.rate, options.timeout, options.linger_ms),
            (50.0, 10.0, 500)
        );
        assert_eq!(
            (options.key_share, options.verify),
            (KeyShare::X25519, Verify::Signature)
        );
        assert_eq!((options.path.as_str(), options.keylog), ("/", None));
        assert_eq!(
            (options.sni, options.alpn),
            (Sni::Target, vec!["h3".to_owned()])
        );
    }

    #[test]
    fn paths_fit_a_request() {
        let long = format!("/{}", "x".repeat(256));
        for (text, fits) in [
            ("/", true),
            ("/a/b?c=d", true),
            ("", false),
            ("a", false),
            ("/a b", false),
            ("/\u{e4}", false),
            (&long[..257], false),
            (&long[..256], true),
        ] {
            assert_eq!(parsed(&["--path", text]).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn versions_are_a_list_without_repetition() {
        let (v1, v2) = (Version::V1, Version::V2);
        for (text, expected) in [
            ("1", Some(vec![v1])),
            ("2", Some(vec![v2])),
            ("1,2", Some(vec![v1, v2])),
            ("2,1", Some(vec![v2, v1])),
            ("1,1", None),
            ("3", None),
            ("1,", None),
            ("", None),
        ] {
            let found = parsed(&["--quic-version", text]).ok();
            let found = found.map(|options| options.versions.0);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn protocols_are_a_list_of_names() {
        let long = "x".repeat(33);
        for (text, names) in [
            ("h3,hq-interop", Some(vec!["h3", "hq-interop"])),
            (&long[..32], Some(vec![&long[..32]])),
            ("h3,,x", None),
            ("", None),
            ("h 3", None),
            (&long, None),
        ] {
            let found = parsed(&["--alpn", text]).ok().map(|options| options.alpn);
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(found, names, "{text}");
        }
    }

    #[test]
    fn requests_name_the_contact() {
        let with = parsed(&["--contact", "research@example.org"]).unwrap();
        assert!(with.user_agent().ends_with(" (research@example.org)"));
        let without = parsed(&[]).unwrap().user_agent();
        assert!(without.starts_with("firstflight/") && !without.contains('('));
    }
}
