//! UDP payloads of Initials: the default of each family, one size for all, or a sweep over several.

use firstflight_core::targets::TargetRef;

/// Default UDP payloads: IP packets of 1280 bytes in both families.
const SIZE_IPV4: u16 = 1252;
const SIZE_IPV6: u16 = 1232;

/// UDP payload in a datagram with an Initial: at least 1200 bytes (RFC 9000 14.1), on Ethernet at most 1472 over IPv4.
const SMALLEST: u16 = 1200;
const LARGEST: u16 = 1472;

/// Maximum number of sizes in a sweep. Each size is another probe of every target.
pub const MOST_SIZES: usize = 32;

/// Maximum number of probes in a sweep. The list is kept once per size.
const MOST_PROBES: usize = 10_000_000;

/// The sizes from the command line, ascending. If empty, each family has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes(Vec<u16>);

impl Sizes {
    /// Returns the sizes as given. Empty: the defaults.
    pub fn given(&self) -> &[u16] {
        &self.0
    }

    /// Returns how many probes each target gets.
    pub fn per_target(&self) -> usize {
        self.0.len().max(1)
    }

    /// Returns whether there are several.
    pub fn is_sweep(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the size of all Initials on IPv4 and on IPv6, or `None` in a sweep.
    pub fn by_family(&self) -> [Option<u16>; 2] {
        match self.0[..] {
            [] => [Some(SIZE_IPV4), Some(SIZE_IPV6)],
            [size] => [Some(size); 2],
            _ => [None; 2],
        }
    }

    /// Returns the numbers of the probes of `targets` targets. The caller shuffles them and passes them to
    /// [`Self::assign`]. Fails if there are too many probes.
    pub fn probes(&self, targets: usize) -> Result<Vec<u32>, String> {
        let probes = targets * self.per_target();
        if self.is_sweep() && probes > MOST_PROBES {
            return Err(format!(
                "{targets} targets with {} sizes each are more than the {MOST_PROBES} probes of a sweep: \
                 give fewer targets or sizes",
                self.0.len()
            ));
        }
        Ok((0..probes as u32).collect())
    }

    /// Replaces numbers of probes by numbers of targets (there are `targets`), in the same order. Returns the sizes of
    /// their Initials.
    pub fn assign(self, order: &mut [u32], targets: usize) -> InitialSizes {
        let mut of_target = Vec::new();
        if self.is_sweep() {
            for number in order.iter_mut() {
                of_target.push((*number as usize / targets) as u8);
                *number = (*number as usize % targets) as u32;
            }
        }
        InitialSizes {
            sizes: self,
            of_target,
        }
    }
}

/// Parses `--initial-size`: sizes and ranges FIRST-LAST/STEP, joined by commas.
pub fn parse(text: &str) -> Result<Sizes, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => sizes.push(size(part)?),
            Some((first, rest)) => {
                let (last, step) = rest
                    .split_once('/')
                    .ok_or("a range is FIRST-LAST/STEP, as 1200-1472/68")?;
                let step = step.parse::<u16>().ok().filter(|step| *step > 0);
                let step = step.ok_or("a step is a whole number above 0")?;
                let (first, last) = (size(first)?, size(last)?);
                if first > last {
                    return Err("the first size of a range is above the last".to_owned());
                }
                sizes.extend((first..=last).step_by(usize::from(step)));
            }
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() > MOST_SIZES {
        return Err(format!(
            "at most {MOST_SIZES} sizes: each is another probe of every target"
        ));
    }
    Ok(Sizes(sizes))
}

fn size(text: &str) -> Result<u16, String> {
    let number = text.parse::<u16>().ok();
    number
        .filter(|size| (SMALLEST..=LARGEST).contains(size))
        .ok_or_else(|| format!("{text} is not a size from {SMALLEST} to {LARGEST}"))
}

/// The size of each probe's Initial.
#[derive(Clone, Debug, Default)]
pub struct InitialSizes {
    sizes: Sizes,
    /// In a sweep, the index of the size for each target of the shuffled list.
    of_target: Vec<u8>,
}

impl InitialSizes {
    /// Returns the size of the Initial to `target` if the command line gives it.
    pub fn given(&self, target: &TargetRef) -> Option<u16> {
        (!self.sizes.0.is_empty()).then(|| self.of(target, false).0)
    }

    /// Returns the size of the Initial to `target`, on IPv6 if `v6`, and the number of this probe among the target's
    /// probes, from 0.
    pub fn of(&self, target: &TargetRef, v6: bool) -> (u16, u8) {
        let index = match target {
            TargetRef::Listed(index) => self.of_target.get(*index as usize).copied(),
            TargetRef::Fed(_) => None,
        };
        let index = index.unwrap_or(0);
        let default = if v6 { SIZE_IPV6 } else { SIZE_IPV4 };
        let size = self.sizes.0.get(usize::from(index));
        (size.copied().unwrap_or(default), index)
    }
}

#[cfg(test)]
mod tests;
