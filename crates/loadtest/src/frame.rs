//! Builds frames from layers: lengths, types and checksums follow from the content.

use crate::layout::{Layout, VXLAN_PORT};
use crate::profile::Layer;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::MacAddress;

/// The addresses of a frame whose layers do not give them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    pub source: MacAddress,
    pub destination: MacAddress,
    /// The VLAN of the port: its frames get this tag, unless their layers have one.
    pub vlan: Option<u16>,
}

/// Bytes of a VLAN tag (IEEE 802.1Q, 9.3), and its place: behind both addresses.
pub const VLAN_TAG: usize = 4;
pub const VLAN_AT: usize = 12;

/// The addresses of an encapsulated frame whose layers do not give them.
const INNER: Ends =
    Ends { source: MacAddress([2, 0, 0, 0, 0, 1]), destination: MacAddress([2, 0, 0, 0, 0, 2]), vlan: None };

/// A frame of `size` bytes, without frame check sequence: its layers, padded with zeros.
///
/// # Errors
/// When the layers do not fit each other, or do not fit into the size.
pub fn build(layers: &[Layer], size: usize, ends: Ends) -> Result<Vec<u8>, String> {
    let needed = smallest(layers);
    if size < needed {
        return Err(format!("{size} bytes are too few: the headers alone have {needed}"));
    }
    let mut frame = Vec::with_capacity(size);
    // Every frame starts with Ethernet, even if the profile does not list it.
    let begins_so = matches!(layers.first(), Some(Layer::Ethernet(_) | Layer::Raw(_)));
    if !begins_so {
        ethernet(&mut frame, &Default::default(), ends);
    }
    for (at, layer) in layers.iter().enumerate() {
        let (left, next) = (size - frame.len(), layers.get(at + 1));
        let ends = if frame.is_empty() { ends } else { INNER };
        let within = Within::of(&layers[..at]);
        // Set the field of the layer before that announces this one.
        announce(&mut frame, at.checked_sub(1).map(|before| &layers[before]), layer, next)?;
        write(&mut frame, layer, left, next, ends, within)?;
    }
    if !layers.iter().any(|layer| matches!(layer, Layer::Payload(_))) {
        frame.resize(size, 0);
    }
    for sum in Layout::of(&frame).sums {
        sum.mend(&mut frame);
    }
    Ok(frame)
}

/// Whether such a frame gets the port's VLAN tag: not if the profile gives tags or raw bytes itself.
pub fn takes_port_vlan(layers: &[Layer]) -> bool {
    let first = layers.iter().find(|layer| !matches!(layer, Layer::Ethernet(_)));
    !matches!(first, Some(Layer::Vlan(_) | Layer::Raw(_)))
}

/// Inserts a VLAN tag into a frame, behind its addresses.
pub fn tag(frame: &mut Vec<u8>, vlan: u16) {
    let [high, low] = vlan.to_be_bytes();
    frame.splice(VLAN_AT..VLAN_AT, [0x81, 0x00, high, low]);
}

fn smallest(layers: &[Layer]) -> usize {
    let own = |layer: &Layer| match layer {
        Layer::Ethernet(_) => 14,
        Layer::Vlan(_) | Layer::Mpls(_) => 4,
        Layer::Ipv4(layer) => layer.header(),
        Layer::Tcp(_) => 20,
        Layer::Gre(layer) => layer.header(),
        Layer::Fragment(_) => 8,
        Layer::Ipv6(_) => 40,
        Layer::Udp(_) | Layer::Icmp(_) | Layer::Vxlan(_) => 8,
        Layer::Raw(bytes) => bytes.0.len(),
        Layer::Payload(_) => 0,
    };
    let implied = if matches!(layers.first(), Some(Layer::Ethernet(_) | Layer::Raw(_))) { 0 } else { 14 };
    implied + layers.iter().map(own).sum::<usize>()
}

fn ethernet(frame: &mut Vec<u8>, layer: &crate::profile::EthernetLayer, ends: Ends) {
    frame.extend(layer.destination.map_or(ends.destination, |mac| mac.0).0);
    frame.extend(layer.source.map_or(ends.source, |mac| mac.0).0);
    frame.extend(layer.ethertype.unwrap_or(0).to_be_bytes());
}

