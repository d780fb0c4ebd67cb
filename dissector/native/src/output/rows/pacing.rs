//! Rows of `pacing`. schemas/records/pacing.yaml documents the columns.

use firstflight_records::columns;

use crate::flow::pacing::{Pacing, Protocol};
use crate::output::cells::{Integers, Ip};

columns! {
    /// Pacing in a direction of a flow.
    pub struct PacingRow<'a> {
        source_file: &'a str,
        start_time_ns: i64,
        src_ip: Ip,
        src_port: u16,
        dst_ip: Ip,
        dst_port: u16,
        protocol: &'static str,
        packets: u64,
        ip_bytes: u64,
        payload_bytes: u64,
        duration_us: i64,
        goodput_bps: Option<i64>,
        gap_min_ns: Option<i64>,
        gap_p10_ns: Option<i64>,
        gap_p25_ns: Option<i64>,
        gap_p50_ns: Option<i64>,
        gap_p75_ns: Option<i64>,
        gap_p90_ns: Option<i64>,
        gap_p99_ns: Option<i64>,
        gap_max_ns: Option<i64>,
        gap_mean_ns: Option<i64>,
        gaps_exact: bool,
        train_gap_ns: i64,
        trains: u64,
        share_in_trains_1: f64,
        share_in_trains_le5: f64,
        longest_train: u64,
        train_lengths: String,
        gaps_up_to: Option<Integers>,
        ip_bytes_mode: Option<u64>,
        ip_bytes_mode_share: Option<f64>,
    }
}

impl<'a> PacingRow<'a> {
    /// Creates a direction's row.
    pub fn new(source_file: &'a str, train_gap_ns: i64, p: &Pacing) -> PacingRow<'a> {
        let trains = p.trains();
        let lengths: Vec<String> = trains
            .iter()
            .map(|(length, n)| format!("{length}:{:.6}", (length * n) as f64 / p.packets as f64))
            .collect();
        let [p10, p25, p50, p75, p90, p99] = p.gaps.quantiles([0.1, 0.25, 0.5, 0.75, 0.9, 0.99]);
        let (mode, mode_packets) = p.lengths.mode().unzip();
        let direction = &p.direction;
        PacingRow {
            source_file,
            start_time_ns: p.start_ns,
            src_ip: Ip(direction.src.ip()),
            src_port: direction.src.port(),
            dst_ip: Ip(direction.dst.ip()),
            dst_port: direction.dst.port(),
            protocol: match direction.protocol {
                Protocol::Tcp => "tcp",
                Protocol::Udp => "udp",
            },
            packets: p.packets,
            ip_bytes: p.ip_bytes,
            payload_bytes: p.payload_bytes,
            duration_us: (p.last_ns - p.start_ns).div_euclid(1000),
            goodput_bps: p.goodput_bps(),
            gap_min_ns: p.gaps.min(),
            gap_p10_ns: p10,
            gap_p25_ns: p25,
            gap_p50_ns: p50,
            gap_p75_ns: p75,
            gap_p90_ns: p90,
            gap_p99_ns: p99,
            gap_max_ns: p.gaps.max(),
            gap_mean_ns: p.gaps.mean(),
            gaps_exact: p.gaps.is_exact(),
            train_gap_ns,
            trains: trains.values().sum(),
            share_in_trains_1: p.share_in_trains(1),
            share_in_trains_le5: p.share_in_trains(5),
            longest_train: trains.keys().next_back().copied().unwrap_or(0),
            train_lengths: lengths.join(","),
            gaps_up_to: (p.packets > 1).then(|| Integers(p.points.cumulative())),
            ip_bytes_mode: mode,
            ip_bytes_mode_share: mode_packets.map(|n| n as f64 / p.packets as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::expiry::Bounds;
    use crate::flow::pacing::{Direction, Pacings, Sent};
    use crate::output::testing::lines;

    #[test]
    fn a_row_shows_gaps_and_trains() {
        let bounds = Bounds {
            idle_ns: 1 << 40,
            closing_ns: 1 << 40,
            max_live: 9,
        };
        let mut pacings = Pacings::new(bounds, 100_000);
        let direction = Direction {
            src: ([192, 0, 2, 1], 1).into(),
            dst: ([192, 0, 2, 2], 2).into(),
            protocol: Protocol::Tcp,
        };
        // Trains of 2, 1, 6 and 1 packets.
        let times = [0, 10, 200, 400, 410, 420, 430, 440, 450, 700];
        for (i, us) in times.into_iter().enumerate() {
            let sent = Sent {
                ns: 5_000 + us * 1000 + i64::from(i == 8) * 999,
                ip_bytes: 140,
                payload: 100,
                seq: Some(100 * i as u32),
                begins: false,
            };
            pacings.packet(direction, &sent);
        }
        let pacing = pacings.drain().unwrap();
        // Gaps in microseconds: five of 10, 10.999, 190, 200, 249.001.
        let counts: Vec<&str> = (0..=200)
            .map(|point| match point {
                0 => "0",
                1 => "5",
                2..19 => "6",
                19 => "7",
                20..25 => "8",
                _ => "9",
            })
            .collect();
        let counts = counts.join(",");
        let expected = "source_file=x.pcap\n\
            start_time_ns=5000\n\
            src_ip=192.0.2.1\n\
            src_port=1\n\
            dst_ip=192.0.2.2\n\
            dst_port=2\n\
            protocol=tcp\n\
            packets=10\n\
            ip_bytes=1400\n\
            payload_bytes=1000\n\
            duration_us=700\n\
            goodput_bps=11428571\n\
            gap_min_ns=10000\n\
            gap_p10_ns=10000\n\
            gap_p25_ns=10000\n\
            gap_p50_ns=10000\n\
            gap_p75_ns=190000\n\
            gap_p90_ns=209800\n\
            gap_p99_ns=245080\n\
            gap_max_ns=249001\n\
            gap_mean_ns=77777\n\
            gaps_exact=true\n\
            train_gap_ns=100000\n\
            trains=4\n\
            share_in_trains_1=0.2\n\
            share_in_trains_le5=0.4\n\
            longest_train=6\n\
            train_lengths=1:0.200000,2:0.200000,6:0.600000\n";
        let expected =
            format!("{expected}gaps_up_to=[{counts}]\nip_bytes_mode=140\nip_bytes_mode_share=1\n");
        assert_eq!(lines(&PacingRow::new("x.pcap", 100_000, &pacing)), expected);
    }

    #[test]
    fn protocols_have_names() {
        let bounds = Bounds {
            idle_ns: 1,
            closing_ns: 1,
            max_live: 1,
        };
        let mut pacings = Pacings::new(bounds, 1);
        let direction = Direction {
            src: ([192, 0, 2, 1], 1).into(),
            dst: ([192, 0, 2, 2], 2).into(),
            protocol: Protocol::Udp,
        };
        let sent = Sent {
            ns: 5,
            ip_bytes: 140,
            payload: 100,
            seq: None,
            begins: false,
        };
        pacings.packet(direction, &sent);
        let pacing = pacings.drain().unwrap();
        let row = PacingRow::new("x.pcap", 1, &pacing);
        assert_eq!(
            (row.protocol, row.duration_us, row.goodput_bps),
            ("udp", 0, None)
        );
        assert_eq!(
            (row.gaps_up_to, row.ip_bytes_mode, row.ip_bytes_mode_share),
            (None, Some(140), Some(1.0))
        );
    }
}
