//! Why an operation on interfaces is refused.

use super::sub::VlanMatch;
use super::{MAX_SECONDARY_MACS, control, names};

/// Why an interface cannot be as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    #[error("'{0}' is no interface name: a letter, then up to {max} in all of letters, digits, - _ . / :",
        max = names::MAX_NAME)]
    BadName(String),
    #[error("'{0}' is no tag: up to {max} letters, digits, - _ . / : @ +", max = names::MAX_TAG)]
    BadTag(String),
    #[error("mtu {0}: must be {min} to {max}", min = control::MIN_MTU, max = control::MAX_MTU)]
    BadMtu(u16),
    #[error("too many extra addresses of {0} (at most {max})", max = MAX_SECONDARY_MACS)]
    TooManyMacs(String),
    #[error("{wanted}: {name} takes those frames already ({takes})")]
    FramesTaken { wanted: VlanMatch, takes: VlanMatch, name: String },
    #[error(
        "{name} takes frames whose tags are not known beforehand ({takes}): only one that is made with exact-match \
         and VLAN numbers, or untagged, can have an address"
    )]
    NoStation { name: String, takes: VlanMatch },
}

crate::codes! { InterfaceError {
    BadName => "interface-bad-name",
    BadTag => "interface-bad-tag",
    BadMtu => "interface-bad-mtu",
    TooManyMacs => "interface-too-many-macs",
    FramesTaken => "interface-frames-taken",
    NoStation => "interface-no-station",
} }
