//! Sub-interfaces: which frames of its parent each takes, the table that finds them, and what they have from their
//! parent. The commands are in `protocols::vlan`.

mod control;
mod demux;
pub(crate) mod output;

pub use control::{Sub, by_number, name_of};
pub use demux::{Demux, Found, Inner};

use std::fmt;
use wire::ethernet::EtherType;
use wire::vlan::{Tag, Tags};

/// A VLAN identifier as a sub-interface names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vid {
    Is(u16),
    Any,
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vid::Is(vid) => vid.fmt(f),
            Vid::Any => f.write_str("any"),
        }
    }
}

/// Which frames of its parent a sub-interface takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VlanMatch {
    /// Those without a tag, or with one that names no VLAN but a priority only.
    Untagged,
    /// Tagged ones that no other sub-interface takes.
    Default,
    /// Those with these tags; with `exact`, and no more.
    Tagged { outer_type: EtherType, outer: Vid, inner: Option<Vid>, exact: bool },
}

impl VlanMatch {
    /// The tags of the frames that it sends; none when those that it receives leave them open.
    /// Only then can the router be a station there.
    pub fn tags(&self) -> Option<Tags> {
        match *self {
            VlanMatch::Untagged => Some(Tags::NONE),
            VlanMatch::Default => None,
            VlanMatch::Tagged { exact: false, .. } => None,
            VlanMatch::Tagged { outer_type: tpid, outer: Vid::Is(tci), inner: None, .. } => {
                Some(Tags::new(&[Tag { tpid, tci }]))
            }
            VlanMatch::Tagged { outer_type: tpid, outer: Vid::Is(tci), inner: Some(Vid::Is(inner)), .. } => {
                Some(Tags::new(&[Tag { tpid, tci }, Tag { tpid: EtherType::VLAN, tci: inner }]))
            }
            VlanMatch::Tagged { .. } => None,
        }
    }
}

/// As the command that makes it says it.
impl fmt::Display for VlanMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VlanMatch::Untagged => f.write_str("untagged"),
            VlanMatch::Default => f.write_str("default"),
            VlanMatch::Tagged { outer_type, outer, inner, exact } => {
                let kind = if *outer_type == EtherType::QINQ { "dot1ad" } else { "dot1q" };
                write!(f, "{kind} {outer}")?;
                if let Some(inner) = inner {
                    write!(f, " inner-dot1q {inner}")?;
                }
                f.write_str(if *exact { " exact-match" } else { "" })
            }
        }
    }
}
