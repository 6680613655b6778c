//! How nodes of several capabilities print the headers of traced packets.

use graph::Snapshot;
use std::fmt;
use wire::pretty::Summary;

/// The IPv4 header of a traced packet and the one behind it.
pub(crate) fn trace_ip4(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", Summary::ipv4(snapshot.l3()).indented(2))
}
