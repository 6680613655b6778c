//! Router advertisements as bytes.

use super::settings::Settings;
use crate::nd::finish;
use router::interface::Interface;
use std::net::Ipv6Addr;
use wire::ipv6::HEADER_LEN;
use wire::nd::{NdOption, PrefixInformation, ROUTER_ADVERTISEMENT_LEN, RouterAdvertisement, emit_domain_name};
use wire::{Prefix6, ipv6};

/// Prefixes in one message, so that it fits the minimum MTU whatever else it holds. A link with more prefixes gets
/// several messages (RFC 4861 section 6.2.3).
const PREFIXES_AT_ONCE: usize = 16;
/// Longer than any message.
const MOST_BYTES: usize = ipv6::MIN_MTU as usize;

/// The prefixes that are advertised: those of the interface's addresses, and those that were stated.
pub(super) fn prefixes(interface: &Interface, settings: &Settings) -> Vec<Prefix6> {
    let own = interface.ip6.addresses.iter().filter(|prefix| prefix.length() < Prefix6::MAX_LENGTH);
    let mut prefixes: Vec<Prefix6> =
        own.map(|prefix| prefix.network()).chain(settings.prefixes.keys().copied()).collect();
    prefixes.sort();
    prefixes.dedup();
    prefixes.retain(|prefix| settings.of_prefix(*prefix).is_advertised);
    prefixes
}

/// The packets that tell a link, or one host on it, what there is. With `is_last` the router is no default router any
/// more.
pub(super) fn packets(
    interface: &Interface,
    settings: &Settings,
    (from, to): (Ipv6Addr, Ipv6Addr),
    is_last: bool,
) -> Vec<Vec<u8>> {
    let prefixes = prefixes(interface, settings);
    let mut parts: Vec<&[Prefix6]> = prefixes.chunks(PREFIXES_AT_ONCE).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let lifetime = if is_last { 0 } else { settings.lifetime.unwrap_or(settings.usual_lifetime()) };
    let advertisement = RouterAdvertisement {
        hop_limit: settings.hop_limit,
        managed: settings.managed,
        other: settings.other,
        preference: settings.preference,
        lifetime,
        reachable: settings.reachable,
        retransmit: settings.retransmit,
    };
    let of_part = |prefixes: &&[Prefix6]| {
        let mut packet = vec![0; MOST_BYTES];
        advertisement.emit(&mut packet[HEADER_LEN..]);
        let mut at = HEADER_LEN + ROUTER_ADVERTISEMENT_LEN;
        let mut tell = |option: NdOption<'_>| at += option.emit(&mut packet[at..]);
        if settings.tells_link_address {
            tell(NdOption::SourceLinkAddress(interface.mac));
        }
        tell(NdOption::Mtu(interface.ip6_mtu.into()));
        for prefix in *prefixes {
            let told = settings.of_prefix(*prefix);
            tell(NdOption::Prefix(PrefixInformation {
                prefix: prefix.address(),
                length: prefix.length(),
                on_link: told.on_link,
                // RFC 4862 5.5.3 (d): hosts have 64 bits of their own.
                autonomous: told.autonomous && prefix.length() == 64,
                valid: told.valid,
                preferred: told.preferred,
            }));
        }
        let usual = u32::from(settings.usual_lifetime());
        for (server, lifetime) in &settings.servers {
            let lifetime = if is_last { 0 } else { lifetime.unwrap_or(usual) };
            tell(NdOption::DnsServers { lifetime, servers: &server.octets() });
        }
        for (name, lifetime) in &settings.search {
            let lifetime = if is_last { 0 } else { lifetime.unwrap_or(usual) };
            tell(NdOption::DnsSearch { lifetime, names: &emit_domain_name(name) });
        }
        packet.truncate(at);
        finish(&mut packet, from, to);
        packet
    };
    parts.iter().map(of_part).collect()
}
