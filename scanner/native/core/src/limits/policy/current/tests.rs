//! Lists that change, and confirmations of every age.

use super::*;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("lists-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let part = self.0.join("part");
        fs::write(&part, text).unwrap();
        fs::rename(&part, &path).unwrap();
        path
    }

    fn confirm(&self, ago: u64) {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        self.confirm_as(boot.trim(), i64::try_from(ago).unwrap());
    }

    fn confirm_as(&self, boot: &str, ago: i64) {
        let at = since_boot() - ago;
        let text = format!(r#"{{"boot": "{boot}", "at_ns": {at}}}"#);
        self.write("list.confirmed", &text);
    }

    fn machine(&self) -> String {
        format!("followed:{}", self.0.join("list").display())
    }
}

/// Nanoseconds since the machine started.
fn since_boot() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * SECOND as i64 + time.tv_nsec
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Drops the capabilities with which root reads files of any mode, for this thread.
fn obey_modes() {
    let mut sets = capabilities(None).unwrap();
    sets.effective
        .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).unwrap();
}

fn out(listed: &Listed, ip: &str) -> bool {
    listed.opted_out.contains(ip.parse::<IpAddr>().unwrap())
}

#[test]
fn a_changed_list_adds_entries_and_a_broken_or_removed_one_takes_none_away() {
    let folder = Folder::new("changed");
    let path = folder.write("own", "10.0.0.1\n");
    let mut listed = Listed::default();
    let mut current = Current::read(&[], std::slice::from_ref(&path), None, &mut listed).unwrap();
    let mut at = 0;
    let mut look = |current: &mut Current, listed: &mut Listed| {
        at += LOOK;
        assert_eq!(current.look(at, listed), Trust::All);
    };
    look(&mut current, &mut listed);
    assert!(out(&listed, "10.0.0.1") && !out(&listed, "10.0.0.2"));
    folder.write("own", "10.0.0.2\nexample.org\n");
    look(&mut current, &mut listed);
    assert!(!out(&listed, "10.0.0.2"), "it may be half written");
    assert!(current.is_changing());
    look(&mut current, &mut listed);
    assert!(out(&listed, "10.0.0.2") && out(&listed, "10.0.0.1"));
    assert!(listed.covers("www.example.org") && !current.is_changing());
    folder.write("own", "10.0.0.3\n10.0.0\n");
    for _ in 0..3 {
        look(&mut current, &mut listed);
    }
    assert!(out(&listed, "10.0.0.2") && !out(&listed, "10.0.0.3"));
    fs::remove_file(&path).unwrap();
    look(&mut current, &mut listed);
    assert!(out(&listed, "10.0.0.2"));
    let report = current.report();
    assert_eq!((report.lists_read_again, report.unconfirmed_s), (1, None));
}

#[test]
fn a_list_that_cannot_be_read_is_tried_until_it_can() {
    obey_modes();
    let folder = Folder::new("unreadable");
    let own = folder.write("own", "10.0.0.1\n");
    folder.write("list", "10.0.1.1\n");
    folder.confirm(0);
    let mut listed = Listed::default();
    let optouts = std::slice::from_ref(&own);
    let machine = folder.machine();
    let mut current = Current::read(&[], optouts, Some(&machine), &mut listed).unwrap();
    let mut at = 0;
    let mut looks = |current: &mut Current, listed: &mut Listed| {
        for _ in 0..3 {
            at += LOOK;
            current.look(at, listed);
        }
        current.trust()
    };
    assert_eq!(looks(&mut current, &mut listed), Trust::All);
    let mode = |mode| {
        for name in ["own", "list"] {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.0.join(name), permissions).unwrap();
        }
    };
    folder.write("own", "10.0.0.2\n");
    folder.write("list", "10.0.1.2\n");
    mode(0);
    assert_eq!(looks(&mut current, &mut listed), Trust::None);
    assert!(!out(&listed, "10.0.0.2") && !out(&listed, "10.0.1.2"));
    assert!(!current.is_changing(), "nobody waits for it");
    mode(0o600);
    folder.confirm(0);
    assert_eq!(looks(&mut current, &mut listed), Trust::All);
    assert!(out(&listed, "10.0.0.2") && out(&listed, "10.0.1.2"));
    assert_eq!(current.report().lists_read_again, 2);
}

