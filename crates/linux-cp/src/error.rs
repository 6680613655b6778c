//! Why a pair cannot be made, changed or removed.

use router::interface::sub::VlanMatch;

/// The reasons.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LcpError {
    #[error("{phy} has a pair already: {host} ('lcp delete {phy}' removes it)")]
    Paired { phy: String, host: String },
    #[error("{0} is the Linux side of a pair itself")]
    IsHostSide(String),
    #[error("{0} leads to Linux: addresses are given to the router's interface of the pair, or in Linux")]
    OfLinux(String),
    #[error("{0} is a host interface of {1} already")]
    HostTaken(String, String),
    #[error("{0} cannot be the Linux side of itself")]
    ToItself(String),
    #[error("{0} has no pair ('show lcp' lists them)")]
    NoPair(String),
    #[error("{0} carries no Ethernet frames, and pairs of other interfaces are not implemented yet")]
    NoFrames(String),
    #[error("{0} takes frames of several VLANs: only a sub-interface with 'exact-match' can be a VLAN link in Linux")]
    NotExact(String),
    #[error("{sub} lies above {parent}, which has no pair: give it one first ('lcp create {parent} host-if NAME')")]
    ParentHasNone { sub: String, parent: String },
    #[error(
        "{sub} has two tags: in Linux it lies above a link with the outer one. Make that first: 'create \
         sub-interfaces {parent} {vid} {outer}' and 'lcp create {parent}.{vid} host-if NAME'"
    )]
    OuterHasNone { sub: String, parent: String, vid: u16, outer: VlanMatch },
    #[error("{sub} is in the namespace of the pair of {parent}: leave 'netns' out")]
    OtherNamespace { sub: String, parent: String },
    #[error("{0} is not there in Linux any more: 'lcp delete' and 'lcp create' make it anew")]
    NoSideBelow(String),
    #[error("Linux refuses the VLAN link {host}: {why}")]
    NoVlanLink { host: String, why: String },
    #[error("{host} has the VLAN identifier {vid}, which names no VLAN")]
    NoVlan { host: String, vid: u16 },
    #[error("{0} has more than two tags, or an inner one that is not 802.1Q")]
    DeepTags(String),
}

router::codes! { LcpError {
    Paired => "lcp-paired",
    IsHostSide => "lcp-is-host-side",
    OfLinux => "lcp-of-linux",
    HostTaken => "lcp-host-taken",
    ToItself => "lcp-to-itself",
    NoPair => "lcp-no-pair",
    NoFrames => "lcp-no-frames",
    NotExact => "lcp-sub-interface",
    ParentHasNone => "lcp-parent-has-none",
    OuterHasNone => "lcp-outer-has-none",
    OtherNamespace => "lcp-other-namespace",
    NoSideBelow => "lcp-no-side-below",
    NoVlanLink => "lcp-no-vlan-link",
    NoVlan => "lcp-no-vlan",
    DeepTags => "lcp-deep-tags",
} }
