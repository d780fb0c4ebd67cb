//! Applies transport settings to quinn: congestion control, and ACK_FREQUENCY requests.

use firstflight_listener::Transport;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{AckFrequencyConfig, TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

/// Sets a threshold that the server requests after a number of ack-eliciting 1-RTT packets. Only the changed copy of
/// quinn-proto can do this.
pub type Later = fn(&mut AckFrequencyConfig, u64, VarInt);

/// Applies settings; errors are one sentence.
pub fn apply(
    asked: &Transport,
    config: &mut TransportConfig,
    later: impl Fn(&mut AckFrequencyConfig, u64, VarInt),
) -> Result<(), String> {
    if asked.gso || asked.gso_paced || asked.gso_segments.is_some() || asked.launch_clock.is_some()
    {
        return Err("`gso...` and `launch_clock` are not supported here".to_owned());
    }
    if let Some(name) = &asked.congestion_control {
        config.congestion_controller_factory(controller(name)?);
    }
    config.ack_frequency_config(ack_frequency(asked, later)?);
    Ok(())
}

fn controller(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, String> {
    match name {
        "cubic" => Ok(Arc::new(CubicConfig::default())),
        "reno" => Ok(Arc::new(NewRenoConfig::default())),
        "bbr" => Ok(Arc::new(BbrConfig::default())),
        other => Err(format!(
            "congestion_control `{other}` is none of cubic, reno and bbr"
        )),
    }
}

/// quinn sends the frame only with this configuration, and only to clients that accept it.
fn ack_frequency(
    asked: &Transport,
    later: impl Fn(&mut AckFrequencyConfig, u64, VarInt),
) -> Result<Option<AckFrequencyConfig>, String> {
    let second = match (asked.ack_later_after, asked.ack_eliciting_threshold_later) {
        (Some(packets), Some(threshold)) => Some((packets, threshold)),
        (None, None) => None,
        _ => {
            return Err(
                "`ack_later_after` and `ack_eliciting_threshold_later` need each other".to_owned(),
            );
        }
    };
    let Some(threshold) = asked.ack_eliciting_threshold else {
        let more = asked.ack_reordering_threshold.is_some() || asked.ack_delay_us.is_some();
        if more || second.is_some() {
            return Err("`ack_eliciting_threshold` is missing".to_owned());
        }
        return Ok(None);
    };
    let mut made = AckFrequencyConfig::default();
    made.ack_eliciting_threshold(VarInt::from_u32(threshold));
    made.max_ack_delay(asked.ack_delay_us.map(Duration::from_micros));
    if let Some(reordering) = asked.ack_reordering_threshold {
        made.reordering_threshold(VarInt::from_u32(reordering));
    }
    if let Some((packets, threshold)) = second {
        later(&mut made, packets, VarInt::from_u32(threshold));
    }
    Ok(Some(made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn applied(asked: &Transport) -> Result<(), String> {
        apply(asked, &mut TransportConfig::default(), |_, _, _| {})
    }

    /// Returns the arguments of the calls for a second request.
    fn second(asked: &Transport) -> Vec<(u64, u64)> {
        let calls = RefCell::new(Vec::new());
        apply(
            asked,
            &mut TransportConfig::default(),
            |_, packets, threshold| {
                calls.borrow_mut().push((packets, threshold.into_inner()));
            },
        )
        .expect("settings that quinn has");
        calls.into_inner()
    }

    #[test]
    fn what_quinn_has_is_applied() {
        assert_eq!(applied(&Transport::default()), Ok(()));
        for name in ["cubic", "reno", "bbr"] {
            let asked = Transport {
                congestion_control: Some(name.to_owned()),
                ack_eliciting_threshold: Some(9),
                ack_reordering_threshold: Some(0),
                ack_delay_us: Some(25_000),
                ..Transport::default()
            };
            assert_eq!(applied(&asked), Ok(()));
        }
    }

    #[test]
    fn a_second_request_is_for_the_changed_copy() {
        let asked = Transport {
            ack_eliciting_threshold: Some(1),
            ..Transport::default()
        };
        assert_eq!(second(&asked), []);
        let asked = Transport {
            ack_eliciting_threshold_later: Some(9),
            ack_later_after: Some(100),
            ..asked
        };
        assert_eq!(second(&asked), [(100, 9)]);
        for (asked, words) in [
            (
                Transport {
                    ack_later_after: None,
                    ..asked.clone()
                },
                "need each other",
            ),
            (
                Transport {
                    ack_eliciting_threshold_later: None,
                    ..asked.clone()
                },
                "need each other",
            ),
            (
                Transport {
                    ack_eliciting_threshold: None,
                    ..asked.clone()
                },
                "`ack_eliciting_threshold` is missing",
            ),
        ] {
            let error = applied(&asked).expect_err("an incomplete request");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_it_lacks_is_one_sentence() {
        let vegas = Transport {
            congestion_control: Some("vegas".to_owned()),
            ..Transport::default()
        };
        let error = applied(&vegas).expect_err("no vegas");
        assert!(
            error.contains("`vegas` is none of cubic, reno and bbr"),
            "{error}"
        );
        for (gso, gso_paced, launch_clock) in [
            (true, false, None),
            (false, true, None),
            (false, false, Some("monotonic".to_owned())),
        ] {
            let asked = Transport {
                gso,
                gso_paced,
                launch_clock,
                ..Transport::default()
            };
            let error = applied(&asked).expect_err("no such setting");
            assert!(error.contains("are not supported"), "{error}");
        }
        let alone = Transport {
            ack_delay_us: Some(1),
            ..Transport::default()
        };
        let error = applied(&alone).expect_err("no threshold");
        assert!(
            error.contains("`ack_eliciting_threshold` is missing"),
            "{error}"
        );
    }
}
