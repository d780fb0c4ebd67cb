//! Decides when datagrams may leave: a schedule of new probes, and a ceiling for every second.

use crate::clock::{Mono, SECOND};

/// A second is divided into this many parts.
const BINS: usize = 200;
const BIN: u64 = SECOND / BINS as u64;

/// How much faster than the rate a run may send after a stall of the machine.
const CATCH_UP: f64 = 1.25;

/// Limits the datagrams in every one-second interval, at any start time.
#[derive(Debug)]
struct Ceiling {
    limit: u64,
    /// The current bin, and the bins of the second before it.
    bins: [u32; BINS + 1],
    newest: u64,
    sum: u64,
    highest: u64,
}

impl Ceiling {
    fn new(limit: u64) -> Self {
        Ceiling {
            limit,
            bins: [0; BINS + 1],
            newest: 0,
            sum: 0,
            highest: 0,
        }
    }

    fn advance(&mut self, now: Mono) {
        let bin = now / BIN;
        if bin > self.newest + BINS as u64 {
            self.bins = [0; BINS + 1];
            self.sum = 0;
            self.newest = bin;
        }
        while self.newest < bin {
            self.newest += 1;
            let place = (self.newest % (BINS as u64 + 1)) as usize;
            self.sum -= u64::from(self.bins[place]);
            self.bins[place] = 0;
        }
    }

    fn room(&mut self, now: Mono) -> u64 {
        self.advance(now);
        self.limit.saturating_sub(self.sum)
    }

    /// Returns when there is room again: once the oldest bin with datagrams is a second old.
    fn next_room(&self) -> Mono {
        if self.sum < self.limit {
            return 0;
        }
        let width = BINS as u64 + 1;
        let oldest = (1..=width)
            .map(|age| self.newest + age)
            .find(|bin| self.bins[(bin % width) as usize] > 0);
        oldest.map_or(0, |leaves| leaves * BIN)
    }

    /// Counts `n` datagrams that left before `now`, after the last look at the clock. They count from now on,
    /// so that a sender that stalls in between cannot send the datagrams of two seconds within one.
    fn take(&mut self, now: Mono, n: u64) {
        self.advance(now);
        self.bins[(self.newest % (BINS as u64 + 1)) as usize] += n as u32;
        self.sum += n;
        self.highest = self.highest.max(self.sum);
    }
}

/// Paces new probes at a rate, and limits all datagrams to a multiple of that rate plus one batch.
///
/// New probes follow a schedule from the start of the run, so that the mean rate is right. After a stall they
/// leave a little faster, but never above the limit per second. An idle run saves up at most one second of
/// the schedule.
#[derive(Debug)]
pub struct Pacer {
    rate: f64,
    batch: u64,
    /// Time from which `scheduled` counts.
    since: Mono,
    scheduled: f64,
    /// Probes that may leave together after a stall.
    bucket: f64,
    last: Mono,
    new: Ceiling,
    all: Ceiling,
}

impl Pacer {
    /// `rate`: new probes per second, above 0; `per_probe`: average number of datagrams that a probe may
    /// take.
    pub fn new(rate: f64, per_probe: u64, now: Mono) -> Self {
        Pacer::in_batches(rate, per_probe, batch(rate), now)
    }

    /// Like [`Self::new`], with up to `batch` new probes together instead of the probes of 10 ms.
    pub fn in_batches(rate: f64, per_probe: u64, batch: u64, now: Mono) -> Self {
        let whole = rate.ceil() as u64;
        Pacer {
            rate,
            batch,
            since: now,
            scheduled: 0.0,
            bucket: 1.0,
            last: now,
            new: Ceiling::new(whole + batch),
            all: Ceiling::new(per_probe * whole + batch - 1),
        }
    }

    /// Returns the most new probes that leave together.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Returns how many new probes may leave now.
    pub fn new_probes(&mut self, now: Mono) -> u64 {
        let passed = now.saturating_sub(self.last) as f64 / SECOND as f64;
        self.last = now;
        self.bucket = (self.bucket + passed * self.rate * CATCH_UP).min(self.batch as f64);
        let due = now.saturating_sub(self.since) as f64 / SECOND as f64 * self.rate + 1.0;
        if due - self.scheduled > self.rate.max(1.0) {
            self.scheduled = due - self.rate.max(1.0);
        }
        let allowed = (due - self.scheduled).min(self.bucket).max(0.0) as u64;
        allowed.min(self.new.room(now)).min(self.all.room(now))
    }

    /// Returns how many other datagrams (tokens, closes, second attempts) may leave now.
    pub fn other_room(&mut self, now: Mono) -> u64 {
        self.all.room(now)
    }

