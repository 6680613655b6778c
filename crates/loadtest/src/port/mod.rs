//! Where packets leave and come back: a device of any of this program's drivers, and the hosts behind it.

mod trex;

pub use trex::read as read_trex;

use crate::rate;
use capabilities::CAPABILITIES;
use router::capability;
use router::interface::kind::InterfaceConfig;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use wire::{MacAddress, Prefix};

/// A port as operators write it: a driver with the name of its device, then `key=value` options, separated by commas.
///
/// ```
/// use quiver_loadtest::port::PortSpec;
/// let port: PortSpec = "af_packet:eth0,ip=192.0.2.2/24,gw=192.0.2.1,speed=10g".parse().unwrap();
/// assert_eq!(port.line, Some(10e9));
/// ```
#[derive(Debug, Clone)]
pub struct PortSpec {
    /// The text as it was written.
    pub text: String,
    pub creation: Arc<dyn InterfaceConfig>,
    /// Its own addresses, and the destination of its packets.
    pub addresses: Vec<Prefix>,
    pub gateway: Option<IpAddr>,
    pub source: Option<MacAddress>,
    pub destination: Option<MacAddress>,
    /// The VLAN of the port: its own packets, ARP included, have this tag.
    pub vlan: Option<u16>,
    /// Bits a second of the line, if the device does not know it or the operator overrides it.
    pub line: Option<f64>,
}

/// Why a port specification is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortError(String);

impl std::error::Error for PortError {}
impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All ways to write a device, as alternatives.
fn drivers() -> String {
    let ports = capability::kinds(CAPABILITIES).filter_map(|kind| Some((kind.driver, kind.port.as_ref()?.operand)));
    let ways: Vec<String> = ports
        .map(|(driver, operand)| match operand {
            "" => format!("'{driver}'"),
            operand => format!("'{driver}:{operand}'"),
        })
        .collect();
    let (last, others) = ways.split_last().expect("there are drivers");
    format!("{} or {last}", others.join(", "))
}

impl FromStr for PortSpec {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortSpec, PortError> {
        let wrong = |message: String| PortError(format!("port '{text}': {message}"));
        let mut parts = text.split(',').map(str::trim);
        let device = parts.next().unwrap_or_default();
        let (driver, bound) = device.split_once(':').unwrap_or((device, ""));
        let syntax =
            capability::kinds(CAPABILITIES).find(|kind| kind.driver == driver).and_then(|kind| kind.port.as_ref());
        let syntax = syntax.filter(|syntax| syntax.operand.is_empty() == bound.is_empty());
        let mut creation = (syntax.ok_or_else(|| wrong(format!("write {}", drivers())))?.of)(bound);
        let (mut gateway, mut source, mut destination, mut vlan, mut line) = (None, None, None, None, None);
        let mut addresses: Vec<Prefix> = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let no = |what: &str| wrong(format!("'{part}': {what}"));
            match key {
                "ip" => addresses.push(value.parse().map_err(|_| no("an address with its network, as 192.0.2.2/24"))?),
                "gw" => gateway = Some(value.parse::<IpAddr>().map_err(|_| no("an address"))?),
                "src" => source = Some(value.parse::<MacAddress>().map_err(|_| no("an Ethernet address"))?),
                "dst" => destination = Some(value.parse::<MacAddress>().map_err(|_| no("an Ethernet address"))?),
                "vlan" => vlan = Some(value.parse().ok().and_then(self::vlan).ok_or_else(|| no("a VLAN, 1 to 4094"))?),
                "speed" => line = Some(rate::speed(value).map_err(|error| wrong(error.to_string()))?),
                _ => creation.set(key, value).map_err(|message| no(&message))?,
            }
        }
        if let Some(gateway) = gateway.filter(|gateway| !addresses.iter().any(|network| network.contains(*gateway))) {
            return Err(wrong(match addresses.is_empty() {
                true => "who asks for a gateway has an address itself: 'ip=ADDRESS/LENGTH'".into(),
                false => format!("the gateway {gateway} is not in a network of the port"),
            }));
        }
        Ok(PortSpec {
            text: text.into(),
            creation: creation.into(),
            addresses,
            gateway,
            source,
            destination,
            vlan,
            line,
        })
    }
}

/// A VLAN's number, if it is one (IEEE 802.1Q, 9.6: 0 is a priority alone, 4095 is reserved).
fn vlan(number: u16) -> Option<u16> {
    (1..=4094).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use devices::memif::MemifConfig;
    use drivers::memif::Role;
    use std::any::Any;

    #[test]
    fn ports_are_read() {
        let port: PortSpec = "memif:/run/x.sock,id=3,role=master,ring=512,dst=02:00:00:00:00:01".parse().unwrap();
        let creation: &dyn Any = &*port.creation;
        let MemifConfig(options) = creation.downcast_ref().expect("a memif");
        assert_eq!((options.id, options.role, options.log2_ring_size), (3, Role::Master, 9));
        assert_eq!(port.destination, Some(MacAddress([2, 0, 0, 0, 0, 1])));
        let port: PortSpec = "tap:left,netns=hosts,ip=2001:db8::2/64,gw=2001:db8::1".parse().unwrap();
        assert_eq!(port.gateway, Some("2001:db8::1".parse().unwrap()));
        assert_eq!(port.vlan, None);
        assert_eq!("null,vlan=100".parse::<PortSpec>().unwrap().vlan, Some(100));
    }

    #[test]
    fn what_is_none_is_refused_with_advice() {
        for (text, wrong) in [
            ("", "write 'null', 'tap:NAME'"),
            ("eth0", "write 'null'"),
            ("memif:", "write 'null'"),
            ("null,ip=192.0.2.1", "an address with its network"),
            ("null,gw=192.0.2.1", "who asks for a gateway has an address itself"),
            ("null,ip=192.0.2.2/24,gw=192.0.3.1", "is not in a network of the port"),
            ("null,colour=red", "'colour=red': not known of this driver"),
            ("memif:x,ring=100", "a power of two"),
            ("af_packet:eth0,queues=0", "a number from 1 to 64"),
            ("null,speed=fast", "is not a speed"),
            ("null,vlan=4095", "'vlan=4095': a VLAN, 1 to 4094"),
            ("null,vlan=0", "a VLAN, 1 to 4094"),
        ] {
            let error = text.parse::<PortSpec>().unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
