//! Subject alternative names (RFC 5280 4.2.1.6) as a JSON array.

use std::net::{Ipv4Addr, Ipv6Addr};

use x509_parser::extensions::GeneralName;

use crate::names;
use crate::oid::{dotted, hex};

/// Most names in a list.
pub const MOST: usize = 1000;
/// Longest text for a list in bytes.
pub const MOST_BYTES: usize = 65_536;

/// Returns a JSON array of the names in their order, and the number of omitted names. Names are omitted if
/// there are more than [`MOST`] or the text is longer than [`MOST_BYTES`]. DNS names and addresses are
/// written as they are. Other names have the prefix of their type in RFC 5280 and a colon.
pub fn json(list: &[GeneralName<'_>]) -> (String, usize) {
    let mut out = String::from("[");
    for (i, name) in list.iter().enumerate() {
        // JSON can represent any UTF-8 text.
        let text = serde_json::to_string(&text(name)).unwrap_or_default();
        let separator = usize::from(i > 0);
        if i == MOST || out.len() + separator + text.len() + 1 > MOST_BYTES {
            out.push(']');
            return (out, list.len() - i);
        }
        if i > 0 {
            out.push(',');
        }
        out.push_str(&text);
    }
    out.push(']');
    (out, 0)
}

fn text(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => address(bytes),
        GeneralName::RFC822Name(name) => format!("rfc822Name:{name}"),
        GeneralName::URI(uri) => format!("uniformResourceIdentifier:{uri}"),
        GeneralName::DirectoryName(name) => format!("directoryName:{}", names::text(name).0),
        GeneralName::RegisteredID(id) => format!("registeredID:{}", dotted(id.as_bytes())),
        GeneralName::OtherName(id, _) => format!("otherName:{}", dotted(id.as_bytes())),
        GeneralName::X400Address(_) => "x400Address:".to_owned(),
        GeneralName::EDIPartyName(_) => "ediPartyName:".to_owned(),
        GeneralName::Invalid(tag, bytes) => {
            format!("invalid:{}:{}", tag.0, hex(&bytes[..bytes.len().min(256)]))
        }
    }
}

fn address(bytes: &[u8]) -> String {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        Ipv4Addr::from(bytes).to_string()
    } else if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
        Ipv6Addr::from(bytes).to_string()
    } else {
        format!("iPAddress:{}", hex(&bytes[..bytes.len().min(256)]))
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::asn1_rs::Tag;
    use x509_parser::der_parser::oid;

    use super::*;

    #[test]
    fn names_of_every_type() {
        let id = oid!(1.2.3);
        let names = [
            GeneralName::DNSName("*.a.example"),
            GeneralName::DNSName("q\"\\\n"),
            GeneralName::IPAddress(&[192, 0, 2, 1]),
            GeneralName::IPAddress(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            GeneralName::IPAddress(&[192, 0, 2]),
            GeneralName::RFC822Name("x@a.example"),
            GeneralName::URI("https://a.example/"),
            GeneralName::RegisteredID(id.clone()),
            GeneralName::OtherName(id, &[1]),
            GeneralName::Invalid(Tag(2), &[0xff]),
        ];
        let expected = concat!(
            r#"["*.a.example","q\"\\\n","192.0.2.1","2001:db8::1","iPAddress:c00002","#,
            r#""rfc822Name:x@a.example","uniformResourceIdentifier:https://a.example/","#,
            r#""registeredID:1.2.3","otherName:1.2.3","invalid:2:ff"]"#
        );
        assert_eq!(json(&names), (expected.to_owned(), 0));
        assert_eq!(json(&[]), ("[]".to_owned(), 0));
    }

    #[test]
    fn lists_are_bounded() {
        let long = "x".repeat(65_533);
        for (names, kept, left) in [
            (vec!["a"; 1000], 1000, 0),
            (vec!["a"; 1001], 1000, 1),
            (vec!["a"; 5000], 1000, 4000),
            // If the second of two names is empty, the text is 7 bytes longer than the first name. With a
            // single name, it is 4 bytes longer.
            (vec![&long[..65_529], "", "b"], 2, 1),
            (vec![&long[..65_530], "", "b"], 1, 2),
            (vec![&long[..65_532], ""], 1, 1),
            (vec![&long[..], ""], 0, 2),
        ] {
            let list: Vec<_> = names.into_iter().map(GeneralName::DNSName).collect();
            let (text, left_out) = json(&list);
            let parsed: Vec<String> = serde_json::from_str(&text).unwrap();
            assert!(text.len() <= MOST_BYTES);
            assert_eq!((parsed.len(), left_out), (kept, left));
        }
    }
}
