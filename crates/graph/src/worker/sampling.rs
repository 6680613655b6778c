//! When the clock is read between nodes.
//!
//! To read it takes as long as some nodes need for a packet. With many packets that is nothing; with few it would be
//! most of what they cost. So of small rounds one in sixteen is read node by node. Of the others only the time is
//! known that all nodes took together: the next round of about as many packets that is read shares it out as it finds
//! them. What nodes took in sum is exact; what part of it each had is a sample.

/// Rounds of fewer packets are sampled.
const SMALL: usize = 64;
/// One of so many is read node by node.
const ONE_IN: u32 = 16;

/// Small rounds of about as many packets.
#[derive(Debug, Default, Clone, Copy)]
struct Class {
    rounds: u32,
    /// Ticks of those that were not read since one was.
    unread: u64,
}

#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// By the logarithm of the number of packets.
    classes: [Class; SMALL.ilog2() as usize],
    /// The class of a round that is not read, and when its nodes began to run.
    open: Option<(usize, u64)>,
    /// The class of a small round that is read, and what its nodes took so far.
    read: Option<usize>,
    shares: Vec<(usize, u64)>,
}

impl Sampling {
    /// Nodes begin to run for so many packets; whether the clock is to be read between them.
    #[inline]
    pub fn begin(&mut self, packets: usize, now: u64) -> bool {
        if packets == 0 || packets >= SMALL {
            return true;
        }
        let at = packets.ilog2() as usize;
        let class = &mut self.classes[at];
        let is_read = class.rounds.is_multiple_of(ONE_IN);
        class.rounds = class.rounds.wrapping_add(1);
        match is_read {
            true => self.read = Some(at),
            false => self.open = Some((at, now)),
        }
        is_read
    }

    /// A round that was not read has ended by now.
    #[inline]
    pub fn close(&mut self, now: u64) {
        if let Some((class, began)) = self.open.take() {
            self.classes[class].unread += now.wrapping_sub(began);
        }
    }

    /// Whether there is such a round.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A node took so long in a round that is read.
    #[inline]
    pub fn note(&mut self, node: usize, ticks: u64) {
        if self.read.is_some() {
            self.shares.push((node, ticks));
        }
    }

    /// A round that was read has ended: gives the nodes what rounds that were not read owe them.
    #[inline]
    pub fn share(&mut self, give: impl FnMut(usize, u64)) {
        if let Some(class) = self.read.take() {
            self.share_out(class, give);
        }
    }

    #[cold]
    fn share_out(&mut self, class: usize, mut give: impl FnMut(usize, u64)) {
        let whole: u64 = self.shares.iter().map(|(_, ticks)| ticks).sum();
        if whole > 0 {
            let mut left = std::mem::take(&mut self.classes[class].unread);
            let unread = left;
            let (last, others) = self.shares.split_last().expect("not all of nothing");
            for (node, ticks) in others {
                let part = (u128::from(unread) * u128::from(*ticks) / u128::from(whole)) as u64;
                left -= part;
                give(*node, part);
            }
            give(last.0, left);
        }
        self.shares.clear();
    }

    /// The round under way came to nothing.
    pub fn give_up(&mut self) {
        (self.open, self.read) = (None, None);
        self.shares.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_not_read_is_shared_out_whole_among_nodes_of_rounds_as_large() {
        let mut sampling = Sampling::default();
        let (mut now, mut wall) = (1000, [0; 2]);
        let mut given: BTreeMap<usize, u64> = BTreeMap::new();
        // Rounds of one packet through nodes 1 and 2, of 40 through 3, in turns.
        for number in 0..3200 {
            let (packets, nodes) = [(1, &[(1, 10), (2, 31)][..]), (40, &[(3, 700)])][number % 2];
            let is_read = sampling.begin(packets, now);
            assert_eq!(is_read, (number / 2) % 16 == 0);
            for (node, ticks) in nodes {
                now += ticks;
                wall[number % 2] += ticks;
                if is_read {
                    sampling.note(*node, *ticks);
                    *given.entry(*node).or_default() += ticks;
                }
            }
            sampling.share(|node, ticks| *given.entry(node).or_default() += ticks);
            assert_eq!(sampling.is_open(), !is_read);
            sampling.close(now);
            now += 5; // what lies between rounds is nobody's
        }
        // All but the rounds since the last that was read.
        assert_eq!(given[&1] + given[&2], wall[0] - 15 * 41);
        assert_eq!(given[&3], wall[1] - 15 * 700);
        assert!((given[&1] as f64 / given[&2] as f64 - 10.0 / 31.0).abs() < 0.001, "{given:?}");
    }

    #[test]
    fn large_and_empty_rounds_are_all_read() {
        let mut sampling = Sampling::default();
        assert!((0..40).all(|_| sampling.begin(SMALL, 0) && sampling.begin(0, 0) && !sampling.is_open()));
        assert!(sampling.begin(1, 0) && !sampling.begin(1, 0));
        sampling.give_up();
        sampling.close(1 << 40);
        sampling.share(|_, _| unreachable!("nothing was read"));
        assert_eq!(sampling.classes[0].unread, 0);
    }
}
