use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};

use super::*;
use crate::limits::policy::Namespace;
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
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(120) {
        let mut found = false;
        connected.read(|event| found |= each(event));
        if found {
            return;
        }
        connected.wait(crate::clock::SECOND / 100);
    }
    panic!("nothing came within 120 s");
}

#[test]
fn a_question_and_its_answer() {
    let (socket, address) = server();
    let mut connected = connected(&[address], None);
    let number = connected.begin(0).unwrap();
    connected.push(number, put(b"question")).unwrap();
    assert_eq!(connected.send(number).left, 1);
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

/// Sends a question to server number `server`. Returns the number of the socket.
fn ask(connected: &mut Connected, server: usize) -> u32 {
    let number = connected.begin(server).unwrap();
    connected.push(number, put(b"question")).unwrap();
    assert_eq!(connected.send(number).left, 1);
    number
}

#[test]
fn an_error_of_an_earlier_question_keeps_no_other_one_from_leaving() {
    let (closed, address) = server();
    let mut connected = connected(&[address], None);
    let number = ask(&mut connected, 0);
    closed.recv_from(&mut [0; 99]).unwrap();
    let handed = again(&mut connected, number);
    assert_eq!((handed.left, handed.earlier.is_none()), (1, true));
    drop(closed);
    // Nobody listens any more. The kernel reports this on the next send.
    let handed = again(&mut connected, number);
    assert_eq!((handed.left, handed.earlier.is_none()), (1, true));
    let handed = again(&mut connected, number);
    let earlier = handed.earlier.map(|error| error.kind());
    assert_eq!(
        (handed.left, earlier, handed.refused.is_none()),
        (1, Some(io::ErrorKind::ConnectionRefused), true)
    );
}

/// Sends another question from a socket.
fn again(connected: &mut Connected, number: u32) -> Handed {
    connected.push(number, put(b"question")).unwrap();
    connected.send(number)
}

/// Answers the next question, and waits until the answer has reached the socket of the question.
fn answer(server: &UdpSocket, connected: &Connected, number: u32) {
    let peer = server.recv_from(&mut [0; 99]).unwrap().1;
    server.send_to(b"answer", peer).unwrap();
    let Slot::Udp(udp) = &connected.slots[number as usize] else {
        panic!("questions of these tests leave by UDP");
    };
    await_bytes(udp);
}

/// Waits until there is something to read, independently of the socket's own epoll set.
fn await_bytes(socket: &impl std::os::fd::AsFd) {
    let epoll = crate::sockets::epoll::Epoll::new().unwrap();
    let flags = crate::sockets::epoll::EventFlags::IN;
    epoll.add(0, socket, flags).unwrap();
    assert_eq!(epoll.wait::<1>(120 * crate::clock::SECOND).count(), 1);
}

#[test]
fn what_came_since_the_last_wait_is_read_with_what_came_before() {
    let (first, second) = (server(), server());
    let mut connected = connected(&[first.1, second.1], None);
    let numbers = [ask(&mut connected, 0), ask(&mut connected, 1)];
    answer(&first.0, &connected, numbers[0]);
    connected.wait(crate::clock::SECOND);
    answer(&second.0, &connected, numbers[1]);
    let mut got = Vec::new();
    connected.read(|event| match event {
        Event::Datagram { socket, .. } => got.push(socket),
        _ => panic!("both answered"),
    });
    assert_eq!(got, numbers);
}

#[test]
fn a_message_over_tcp_that_two_waits_reported_comes_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut connected = connected(&[listener.local_addr().unwrap()], None);
    let number = connected.connect(0, b"question").unwrap();
    connected.wait(120 * crate::clock::SECOND);
    let mut accepted = listener.accept().unwrap().0;
    accepted.write_all(b"\0\x06answer").unwrap();
    let Slot::Tcp(tcp) = &connected.slots[number as usize] else {
        panic!("a connection");
    };
    await_bytes(&**tcp);
    let mut got = Vec::new();
    connected.read(|event| match event {
        Event::Message { bytes, .. } => got.push(bytes.to_vec()),
        _ => panic!("nothing else came"),
    });
    assert_eq!(got, [b"answer".to_vec()]);
}

#[test]
fn the_time_up_to_which_all_is_read_is_before_reading() {
    let (socket, address) = server();
    let mut connected = connected(&[address], None);
    let number = ask(&mut connected, 0);
    answer(&socket, &connected, number);
    let (before, clock) = (connected.clock.now(), connected.clock);
    let mut reading = None;
    let drained = connected.read(|_| reading = Some(clock.now()));
    assert!((before..=reading.unwrap()).contains(&drained));
}

#[test]
fn not_all_is_read_while_more_sockets_have_something_than_a_call_reports() {
    let (socket, address) = server();
    let mut connected = connected(&[address], None);
    for _ in 0..300 {
        connected.servers[0].current.clear();
        let number = ask(&mut connected, 0);
        answer(&socket, &connected, number);
    }
    let mut passes = Vec::new();
    for _ in 0..2 {
        let mut count = 0;
        let drained = connected.read(|_| count += 1);
        passes.push((count, drained > 0));
    }
    assert_eq!(passes, [(256, false), (44, true)]);
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
        assert_eq!(connected.send(number).left, 1);
        *peers
            .entry(socket.recv_from(&mut room).unwrap().1)
            .or_insert(0) += 1;
        connected.over(number);
    }
    // The kernel sometimes chooses the same port again.
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
    let (first, second) = (server(), server());
    let mut connected = connected(&[first.1, second.1], Some(100.0));
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
    // Simulates a list that is read later: each way out checks the policy.
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
