//! Where routes come from.

/// Who added a route. The first source in this order that has a working path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An address of an interface.
    Interface,
    /// An operator.
    Config,
    /// A program, or a file of routes.
    Api,
    /// A routing daemon, by the Forwarding Plane Manager's protocol.
    Fpm,
    /// Linux: an operator or a routing daemon there.
    Linux,
    /// A DHCP lease that names a router.
    Dhcp,
    /// A next hop that another route requires on the link.
    OnLink,
    /// A resolved neighbour.
    Neighbour,
    /// A host that the router answers for on other links.
    Proxy,
}

impl Source {
    pub const ALL: [Source; 9] = [
        Source::Interface,
        Source::Config,
        Source::Api,
        Source::Fpm,
        Source::Linux,
        Source::Dhcp,
        Source::OnLink,
        Source::Neighbour,
        Source::Proxy,
    ];

    /// The name that VPP uses.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Config => "CLI",
            Source::Api => "API",
            Source::Fpm => "fpm",
            Source::Linux => "lcp-rt",
            Source::Dhcp => "DHCP",
            Source::OnLink => "on-link",
            Source::Neighbour => "adjacency",
            Source::Proxy => "IP6-proxy-nd",
        }
    }
}
