use super::*;
use crate::limits::policy::Namespace;

fn egress(rate: f64) -> Egress<()> {
    let here = Namespace::here(&[]).unwrap();
    let policy = Policy::new(&["127.0.0.0/8".to_owned()], &[], &[], here).unwrap();
    let loopback = ["127.0.0.1".parse().unwrap()];
    let ports = Ports::bind(&loopback, None, [true, false], 7).unwrap();
    Egress::new(policy, ports, (rate, 2), Clock::start())
}

fn push(egress: &mut Egress<()>, to: &str, class: Class) -> Result<(), NotTaken<()>> {
    egress.push(to.parse().unwrap(), "", class, false, |out| {
        out[0] = 7;
        Ok(1)
    })
}

#[test]
fn nothing_is_taken_before_the_rate_was_asked_nor_beyond_it() {
    let mut egress = egress(1.0);
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    let new = |egress: &mut Egress<()>| push(egress, &to, Class::New);
    assert_eq!(new(&mut egress), Err(NotTaken::OverRate));
    assert_eq!(egress.allow_new(0), 1);
    assert_eq!(
        (new(&mut egress), new(&mut egress)),
        (Ok(()), Err(NotTaken::OverRate))
    );
    assert_eq!(egress.send(0, 0).unwrap(), 1);
    egress.clear();
    assert_eq!(egress.allow_new(1), 0);
    assert_eq!(
        egress.highest(),
        (1, 1),
        "what left is counted without the engine"
    );
    let mut room = [0; 9];
    assert_eq!(server.recv(&mut room).unwrap(), 1);
}

#[test]
fn one_class_at_a_time_may_use_the_ceiling_of_all() {
    let mut egress = egress(1.0);
    assert!(egress.allow_other(0) > 0 && egress.allow_new(0) > 0);
    let other = |egress: &mut Egress<()>| push(egress, "127.0.0.1:9", Class::Other);
    assert_eq!(other(&mut egress), Err(NotTaken::OverRate));
    assert!(egress.allow_other(0) > 0);
    assert_eq!(other(&mut egress), Ok(()));
    assert_eq!(
        push(&mut egress, "127.0.0.1:9", Class::New),
        Err(NotTaken::OverRate)
    );
}

#[test]
fn the_policy_is_asked_about_every_datagram() {
    let mut egress = egress(100.0);
    egress.allow_other(0);
    for (to, may_leave) in [
        ("127.0.0.1:9", true),
        ("192.0.2.1:443", false),
        ("10.0.0.1:443", false),
        ("[::1]:443", false),
    ] {
        let taken = push(&mut egress, to, Class::Other);
        assert_eq!(taken.is_ok(), may_leave, "{to}: {taken:?}");
    }
}

#[test]
fn a_full_queue_is_told_from_other_errors() {
    for (code, full) in [
        (libc::EAGAIN, true),
        (libc::ENOBUFS, true),
        (libc::ECONNREFUSED, false),
        (libc::EMSGSIZE, false),
    ] {
        assert_eq!(is_full(&io::Error::from_raw_os_error(code)), full, "{code}");
    }
}

#[test]
fn each_class_that_left_counts_against_its_ceilings() {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().to_string();
    let mut egress = egress(100_000.0);
    while egress.allow_new(egress.clock.now()) < 3 {}
    (0..3).for_each(|_| push(&mut egress, &to, Class::New).unwrap());
    assert!(egress.allow_other(egress.clock.now()) > 2);
    (0..2).for_each(|_| push(&mut egress, &to, Class::Other).unwrap());
    assert_eq!(egress.send(1, 1).unwrap(), 4, "from number 1 on");
    assert_eq!((egress.highest(), egress.burst()), ((2, 4), 1000));
}

#[test]
fn the_batch_takes_64_datagrams() {
    let mut egress = egress(100_000.0);
    egress.allow_other(egress.clock.now());
    for taken in 0..BATCH {
        assert!(!egress.is_full(), "{taken}");
        push(&mut egress, "127.0.0.1:9", Class::Other).unwrap();
    }
    assert!(egress.is_full());
    egress.clear();
    assert!(!egress.is_full() && egress.classes.is_empty());
}

#[test]
fn a_datagram_that_cannot_be_written_takes_no_place() {
    let mut egress = egress(1.0);
    assert_eq!(egress.allow_other(egress.clock.now()), 2);
    let to = "127.0.0.1:9".parse().unwrap();
    let failed = egress.push(to, "", Class::Other, false, |_| Err("too long"));
    assert_eq!(failed, Err(NotTaken::Unwritable("too long")));
    let other = |egress: &mut Egress<()>| push(egress, "127.0.0.1:9", Class::Other);
    assert_eq!((other(&mut egress), other(&mut egress)), (Ok(()), Ok(())));
    assert_eq!(other(&mut egress), Err(NotTaken::OverRate));
    assert_eq!(egress.classes.len(), 2);
}

#[test]
fn refusals_that_earlier_datagrams_explain_are_not_final() {
    // The system always refuses this datagram: port 0 is not a destination.
    for (explained, expected) in [(0, 2), (1, 3), (63, 65), (64, 66), (1_000, 66)] {
        let mut egress = egress(100.0);
        egress.allow_other(0);
        push(&mut egress, "127.0.0.1:0", Class::Other).unwrap();
        let (mut refusals, mut failed) = (0, 0);
        egress.send_all(0, |egress, sent| match sent {
            Sent::NotTaken => {
                if refusals < explained {
                    egress.explain();
                }
                refusals += 1;
            }
            Sent::Failed { number: 0, .. } => failed += 1,
            other => panic!("{other:?}"),
        });
        assert_eq!((refusals, failed), (expected, 1), "{explained}");
    }
}