/// Sets the type of the next layer in the header before it.
fn announce(frame: &mut [u8], before: Option<&Layer>, layer: &Layer, next: Option<&Layer>) -> Result<(), String> {
    let ethertype = match layer {
        // The outer one of two is a service tag (IEEE 802.1Q, 9.5).
        Layer::Vlan(vlan) => Some(vlan.tpid.unwrap_or(match next {
            Some(Layer::Vlan(_)) => 0x88a8,
            _ => 0x8100,
        })),
        Layer::Mpls(_) => Some(0x8847),
        Layer::Ipv4(_) => Some(0x0800),
        Layer::Ipv6(_) => Some(0x86dd),
        _ => None,
    };
    let n = frame.len();
    match before {
        None | Some(Layer::Ethernet(_) | Layer::Vlan(_)) => match ethertype {
            Some(ethertype) if n >= 14 => frame[n - 2..].copy_from_slice(&ethertype.to_be_bytes()),
            None if matches!(layer, Layer::Ethernet(_) | Layer::Raw(_) | Layer::Payload(_)) => {}
            _ => return Err(format!("{} cannot follow Ethernet", name(layer))),
        },
        Some(Layer::Mpls(_)) => match layer {
            Layer::Mpls(_) => {}
            _ => frame[n - 2] |= 1,
        },
        Some(Layer::Ipv4(_) | Layer::Ipv6(_) | Layer::Fragment(_)) => {
            let is_v6 = !matches!(before, Some(Layer::Ipv4(_)));
            let place = match before {
                Some(Layer::Ipv4(before)) => n - before.header() + 9,
                Some(Layer::Ipv6(_)) => n - 34,
                _ => n - 8,
            };
            let protocol = match layer {
                Layer::Gre(_) => Some(47),
                Layer::Fragment(_) if matches!(before, Some(Layer::Ipv6(_))) => Some(44),
                Layer::Udp(_) => Some(17),
                Layer::Tcp(_) => Some(6),
                Layer::Icmp(_) => Some(if is_v6 { 58 } else { 1 }),
                Layer::Ipv4(_) => Some(4),
                Layer::Ipv6(_) => Some(41),
                Layer::Payload(_) | Layer::Raw(_) => None,
                _ => return Err(format!("{} cannot follow IP", name(layer))),
            };
            if let Some(protocol) = protocol {
                frame[place] = protocol;
            }
        }
        Some(Layer::Gre(before)) => {
            let protocol = match layer {
                Layer::Ipv4(_) => 0x0800_u16,
                Layer::Ipv6(_) => 0x86dd,
                Layer::Mpls(_) => 0x8847,
                Layer::Ethernet(_) => 0x6558,
                Layer::Payload(_) | Layer::Raw(_) => return Ok(()),
                _ => return Err(format!("{} cannot follow GRE", name(layer))),
            };
            let at = n - before.header() + 2;
            frame[at..at + 2].copy_from_slice(&protocol.to_be_bytes());
        }
        Some(Layer::Vxlan(_)) if !matches!(layer, Layer::Ethernet(_)) => {
            return Err("a VXLAN header is followed by 'ethernet'".into());
        }
        Some(Layer::Udp(_)) if !matches!(layer, Layer::Vxlan(_) | Layer::Payload(_) | Layer::Raw(_)) => {
            return Err(format!("{} cannot follow UDP", name(layer)));
        }
        Some(Layer::Tcp(_) | Layer::Icmp(_)) if !matches!(layer, Layer::Payload(_) | Layer::Raw(_)) => {
            return Err(format!("{} cannot follow a transport header", name(layer)));
        }
        _ => {}
    }
    Ok(())
}

fn name(layer: &Layer) -> &'static str {
    match layer {
        Layer::Ethernet(_) => "'ethernet'",
        Layer::Vlan(_) => "'vlan'",
        Layer::Mpls(_) => "'mpls'",
        Layer::Ipv4(_) => "'ipv4'",
        Layer::Ipv6(_) => "'ipv6'",
        Layer::Fragment(_) => "'fragment'",
        Layer::Gre(_) => "'gre'",
        Layer::Udp(_) => "'udp'",
        Layer::Tcp(_) => "'tcp'",
        Layer::Icmp(_) => "'icmp'",
        Layer::Vxlan(_) => "'vxlan'",
        Layer::Raw(_) => "'raw'",
        Layer::Payload(_) => "'payload'",
    }
}

/// What the headers before a layer determine.
#[derive(Clone, Copy, Default)]
struct Within {
    is_v6: bool,
    /// The checksum covers the whole packet, but only a fragment is known.
    is_fragment: bool,
}

impl Within {
    fn of(ahead: &[Layer]) -> Within {
        ahead.iter().fold(Within::default(), |within, layer| match layer {
            Layer::Ipv4(layer) => Within { is_v6: false, is_fragment: layer.mf || layer.fragment_offset > 0 },
            Layer::Ipv6(_) => Within { is_v6: true, is_fragment: false },
            Layer::Fragment(layer) => Within { is_fragment: layer.more || layer.offset > 0, ..within },
            _ => within,
        })
    }
}

