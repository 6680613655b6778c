//! Which bucket of a load balance leads to which path.

use tables::Leaf;
use tables::object::MAX_BUCKETS;

/// How far the shares of buckets may be from the weights.
const BUCKET_TOLERANCE: f64 = 0.1;

/// The most variants of one path list: lists of the same paths for prefixes that had different paths before.
pub(super) const MAX_VARIANTS: usize = 8;

/// The paths over which flows are spread, with their weights, and the path of each bucket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spread<'a> {
    pub members: &'a [(Leaf, f64)],
    pub buckets: &'a [Leaf],
}

impl Spread<'_> {
    /// Whether the paths that are also in `members` have the same weights there, relative to each other.
    fn has_weights_of(&self, members: &[(Leaf, f64)]) -> bool {
        let had = |leaf| self.members.iter().find(|(known, _)| *known == leaf).map(|(_, weight)| *weight);
        let mut ratios = members.iter().filter_map(|(leaf, weight)| Some(weight / had(*leaf)?));
        let Some(first) = ratios.next() else { return true };
        ratios.all(|ratio| (ratio / first - 1.0).abs() < 1e-9)
    }
}

/// How many of `count` buckets each path should have, as a fraction.
fn exact_shares(weights: &[f64], count: usize) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total * count as f64).collect()
}

/// Distributes `count` buckets, largest remainders first.
fn apportion(exact: &[f64], count: usize) -> Vec<usize> {
    let mut shares: Vec<usize> = exact.iter().map(|share| *share as usize).collect();
    let mut order: Vec<usize> = (0..exact.len()).collect();
    order.sort_by(|&a, &b| (exact[b].fract()).total_cmp(&exact[a].fract()));
    let left = count - shares.iter().sum::<usize>();
    order.into_iter().take(left).for_each(|path| shares[path] += 1);
    shares
}

/// Gives each path at least one bucket, however small its weight.
fn leave_none_without(shares: &mut [usize]) {
    while let Some(without) = shares.iter().position(|share| *share == 0) {
        let largest = shares.iter_mut().max().expect("one is without");
        *largest -= 1;
        shares[without] = 1;
    }
}

/// Spreads `weights` over a power of two of buckets: the fewest within the tolerance, largest remainders first. Returns
/// each path's number of buckets.
fn share_buckets(weights: &[f64]) -> Vec<usize> {
    let mut count = weights.len().next_power_of_two();
    loop {
        let exact = exact_shares(weights, count);
        let mut shares = apportion(&exact, count);
        let error: f64 = shares.iter().zip(&exact).map(|(share, exact)| (*share as f64 - exact).abs()).sum();
        let is_close = error / count as f64 <= BUCKET_TOLERANCE && !shares.contains(&0);
        if is_close || count >= MAX_BUCKETS {
            leave_none_without(&mut shares);
            return shares;
        }
        count *= 2;
    }
}

/// Adjusts the rounded shares so that no path that held buckets gives one to another path that held buckets. Then only
/// flows of a removed path move, or flows that go to a new path. While the weights stay the same, the result is within
/// two buckets of the exact shares.
fn spare_moves(shares: &mut [usize], exact: &[f64], held: &[usize]) {
    // Each iteration saves a move.
    for _ in 0..MAX_BUCKETS {
        let lacks = |path: usize| exact[path] - shares[path] as f64;
        let paths = 0..shares.len();
        let loser = paths.clone().filter(|&path| held[path] > shares[path]);
        let winner = paths.filter(|&path| shares[path] > held[path] && held[path] > 0);
        let by_lack = |a: &usize, b: &usize| lacks(*a).total_cmp(&lacks(*b));
        let (Some(loser), Some(winner)) = (loser.max_by(by_lack), winner.min_by(by_lack)) else { return };
        shares[loser] += 1;
        shares[winner] -= 1;
    }
}

