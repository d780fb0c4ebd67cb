use firstflight_wire::{
    ConnectionId, InitialSecret, KeyCache, KeyMaterial, Keys, LongHeader, PacketType, Packets,
    Version, build_packet,
};

use super::cut::zeros_behind;
use super::form::{Form, Gap};
use super::*;

const HEADER: usize = 42;

fn cid(byte: u8) -> ConnectionId {
    ConnectionId::from([byte; 8])
}

/// An Initial of `size` bytes with `plain` bytes of frames, or another type of packet, which the keys do not fit.
fn packet(kind: PacketType, from_client: bool, plain: usize, size: usize) -> Vec<u8> {
    numbered(kind, from_client, (0, 1), plain, size)
}

/// As `packet`, with a packet number and the number of bytes that encode it.
fn numbered(
    kind: PacketType,
    from_client: bool,
    (number, pn_len): (u64, usize),
    plain: usize,
    size: usize,
) -> Vec<u8> {
    let keys = material(from_client);
    let header = LongHeader {
        kind,
        pn_len,
        ..LongHeader::initial(Version::V1, cid(2), cid(3), number)
    };
    let mut out = vec![0; size];
    let payload = vec![1; plain];
    let keys = Keys::new(&keys);
    let written = build_packet(&mut out, &header, &keys, Some(size), |w| w.bytes(&payload));
    assert_eq!(written, Ok(size));
    out
}

fn material(from_client: bool) -> KeyMaterial {
    let secret = InitialSecret::new(Version::V1, &cid(1)).unwrap();
    if from_client {
        secret.client()
    } else {
        secret.server()
    }
}

/// The Initials in a datagram that these keys decrypt.
fn opened(datagram: &[u8], from_client: bool) -> Vec<Padding> {
    opened_behind(datagram, from_client, None)
}

/// As `opened`, after a packet with number `largest`.
fn opened_behind(datagram: &[u8], from_client: bool, largest: Option<u64>) -> Vec<Padding> {
    let keys = Keys::new(&material(from_client));
    let mut found = Vec::new();
    for packet in Packets::new(datagram, 0).flatten() {
        if packet.kind == PacketType::Initial
            && let Ok(opened) = keys.open(&mut datagram.to_vec(), &packet, largest)
        {
            found.push(Padding::of(&packet, &opened, cid(1), material(from_client)));
        }
    }
    found
}

fn initial(from_client: bool, plain: usize, size: usize) -> Vec<u8> {
    packet(PacketType::Initial, from_client, plain, size)
}

/// A frame with the datagram after headers of `HEADER` bytes.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    [&[0xab; HEADER][..], &parts.concat()].concat()
}

/// The record without padding, if it is shorter. The frame's datagram is at `at`.
fn cut_at(frame: &[u8], at: usize, from_client: bool) -> Option<Vec<u8>> {
    let opened = opened(frame.get(HEADER..).unwrap_or_default(), from_client);
    let cut = cut_by(&mut Cutter::default(), frame, (at, from_client), &opened);
    cut.expect("a reader restores it")
}

/// As `cut_at`, with an existing cutter and the decrypted Initials.
fn cut_by(
    cutter: &mut Cutter,
    frame: &[u8],
    (at, from_client): (usize, bool),
    opened: &[Padding],
) -> Result<Option<Vec<u8>>, NotRestored> {
    let mut record = Vec::new();
    let sealed = Sealed {
        at,
        from_client,
        opened,
        schedules: &mut KeyCache::default(),
    };
    let is_cut = cutter.cut(frame, 0, sealed, &mut record)?;
    Ok(is_cut.then_some(record))
}

fn cut(frame: &[u8], from_client: bool) -> Option<Vec<u8>> {
    cut_at(frame, HEADER, from_client)
}

fn restored(record: &[u8], missing: usize) -> (Restored, Vec<u8>) {
    let mut out = vec![9; 3];
    let how = Restorer::default().restore(record, missing, &mut out);
    assert_eq!(out[..3], [9; 3]);
    (how, out.split_off(3))
}

