//! The TCP options in this machine's SYNs, from the sysctls of the network namespace. The sysctls are only
//! read.

use std::fs;
use std::path::Path;

/// Folder of the sysctls. The IPv4 settings also apply to TCP over IPv6.
const SYSCTLS: &str = "/proc/sys/net/ipv4";

/// The offered options. A server cannot agree to an option that was not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    pub ecn: bool,
}

impl Offered {
    /// Returns the options that the current network namespace offers.
    pub fn here() -> Offered {
        Offered::by(Path::new(SYSCTLS))
    }

    fn by(folder: &Path) -> Offered {
        let number = |name: &str| {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.trim().parse().unwrap_or(0_u8)
        };
        Offered {
            timestamps: number("tcp_timestamps") > 0,
            sack: number("tcp_sack") > 0,
            window_scaling: number("tcp_window_scaling") > 0,
            // 1 offers ECN (RFC 3168); 2 only accepts it.
            ecn: number("tcp_ecn") == 1,
        }
    }

    /// Returns a sentence with the missing options and a remedy, or `None` if all options are offered.
    pub fn warning(self) -> Option<String> {
        let all = [
            (self.timestamps, "timestamps", "tcp_timestamps"),
            (self.sack, "SACK", "tcp_sack"),
            (self.window_scaling, "window scaling", "tcp_window_scaling"),
            (self.ecn, "ECN", "tcp_ecn"),
        ];
        let missing: Vec<_> = all.iter().filter(|(offered, ..)| !offered).collect();
        if missing.is_empty() {
            return None;
        }
        let options: Vec<&str> = missing.iter().map(|(_, option, _)| *option).collect();
        let names: Vec<String> = missing
            .iter()
            .map(|(_, _, name)| format!("net.ipv4.{name}"))
            .collect();
        Some(format!(
            "warning: SYNs of this network namespace do not offer {}, so these columns are null: run it in a \
             namespace where {} is 1",
            options.join(", "),
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sysctl_is_one_option() {
        let folder = std::env::temp_dir().join(format!("offered-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let all = Offered {
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: true,
        };
        let names = [
            "tcp_timestamps",
            "tcp_sack",
            "tcp_window_scaling",
            "tcp_ecn",
        ];
        for (changed, value, expected) in [
            ("", "", all),
            (
                "tcp_timestamps",
                "0",
                Offered {
                    timestamps: false,
                    ..all
                },
            ),
            ("tcp_timestamps", "2", all),
            ("tcp_sack", "0", Offered { sack: false, ..all }),
            (
                "tcp_window_scaling",
                "0",
                Offered {
                    window_scaling: false,
                    ..all
                },
            ),
            ("tcp_ecn", "2", Offered { ecn: false, ..all }),
            ("tcp_ecn", "0", Offered { ecn: false, ..all }),
            ("tcp_ecn", "text", Offered { ecn: false, ..all }),
        ] {
            for name in names {
                let value = if name == changed { value } else { "1" };
                fs::write(folder.join(name), format!("{value}\n")).unwrap();
            }
            assert_eq!(Offered::by(&folder), expected, "{changed} {value}");
        }
        fs::remove_dir_all(&folder).unwrap();
        let none = Offered::by(&folder);
        assert!(!none.timestamps && !none.sack && !none.window_scaling && !none.ecn);
    }

    #[test]
    fn the_warning_names_what_is_missing() {
        let mut offered = Offered {
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: true,
        };
        assert_eq!(offered.warning(), None);
        offered.ecn = false;
        let text = offered.warning().unwrap();
        assert!(text.contains("do not offer ECN,") && text.contains("net.ipv4.tcp_ecn is 1"));
    }
}
