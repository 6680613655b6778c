//! Why a pair cannot be made, changed or removed.

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
    #[error("{0} is a sub-interface, and pairs of sub-interfaces are not implemented yet: make one of its parent")]
    SubInterface(String),
}

router::codes! { LcpError {
    Paired => "lcp-paired",
    IsHostSide => "lcp-is-host-side",
    OfLinux => "lcp-of-linux",
    HostTaken => "lcp-host-taken",
    ToItself => "lcp-to-itself",
    NoPair => "lcp-no-pair",
    NoFrames => "lcp-no-frames",
    SubInterface => "lcp-sub-interface",
} }
