//! Sub-interfaces: each takes some of the frames that its parent receives, by their VLAN
//! tags (IEEE 802.1Q), and gives the frames that it sends those tags.
//!
//! `ethernet-input` finds a frame's sub-interface in the parent's [`Demux`]; from there on the
//! packet belongs to it as to any interface. The tags of what is sent are part of the link
//! header, as adjacencies and ARP write it; `NAME-output` ([`output`]) counts and leads on to
//! the parent's output.

pub mod cli;
pub mod control;
mod demux;
pub(crate) mod output;

pub use demux::{Demux, Found, Inner};

use crate::capability::{self, Chapter, Description, Stage};
use std::fmt;
use wire::ethernet::EtherType;
use wire::vlan::{Tag, Tags};

pub(crate) const CAPABILITY: Description = Description {
    name: "vlan",
    description: "Sub-interfaces by VLAN tags (IEEE 802.1Q, 802.1ad)",
    nodes: &[capability::SUB_OUTPUT],
    commands: cli::register,
    chapters: &[Chapter {
        stage: Stage::Sending,
        title: "Interfaces, sending",
        about: "",
        nodes: &[capability::SUB_OUTPUT],
    }],
    ..Description::NONE
};

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
