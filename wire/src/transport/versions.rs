//! version_information (RFC 9368 3).

use super::{TransportParameters, id};
use crate::{Error, Reader, Version, Writer};

/// An endpoint's versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionInformation<'a> {
    /// Chosen Version: the version of the connection attempt.
    pub chosen: Version,
    available: &'a [u8],
}

impl VersionInformation<'_> {
    /// Returns Available Versions, in the order sent.
    pub fn available(&self) -> impl Iterator<Item = Version> {
        let (versions, _) = self.available.as_chunks::<4>();
        versions
            .iter()
            .map(|bytes| Version(u32::from_be_bytes(*bytes)))
    }
}

impl<'a> TransportParameters<'a> {
    /// Returns the value of version_information, or `None` if it is absent. Fails if it is not a list of versions,
    /// or if a version is 0 (RFC 9368 4).
    pub fn version_information(self) -> Result<Option<VersionInformation<'a>>, Error> {
        let Some(value) = self.find(id::VERSION_INFORMATION)? else {
            return Ok(None);
        };
        let broken = Error::Malformed("version_information");
        let mut r = Reader::new(value);
        let information = VersionInformation {
            chosen: Version(r.u32().map_err(|_| broken)?),
            available: r.rest(),
        };
        let whole = information.available.len().is_multiple_of(4);
        let mut all = information.available().chain([information.chosen]);
        if !whole || all.any(|version| version == Version::NEGOTIATION) {
            return Err(broken);
        }
        Ok(Some(information))
    }
}

/// Writes version_information.
pub fn write_version_information(
    w: &mut Writer<'_>,
    chosen: Version,
    available: &[Version],
) -> Result<(), Error> {
    w.varint(id::VERSION_INFORMATION)?;
    w.varint(4 + 4 * available.len() as u64)?;
    w.bytes(&chosen.0.to_be_bytes())?;
    let mut all = available.iter();
    all.try_for_each(|version| w.bytes(&version.0.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::write_parameter;

    fn written(value: &[u8]) -> Vec<u8> {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        write_parameter(&mut w, id::VERSION_INFORMATION, value).unwrap();
        w.written().to_vec()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        let all = [Version::V2, Version::V1];
        write_version_information(&mut w, Version::V1, &all).unwrap();
        let parameters = TransportParameters::new(w.written());
        let found = parameters.version_information().unwrap().unwrap();
        assert_eq!(found.chosen, Version::V1);
        assert_eq!(found.available().collect::<Vec<_>>(), all);
        let none = TransportParameters::new(&[]);
        assert_eq!(none.version_information(), Ok(None));
    }

    #[test]
    fn broken_lists_and_zeros_are_refused() {
        for (value, fits) in [
            (&[0, 0, 0, 1][..], true),
            (&[], false),
            (&[0, 0, 1], false),
            (&[0, 0, 0, 1, 0], false),
            (&[0, 0, 0, 0], false),
            (&[0, 0, 0, 1, 0, 0, 0, 0], false),
        ] {
            let bytes = written(value);
            let found = TransportParameters::new(&bytes).version_information();
            assert_eq!(found.is_ok(), fits, "{value:?}");
        }
    }
}
