//! The bytes of our streams: control stream and request (RFC 9114 6.2.1, 4.1).

use std::net::SocketAddr;

use firstflight_wire::http3::{write_control_stream, write_request};
use firstflight_wire::{Error, Writer};

/// Maximum size of a response's header section, as announced to the server (RFC 9114 4.2.2).
const MOST_FIELDS: u64 = 65_536;

/// Buffer size for a request: a name of 253 characters, a path of 256, a contact of 500.
const ROOM: usize = 2048;

/// Makes requests for a path.
pub struct Requests {
    path: String,
    user_agent: String,
}

impl Requests {
    /// Makes requests for `path` with the user agent `user_agent`.
    pub fn new(path: String, user_agent: String) -> Requests {
        Requests { path, user_agent }
    }

    /// Returns the bytes of the request stream to `domain`, or to `address` if `domain` is empty.
    pub fn to(&self, domain: &str, address: SocketAddr) -> Box<[u8]> {
        let authority = match (domain, address.port()) {
            ("", 443) => host(address),
            ("", port) => format!("{}:{port}", host(address)),
            (domain, 443) => domain.to_owned(),
            (domain, port) => format!("{domain}:{port}"),
        };
        let fields = [
            (":method", "HEAD"),
            (":scheme", "https"),
            (":authority", &authority),
            (":path", &self.path),
            ("user-agent", &self.user_agent),
        ];
        let mut out = [0; ROOM];
        let mut w = Writer::new(&mut out);
        write_request(&mut w, &fields).expect("lists and options bound its parts");
        w.written().into()
    }
}

/// Returns an address in a URI's form.
fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}

/// Returns the bytes of our control stream.
pub fn control() -> Result<Vec<u8>, Error> {
    let mut out = [0; 64];
    let mut w = Writer::new(&mut out);
    write_control_stream(&mut w, MOST_FIELDS)?;
    Ok(w.written().to_vec())
}