/// The buckets for some paths by weight. A bucket of `before` whose path still exists keeps that path, as far as the
/// shares allow. So only flows that must move do move (resilient hashing): when a path goes away, its flows move and no
/// other path's.
pub(super) fn buckets(members: &[(Leaf, f64)], past: Spread<'_>) -> Vec<Leaf> {
    let before = past.buckets;
    let weights: Vec<f64> = members.iter().map(|(_, weight)| weight.max(f64::MIN_POSITIVE)).collect();
    let without_past = share_buckets(&weights);
    let needed: usize = without_past.iter().sum();
    let once: Vec<Leaf> =
        members.iter().zip(&without_past).flat_map(|((leaf, _), share)| std::iter::repeat_n(*leaf, *share)).collect();
    // Fewer buckets than before would assign all flows anew.
    let times = (before.len().min(MAX_BUCKETS) / needed).max(1);
    let fresh = once.repeat(times);
    let mut buckets = vec![None; fresh.len()];
    let known = |at: usize| before.get(at % before.len().max(1)).copied();
    let exact = exact_shares(&weights, fresh.len());
    let mut shares = apportion(&exact, fresh.len());
    leave_none_without(&mut shares);
    let held = |(leaf, _): &(Leaf, f64)| (0..fresh.len()).filter(|at| known(*at) == Some(*leaf)).count();
    // A changed weight must take effect.
    if past.has_weights_of(members) {
        spare_moves(&mut shares, &exact, &members.iter().map(held).collect::<Vec<_>>());
    }
    let mut keep = |leaf: Leaf, bucket: &mut Option<Leaf>| {
        if let Some(member) = members.iter().position(|(known, _)| *known == leaf)
            && shares[member] > 0
            && bucket.is_none()
        {
            shares[member] -= 1;
            *bucket = Some(leaf);
        }
    };
    // First the buckets whose path is the one that they would have without a past, so that a path that comes back finds
    // its place.
    for (at, bucket) in buckets.iter_mut().enumerate().filter(|(at, _)| known(*at) == Some(fresh[*at])) {
        keep(fresh[at], bucket);
    }
    for (at, bucket) in buckets.iter_mut().enumerate() {
        known(at).into_iter().for_each(|leaf| keep(leaf, bucket));
    }
    for (at, bucket) in buckets.iter_mut().enumerate() {
        keep(fresh[at], bucket);
    }
    let mut rest = members.iter().zip(shares).flat_map(|((leaf, _), share)| std::iter::repeat_n(*leaf, share));
    buckets.into_iter().map(|bucket| bucket.unwrap_or_else(|| rest.next().expect("as many as buckets"))).collect()
}

/// How many of [`MAX_BUCKETS`] buckets move from one path to another although both paths exist before and after.
pub(super) fn needless_moves(before: &[Leaf], after: &[Leaf]) -> usize {
    if before.is_empty() || after.is_empty() {
        return 0;
    }
    let moves = (0..MAX_BUCKETS).map(|at| (before[at % before.len()], after[at % after.len()]));
    moves.filter(|(old, new)| old != new && after.contains(old) && before.contains(new)).count()
}

