//! Each error counter has a meaning that operators can read: `docs/guide/errors.md` is made of them.

use features::inspect::{Meaning, errors_guide, meanings};
use quiver_capabilities::CAPABILITIES;

#[test]
fn every_error_has_a_meaning() {
    let missing: Vec<Meaning> =
        meanings(CAPABILITIES).unwrap().into_iter().filter(|known| known.meaning.is_empty()).collect();
    assert!(missing.is_empty(), "write a comment above the edge, or the counter's third part: {missing:#?}");
}

#[test]
fn a_meaning_is_sentences() {
    for Meaning { node, reason, meaning, .. } in meanings(CAPABILITIES).unwrap() {
        let begins = meaning.starts_with(|c: char| c.is_uppercase() || c == '`');
        assert!(begins && meaning.ends_with(['.', '?']) && !meaning.contains("  "), "{node}: {reason}: {meaning:?}");
    }
}

#[test]
fn nodes_that_count_alike_stand_together() {
    let page = errors_guide(CAPABILITIES, "").unwrap();
    for heading in [
        "### af-packet-input, af_xdp-input, memif-input, virtio-input\n",
        "### ip4-load-balance, ip4-lookup, ip4-route-counters, lookup-ip4-dst\n",
        "### INTERFACE-tx\n",
    ] {
        assert!(page.contains(heading), "no {heading} in {page}");
    }
    assert!(!page.contains("null0"), "{page}");
}
