//! Measures a probe's operations in nanoseconds: `cargo run --release -p firstflight-wire --example timing`.

use std::hint::black_box;
use std::time::Instant;

use firstflight_wire::tls::{ClientHelloTemplate, TemplateOptions, write_server_hello};
use firstflight_wire::{
    ConnectionId, Error, Frame, Frames, InitialSecret, Keys, LongHeader, Version, Writer,
    build_packet, parse_packet, write_ack, write_connection_close, write_crypto,
};

const ROUNDS: u32 = 200_000;

/// Prints the mean time per call of `operation` in the best of five series.
fn time<T>(name: &str, mut operation: impl FnMut(u32) -> T) {
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS / 5).for_each(|i| drop(black_box(operation(i))));
            start.elapsed().as_nanos() / u128::from(ROUNDS / 5)
        })
        .min();
    println!("{name:44} {:>6} ns", best.unwrap_or_default());
}

fn main() -> Result<(), Error> {
    let version = Version::V1;
    let scid = ConnectionId::from([2; 8]);
    let dcid = |i: u32| ConnectionId::from((0x8394_c8f0_0000_0000 | u64::from(i)).to_be_bytes());
    let secret = |i| InitialSecret::new(version, &dcid(i)).ok_or(Error::Malformed("version"));
    let template = ClientHelloTemplate::new(&TemplateOptions::default())?;
    let hello = |buf: &mut [u8]| {
        let mut w = Writer::new(buf);
        template
            .write(&mut w, &[7; 32], &[8; 32], "www.example.net", &scid)
            .map(|()| w.position())
    };
    let (client, server) = (
        Keys::new(&secret(0)?.client()),
        Keys::new(&secret(0)?.server()),
    );

    // The server's flight: an instant ACK and a ServerHello, both padded to 1200 bytes.
    let mut flight = [[0; 1200]; 2];
    for (number, datagram) in (0..).zip(&mut flight) {
        let header = LongHeader::initial(version, scid, dcid(0), number);
        build_packet(datagram, &header, &server, Some(1200), |w| {
            if number == 0 {
                return write_ack(w, 0, 3, &[(0, 0)]);
            }
            let mut message = [0; 128];
            let mut m = Writer::new(&mut message);
            write_server_hello(&mut m, &[9; 32], &[], 0x1301, 0x1d, &[5; 32])?;
            write_crypto(w, 0, m.written())
        })?;
    }
    let read = |keys: &Keys, datagram: &[u8; 1200]| {
        let mut copy = *datagram;
        let Ok(packet) = parse_packet(&copy, 0, 8) else {
            return 0;
        };
        let Ok(opened) = keys.open(&mut copy, &packet, None) else {
            return 0;
        };
        Frames::new(opened.payload)
            .filter(|f| matches!(f, Ok(Frame::Ack(_) | Frame::Crypto { .. })))
            .count()
    };
    assert!(flight.iter().all(|datagram| read(&server, datagram) == 1));

    let mut out = [0; 1500];
    let mut buf = [0; 600];
    time("Initial secret from a connection ID", secret);
    let initial_secret = secret(1)?;
    time("key material of one direction", |_| {
        black_box(&initial_secret).client()
    });
    let material = initial_secret.client();
    time("key schedules of one direction", |_| {
        Keys::new(black_box(&material))
    });
    time("write a ClientHello", |_| hello(&mut buf));
    time("build an Initial of 1252 bytes, keys known", |i| {
        let header = LongHeader::initial(version, dcid(i), scid, 0);
        build_packet(&mut out, &header, &client, Some(1252), |w| {
            write_crypto(w, 0, &[1; 280])
        })
    });
    time("parse, open and read an Initial of 1200 bytes", |_| {
        read(&server, &flight[1])
    });
    time("all of a probe: derive, seal, open two, close", |i| {
        let mut run = || -> Result<usize, Error> {
            let secret = secret(i)?;
            let client = Keys::new(&secret.client());
            let n = hello(&mut buf)?;
            let header = LongHeader::initial(version, dcid(i), scid, 0);
            build_packet(&mut out, &header, &client, Some(1252), |w| {
                write_crypto(w, 0, &buf[..n])
            })?;
            // Derive this probe's server keys for the timing, then open the prepared flight with its own keys.
            black_box(Keys::new(&secret.server()));
            let frames = flight
                .iter()
                .map(|datagram| read(&server, datagram))
                .sum::<usize>();
            let header = LongHeader::initial(version, dcid(i), scid, 1);
            build_packet(&mut out, &header, &client, Some(1200), |w| {
                write_ack(w, 1, 0, &[(1, 0)])?;
                write_connection_close(w, 0, 0, b"research: contact@example.net")
            })?;
            Ok(frames)
        };
        run()
    });
    Ok(())
}
