//! A certificate split into its fields, none of which is read (RFC 5280 4.1): a field that cannot be read costs
//! no other.

use x509_parser::asn1_rs::{Class, FromDer, Header, Tag};

/// The fields of a certificate, each a whole DER element unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// The bytes of the number.
    pub serial: &'a [u8],
    pub issuer: &'a [u8],
    /// Empty if the validity has no such element.
    pub not_before: &'a [u8],
    pub not_after: &'a [u8],
    pub subject: &'a [u8],
    pub public_key: &'a [u8],
    /// What is in `[3]`; empty without extensions.
    pub extensions: &'a [u8],
    pub signature_algorithm: &'a [u8],
    /// Bytes behind the certificate.
    pub behind: usize,
}

impl<'a> Parts<'a> {
    /// Splits a certificate; `None` if its fields are not those of RFC 5280 4.1, in this order.
    pub fn of(der: &'a [u8]) -> Option<Parts<'a>> {
        let (certificate, behind) = expect(der, Tag::Sequence)?;
        let (signed, rest) = expect(certificate.content, Tag::Sequence)?;
        let (signature_algorithm, rest) = expect(rest, Tag::Sequence)?;
        expect(rest, Tag::BitString)?;

        let (first, rest) = Element::read(signed.content)?;
        // A certificate of version 1 does not say its version.
        let rest = if first.is_context(0) {
            rest
        } else {
            signed.content
        };
        let (serial, rest) = expect(rest, Tag::Integer)?;
        let (_, rest) = expect(rest, Tag::Sequence)?;
        let (issuer, rest) = expect(rest, Tag::Sequence)?;
        let (validity, rest) = expect(rest, Tag::Sequence)?;
        let (subject, rest) = expect(rest, Tag::Sequence)?;
        let (public_key, rest) = expect(rest, Tag::Sequence)?;
        let mut times = elements(validity.content);
        let mut time = || times.next().map_or(&[][..], |element| element.whole);
        Some(Parts {
            serial: serial.content,
            issuer: issuer.whole,
            not_before: time(),
            not_after: time(),
            subject: subject.whole,
            public_key: public_key.whole,
            extensions: elements(rest)
                .find(|element| element.is_context(3))
                .map_or(&[], |element| element.content),
            signature_algorithm: signature_algorithm.whole,
            behind: behind.len(),
        })
    }
}

/// The elements of a list (of extensions, of relative names), each whole; `None` if it is no list.
pub fn list(of: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (list, _) = expect(of, Tag::Sequence)?;
    Some(elements(list.content).map(|element| element.whole))
}

/// One element.
struct Element<'a> {
    class: Class,
    tag: Tag,
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads the first element of `bytes`; returns it, and what follows it.
    fn read(bytes: &'a [u8]) -> Option<(Element<'a>, &'a [u8])> {
        let (behind, header) = Header::from_der(bytes).ok()?;
        let content = behind.get(..header.length().definite().ok()?)?;
        let length = bytes.len() - behind.len() + content.len();
        let (whole, rest) = bytes.split_at(length);
        let element = Element {
            class: header.class(),
            tag: header.tag(),
            whole,
            content,
        };
        Some((element, rest))
    }

    fn is_context(&self, number: u32) -> bool {
        self.class == Class::ContextSpecific && self.tag.0 == number
    }
}

/// Reads an element of a universal type; returns it, and what follows it.
fn expect(bytes: &[u8], tag: Tag) -> Option<(Element<'_>, &[u8])> {
    Element::read(bytes)
        .filter(|(element, _)| element.class == Class::Universal && element.tag == tag)
}

/// The elements that `bytes` begin with, up to what is none.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    std::iter::from_fn(move || {
        let (element, rest) = Element::read(bytes)?;
        bytes = rest;
        Some(element)
    })
}
