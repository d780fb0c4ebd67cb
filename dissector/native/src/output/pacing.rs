//! Rows of `pacing`; schemas/records/pacing.yaml says what the columns mean.

use super::Type::{Bool, F64, I64, String as Text, U16};
use super::{Column, Value, always, maybe};
use crate::flow::pacing::{Pacing, Protocol};

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("start_time_ns", I64),
    always("src_ip", Text),
    always("src_port", U16),
    always("dst_ip", Text),
    always("dst_port", U16),
    always("protocol", Text),
    always("packets", I64),
    always("ip_bytes", I64),
    always("payload_bytes", I64),
    always("duration_us", I64),
    maybe("goodput_bps", I64),
    maybe("gap_min_ns", I64),
    maybe("gap_p10_ns", I64),
    maybe("gap_p25_ns", I64),
    maybe("gap_p50_ns", I64),
    maybe("gap_p75_ns", I64),
    maybe("gap_p90_ns", I64),
    maybe("gap_p99_ns", I64),
    maybe("gap_max_ns", I64),
    maybe("gap_mean_ns", I64),
    always("gaps_exact", Bool),
    always("train_gap_ns", I64),
    always("trains", I64),
    always("share_in_trains_1", F64),
    always("share_in_trains_le5", F64),
    always("longest_train", I64),
    always("train_lengths", Text),
];

/// The row of one direction.
pub fn row<'a>(source_file: &'a str, train_gap_ns: i64, p: &'a Pacing) -> Vec<Value<'a>> {
    let trains = p.trains();
    let lengths: Vec<String> = trains
        .iter()
        .map(|(length, n)| format!("{length}:{:.6}", (length * n) as f64 / p.packets as f64))
        .collect();
    let [p10, p25, p50, p75, p90, p99] = p.gaps.quantiles([0.1, 0.25, 0.5, 0.75, 0.9, 0.99]);
    let direction = &p.direction;
    vec![
        source_file.into(),
        p.start_ns.into(),
        direction.src.ip().into(),
        direction.src.port().into(),
        direction.dst.ip().into(),
        direction.dst.port().into(),
        match direction.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
        .into(),
        p.packets.into(),
        p.ip_bytes.into(),
        p.payload_bytes.into(),
        (p.last_ns - p.start_ns).div_euclid(1000).into(),
        p.goodput_bps().into(),
        p.gaps.min().into(),
        p10.into(),
        p25.into(),
        p50.into(),
        p75.into(),
        p90.into(),
        p99.into(),
        p.gaps.max().into(),
        p.gaps.mean().into(),
        p.gaps.is_exact().into(),
        train_gap_ns.into(),
        trains.values().sum::<u64>().into(),
        p.share_in_trains(1).into(),
        p.share_in_trains(5).into(),
        trains.keys().next_back().copied().unwrap_or(0).into(),
        lengths.join(",").into(),
    ]
}