/// The list, among some lists of the same `members` given by their buckets, that a prefix whose flows were spread over
/// `past` can use. It moves no more flows than a list of the prefix's own would. `None` when the prefix needs a list of
/// its own.
pub(super) fn that_fits<Id: Copy>(variants: &[(Id, &[Leaf])], members: &[(Leaf, f64)], past: Spread<'_>) -> Option<Id> {
    let moves = |(_, buckets): &(Id, &[Leaf])| needless_moves(past.buckets, buckets);
    let (best, least) = variants.iter().map(|variant| (variant.0, moves(variant))).min_by_key(|(_, moves)| *moves)?;
    let is_as_good = || least <= needless_moves(past.buckets, &buckets(members, past));
    (least == 0 || variants.len() >= MAX_VARIANTS || is_as_good()).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::class;

    fn of<'a>(members: &'a [(Leaf, f64)], buckets: &'a [Leaf]) -> Spread<'a> {
        Spread { members, buckets }
    }

    #[test]
    fn another_weight_has_its_effect() {
        let weighted = |weights: [f64; 3]| [0, 1, 2].map(|i| (Leaf::new(class::ADJACENCY, i), weights[i as usize]));
        let before = weighted([1.0, 1.0, 1.0]);
        let was = buckets(&before, Spread::default());
        let now = buckets(&weighted([1.0, 2.0, 1.0]), of(&before, &was));
        let shares = weighted([0.0; 3]).map(|(leaf, _)| now.iter().filter(|bucket| **bucket == leaf).count());
        assert_eq!(shares, [4, 8, 4]);
    }

    fn share(weights: &[u8]) -> Vec<usize> {
        share_buckets(&weights.iter().map(|weight| f64::from(*weight)).collect::<Vec<_>>())
    }

    #[test]
    fn buckets_follow_weights() {
        assert_eq!(share(&[1, 1]), [1, 1]);
        assert_eq!(share(&[1, 3]), [1, 3]);
        assert_eq!(share(&[1]), [1]);
        for weights in [vec![1, 1, 1], vec![5, 2, 1], vec![255, 1], vec![1; 64]] {
            let shares = share(&weights);
            let (count, total) = (shares.iter().sum::<usize>(), weights.iter().map(|w| *w as usize).sum::<usize>());
            assert!(count.is_power_of_two() && count <= 64);
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = *weight as f64 * count as f64 / total as f64;
                assert!(*share > 0 && (*share as f64 - exact).abs() < 1.0, "{weights:?}: {shares:?}");
            }
        }
        assert_eq!(share(&[20, 1]), [15, 1]);
        assert_eq!(share(&[255, 1, 1, 1]), [61, 1, 1, 1]);
    }

    #[test]
    fn only_the_flows_of_a_lost_path_move_and_few_come_back() {
        let leaf = |i| Leaf::new(class::ADJACENCY, i);
        let all: Vec<_> = (0..8).map(|i| (leaf(i), 1.0)).collect();
        let full = buckets(&all, Spread::default());
        assert_eq!(full.len(), 8);
        let without: Vec<_> = all.iter().copied().filter(|(member, _)| *member != leaf(3)).collect();
        let less = buckets(&without, of(&all, &full));
        for (before, after) in full.iter().zip(&less) {
            assert!(before == after || *before == leaf(3), "{full:?} {less:?}");
        }
        assert!(!less.contains(&leaf(3)));
        let again = buckets(&all, of(&without, &less));
        assert_eq!(again, full.repeat(again.len() / full.len()), "who comes back finds its place");
        // A new path takes its share, and no other flow moves.
        let nine: Vec<_> = all.iter().copied().chain([(leaf(8), 1.0)]).collect();
        let more = buckets(&nine, of(&all, &full));
        assert!(more.iter().zip(full.iter().cycle()).all(|(after, before)| after == before || *after == leaf(8)));
    }

    /// Paths come and go at random, with equal weights and without: no flow moves between two paths that stay, and the
    /// shares stay correct.
    #[test]
    fn no_flow_moves_between_paths_that_stay() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let (mut removed, mut added) = (0, 0);
        for history in 0..400 {
            let largest = [1, 4, 255][history % 3];
            let mut next = 0;
            let mut path = |random: &mut dyn FnMut(u64) -> u64| {
                next += 1;
                (Leaf::new(class::ADJACENCY, next), (1 + random(largest)) as f64)
            };
            let mut members: Vec<_> = (0..2 + random(15)).map(|_| path(&mut random)).collect();
            let mut before = buckets(&members, Spread::default());
            for _ in 0..12 {
                let past = members.clone();
                if random(2) == 0 && members.len() > 1 {
                    members.remove(random(members.len() as u64) as usize);
                    removed += 1;
                } else {
                    members.insert(random(members.len() as u64 + 1) as usize, path(&mut random));
                    added += 1;
                }
                let after = buckets(&members, of(&past, &before));
                assert_eq!(needless_moves(&before, &after), 0, "{members:?}: {before:?} {after:?}");
                let exact = exact_shares(&members.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), after.len());
                for ((leaf, _), exact) in members.iter().zip(exact) {
                    let share = after.iter().filter(|bucket| *bucket == leaf).count();
                    let is_close = (share as f64 - exact).abs() < 2.0;
                    assert!(share > 0 && (is_close || largest == 255), "{share} of {}, not {exact}", after.len());
                }
                before = after;
            }
        }
        assert!(removed > 1000 && added > 1000);
    }

    #[test]
    fn a_prefix_joins_a_list_only_when_its_flows_stay() {
        let leaf = |i| Leaf::new(class::ADJACENCY, i);
        let two = [(leaf(0), 1.0), (leaf(2), 1.0)];
        let members = [(leaf(0), 1.0), (leaf(1), 1.0), (leaf(2), 1.0)];
        let three = buckets(&members, Spread::default());
        let past = of(&members, &three);
        let (alone, after_three) = (buckets(&two, Spread::default()), buckets(&two, past));
        assert!(needless_moves(&three, &alone) > 0, "{three:?} {alone:?}");
        assert_eq!(needless_moves(&three, &after_three), 0);
        assert_eq!(that_fits(&[(1, &alone[..])], &two, past), None);
        assert_eq!(that_fits(&[(1, &alone[..]), (2, &after_three[..])], &two, past), Some(2));
        assert_eq!(that_fits(&[(1, &alone[..]), (2, &after_three[..])], &two, Spread::default()), Some(1));
        assert_eq!(that_fits(&[(1, &alone[..]); MAX_VARIANTS], &two, past), Some(1), "there are enough of them");
        assert_eq!(that_fits::<u32>(&[], &two, past), None);
    }
}
