//! Queries to the kernel about this network namespace (rtnetlink(7)). They send no packet.
//!
//! A netlink socket belongs to the namespace of the process. `/sys/class/net` shows the namespace in which
//! sysfs was mounted.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ipnet::IpNet;

/// Index of `lo` in every namespace (LOOPBACK_IFINDEX of the kernel).
const LOOPBACK: u32 = 1;
/// Sizes of nlmsghdr, ifinfomsg, ifaddrmsg, rtmsg (linux/netlink.h, linux/rtnetlink.h).
const HEADER: usize = 16;
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ROUTE: usize = 12;
/// The largest message that the kernel builds.
const ROOM: usize = 1 << 16;

/// A socket for queries to the kernel's routing tables.
#[derive(Debug)]
pub struct Rtnetlink {
    socket: OwnedFd,
}

impl Rtnetlink {
    /// Opens a socket in the namespace of this thread.
    pub fn open() -> io::Result<Rtnetlink> {
        // SAFETY: no pointers are passed.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_ROUTE,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave this descriptor to us.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let strict: libc::c_int = 1;
        // Restricts a dump to one table. Without this option (before Linux 4.20), the kernel returns more,
        // which is skipped.
        // SAFETY: the option value is an integer of the length given.
        unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_NETLINK,
                libc::NETLINK_GET_STRICT_CHK,
                (&raw const strict).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
        Ok(Rtnetlink { socket })
    }

    /// Returns the alias of `lo` (`ip link set lo alias TEXT`), if it has one.
    pub fn loopback_alias(&self) -> io::Result<Option<String>> {
        let mut body = [0; LINK];
        body[4..8].copy_from_slice(&LOOPBACK.to_ne_bytes());
        let mut alias = None;
        self.ask(libc::RTM_GETLINK, 0, &body, |message| {
            alias = attribute(message.get(LINK..)?, libc::IFLA_IFALIAS)
                .map(|text| text.strip_suffix(&[0]).unwrap_or(text))
                .map(|text| String::from_utf8_lossy(text).into_owned());
            Some(())
        })?;
        Ok(alias)
    }

    /// Returns whether packets to `to` leave through `lo`, from the source address `from` if it is given.
    /// Returns `false` if there is no route.
    pub fn goes_by_loopback(&self, to: IpAddr, from: Option<IpAddr>) -> io::Result<bool> {
        let address = bytes(to);
        let mut body = vec![0; ROUTE];
        (body[0], body[1]) = (family(to), address.len() as u8 * 8);
        push(&mut body, libc::RTA_DST, &address);
        if let Some(from) = from {
            let source = bytes(from);
            body[2] = source.len() as u8 * 8;
            push(&mut body, libc::RTA_SRC, &source);
        }
        let mut loops = false;
        let asked = self.ask(libc::RTM_GETROUTE, 0, &body, |message| {
            let leads_on = matches!(*message.get(7)?, libc::RTN_LOCAL | libc::RTN_UNICAST);
            let device = attribute(message.get(ROUTE..)?, libc::RTA_OIF)?.first_chunk()?;
            loops = leads_on && u32::from_ne_bytes(*device) == LOOPBACK;
            Some(())
        });
        match asked.map_err(|e| e.raw_os_error()) {
            Ok(()) => Ok(loops),
            // Unreachable, prohibited, blackhole, or no such family.
            Err(Some(
                libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EACCES
                | libc::EINVAL
                | libc::EAFNOSUPPORT
                | libc::EOPNOTSUPP,
            )) => Ok(false),
            Err(Some(code)) => Err(io::Error::from_raw_os_error(code)),
            Err(None) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Returns this machine's own addresses and networks: the addresses of the interfaces, and the local
    /// routes (table 255). An IPv6 address gets its local route some time after it was added.
    pub fn own_networks(&self) -> io::Result<Vec<IpNet>> {
        let mut own = Vec::new();
        let any = [0; ADDRESS];
        self.ask(libc::RTM_GETADDR, libc::NLM_F_DUMP, &any, |message| {
            let attributes = message.get(ADDRESS..)?;
            // On a point-to-point link, IFA_ADDRESS is the other end.
            let address = attribute(attributes, libc::IFA_LOCAL)
                .or_else(|| attribute(attributes, libc::IFA_ADDRESS))?;
            own.push(IpNet::from(address_of(address)?));
            Some(())
        })?;
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut body = [0; ROUTE];
            (body[0], body[4]) = (family as u8, libc::RT_TABLE_LOCAL);
            self.ask(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &body, |message| {
                let (length, table, kind) = (*message.get(1)?, *message.get(4)?, *message.get(7)?);
                if table == libc::RT_TABLE_LOCAL && kind == libc::RTN_LOCAL {
                    let address = address_of(attribute(message.get(ROUTE..)?, libc::RTA_DST)?)?;
                    own.push(IpNet::new(address, length).ok()?);
                }
                Some(())
            })?;
        }
        Ok(own)
    }

    /// Sends a request of `kind` and passes the body of each message in the answer to `each`.
    fn ask(
        &self,
        kind: u16,
        flags: libc::c_int,
        body: &[u8],
        mut each: impl FnMut(&[u8]) -> Option<()>,
    ) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        request.extend([0; 8]); // sequence and port: this socket has one user
        request.extend(body);
        // SAFETY: the buffer has the length that is passed.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                request.as_ptr().cast(),
                request.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut room = vec![0; ROOM];
        loop {
            // SAFETY: the buffer has the length that is passed.
            let got = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    room.as_mut_ptr().cast(),
                    room.len(),
                    0,
                )
            };
            let Ok(got) = usize::try_from(got) else {
                return Err(io::Error::last_os_error());
            };
            if answered(&room[..got], &mut each)? {
                return Ok(());
            }
        }
    }
}

