//! Sub-interfaces: each takes some of the frames that its parent receives, by their VLAN
//! tags (IEEE 802.1Q), and gives the frames that it sends those tags.
//!
//! `ethernet-input` finds a frame's sub-interface in the parent's [`router::interface::sub::Demux`]; from there on the
//! packet belongs to it as to any interface. The tags of what is sent are part of the link
//! header, as adjacencies and ARP write it; `NAME-output` ([`router::interface::sub::output`]) counts and leads on to
//! the parent's output.

pub mod cli;

pub use router::interface::sub::{Vid, VlanMatch};

use router::capability::{self, Chapter, Description, Stage};

pub const CAPABILITY: Description = Description {
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
