//! What a rewrite node finds wrong with a packet that it was to send on.

/// Why a packet is not sent to its next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It came in a frame for all stations.
    Group,
    /// It would take a loopback address to a network.
    Loopback,
    /// Its sender gets a report, which is in scratch.
    Reported,
}
