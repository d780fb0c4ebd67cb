//! The target list as CSV: the header `ip,domain,port`, then a line per target. Two more columns, `group` and
//! `asn`, are optional; each is a number (0 or empty: no value). Targets of the same `group` can be paused
//! together. `asn`, the origin AS of the address, is returned in the column `asn` of segments.

use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;

use crate::Failure;
use crate::host_name::fault_of_name;
use crate::input::targets::{FIRST_PLANNED, TOO_LONG, Target, TargetList};

/// Port for a target for which the list has no port.
const DEFAULT_PORT: u16 = 443;

/// Index for a column that the header does not have.
const NO_COLUMN: usize = usize::MAX;

/// Most columns: ip, domain, port, group, asn.
const MOST: usize = 5;

/// A line's fields and their number. Fields beyond this number are empty.
type Fields<'a> = ([&'a str; MOST], usize);

/// Reads a list; `name` is for messages. Calls `reject` with the line number and the reason for every line
/// that cannot be used. Fails if the header is missing, or if the input cannot be read to the end.
pub fn read(
    input: impl Read,
    name: &str,
    mut reject: impl FnMut(u64, &str),
) -> Result<TargetList, Failure> {
    let mut lines = Lines {
        input: BufReader::with_capacity(1 << 16, input),
        bytes: Vec::new(),
        number: 0,
    };
    let unreadable = |e: io::Error| Failure::Input(format!("{name} cannot be read: {e}"));
    let no_header = || {
        Failure::Input(format!(
            "{name}: the first line must be the header ip,domain,port"
        ))
    };
    let header = lines.next().map_err(unreadable)?.ok_or_else(no_header)?;
    let (columns, number_of_columns) = fields(header.1.trim_start_matches('\u{feff}'))
        .and_then(|fields| Some((columns(&fields)?, fields.1)))
        .ok_or_else(no_header)?;
    let mut list = TargetList::with_asn(columns[4] != NO_COLUMN);
    while let Some((number, line)) = lines.next().map_err(unreadable)? {
        if line.trim().is_empty() {
            continue;
        }
        let pushed = fields(line)
            .filter(|(_, count)| *count == number_of_columns)
            .ok_or("the number of fields differs from the header")
            .and_then(|(fields, _)| target(number, fields, columns))
            .and_then(|target| list.push(&target));
        if let Err(why) = pushed {
            list.rejected += 1;
            reject(number, why);
        }
    }
    list.shrink_to_fit();
    Ok(list)
}

/// Returns a line's target, or the fault of the line.
fn target<'a>(
    line: u64,
    fields: [&'a str; MOST],
    columns: [usize; MOST],
) -> Result<Target<'a>, &'static str> {
    let [ip_text, domain, port, group, asn] =
        columns.map(|c| fields.get(c).copied().unwrap_or_default());
    ip_text
        .parse::<IpAddr>()
        .map_err(|_| "the address is not an IPv4 or IPv6 address")?;
    if let Some(fault) = fault_of_name(domain).filter(|_| !domain.is_empty()) {
        return Err(fault);
    }
    let port = match port {
        "" => DEFAULT_PORT,
        text => text
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or("the port is not a number from 1 to 65535")?,
    };
    let group = number(group).ok_or("the group is not a number")?;
    let asn = number(asn).ok_or("the AS is not a number")?;
    Ok(Target {
        line: u32::try_from(line)
            .ok()
            .filter(|line| *line < FIRST_PLANNED)
            .ok_or(TOO_LONG)?,
        ip_text,
        domain,
        port,
        group,
        asn,
    })
}

/// Reads a number; empty: 0.
fn number(text: &str) -> Option<u32> {
    match text {
        "" => Some(0),
        text => text.parse().ok(),
    }
}

/// Lines of the input with their numbers.
struct Lines<R> {
    input: R,
    bytes: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Returns the next line, without the line ending. A line that is not UTF-8 becomes a text that is always
    /// rejected.
    fn next(&mut self) -> io::Result<Option<(u64, &str)>> {
        self.bytes.clear();
        if self.input.read_until(b'\n', &mut self.bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = std::str::from_utf8(&self.bytes).unwrap_or("\u{fffd}");
        Ok(Some((self.number, line.trim_end_matches(['\n', '\r']))))
    }
}

/// Returns the three to five fields in a line, without surrounding blanks and quotation marks, and their
/// number. Addresses, names and numbers contain no commas or quotation marks, so that no other CSV syntax is
/// needed.
fn fields(line: &str) -> Option<Fields<'_>> {
    let mut fields = [""; MOST];
    let mut count = 0;
    for field in line.split(',') {
        let field = field.trim();
        *fields.get_mut(count)? = field
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(field)
            .trim();
        count += 1;
    }
    (count >= 3).then_some((fields, count))
}

