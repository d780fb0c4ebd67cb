//! A run's lists: targets, and addresses and names never to contact. They are read and checked before
//! anything is sent.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use firstflight_usage::tell;

use crate::Failure;
use crate::clock::Clock;
use crate::input::targets::{TargetList, csv};
use crate::limits::policy::{Namespace, Policy, Refusal};

/// Most rejected lines that are reported one by one.
const NAMED: u64 = 100;

/// The options about lists and addresses.
#[derive(Clone, Copy, Debug)]
pub struct InputOptions<'a> {
    /// Prefix of each message.
    pub name: &'static str,
    pub targets: Option<&'a Path>,
    /// Names given instead of a list. Engines do not resolve names.
    pub names: &'a [String],
    /// Standard input is the feed.
    pub feed: bool,
    pub allow_net: &'a [String],
    pub blocklist: &'a [PathBuf],
    pub optout: &'a [PathBuf],
    pub source: &'a [IpAddr],
    /// Probed servers receive a contact.
    pub contact: bool,
}

/// The lists.
pub struct Lists {
    pub policy: Policy,
    /// Empty if no list was given.
    pub targets: TargetList,
}

impl Lists {
    /// Reads and checks the lists of the options.
    pub fn read(options: &InputOptions<'_>) -> Result<Lists, Failure> {
        if let Some(name) = options.names.first() {
            return Err(Failure::Usage(format!(
                "{name} was not resolved: the command firstflight {} resolves names, this program takes addresses",
                options.name
            )));
        }
        let policy = Policy::read(
            options.allow_net,
            options.blocklist,
            options.optout,
            Namespace::here(options.source)?,
        )?;
        let reads_twice = options.feed && options.targets == Some(Path::new("-"));
        if reads_twice {
            return Err(Failure::Usage(
                "standard input cannot be both the list and the feed: give --targets FILE".into(),
            ));
        }
        let targets = match options.targets {
            Some(path) => read_targets(options.name, path)?,
            None => TargetList::default(),
        };
        let lists = Lists { policy, targets };
        lists.check_lab()?;
        if !options.contact {
            lists.check_contact()?;
        }
        Ok(lists)
    }

    /// Describes a run with these lists, and with the present entries of the machine's opt-out list, at
    /// `rate` new targets per second.
    pub fn plan(&mut self, rate: f64) -> String {
        self.policy.look_until_complete(Clock::start());
        let list = &self.targets;
        let blocked = list
            .iter()
            .filter(|target| self.policy.check(target.ip(), target.domain).is_err())
            .count();
        let open = list.len() - blocked;
        format!(
            "dry run: {} targets, {blocked} of them blocked, {} lines rejected; {open} would be probed at \
             {rate} per second in {:.0} s at least; nothing was sent",
            list.len(),
            list.rejected,
            open as f64 / rate
        )
    }

    /// Refuses a list with addresses of the lab outside the lab. The whole list must be a mistake.
    fn check_lab(&self) -> Result<(), Failure> {
        let outside = |ip, domain| matches!(self.policy.check(ip, domain), Err(Refusal::NotTheLab));
        let mut targets = self.targets.iter();
        match targets.find(|target| outside(target.ip(), target.domain)) {
            None => Ok(()),
            Some(target) => Err(Failure::Usage(format!(
                "line {} of the list, {}, is an address of the lab, and this is not the lab: probe it \
                 from there (firstflight lab exec HOST ...), or mark the namespace of a test (ip link set \
                 lo alias firstflight-lab); nothing was sent",
                target.line, target.ip_text
            ))),
        }
    }

    /// Refuses a list with addresses that require a contact, if no contact is given.
    fn check_contact(&self) -> Result<(), Failure> {
        let mut targets = self.targets.iter();
        match targets.find(|target| self.policy.needs_contact(target.ip())) {
            None => Ok(()),
            Some(target) => Err(Failure::Usage(format!(
                "line {} of the list, {}, is outside every --allow-net: give --contact, so that its \
                 owner can reach you; nothing was sent",
                target.line, target.ip_text
            ))),
        }
    }
}

fn read_targets(program: &str, path: &Path) -> Result<TargetList, Failure> {
    let name = path.display().to_string();
    let (input, name): (Box<dyn Read>, String) = if name == "-" {
        (Box::new(io::stdin().lock()), "standard input".to_owned())
    } else {
        let file =
            File::open(path).map_err(|e| Failure::Input(format!("{name} cannot be read: {e}")))?;
        (Box::new(file), name)
    };
    let mut rejected = Rejected::new(program, &name);
    csv::read(input, &name, |line, why| rejected.line(line, why))
}

/// Reports the first rejected lines in a list on standard error, and only counts the others.
pub struct Rejected<'a> {
    program: &'a str,
    list: &'a str,
    count: u64,
}

impl<'a> Rejected<'a> {
    /// `program` is the prefix of each message.
    pub fn new(program: &'a str, list: &'a str) -> Rejected<'a> {
        Rejected {
            program,
            list,
            count: 0,
        }
    }

    /// Notes a rejected line and the reason.
    pub fn line(&mut self, number: impl Display, why: impl Display) {
        let Rejected { program, list, .. } = self;
        self.count += 1;
        if self.count <= NAMED {
            tell!("{program}: {list}, line {number} rejected: {why}");
        } else if self.count == NAMED + 1 {
            tell!("{program}: further rejected lines of {list} are only counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_counts_what_would_be_probed_and_how_long_it_takes() {
        let folder = std::env::temp_dir().join(format!("plan-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [list, blocklist] = ["list.csv", "block.txt"].map(|name| folder.join(name));
        let rows: String = (1..=7).map(|i| format!("127.0.0.{i},,443\n")).collect();
        std::fs::write(&list, format!("ip,domain,port\n{rows}nonsense\n")).unwrap();
        std::fs::write(&blocklist, "127.0.0.3\n").unwrap();
        let lists = Lists::read(&InputOptions {
            name: "probe",
            targets: Some(&list),
            names: &[],
            feed: false,
            allow_net: &["127.0.0.0/8".to_owned()],
            blocklist: &[blocklist],
            optout: &[],
            source: &[],
            contact: false,
        });
        let text = lists.unwrap().plan(2.0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            text,
            "dry run: 7 targets, 1 of them blocked, 1 lines rejected; 6 would be probed at 2 per second \
             in 3 s at least; nothing was sent"
        );
    }
}
