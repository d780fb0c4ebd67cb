//! The network namespace that packets leave from: whether it belongs to the lab, its own addresses, and its
//! routes.
//!
//! Outside the lab, 198.18.0.0/15 and 2001:db8::/32 may lead to somebody else's network. A namespace of the
//! lab carries a mark (docs/interfaces.md). Without the mark, such an address is contacted only if the route
//! to it is `lo`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::Failure;
use crate::limits::policy::networks::parse_network;
use crate::limits::policy::rtnetlink::Rtnetlink;

/// The alias of `lo` in the namespaces of the lab and of tests.
const MARK: &str = "firstflight-lab";
/// The Internet of the lab.
const LAB: [&str; 2] = ["198.18.0.0/15", "2001:db8::/32"];

/// The namespace of this process at the start.
#[derive(Debug)]
pub struct Namespace {
    is_lab: bool,
    own: Vec<IpNet>,
    kernel: Rtnetlink,
    /// Source addresses of probes; empty: the kernel chooses.
    sources: Vec<IpAddr>,
    /// Results of earlier route lookups.
    known: RefCell<HashMap<IpAddr, bool>>,
}

impl Namespace {
    /// Queries the kernel. `sources`: the source addresses of probes.
    pub fn here(sources: &[IpAddr]) -> Result<Namespace, Failure> {
        let ask = || -> io::Result<Namespace> {
            let kernel = Rtnetlink::open()?;
            Ok(Namespace {
                is_lab: kernel.loopback_alias()?.as_deref() == Some(MARK),
                own: kernel.own_networks()?,
                kernel,
                sources: sources.to_vec(),
                known: RefCell::default(),
            })
        };
        ask().map_err(|e| {
            Failure::Usage(format!(
                "the kernel does not say which addresses are this machine's (rtnetlink: {e}); \
                 nothing was sent"
            ))
        })
    }

    /// Adds networks (CIDR texts) that are this machine's in another namespace, through which the packets of
    /// this namespace leave.
    pub fn with_own(mut self, networks: &[String]) -> Result<Namespace, Failure> {
        for text in networks {
            let network = parse_network(text).ok_or_else(|| {
                Failure::Usage(format!("own={text} is not a network; nothing was sent"))
            })?;
            self.own.push(network);
        }
        Ok(self)
    }

    /// Returns whether it carries the lab's mark.
    pub fn is_lab(&self) -> bool {
        self.is_lab
    }

    /// Returns the addresses of this machine, and the networks that are local as a whole.
    pub fn own(&self) -> &[IpNet] {
        &self.own
    }

    /// Returns whether packets to `ip` stay in this namespace. Each address is looked up once.
    pub fn loops_back(&self, ip: IpAddr) -> bool {
        *self
            .known
            .borrow_mut()
            .entry(ip)
            .or_insert_with(|| self.look_up(ip))
    }

    /// Looks up the route from every source address, because policy rules may give each a different route.
    fn look_up(&self, ip: IpAddr) -> bool {
        let loops = |from| self.kernel.goes_by_loopback(ip, from).unwrap_or(false);
        let mut sources = self
            .sources
            .iter()
            .filter(|source| source.is_ipv4() == ip.is_ipv4())
            .peekable();
        if sources.peek().is_none() {
            loops(None)
        } else {
            sources.all(|source| loops(Some(*source)))
        }
    }
}

/// The ranges that exist only in the lab.
pub fn lab_ranges() -> impl Iterator<Item = IpNet> {
    LAB.iter()
        .map(|text| text.parse().expect("a test reads them"))
}

/// Returns the addresses that packets to `ip` may reach: the address itself, without IPv4 mapping, and an IPv4 address
/// inside it (6to4, RFC 3056; IPv4-compatible, RFC 4291 2.5.5.1; NAT64, RFC 6052, RFC 8215).
pub fn reached(ip: IpAddr) -> impl Iterator<Item = IpAddr> {
    let plain = ip.to_canonical();
    let inside = match plain {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => match ip.segments() {
            [0x2002, high, low, ..] => Some(u32::from(high) << 16 | u32::from(low)),
            [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => {
                Some(ip.to_bits() as u32)
            }
            _ => None,
        },
    };
    let inside = inside.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    [plain].into_iter().chain(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_loop_back() {
        assert_eq!(lab_ranges().count(), 2);
        let here = Namespace::here(&["127.0.0.1".parse().unwrap()]).unwrap();
        for (ip, expected) in [
            ("127.9.9.9", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("224.0.0.1", false),
        ] {
            assert_eq!(here.loops_back(ip.parse().unwrap()), expected, "{ip}");
        }
        assert!(
            here.own()
                .iter()
                .any(|own| own.to_string() == "127.0.0.0/8")
        );
    }
}