/// Returns the indices of ip, domain, port, group and asn in the header. The last two are optional; other
/// columns are not allowed.
fn columns((header, count): &Fields<'_>) -> Option<[usize; MOST]> {
    let index = |name: &str| {
        header[..*count]
            .iter()
            .position(|field| field.eq_ignore_ascii_case(name))
    };
    let (group, asn) = (index("group"), index("asn"));
    let known = 3 + usize::from(group.is_some()) + usize::from(asn.is_some());
    (known == *count).then_some([
        index("ip")?,
        index("domain")?,
        index("port")?,
        group.unwrap_or(NO_COLUMN),
        asn.unwrap_or(NO_COLUMN),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Result<TargetList, Failure>, Vec<u64>) {
        let mut rejected = Vec::new();
        (
            super::read(text.as_bytes(), "list", |line, _| rejected.push(line)),
            rejected,
        )
    }

    #[test]
    fn lines_keep_their_text_and_number() {
        let (list, rejected) = read(
            "ip,domain,port\n127.0.0.1,a.test,\n\nnonsense,b.test,1\n2001:DB8::1,,8443\n1.2.3.4,b..c,\n\
             1.1.1.1,x\n1.1.1.1,x,0\n1.1.1.1,1.1.1.1,\n1.1.1.1,1.2.3.4.,\n",
        );
        let list = list.unwrap();
        assert_eq!(
            (list.len(), list.rejected, rejected),
            (2, 6, vec![4, 6, 7, 8, 9, 10])
        );
        let first = list.get(0);
        assert_eq!(
            (first.line, first.ip_text, first.domain, first.port),
            (2, "127.0.0.1", "a.test", 443)
        );
        let second = list.get(1);
        assert_eq!(
            (second.line, second.ip_text, second.domain, second.port),
            (5, "2001:DB8::1", "", 8443)
        );
        assert_eq!((list.at_line(5), list.at_line(4)), (Some(1), None));
        let quoted = read("\"ip\",\"domain\",\"port\"\n \"1.2.3.4\", \"a.test\",\"\"\n")
            .0
            .unwrap();
        assert_eq!(
            (
                quoted.get(0).ip_text,
                quoted.get(0).domain,
                quoted.get(0).port
            ),
            ("1.2.3.4", "a.test", 443)
        );
        let latin = super::read(
            &b"ip,domain,port\n1.1.1.1,b\xfccher,\n1.1.1.1,,\n"[..],
            "list",
            |_, _| (),
        )
        .unwrap();
        assert_eq!((latin.len(), latin.rejected), (1, 1));
        let grouped = read(
            "ip,domain,port,group\n1.2.3.4,a.test,,13335\n1.2.3.5,,443,\n1.2.3.6,,\n1.2.3.7,,,x\n",
        );
        let list = grouped.0.unwrap();
        assert_eq!(
            (list.get(0).group, list.get(1).group, grouped.1),
            (13335, 0, vec![4, 5])
        );
        assert!(read("ip,domain,port,rank\n").0.is_err());
    }

    #[test]
    fn groups_and_as_numbers_are_optional_columns() {
        for (text, expected) in [
            ("ip,domain,port\n1.2.3.4,a,\n", Some((0, 0, false))),
            ("ip,domain,port,group\n1.2.3.4,a,,7\n", Some((7, 0, false))),
            ("ip,domain,port,asn\n1.2.3.4,a,,7\n", Some((0, 7, true))),
            (
                "asn,ip,group,domain,port\n9,1.2.3.4,7,a,\n",
                Some((7, 9, true)),
            ),
            (
                "ip,domain,port,group,asn\n1.2.3.4,a,,,\n",
                Some((0, 0, true)),
            ),
            ("ip,domain,port,group,asn\n1.2.3.4,a,,7\n", None),
            ("ip,domain,port,asn\n1.2.3.4,a,,AS7\n", None),
        ] {
            let list = read(text).0.unwrap();
            let first = list.iter().next();
            let picked = list.picked(&(0..list.len() as u32).collect::<Vec<_>>());
            assert_eq!(picked.iter().next(), first, "{text}");
            let read = first.map(|target| (target.group, target.asn, list.has_asn()));
            assert_eq!(read, expected, "{text}");
        }
        for header in [
            "ip,domain,port,asn,rank",
            "ip,domain,port,asn,asn",
            "ip,domain,asn",
        ] {
            assert!(read(&format!("{header}\n")).0.is_err(), "{header}");
        }
    }

    #[test]
    fn the_header_is_required_in_any_order() {
        assert!(matches!(
            read("1.2.3.4,a.test,443\n").0,
            Err(Failure::Input(_))
        ));
        assert!(matches!(read("").0, Err(Failure::Input(_))));
        let (list, _) = read("\u{feff}IP,port,domain\n1.2.3.4,80,a.test.\r\n");
        let list = list.unwrap();
        assert_eq!(
            (list.get(0).port, list.get(0).domain, list.get(0).sni()),
            (80, "a.test.", "a.test")
        );
    }
}
