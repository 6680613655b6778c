//! Which way a message of this router's own takes. A link-local address means something on its link only, so a packet
//! from or to one may not be left to routes (RFC 4291 2.5.6).

use crate::ip6::Ip6View;
use graph::{InterfaceIndex, Row};
use router::ip::class;
use std::net::Ipv6Addr;
use tables::Leaf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyPath {
    /// That which routes say.
    Routes,
    /// Onto the link, whatever routes say; the row's target names it.
    Link,
    /// To this router; the row's target says so.
    Here,
    /// None: it would leave the link of one of its addresses.
    Nowhere,
}

/// The way of a packet with these addresses that answers one which came by `rx`, or that is to leave there.
pub(crate) fn choose(
    row: &mut Row,
    rx: InterfaceIndex,
    here: Option<&Ip6View>,
    from: Ipv6Addr,
    to: Ipv6Addr,
) -> ReplyPath {
    if !from.is_unicast_link_local() && !to.is_unicast_link_local() {
        return ReplyPath::Routes;
    }
    let Some(here) = here else { return ReplyPath::Nowhere };
    if here.owns(to) {
        row.target = Leaf::new(class::RECEIVE, rx.0).0;
        return ReplyPath::Here;
    }
    let Some(link) = here.on_link.filter(|_| here.is_attached(to)) else { return ReplyPath::Nowhere };
    row.target = Leaf::new(class::GLEAN, link).0;
    ReplyPath::Link
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip6::Settings;

    #[test]
    fn link_local_addresses_stay_on_their_link() {
        let view = |on_link: Option<u32>| {
            Ip6View::new(&Settings {
                addresses: vec!["2001:db8::1/64".parse().unwrap()],
                link_local: Some("fe80::1".parse().unwrap()),
                on_link,
                ..Settings::default()
            })
        };
        let (here, nobody_behind) = (view(Some(7)), view(None));
        let glean = Leaf::new(class::GLEAN, 7).0;
        let receive = Leaf::new(class::RECEIVE, 3).0;
        for (here, from, to, way, target) in [
            (Some(&here), "2001:db8::1", "2001:db8:9::9", ReplyPath::Routes, 0),
            (None, "2001:db8::1", "2001:db8:9::9", ReplyPath::Routes, 0),
            (Some(&here), "fe80::1", "fe80::9", ReplyPath::Link, glean),
            (Some(&here), "2001:db8::1", "fe80::9", ReplyPath::Link, glean),
            (Some(&here), "fe80::1", "2001:db8::9", ReplyPath::Link, glean),
            (Some(&here), "fe80::1", "2001:db8:9::9", ReplyPath::Nowhere, 0),
            (Some(&here), "fe80::1", "fe80::1", ReplyPath::Here, receive),
            (Some(&nobody_behind), "fe80::1", "fe80::9", ReplyPath::Nowhere, 0),
            (None, "fe80::1", "fe80::9", ReplyPath::Nowhere, 0),
        ] {
            let mut row = Row::default();
            let taken = choose(&mut row, InterfaceIndex(3), here, from.parse().unwrap(), to.parse().unwrap());
            assert_eq!((taken, row.target), (way, target), "{from} to {to}");
        }
    }
}