fn write(
    frame: &mut Vec<u8>,
    layer: &Layer,
    left: usize,
    next: Option<&Layer>,
    ends: Ends,
    within: Within,
) -> Result<(), String> {
    let length = u16::try_from(left).map_err(|_| "longer than a packet can be".to_string())?;
    match layer {
        Layer::Ethernet(layer) => ethernet(frame, layer, ends),
        Layer::Vlan(layer) => {
            let tag = u16::from(layer.pcp) << 13 | u16::from(layer.dei) << 12 | layer.id;
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 0]);
        }
        Layer::Mpls(layer) => {
            let last = u32::from(next.is_none());
            let entry = layer.label << 12 | u32::from(layer.tc) << 9 | last << 8 | u32::from(layer.ttl);
            frame.extend(entry.to_be_bytes());
        }
        Layer::Ipv4(layer) => {
            frame.extend([0x40 | (layer.header() / 4) as u8, layer.dscp << 2 | layer.ecn]);
            frame.extend(length.to_be_bytes());
            frame.extend(layer.id.to_be_bytes());
            let flags = u16::from(layer.df) << 14 | u16::from(layer.mf) << 13;
            frame.extend((flags | layer.fragment_offset).to_be_bytes());
            frame.extend([layer.ttl, layer.protocol, 0, 0]);
            frame.extend(Ipv4Addr::octets(&layer.source));
            frame.extend(layer.destination.octets());
            // Zeros pad the options and end them (RFC 791, section 3.1).
            let options = layer.options.iter().flat_map(|options| options.0.iter().copied());
            frame.extend(options.chain(std::iter::repeat(0)).take(layer.header() - 20));
        }
        Layer::Ipv6(layer) => {
            let class = u32::from(layer.dscp << 2 | layer.ecn);
            frame.extend((6 << 28 | class << 20 | layer.flow_label).to_be_bytes());
            frame.extend((length - 40).to_be_bytes());
            frame.extend([layer.next_header, layer.hop_limit]);
            frame.extend(Ipv6Addr::octets(&layer.source));
            frame.extend(layer.destination.octets());
        }
        Layer::Fragment(layer) => {
            frame.extend([layer.next_header, 0]);
            frame.extend((layer.offset << 3 | u16::from(layer.more)).to_be_bytes());
            frame.extend(layer.id.to_be_bytes());
        }
        Layer::Gre(layer) => {
            let bit = |is_set: bool, bit: u32| u16::from(is_set) << bit;
            let flags = bit(layer.checksum, 15) | bit(layer.key.is_some(), 13) | bit(layer.sequence.is_some(), 12);
            frame.extend(flags.to_be_bytes());
            frame.extend(layer.protocol.to_be_bytes());
            if layer.checksum {
                frame.extend([0; 4]);
            }
            layer.key.iter().for_each(|key| frame.extend(key.to_be_bytes()));
            layer.sequence.iter().for_each(|sequence| frame.extend(sequence.to_be_bytes()));
        }
        Layer::Udp(layer) => {
            let is_vxlan = matches!(next, Some(Layer::Vxlan(_)));
            let destination = if is_vxlan { VXLAN_PORT } else { layer.destination };
            frame.extend(layer.source.to_be_bytes());
            frame.extend(destination.to_be_bytes());
            frame.extend(length.to_be_bytes());
            // Any value but zero: there is a checksum. An encapsulation over IPv4 has none (RFC 7348, section 5).
            frame.extend(u16::from(layer.checksum.unwrap_or(!is_vxlan && !within.is_fragment)).to_be_bytes());
        }
        Layer::Tcp(layer) => {
            frame.extend(layer.source.to_be_bytes());
            frame.extend(layer.destination.to_be_bytes());
            frame.extend(layer.sequence.to_be_bytes());
            frame.extend(layer.acknowledgement.to_be_bytes());
            frame.extend([5 << 4, layer.flags.0]);
            frame.extend(layer.window.to_be_bytes());
            frame.extend([0; 4]);
        }
        Layer::Icmp(layer) => {
            // An echo request of the packet's version of IP.
            let usual = if within.is_v6 { 128 } else { 8 };
            frame.extend([layer.kind.unwrap_or(usual), layer.code, 0, 0]);
            frame.extend(layer.id.to_be_bytes());
            frame.extend(layer.sequence.to_be_bytes());
        }
        Layer::Vxlan(layer) => {
            frame.extend([8, 0, 0, 0]);
            frame.extend((layer.vni << 8).to_be_bytes());
        }
        Layer::Raw(bytes) => frame.extend(&bytes.0),
        Layer::Payload(bytes) => {
            if next.is_some() {
                return Err("nothing can follow a payload".into());
            }
            frame.extend(bytes.0.iter().copied().cycle().take(left));
        }
    }
    Ok(())
}
