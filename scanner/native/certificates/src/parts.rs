//! Splits a certificate into its fields without reading them (RFC 5280 4.1), so that an unreadable field does
//! not affect the other fields.

use x509_parser::asn1_rs::{Class, FromDer, Header, Tag};

/// A certificate's fields. Each is a whole DER element unless stated otherwise.
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
    /// The content of `[3]`; empty without extensions.
    pub extensions: &'a [u8],
    pub signature_algorithm: &'a [u8],
    /// Number of bytes after the certificate.
    pub behind: usize,
}

impl<'a> Parts<'a> {
    /// Splits a certificate. Returns `None` if it does not have the fields of RFC 5280 4.1 in their order.
    pub fn of(der: &'a [u8]) -> Option<Parts<'a>> {
        let (certificate, behind) = expect(der, Tag::Sequence)?;
        let (signed, rest) = expect(certificate.content, Tag::Sequence)?;
        let (signature_algorithm, rest) = expect(rest, Tag::Sequence)?;
        expect(rest, Tag::BitString)?;

        let (first, rest) = Element::read(signed.content)?;
        // A certificate of version 1 has no version field.
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

/// Returns the elements in a list (of extensions, of relative names), each as a whole; `None` if `of` is not
/// a list.
pub fn list(of: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (list, _) = expect(of, Tag::Sequence)?;
    Some(elements(list.content).map(|element| element.whole))
}

/// A DER element.
struct Element<'a> {
    class: Class,
    tag: Tag,
    whole: &'a [u8],
    content: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads the first element of `bytes`. Returns the element and the bytes after it.
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

/// Reads an element with a universal type. Returns the element and the bytes after it.
fn expect(bytes: &[u8], tag: Tag) -> Option<(Element<'_>, &[u8])> {
    Element::read(bytes)
        .filter(|(element, _)| element.class == Class::Universal && element.tag == tag)
}

/// Returns the elements at the start of `bytes`, up to the first bytes that are not an element.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    std::iter::from_fn(move || {
        let (element, rest) = Element::read(bytes)?;
        bytes = rest;
        Some(element)
    })
}
