//! Labels in words.

use super::{pop, table};
use crate::Router;
use crate::ip::adjacency::object_of;
use crate::ip::class;
use crate::ip::control::{LabelTableIndex, TableIndex};
use tables::Leaf;
use wire::Family;

/// The text for where a leaf of labels leads.
pub(crate) fn leaf_text(router: &Router, leaf: Leaf) -> String {
    let (family, short, long) = match pop::family_of(leaf) {
        Family::Ip4 => (Family::Ip4, "ip4", "ipv4"),
        Family::Ip6 => (Family::Ip6, "ip6", "ipv6"),
    };
    let model = if pop::is_uniform(leaf) { "uniform" } else { "pipe" };
    match leaf.class() {
        class::PUNT => "[@0]: dpo-drop mpls router-alert".into(),
        class::LOOKUP if leaf == table::ENTROPY => "[@0]: mpls-entropy: unicast lookup of the label above".into(),
        class::LOOKUP => {
            let id = router.ip.labels.id_of(LabelTableIndex(leaf.index() as u16));
            format!("[@{}]: dst-address,unicast lookup in mpls-VRF:{id}", leaf.index())
        }
        _ if pop::is_into_table(leaf) => {
            let inside = match pop::table_of(leaf) {
                Some(TableIndex(index)) => {
                    format!(
                        "[@{index}]: dst-address,unicast lookup in {long}-VRF:{}",
                        router.ip.id_of(TableIndex(index))
                    )
                }
                None => format!("[@0]: dst-address,unicast lookup in interface's {short} table"),
            };
            format!("[@0]: mpls-disposition:[@0]:[{short}, {model}]\n        {inside}")
        }
        _ if pop::is_by_adjacency(leaf) => {
            let object = object_of(leaf);
            let inside = router.adjacency_text(family, Leaf::new(class::ADJACENCY, object));
            format!("[@{object}]: mpls-disposition:[@{object}]:[{short}, {model}]\n        {inside}")
        }
        class::ADJACENCY => router.adjacency_text(Family::Ip4, leaf),
        _ => "[@0]: dpo-drop mpls".into(),
    }
}