#[test]
fn what_is_cut_comes_back_to_the_byte() {
    let hello = initial(true, 290, 1252);
    let (ack, answer) = (initial(false, 5, 60), initial(false, 100, 700));
    let other = packet(PacketType::Handshake, false, 40, 300);
    // The sender, the packets of the datagram, and the number of gaps in the record.
    for (from_client, parts, gaps) in [
        (true, &[&hello[..]][..], 1),
        (true, &[&initial(true, 5, 1200)], 1),
        (false, &[&ack, &answer], 1),
        (false, &[&initial(false, 90, 400), &answer], 2),
        (false, &[&answer, &other], 1),
        (false, &[&answer, &other[..20]], 1),
        (false, &[&other, &answer, &[0; 500]], 2),
        (false, &[&other, &[0; 500]], 1),
    ] {
        let whole = frame(parts);
        let record = cut(&whole, from_client).expect("something can be left out");
        let (form, _) = Form::read(&record).unwrap();
        assert_eq!(form.gaps.len(), gaps);
        assert_eq!(record.len(), whole.len() - form.missing() + form.size());
        // With any number of further missing bytes.
        for more in [0, 700] {
            let missing = whole.len() - record.len() + more;
            assert_eq!(restored(&record, missing), (Restored::Whole, whole.clone()));
        }
    }
}

#[test]
fn what_has_no_padding_or_other_keys_stays() {
    let hello = initial(true, 290, 1252);
    let whole = frame(&[&hello]);
    assert!(cut(&whole, true).is_some());
    assert_eq!(cut(&whole, false), None);
    for at in [0, HEADER + 1, 5000] {
        assert_eq!(cut_at(&whole, at, true), None);
    }
    for frame in [
        frame(&[&initial(true, 1140, 1200)]),
        frame(&[&[0x43; 900]]),
        frame(&[&[0; 900]]),
        frame(&[&hello, &vec![0; LONGEST]]),
        // The capture cut the packet.
        whole[..1200].to_vec(),
    ] {
        assert_eq!(cut(&frame, true), None);
    }
}

#[test]
fn one_record_of_sixteen_is_restored_to_its_end() {
    let hello = initial(true, 290, 1252);
    let mut whole = frame(&[&hello]);
    let opened = opened(&hello, true);
    let mut cutter = Cutter::default();
    let mut cut = |frame: &[u8]| cut_by(&mut cutter, frame, (HEADER, true), &opened);
    assert!(matches!(cut(&whole), Ok(Some(_))));
    // The omitted bytes differ from the bytes that the keys give.
    whole[HEADER + 1000] ^= 1;
    let found: Vec<_> = (1..40).filter(|_| cut(&whole).is_err()).collect();
    assert_eq!(found, [16, 32]);
}

#[test]
fn a_packet_number_that_a_reader_would_not_decode_keeps_its_padding() {
    for (pn_len, number, largest, is_cut) in [
        (1, 255, 250, true),
        (1, 256, 250, false),
        (2, 256, 250, true),
        (2, 0xffff, 0xfff0, true),
        (2, 0x1_0000, 0xfff0, false),
        (4, 0xffff_ffff, 0xffff_fff0, true),
        (4, 0x1_0000_0001, 0xffff_fff0, false),
    ] {
        let hello = numbered(PacketType::Initial, true, (number, pn_len), 290, 1252);
        let opened = opened_behind(&hello, true, Some(largest));
        assert_eq!(opened.len(), 1, "{number}");
        let whole = frame(&[&hello]);
        let cut = cut_by(&mut Cutter::default(), &whole, (HEADER, true), &opened);
        assert_eq!(cut.map(|record| record.is_some()), Ok(is_cut), "{number}");
    }
}

#[test]
fn a_damaged_record_is_never_restored() {
    let whole = frame(&[&initial(true, 290, 1252)]);
    let record = cut(&whole, true).unwrap();
    let missing = whole.len() - record.len();
    let form = record.len() - 22;
    let gap = Form::read(&record).unwrap().0.gaps[0].start;
    for at in HEADER..record.len() {
        for bit in 0..8 {
            let mut bytes = record.clone();
            bytes[at] ^= 1 << bit;
            let (how, frame) = restored(&bytes, missing);
            assert!(frame.is_empty(), "{at}");
            match how {
                Restored::Whole => panic!("{at} was taken"),
                // The form is inconsistent or absent.
                Restored::AsItIs => assert!(at >= form, "{at}"),
                Restored::Damaged(left) if at < form => assert_eq!(left, gap),
                Restored::Damaged(left) => assert!(left <= record.len()),
            }
        }
    }
    // More bytes captured than sent. A complete record may end in any bytes.
    let (how, _) = restored(&record, missing - 1);
    assert_eq!(how, Restored::Damaged(gap));
    assert_eq!(restored(&record, 0), (Restored::AsItIs, vec![]));
    for length in 0..record.len() {
        let (how, frame) = restored(&record[..length], missing);
        assert_eq!((how, frame), (Restored::AsItIs, vec![]));
    }
}

