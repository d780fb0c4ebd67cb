use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};

use super::*;
use crate::policy::Namespace;
use crate::random;

fn policy(blocked: &str, servers: &[SocketAddr]) -> Policy {
    let here = Namespace::here(&[]).unwrap();
    let ips: Vec<IpAddr> = servers.iter().map(|server| server.ip()).collect();
    let policy = Policy::new(&[], &[("block".into(), blocked.into())], &[], here).unwrap();
    policy.with_servers(&ips)
}

fn connected(servers: &[SocketAddr], rate: Option<f64>) -> Connected {
    let listed: Vec<Server> = servers
        .iter()
        .map(|address| Server {
            address: *address,
            rate,
        })
        .collect();
    let random = random::seeded_by_system().unwrap();
    Connected::new(policy("", servers), &listed, random, Clock::start()).unwrap()
}

fn server() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn put(bytes: &'static [u8]) -> impl FnOnce(&mut [u8]) -> usize {
    move |out| {
        out[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }
}

fn until(connected: &mut Connected, mut each: impl FnMut(Event<'_>) -> bool) {
    for _ in 0..1000 {
        let mut found = false;
        connected.read(|event| found |= each(event));
        if found {
            return;
        }
        connected.wait(crate::clock::SECOND / 100);
    }
    panic!("nothing came");
}

#[test]
fn a_question_and_its_answer() {
    let (socket, address) = server();
    let mut connected = connected(&[address], None);
    let number = connected.begin(0).unwrap();
    connected.push(number, put(b"question")).unwrap();
    assert_eq!(connected.send(number).0, 1);
    let mut room = [0; 99];
    let (length, peer) = socket.recv_from(&mut room).unwrap();
    assert_eq!(&room[..length], b"question");
    let (other, _) = server();
    other.send_to(b"forged", peer).unwrap();
    socket.send_to(b"answer", peer).unwrap();
    let mut got = Vec::new();
    until(&mut connected, |event| match event {
        Event::Datagram { socket, bytes, .. } => {
            got.push((socket, bytes.to_vec()));
            true
        }
        _ => false,
    });
    assert_eq!(
        got,
        [(number, b"answer".to_vec())],
        "the kernel drops what comes from elsewhere"
    );
    connected.over(number);
}

#[test]
fn ports_are_many_and_replaced() {
    let (socket, address) = server();
    let mut connected = connected(&[address], None);
    let mut peers = std::collections::HashMap::new();
    let mut room = [0; 9];
    for _ in 0..2000 {
        let number = connected.begin(0).unwrap();
        connected.push(number, put(b"x")).unwrap();
        assert_eq!(connected.send(number).0, 1);
        *peers
            .entry(socket.recv_from(&mut room).unwrap().1)
            .or_insert(0) += 1;
        connected.over(number);
    }
    // Now and then the kernel gives a port again.
    assert!(peers.len() > 10, "{peers:?}");
    assert!(connected.sent().sockets >= u64::from(2000 / QUESTIONS));
    let open = connected
        .slots
        .iter()
        .filter(|slot| !matches!(slot, Slot::Free))
        .count();
    assert!(open <= SOCKETS, "{open}");
    assert_eq!(connected.sent().datagrams, 2000);
}

#[test]
fn the_rate_is_that_of_each_server() {
    let (one, two) = (server(), server());
    let mut connected = connected(&[one.1, two.1], Some(100.0));
    for server in [0, 1] {
        assert_eq!(connected.allow(server, 0), 1);
        let number = connected.begin(server).unwrap();
        connected.push(number, put(b"x")).unwrap();
        connected.send(number);
        assert_eq!(connected.allow(server, 1), 0);
        assert!(connected.next_at(server) > 1);
    }
    assert_eq!(
        (connected.highest(0), connected.highest(1)),
        (Some(1), Some(1))
    );
}

#[test]
fn the_policy_is_asked_before_everything() {
    let (_socket, address) = server();
    let listed = [Server {
        address,
        rate: None,
    }];
    let random = || random::seeded_by_system().unwrap();
    let refused = Connected::new(
        policy("127.0.0.1", &[address]),
        &listed,
        random(),
        Clock::start(),
    );
    assert!(matches!(refused, Err(Failure::Usage(why)) if why.contains("on the block list")));
    // As if the list had been read later: each way out asks by itself.
    let mut connected = connected(&[address], None);
    let number = connected.begin(0).unwrap();
    connected.policy = policy("127.0.0.1", &[address]);
    let is_refused =
        |result: Result<(), Unsent>| matches!(result, Err(Unsent::Refused(Refusal::BlockList)));
    assert!(is_refused(connected.push(number, put(b"x"))));
    assert!(is_refused(connected.connect(0, b"x").map(drop)));
    connected.close(number);
    assert!(is_refused(connected.begin(0).map(drop)));
    assert_eq!(connected.sent().datagrams, 0);
}

#[test]
fn a_closed_port_is_reported() {
    let (socket, address) = server();
    drop(socket);
    let mut connected = connected(&[address], None);
    let number = connected.begin(0).unwrap();
    connected.push(number, put(b"x")).unwrap();
    connected.send(number);
    until(&mut connected, |event| {
        matches!(event, Event::Failed { socket, error } if socket == number
            && error.kind() == io::ErrorKind::ConnectionRefused)
    });
}

#[test]
fn a_message_over_tcp_comes_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let long = vec![7; 40_000];
    let sent = long.clone();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = [0; 10];
        stream.read_exact(&mut question).unwrap();
        let bytes = [&(sent.len() as u16).to_be_bytes()[..], &sent].concat();
        for part in bytes.chunks(9_999) {
            stream.write_all(part).unwrap();
            stream.flush().unwrap();
        }
        let (stream, _) = listener.accept().unwrap();
        drop(stream);
        question
    });
    let mut connected = connected(&[address], None);
    let number = connected.connect(0, b"question").unwrap();
    let mut got = Vec::new();
    until(&mut connected, |event| match event {
        Event::Message { socket, bytes, .. } if socket == number => {
            got = bytes.to_vec();
            true
        }
        _ => false,
    });
    assert!(got == long);
    connected.over(number);
    let number = connected.connect(0, b"question").unwrap();
    until(
        &mut connected,
        |event| matches!(event, Event::Failed { socket, .. } if socket == number),
    );
    assert_eq!(serving.join().unwrap(), *b"\0\x08question");
    assert_eq!(connected.sent().connections, 2);
}
