//! When the clock is read between nodes.
//!
//! Reading it takes as long as some nodes need for a packet. With many packets that is negligible; with few it would be
//! most of the cost. So of small rounds one in sixteen is read node by node. For the other small rounds only the total
//! time of all nodes is known: the next read round of about as many packets distributes it in its own proportions. The
//! sum over nodes is exact; each node's part of it is a sample.

/// Rounds with fewer packets are sampled.
const SMALL: usize = 64;
/// One round in this many is read node by node.
const ONE_IN: u32 = 16;

/// Small rounds with about the same number of packets.
#[derive(Debug, Default, Clone, Copy)]
struct Class {
    rounds: u32,
    /// Ticks of the rounds that were not read, since the last one that was.
    unread: u64,
}

#[derive(Debug, Default)]
pub(super) struct Sampling {
    /// By the logarithm of the number of packets.
    classes: [Class; SMALL.ilog2() as usize],
    /// In a round that is not read: its class, and when its nodes began to run.
    open: Option<(usize, u64)>,
    /// In a small round that is read: its class.
    read: Option<usize>,
    shares: Vec<(usize, u64)>,
}

impl Sampling {
    /// Nodes begin to run for this many packets. Returns whether to read the clock between them.
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

    /// Ends a round that is not read.
    #[inline]
    pub fn close(&mut self, now: u64) {
        if let Some((class, began)) = self.open.take() {
            self.classes[class].unread += now.wrapping_sub(began);
        }
    }

    /// Whether a round that is not read is under way.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Notes the ticks of a node in a round that is read.
    #[inline]
    pub fn note(&mut self, node: usize, ticks: u64) {
        if self.read.is_some() {
            self.shares.push((node, ticks));
        }
    }

    /// Ends a round that is read: passes each node its share of the time of rounds that were not read.
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

    /// Discards the current round.
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
        // Alternately, rounds of one packet through nodes 1 and 2, and of 40 packets through node 3.
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
            now += 5; // the time between rounds belongs to no node
        }
        // All rounds are distributed, except those since the last one that was read.
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
