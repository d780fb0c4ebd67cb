//! The values of the column `status`: how a question was answered.

use crate::wire::types::BADVERS;

/// A status of schemas/records/dns_answer.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    NoError,
    NoData,
    NxDomain,
    ServFail,
    Refused,
    FormErr,
    NotImp,
    Other,
    Timeout,
    Network,
    Malformed,
    Chain,
    Referral,
}

impl Status {
    /// All values, in the order of the record kind.
    pub const ALL: [Status; 13] = [
        Status::NoError,
        Status::NoData,
        Status::NxDomain,
        Status::ServFail,
        Status::Refused,
        Status::FormErr,
        Status::NotImp,
        Status::Other,
        Status::Timeout,
        Status::Network,
        Status::Malformed,
        Status::Chain,
        Status::Referral,
    ];

    /// Returns the value of the column.
    pub fn name(self) -> &'static str {
        match self {
            Status::NoError => "NOERROR",
            Status::NoData => "NODATA",
            Status::NxDomain => "NXDOMAIN",
            Status::ServFail => "SERVFAIL",
            Status::Refused => "REFUSED",
            Status::FormErr => "FORMERR",
            Status::NotImp => "NOTIMP",
            Status::Other => "OTHER",
            Status::Timeout => "TIMEOUT",
            Status::Network => "NETWORK",
            Status::Malformed => "MALFORMED",
            Status::Chain => "CHAIN",
            Status::Referral => "REFERRAL",
        }
    }

    /// Returns the status for a response code other than NOERROR (RFC 1035 4.1.1).
    pub fn of_rcode(rcode: u16) -> Status {
        match rcode {
            1 => Status::FormErr,
            2 => Status::ServFail,
            3 => Status::NxDomain,
            4 => Status::NotImp,
            5 => Status::Refused,
            _ => Status::Other,
        }
    }

    /// Returns whether the resolver or the network failed, so that the question is repeated. NXDOMAIN, NODATA and
    /// CHAIN are answers. A referral is not repeated either, because the resolver leaves the resolution to the client.
    pub fn is_failure(self) -> bool {
        !matches!(
            self,
            Status::NoError | Status::NoData | Status::NxDomain | Status::Chain
        )
    }

    /// Returns whether there was no answer.
    pub fn is_silence(self) -> bool {
        matches!(self, Status::Timeout | Status::Network)
    }

    /// Returns whether a server without EDNS sends this answer (RFC 6891 7).
    pub fn may_lack_edns(self, rcode: Option<u16>) -> bool {
        matches!(self, Status::FormErr | Status::NotImp) || rcode == Some(BADVERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_the_record_kind() {
        let yaml = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../schemas/records/dns_answer.yaml"
        );
        let text = std::fs::read_to_string(yaml).unwrap();
        let line = text
            .lines()
            .find(|line| line.contains("{name: status,"))
            .unwrap();
        let values = line
            .split_once("values: [")
            .unwrap()
            .1
            .split_once(']')
            .unwrap()
            .0;
        let ours: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
        assert_eq!(values.split(", ").collect::<Vec<_>>(), ours);
        for (place, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, place);
        }
    }

    #[test]
    fn failures_are_tried_again() {
        for (rcode, status, failure) in [
            (1, Status::FormErr, true),
            (2, Status::ServFail, true),
            (3, Status::NxDomain, false),
            (4, Status::NotImp, true),
            (5, Status::Refused, true),
            (9, Status::Other, true),
            (16, Status::Other, true),
        ] {
            assert_eq!(
                (Status::of_rcode(rcode), status.is_failure()),
                (status, failure)
            );
        }
        assert!(Status::Other.may_lack_edns(Some(16)) && !Status::Other.may_lack_edns(Some(9)));
    }
}
