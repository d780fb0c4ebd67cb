//! The source ports. They are bound for the whole run, so that they never receive another program's answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use super::socket::{Port, Routes, await_stamps};
use crate::Failure;
use crate::input::targets::TargetList;

/// Number of ports per family and source address if no range is given.
const COUNT: usize = 16;
/// Lowest port tried. It is above the range from which Linux chooses ports by default.
const FIRST: u16 = 61_000;

/// All ports of a run.
pub struct Ports {
    all: Vec<Rc<Port>>,
    v4: Vec<u16>,
    v6: Vec<u16>,
    routes: Routes,
}

impl Ports {
    /// Binds ports of the families that the targets numbered in `order` need. With `feed`, binds all families
    /// that `sources` may use. The other arguments are as for [`Self::bind`].
    pub fn for_targets(
        sources: &[IpAddr],
        range: Option<(u16, u16)>,
        targets: &TargetList,
        order: &[u32],
        feed: bool,
        random: u16,
    ) -> Result<Ports, Failure> {
        let feed_may_use = |v4| sources.is_empty() || sources.iter().any(|ip| ip.is_ipv4() == v4);
        let need = [true, false].map(|v4| {
            order
                .iter()
                .any(|target| targets.get(*target).ip().is_ipv4() == v4)
                || feed && feed_may_use(v4)
        });
        Ports::bind(sources, range, need, random)
    }

    /// Binds ports for the needed families. `sources`: addresses to send from; empty: any address. `range`:
    /// exactly these ports; without it, free ports, searched from a start that `random` selects. Every
    /// datagram that arrives after this returns has the kernel's receive stamp.
    pub fn bind(
        sources: &[IpAddr],
        range: Option<(u16, u16)>,
        need: [bool; 2],
        random: u16,
    ) -> Result<Ports, Failure> {
        let any: Vec<IpAddr> = vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let sources = if sources.is_empty() { &any } else { sources };
        let mut ports = Ports {
            all: Vec::new(),
            v4: Vec::new(),
            v6: Vec::new(),
            routes: Routes::new(),
        };
        for (family, needed) in [("IPv4", need[0]), ("IPv6", need[1])] {
            let mine = |ip: &&IpAddr| ip.is_ipv4() == (family == "IPv4");
            if needed && !sources.iter().any(|ip| mine(&ip)) {
                return Err(Failure::Usage(format!(
                    "the list has {family} targets and no --source is {family}: add one, or omit \
                     --source"
                )));
            }
            for source in sources.iter().filter(|ip| needed && mine(ip)) {
                ports.bind_source(*source, range, random)?;
            }
        }
        if !ports.is_empty() {
            await_stamps();
        }
        Ok(ports)
    }

    fn bind_source(
        &mut self,
        source: IpAddr,
        range: Option<(u16, u16)>,
        random: u16,
    ) -> Result<(), Failure> {
        let refused = |port: u16, e: io::Error| {
            let cure = match e.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => "raise the limit (ulimit -n)",
                _ => "choose others by --source or --ports",
            };
            Failure::Usage(format!(
                "port {port} of {source} cannot be bound: {e}; {cure}"
            ))
        };
        let mut taken = Vec::new();
        match range {
            Some((first, last)) => {
                for port in first..=last {
                    match Port::bind(source, port) {
                        Ok(port) => taken.push(port),
                        Err(e) if source.is_unspecified() && no_family(&e) => return Ok(()),
                        Err(e) => return Err(refused(port, e)),
                    }
                }
            }
            None => {
                let span = u16::MAX - FIRST;
                for offset in 0..span {
                    let port =
                        FIRST + ((u32::from(random) + u32::from(offset)) % u32::from(span)) as u16;
                    match Port::bind(source, port) {
                        Ok(port) => taken.push(port),
                        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                        Err(e) if source.is_unspecified() && no_family(&e) => return Ok(()),
                        Err(e) => return Err(refused(port, e)),
                    }
                    if taken.len() == COUNT {
                        break;
                    }
                }
            }
        }
        if taken.len() < 2 {
            return Err(Failure::Usage(format!(
                "fewer than two ports of {source} are free: choose others by --ports"
            )));
        }
        for port in taken {
            let number = self.all.len() as u16;
            if source.is_ipv4() {
                self.v4.push(number)
            } else {
                self.v6.push(number)
            }
            self.all.push(Rc::new(port));
        }
        Ok(())
    }

    /// Marks all datagrams with an ECN field (RFC 3168 5: 1 is ECT(1), 2 is ECT(0)). Received datagrams are
    /// then reported with their ECN field.
    pub fn mark(&self, ecn: u8) -> Result<(), Failure> {
        self.iter().try_for_each(|port| {
            port.mark(ecn).map_err(|error| {
                Failure::Usage(format!(
                    "the system does not mark datagrams of {}: {error}; omit --ecn",
                    port.local
                ))
            })
        })
    }

    /// Returns the number of ports.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.all.iter().map(Rc::as_ref)
    }

    /// Returns port number `number`, from 0.
    pub(crate) fn get(&self, number: usize) -> Rc<Port> {
        self.all[number].clone()
    }

    /// Returns whether no port could be bound.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the bound addresses by port number. The IP address is unspecified if any address may be used.
    pub fn locals(&self) -> Vec<SocketAddr> {
        self.iter().map(|port| port.local).collect()
    }

    /// Returns the numbers of a family's ports.
    #[inline]
    pub fn of(&self, v4: bool) -> &[u16] {
        if v4 { &self.v4 } else { &self.v6 }
    }

    /// Returns the source address that the routing table gives for `to`.
    pub fn route(&self, to: SocketAddr) -> Option<IpAddr> {
        self.routes.source(to)
    }
}

/// Returns whether the system lacks the whole address family. Its targets then become `send_failed`; targets
/// of the other family are still probed.
fn no_family(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}
