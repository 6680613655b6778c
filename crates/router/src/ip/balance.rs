//! Which bucket of a load balance leads to which path.

use tables::Leaf;
use tables::object::MAX_BUCKETS;

/// How far a path's share of buckets may be from its weight.
const BUCKET_TOLERANCE: f64 = 0.1;

/// Spreads `weights` over a power of two of buckets: the fewest that come within the
/// tolerance, largest remainders first. Gives each path's number of buckets.
fn share_buckets(weights: &[f64]) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let mut count = weights.len().next_power_of_two();
    loop {
        let exact: Vec<f64> = weights.iter().map(|&weight| weight / total * count as f64).collect();
        let mut shares: Vec<usize> = exact.iter().map(|share| *share as usize).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| (exact[b].fract()).total_cmp(&exact[a].fract()));
        let left = count - shares.iter().sum::<usize>();
        order.into_iter().take(left).for_each(|path| shares[path] += 1);
        let error: f64 = shares.iter().zip(&exact).map(|(share, exact)| (*share as f64 - exact).abs()).sum();
        let is_close = error / count as f64 <= BUCKET_TOLERANCE && !shares.contains(&0);
        if is_close || count >= MAX_BUCKETS {
            // A path that is there gets some, however small its weight.
            while let Some(without) = shares.iter().position(|share| *share == 0) {
                let largest = shares.iter_mut().max().expect("one is without");
                *largest -= 1;
                shares[without] = 1;
            }
            return shares;
        }
        count *= 2;
    }
}

/// The buckets for some paths by weight. Those of `before` that lead to a path which is still there stay as
/// they are as far as shares allow, so that only flows move that must (resilient hashing): who loses a path
/// moves its flows and no other's.
pub(super) fn buckets(members: &[(Leaf, f64)], before: &[Leaf]) -> Vec<Leaf> {
    let weights: Vec<f64> = members.iter().map(|(_, weight)| weight.max(f64::MIN_POSITIVE)).collect();
    let mut shares = share_buckets(&weights);
    let needed: usize = shares.iter().sum();
    let once: Vec<Leaf> =
        members.iter().zip(&shares).flat_map(|((leaf, _), share)| std::iter::repeat_n(*leaf, *share)).collect();
    // Fewer buckets than before would number all flows anew.
    let times = (before.len().min(MAX_BUCKETS) / needed).max(1);
    shares.iter_mut().for_each(|share| *share *= times);
    let fresh = once.repeat(times);
    let mut buckets = vec![None; fresh.len()];
    let known = |at: usize| before.get(at % before.len().max(1)).copied();
    let mut keep = |leaf: Leaf, bucket: &mut Option<Leaf>| {
        if let Some(member) = members.iter().position(|(known, _)| *known == leaf)
            && shares[member] > 0
            && bucket.is_none()
        {
            shares[member] -= 1;
            *bucket = Some(leaf);
        }
    };
    // First what is where it would be without a past, so that who comes back finds its place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tables::kind;

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
        let leaf = |i| Leaf::new(kind::ADJACENCY, i);
        let all: Vec<_> = (0..8).map(|i| (leaf(i), 1.0)).collect();
        let full = buckets(&all, &[]);
        assert_eq!(full.len(), 8);
        let without: Vec<_> = all.iter().copied().filter(|(member, _)| *member != leaf(3)).collect();
        let less = buckets(&without, &full);
        for (before, after) in full.iter().zip(&less) {
            assert!(before == after || *before == leaf(3), "{full:?} {less:?}");
        }
        assert!(!less.contains(&leaf(3)));
        let again = buckets(&all, &less);
        assert_eq!(again, full.repeat(again.len() / full.len()), "who comes back finds its place");
        // One more takes its share and moves nothing else.
        let nine: Vec<_> = all.iter().copied().chain([(leaf(8), 1.0)]).collect();
        let more = buckets(&nine, &full);
        assert!(more.iter().zip(full.iter().cycle()).all(|(after, before)| after == before || *after == leaf(8)));
    }
}
