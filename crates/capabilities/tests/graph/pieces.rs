//! What the tests of reassembly share, of both families.

use crate::bed::{Bed, Errors};
use std::time::Duration;

/// So much data, of which hardly any part is like another.
pub fn data(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n / 251 * 7 + n) as u8).collect()
}

/// In the order in which they were made, in the opposite one, and every second one first.
pub fn in_orders<P: Clone>(fragments: &[P]) -> [Vec<P>; 3] {
    let every_second = |first: usize| fragments.iter().skip(first).step_by(2).cloned();
    [fragments.to_vec(), fragments.iter().rev().cloned().collect(), every_second(1).chain(every_second(0)).collect()]
}

/// Errors of the reassembling node only, but for its successes.
pub fn of_node(reassembling: &str, errors: Errors) -> Errors {
    let is_of_node = |(node, reason): &(String, String)| node == reassembling && reason != "successful reassemblies";
    errors.into_iter().filter(|(name, _)| is_of_node(name)).collect()
}

/// Lets the time of all datagrams run out; everything must be given back then.
pub fn time_out(bed: &mut Bed, reassembling: &str, timeout: Duration) -> Errors {
    let moved = bed.errors_of(|bed| bed.advance(timeout));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    let runs = |bed: &Bed| bed.router.graph.runtime(0, bed.router.graph.find(reassembling).unwrap()).calls;
    let before = runs(bed);
    bed.advance(Duration::from_secs(2));
    assert_eq!(runs(bed), before, "the node rests");
    of_node(reassembling, moved)
}