/// Passes a read's messages to `each`. Returns whether the answer is complete.
fn answered(mut bytes: &[u8], each: &mut impl FnMut(&[u8]) -> Option<()>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or_else(broken)?;
        let [a, b, c, d, kind @ .., _, _, _, _, _, _, _, _, _, _] = *header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let body = bytes.get(HEADER..length).ok_or_else(broken)?;
        match i32::from(u16::from_ne_bytes(kind)) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let code = i32::from_ne_bytes(*body.first_chunk().ok_or_else(broken)?);
                return if code == 0 {
                    Ok(true)
                } else {
                    Err(io::Error::from_raw_os_error(-code))
                };
            }
            _ => each(body).ok_or_else(broken)?,
        }
        let several = u16::from_ne_bytes([header[6], header[7]]) & libc::NLM_F_MULTI as u16 != 0;
        if !several {
            return Ok(true);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Returns the attribute of this kind (struct rtattr: length, kind, data, padded to four bytes).
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let [a, b, c, d] = *bytes.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let data = bytes.get(4..length)?;
        if u16::from_ne_bytes([c, d]) == wanted {
            return Some(data);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

fn push(body: &mut Vec<u8>, kind: u16, data: &[u8]) {
    body.extend((4 + data.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(data);
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|b| IpAddr::from(*b)),
        _ => bytes.first_chunk::<16>().map(|b| IpAddr::from(*b)),
    }
}

fn family(ip: IpAddr) -> u8 {
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    family as u8
}

fn bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_its_loopback() {
        let kernel = Rtnetlink::open().unwrap();
        let loops = |ip: &str, from: Option<&str>| {
            kernel
                .goes_by_loopback(ip.parse().unwrap(), from.map(|ip| ip.parse().unwrap()))
                .unwrap()
        };
        assert!(loops("127.5.6.7", None) && loops("::1", None));
        assert!(loops("127.5.6.7", Some("127.0.0.1")));
        assert!(!loops("224.0.0.1", None) && !loops("ff02::1", None));
        let own = kernel.own_networks().unwrap();
        for text in ["127.0.0.0/8", "127.0.0.1/32", "::1/128"] {
            assert!(own.contains(&text.parse().unwrap()), "{text} in {own:?}");
        }
        kernel.loopback_alias().unwrap();
    }

    #[test]
    fn broken_answers_are_errors() {
        for bytes in [&[0; 5][..], &[255; 20], &[0; 16]] {
            assert!(answered(bytes, &mut |_| Some(())).is_err(), "{bytes:?}");
        }
        assert_eq!(attribute(&[8, 0, 20, 0, 1, 2], 20), None);
        assert_eq!(attribute(&[0, 0, 20, 0], 20), None);
        assert_eq!(attribute(&[6, 0, 20, 0, 1, 2], 20), Some(&[1, 2][..]));
        assert_eq!(attribute(&[3, 0, 1, 0], 20), None);
    }
}