#[test]
fn files_are_not_looked_at_all_the_time() {
    let folder = Folder::new("seldom");
    folder.write("list", "10.0.0.1\n");
    folder.confirm(0);
    let mut listed = Listed::default();
    let mut current = Current::read(&[], &[], Some(&folder.machine()), &mut listed).unwrap();
    assert_eq!(current.look(7, &mut listed), Trust::All);
    folder.write("list", "10.0.0.2\n");
    current.look(7 + LOOK - 1, &mut listed);
    assert!(!out(&listed, "10.0.0.2"));
    current.look(7 + LOOK, &mut listed);
    assert!(out(&listed, "10.0.0.2"), "a followed list is whole at once");
}

#[test]
fn a_followed_list_is_trusted_as_long_as_it_is_confirmed() {
    let folder = Folder::new("trusted");
    let mut listed = Listed::default();
    let mut current = Current::read(&[], &[], Some(&folder.machine()), &mut listed).unwrap();
    let mut at = 0;
    let mut trust = |listed: &mut Listed| {
        at += LOOK;
        current.look(at, listed)
    };
    assert_eq!(trust(&mut listed), Trust::None, "there is no list");
    folder.write("list", "10.0.0.1\n");
    assert_eq!(trust(&mut listed), Trust::None, "nobody has confirmed it");
    for (ago, expected) in [
        (0, Trust::All),
        (BEGIN_FOR - 2 * SECOND, Trust::All),
        (BEGIN_FOR, Trust::Ending),
        (SEND_FOR - 5 * SECOND, Trust::Ending),
        (SEND_FOR, Trust::None),
        (SECOND, Trust::All),
    ] {
        // Repeats the check if so much time passed that another state may be right.
        loop {
            let before = since_boot();
            folder.confirm(ago);
            let found = trust(&mut listed);
            if since_boot() - before <= SECOND as i64 {
                assert_eq!(found, expected, "{ago} ns");
                break;
            }
        }
    }
    folder.confirm_as("another boot", 0);
    assert_eq!(trust(&mut listed), Trust::None);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    folder.confirm_as(boot.trim(), -3_600_000_000_000);
    assert_eq!(trust(&mut listed), Trust::None, "a time to come");
    folder.write("list.confirmed", "{");
    assert_eq!(trust(&mut listed), Trust::None);
    folder.confirm(0);
    folder.write("list", "10.0.0\n");
    assert_eq!(trust(&mut listed), Trust::None, "a broken list");
    assert!(out(&listed, "10.0.0.1"));
    folder.write("list", "10.0.0.7\n");
    assert_eq!(trust(&mut listed), Trust::All);
    assert!(out(&listed, "10.0.0.1") && out(&listed, "10.0.0.7"));
    let held = current.report().unconfirmed_s.unwrap();
    assert!(held > 0.0);
}

#[test]
fn what_may_not_be_sent_is_said_whatever_was_permitted_before() {
    for (before, now, expected) in [
        (Trust::All, Trust::All, None),
        (Trust::All, Trust::Ending, Some("45 s: no new probe starts")),
        (Trust::Ending, Trust::Ending, None),
        (Trust::Ending, Trust::None, Some("60 s: nothing is sent")),
        (Trust::All, Trust::None, Some("60 s: nothing is sent")),
        (Trust::None, Trust::None, None),
        (Trust::None, Trust::Ending, None),
        (Trust::Ending, Trust::All, Some("the run continues")),
        (Trust::None, Trust::All, Some("the run continues")),
    ] {
        let found = sentence(before, now);
        let is_as_expected = match (&found, expected) {
            (Some(sentence), Some(part)) => sentence.contains(part),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_as_expected, "{before:?} {now:?}: {found:?}");
    }
}

#[test]
fn a_list_of_this_machine_needs_nobodys_confirmation() {
    let folder = Folder::new("plain");
    let path = folder.write("list", "10.0.0.1\n");
    let mut listed = Listed::default();
    let machine = path.display().to_string();
    let mut current = Current::read(&[], &[], Some(&machine), &mut listed).unwrap();
    assert_eq!(current.look(0, &mut listed), Trust::All);
    assert!(out(&listed, "10.0.0.1"));
    let missing = Current::read(&[], &[], Some("/nonexistent"), &mut listed);
    assert!(matches!(missing, Err(Failure::Input(_))));
    assert!(Current::read(&[], &[], None, &mut listed).is_ok());
    for value in ["", FOLLOWED] {
        let empty = Current::read(&[], &[], Some(value), &mut listed);
        assert!(
            matches!(empty, Err(Failure::Usage(_))),
            "{value:?} is not absent"
        );
    }
}