/// The record of a form with these gaps, which may be invalid.
fn crafted(whole: &[u8], gaps: &[(usize, usize)], datagram: usize) -> Vec<u8> {
    let form = Form {
        gaps: gaps
            .iter()
            .map(|&(start, end)| Gap { start, end })
            .collect(),
        cid: cid(1),
        from_client: true,
        datagram,
        captured: whole.len(),
    };
    let mut record = Vec::new();
    form.write(whole, &mut record);
    record
}

#[test]
fn gaps_that_are_no_padding_of_an_initial_are_damage() {
    let hello = initial(true, 290, 1252);
    let other = packet(PacketType::Handshake, true, 290, 1252);
    let end = HEADER + 1252 - 16;
    let two = frame(&[&hello, &hello]);
    for (whole, gaps, datagram) in [
        (&frame(&[&hello]), &[(end - 100, end)][..], HEADER + 1),
        (&frame(&[&hello]), &[(end - 100, end)], 0),
        (&frame(&[&hello]), &[(end - 100, end - 1)], HEADER),
        (&frame(&[&hello]), &[(end - 100, end + 1)], HEADER),
        (&frame(&[&hello]), &[(end - 950, end)], HEADER),
        (&frame(&[&hello]), &[(HEADER, end)], HEADER),
        (
            &frame(&[&hello]),
            &[(HEADER + 30, HEADER + 60), (end - 100, end)],
            HEADER,
        ),
        (&frame(&[&other]), &[(end - 100, end)], HEADER),
        // Across the end of the first packet; only a part of the bytes after the last packet; a datagram without
        // packets.
        (&two, &[(end - 100, end + 1252)], HEADER),
        (&two, &[(end + 16, end + 1252)], HEADER),
        (
            &frame(&[&hello, &[0; 90]]),
            &[(end + 16, end + 106)],
            HEADER + 1252,
        ),
        (
            &frame(&[&hello, &[0; 90]]),
            &[(end + 16, end + 105)],
            HEADER,
        ),
        (
            &frame(&[&hello, &[0; 90]]),
            &[(end + 17, end + 106)],
            HEADER,
        ),
        (&frame(&[&[0; 900]]), &[(HEADER, HEADER + 900)], HEADER),
    ] {
        let record = crafted(whole, gaps, datagram);
        let (how, frame) = restored(&record, 3000);
        assert!(matches!(how, Restored::Damaged(_)), "{gaps:?} {how:?}");
        assert!(frame.is_empty());
    }
}

#[test]
fn forms_that_contradict_themselves_are_none() {
    let whole = frame(&[&initial(true, 290, 1252)]);
    let end = HEADER + 1252 - 16;
    let sound = crafted(&whole, &[(end - 100, end)], HEADER);
    assert!(Form::read(&sound).is_some());
    let size = sound.len();
    // Offset from the end, and the new bytes there.
    for (back, bytes) in [
        (4, &[0xf2][..]),
        (5, &[0x80 | 21]),
        (5, &[0x88 | 0x40]),
        (6, &[0]),
        (6, &[17]),
        (6, &[255]),
        (8, &[0xff, 0xff]),
        (8, &[0, 0]),
        (10, &[0xff, 0xff]),
        (22, &[0, 0]),
        (20, &[0, 0]),
        (20, &[0xff, 0xff]),
    ] {
        let mut record = sound.clone();
        record[size - back..size - back + bytes.len()].copy_from_slice(bytes);
        assert_eq!(Form::read(&record), None, "{back}");
    }
}

#[test]
fn zeros_at_the_end_are_counted_up_to_the_first_other_byte() {
    for length in 0..70 {
        assert_eq!(zeros_behind(&vec![0; length]), length);
        for place in 0..length {
            let mut bytes = vec![0; length];
            bytes[place] = 0x80;
            assert_eq!(zeros_behind(&bytes), length - place - 1, "{length} {place}");
        }
    }
}