    /// Counts `n` new probes that left before `now`.
    pub fn sent_new(&mut self, now: Mono, n: u64) {
        self.scheduled += n as f64;
        self.bucket -= n as f64;
        self.new.take(now, n);
        self.all.take(now, n);
    }

    /// Counts `n` other datagrams that left before `now`.
    pub fn sent_others(&mut self, now: Mono, n: u64) {
        self.all.take(now, n);
    }

    /// Returns when the next new probe may leave, by the schedule and the ceilings.
    pub fn next_new(&self) -> Mono {
        self.next_together(1)
    }

    /// Returns the time from which the schedule permits the next `count` new probes together (at most a
    /// batch), and the ceilings permit at least one.
    pub fn next_together(&self, count: u64) -> Mono {
        let count = count.clamp(1, self.batch) as f64;
        // Rounded up, plus a nanosecond: earlier, rounding may make `new_probes` return one less.
        let due = (self.scheduled + count - 1.0) * SECOND as f64 / self.rate;
        let due = self.since + due.ceil() as u64 + 1;
        let missing = (count - self.bucket).max(0.0) * SECOND as f64 / (self.rate * CATCH_UP);
        due.max(self.last + missing.ceil() as u64)
            .max(self.new.next_room())
            .max(self.all.next_room())
    }

    /// Returns when the next other datagram may leave.
    pub fn next_other(&self) -> Mono {
        self.all.next_room()
    }

    /// Returns the most new probes and the most datagrams that left in any second.
    pub fn highest(&self) -> (u64, u64) {
        (self.new.highest, self.all.highest)
    }
}

