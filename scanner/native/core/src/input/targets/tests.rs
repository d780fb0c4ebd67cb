use super::*;

/// A list of three targets, in lines 2, 4 and 9.
fn list(has_asn: bool) -> TargetList {
    let mut list = TargetList::with_asn(has_asn);
    for (line, ip_text, domain, port, group, asn) in [
        (2, "192.0.2.7", "a.test", 443, 0, 64500),
        (4, "2001:db8::1", "", 8443, 7, 0),
        (9, "192.0.2.8", "b.example.", 80, 8, 64501),
    ] {
        let target = Target {
            line,
            ip_text,
            domain,
            port,
            group,
            asn,
        };
        list.push(&target).unwrap();
    }
    list
}

#[test]
fn targets_come_back_as_they_were_added() {
    let list = list(true);
    assert_eq!(
        (list.len(), list.is_empty(), list.has_asn()),
        (3, false, true)
    );
    for (index, line, address, domain, sni, group, asn) in [
        (0, 2, "192.0.2.7:443", "a.test", "a.test", 0, 64500),
        (1, 4, "[2001:db8::1]:8443", "", "", 7, 0),
        (2, 9, "192.0.2.8:80", "b.example.", "b.example", 8, 64501),
    ] {
        let target = list.get(index);
        assert_eq!(
            (target.line, target.address()),
            (line, address.parse().unwrap())
        );
        assert_eq!((target.domain, target.sni()), (domain, sni));
        assert_eq!((target.group, target.asn), (group, asn));
        assert_eq!(list.look(&TargetRef::Listed(index)), target);
    }
    assert_eq!(list.iter().count(), 3);
    let empty = TargetList::default();
    assert!(empty.is_empty() && empty.iter().next().is_none());
}

#[test]
fn a_list_without_as_numbers_has_none() {
    let list = list(false);
    assert!(!list.has_asn() && list.iter().all(|target| target.asn == 0));
}

#[test]
fn lines_lead_to_targets() {
    let list = list(false);
    for (line, index) in [
        (1, None),
        (2, Some(0)),
        (3, None),
        (4, Some(1)),
        (9, Some(2)),
        (10, None),
    ] {
        assert_eq!(list.at_line(line), index, "{line}");
    }
}

#[test]
fn picked_targets_are_in_the_order_asked_for() {
    let mut list = list(true);
    list.rejected = 3;
    list.shrink_to_fit();
    let picked = list.picked(&[2, 0, 2]);
    let expected = [2, 0, 2].map(|index| list.get(index));
    assert_eq!(picked.iter().collect::<Vec<_>>(), expected);
    assert_eq!((picked.rejected, picked.has_asn()), (3, true));
}

#[test]
fn a_target_of_the_feed_is_looked_up_in_itself() {
    let fed = FedTarget {
        number: FIRST_PLANNED + 5,
        ip_text: "192.0.2.7".into(),
        ip: [192, 0, 2, 7].into(),
        domain: "a.test.".into(),
        port: 444,
        group: 13335,
        owned: true,
    };
    let which = TargetRef::Fed(Arc::new(fed));
    let list = TargetList::default();
    let target = list.look(&which);
    assert_eq!(
        (target.line, target.address()),
        (2_147_483_653, "192.0.2.7:444".parse().unwrap())
    );
    assert_eq!(
        (target.sni(), target.group, target.asn),
        ("a.test", 13335, 13335)
    );
}
