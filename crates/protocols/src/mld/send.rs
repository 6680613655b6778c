//! Sends reports and queries.

use crate::ip6::Ip6View;
use graph::InterfaceIndex;
use router::Router;
use std::net::Ipv6Addr;
use std::time::Duration;
use wire::ethernet::EtherType;
use wire::icmpv6::{self, Type};
use wire::ipv6::{HEADER_LEN, Repr, next_header};
use wire::mld::{self, ALL_ROUTERS, HOP_LIMIT, MESSAGE_LEN, QUERY_LEN, ROUTER_ALERT, RecordKind};
use wire::nd::group_mac;

/// The most records in one report, so that it fits the least MTU.
pub(super) const RECORDS_AT_ONCE: usize = 60;
const BEFORE: usize = HEADER_LEN + ROUTER_ALERT.len();
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS_1: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// Reports that groups have listeners or have none any more: in version 2 many groups at once.
pub(super) fn send_report(router: &Router, index: InterfaceIndex, records: &[(RecordKind, Ipv6Addr)]) {
    for records in records.chunks(RECORDS_AT_ONCE) {
        let mut message = vec![0; mld::REPORT_LEN + mld::RECORD_LEN * records.len()];
        mld::emit_report(&mut message, records);
        send_listening(router, index, ALL_ROUTERS, &message);
    }
}

/// The same for one group, in the form for routers of version 1 (RFC 2710 section 3).
pub(super) fn send_report_1(router: &Router, index: InterfaceIndex, group: Ipv6Addr, listens: bool) {
    let (kind, to) = match listens {
        true => (Type::LISTENER_REPORT, group),
        false => (Type::LISTENER_DONE, ALL_ROUTERS_1),
    };
    let mut message = [0; MESSAGE_LEN];
    mld::emit_message(&mut message, kind, group, 0);
    send_listening(router, index, to, &message);
}

/// Sends a query for all groups, or for one.
pub(super) fn send_query(
    router: &Router,
    index: InterfaceIndex,
    group: Option<Ipv6Addr>,
    response: Duration,
    interval: u8,
) {
    let mut message = [0; QUERY_LEN];
    let asked = group.unwrap_or(Ipv6Addr::UNSPECIFIED);
    mld::emit_message(&mut message, Type::LISTENER_QUERY, asked, response.as_millis() as u16);
    // How many lost queries to tolerate, and the interval between general queries (RFC 3810 sections 5.1.8, 5.1.9).
    (message[24], message[25]) = (super::control::ROBUSTNESS, interval);
    send_listening(router, index, group.unwrap_or(ALL_NODES), &message);
}

/// Sends a message from the link-local address, or from :: while that address is not in use (RFC 3590).
fn send_listening(router: &Router, index: InterfaceIndex, to: Ipv6Addr, message: &[u8]) {
    let Ok(interface) = router.interfaces.get(index) else { return };
    let from = Ip6View::new(&interface.ip6).used_link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
    let mut packet = vec![0; BEFORE + message.len()];
    packet[HEADER_LEN..BEFORE].copy_from_slice(&ROUTER_ALERT);
    packet[BEFORE..].copy_from_slice(message);
    icmpv6::Header::new_checked(&mut packet[BEFORE..]).expect("it has a header").fill_checksum(from, to);
    Repr {
        src: from,
        dst: to,
        next_header: next_header::HOP_BY_HOP,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: (packet.len() - HEADER_LEN) as u16,
    }
    .emit(&mut packet[..HEADER_LEN]);
    router.inject(index, &interface.link_header(group_mac(to), EtherType::IPV6), &packet);
}