/// Returns how many probes leave together at this rate: the probes of 10 ms, at least one.
pub fn batch(rate: f64) -> u64 {
    ((rate / 100.0) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a pacer with a clock that stalls; returns the times of all probes.
    fn run(rate: f64, seconds: u64, step: impl Fn(u64) -> u64) -> Vec<Mono> {
        let start = 77 * SECOND + 123;
        let mut pacer = Pacer::new(rate, 2, start);
        let (mut now, mut times, mut turn) = (start, Vec::new(), 0);
        while now < start + seconds * SECOND {
            let n = pacer.new_probes(now);
            pacer.sent_new(now, n);
            times.extend(std::iter::repeat_n(now, n as usize));
            now += step(turn);
            turn += 1;
        }
        times
    }

    fn most_in_a_second(times: &[Mono]) -> usize {
        let mut first = 0;
        let mut most = 0;
        for (i, t) in times.iter().enumerate() {
            while times[first] + SECOND <= *t {
                first += 1;
            }
            most = most.max(i + 1 - first);
        }
        most
    }

    #[test]
    fn mean_and_ceiling_are_kept_with_and_without_stalls() {
        for rate in [0.5, 3.0, 100.0, 500.0, 20_000.0] {
            // Stalls every 1.2 s, and a single stall of a quarter of a second.
            for (stall, every) in [(0, 1), (20_000_000, 3000), (250_000_000, 1 << 40)] {
                let times = run(rate, 30, |turn| {
                    if turn % every == 17 {
                        400_000 + stall
                    } else {
                        400_000
                    }
                });
                let mean = times.len() as f64 / 30.0;
                assert!(
                    (mean - rate).abs() <= (rate * 0.01).max(1.0 / 30.0),
                    "{rate} {stall}: mean {mean}"
                );
                let ceiling = rate.ceil() as usize + batch(rate) as usize;
                assert!(
                    most_in_a_second(&times) <= ceiling,
                    "{rate} {stall}: {}",
                    most_in_a_second(&times)
                );
            }
        }
    }

    #[test]
    fn what_leaves_late_counts_when_it_leaves() {
        let mut pacer = Pacer::new(1000.0, 2, 0);
        let (mut now, mut left) = (0, Vec::new());
        for turn in 0..40_000_u64 {
            let n = pacer.new_probes(now);
            // Every 700 ms or so, the machine takes 20 ms to send the probes that were due.
            let stall = if turn % 2048 == 0 { 20_000_000 } else { 50_000 };
            now += stall;
            left.extend(std::iter::repeat_n(now, n as usize));
            pacer.sent_new(now, n);
            now += 250_000;
        }
        assert!(most_in_a_second(&left) <= 1010);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = Pacer::new(1000.0, 2, 0);
        let mut sent = 0;
        for ms in 60_000..61_000 {
            let n = pacer.new_probes(ms * 1_000_000);
            pacer.sent_new(ms * 1_000_000, n);
            sent += n;
        }
        assert!(sent <= 1010, "{sent}");
    }

    #[test]
    fn all_datagrams_stay_under_twice_the_rate() {
        let mut pacer = Pacer::new(100.0, 2, 0);
        let mut all = Vec::new();
        for tenth in 0..50_000_u64 {
            let now = tenth * 100_000;
            for _ in 0..pacer.other_room(now).min(3) {
                pacer.sent_others(now, 1);
                all.push(now);
            }
            let n = pacer.new_probes(now);
            pacer.sent_new(now, n);
            all.extend(std::iter::repeat_n(now, n as usize));
        }
        assert!(most_in_a_second(&all) <= 200);
        assert_eq!(pacer.highest().1, 200);
    }

    /// Simulates an engine that sleeps until the next time, and immediately sends another datagram for each
    /// probe. Returns the number of calls and the number of probes that left.
    fn passes(rate: f64, seconds: u64) -> (u64, u64) {
        let mut pacer = Pacer::new(rate, 2, 0);
        let (mut now, mut asked, mut sent, mut others) = (0, 0, 0, 0);
        while now < seconds * SECOND {
            asked += 1;
            let more = others.min(pacer.other_room(now));
            pacer.sent_others(now, more);
            let new = pacer.new_probes(now);
            pacer.sent_new(now, new);
            sent += new;
            others = others - more + new;
            let due = match others {
                0 => pacer.next_new(),
                _ => pacer.next_new().min(pacer.next_other()),
            };
            now = due.max(now + 1000);
        }
        (asked, sent)
    }

    #[test]
    fn who_sleeps_until_the_next_time_seldom_asks_in_vain() {
        for rate in [1.0, 50.0, 200.0, 500.0, 999.0, 5000.0, 100_000.0] {
            let (asked, sent) = passes(rate, 20);
            assert!(sent as f64 >= rate * 20.0 * 0.98, "{rate}: {sent}");
            assert!(
                asked <= 3 * sent + 10,
                "{rate}: asked {asked} times for {sent}"
            );
        }
    }

    #[test]
    fn several_leave_together_when_the_last_of_them_is_due() {
        for (rate, together, batch) in [(50.0, 5, 12), (200.0, 8, 20), (500.0, 7, 20)] {
            let mut pacer = Pacer::in_batches(rate, 2, batch, 0);
            let (mut now, mut sizes, mut times) = (0, Vec::new(), Vec::new());
            while now < 30 * SECOND {
                // A close for each probe, as soon as the next probes leave.
                let closes = sizes.last().map_or(0, |last: &u64| *last);
                assert!(
                    pacer.other_room(now) >= closes,
                    "{rate}: the ceiling splits a pass"
                );
                pacer.sent_others(now, closes);
                let new = pacer.new_probes(now);
                pacer.sent_new(now, new);
                times.extend(std::iter::repeat_n(now, new as usize));
                sizes.push(new);
                now = pacer.next_together(together);
            }
            let whole = sizes[1..].iter().filter(|new| **new == together).count();
            assert!(whole + 2 >= sizes.len(), "{rate}: {sizes:?}");
            let mean = times.len() as f64 / 30.0;
            assert!((mean / rate - 1.0).abs() < 0.01, "{rate}: {mean}");
            assert!(most_in_a_second(&times) <= (rate as u64 + batch) as usize);
        }
        let mut pacer = Pacer::new(1000.0, 2, 0);
        pacer.sent_new(0, 1);
        let single = pacer.next_new();
        assert_eq!([0, 1].map(|count| pacer.next_together(count)), [single; 2]);
        assert_eq!(pacer.next_together(99), pacer.next_together(10), "a batch");
        assert!(pacer.next_together(10) > single);
    }

    #[test]
    fn a_full_second_has_room_when_its_oldest_part_ends() {
        let mut ceiling = Ceiling::new(3);
        assert_eq!(ceiling.next_room(), 0);
        for (now, n) in [(7 * BIN, 1), (9 * BIN + 5, 2)] {
            ceiling.take(now, n);
        }
        let at = ceiling.next_room();
        assert_eq!(at, 7 * BIN + SECOND + BIN);
        assert_eq!((ceiling.room(at - 1), ceiling.room(at)), (0, 1));
    }

    #[test]
    fn a_time_before_the_start_is_that_of_the_start() {
        let mut pacer = Pacer::new(1000.0, 2, SECOND);
        assert_eq!(pacer.new_probes(SECOND - 1), 1);
        pacer.sent_new(SECOND, 1);
        assert_eq!(
            (pacer.new_probes(SECOND - 1), pacer.new_probes(SECOND)),
            (0, 0)
        );
    }
}
