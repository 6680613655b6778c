//! Where packets leave and come back: a device of any of this program's drivers, and the hosts behind it.

mod trex;

pub use trex::read as read_trex;

use crate::rate;
use drivers::af_packet::AfPacketOptions;
use drivers::af_xdp;
use drivers::memif::{self, Role};
use drivers::tap::TapOptions;
use router::interface::InterfaceConfig;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
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
    pub creation: InterfaceConfig,
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

const DRIVERS: &str = "'null', 'tap:NAME', 'af_packet:INTERFACE', 'af_xdp:INTERFACE' or 'memif:SOCKET'";
const LOG2_RING: u8 = 10;
const BUFFER: u32 = 2048;

impl FromStr for PortSpec {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortSpec, PortError> {
        let wrong = |message: String| PortError(format!("port '{text}': {message}"));
        let mut parts = text.split(',').map(str::trim);
        let device = parts.next().unwrap_or_default();
        let (driver, bound) = device.split_once(':').unwrap_or((device, ""));
        let mut creation = match (driver, bound) {
            ("null", "") => InterfaceConfig::Null,
            ("tap", name) if !name.is_empty() => {
                InterfaceConfig::Tap(TapOptions { host_interface_name: Some(name.into()), ..TapOptions::default() })
            }
            ("af_packet", name) if !name.is_empty() => InterfaceConfig::HostInterface(AfPacketOptions {
                host_interface: name.into(),
                hw_address: None,
                queues: 1,
            }),
            ("af_xdp", name) if !name.is_empty() => InterfaceConfig::AfXdp(af_xdp::Options::new(name)),
            ("memif", socket) if !socket.is_empty() => InterfaceConfig::Memif(memif::Options {
                name: "loadtest".into(),
                id: 0,
                socket_id: 1,
                socket: socket.into(),
                role: Role::Slave,
                secret: None,
                log2_ring_size: LOG2_RING,
                buffer_size: BUFFER,
                rx_queues: 1,
                tx_queues: 1,
                hw_address: None,
                zero_copy: false,
            }),
            _ => return Err(wrong(format!("write {DRIVERS}"))),
        };
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
                _ => set(&mut creation, key, value).map_err(|message| no(&message))?,
            }
        }
        if let Some(gateway) = gateway.filter(|gateway| !addresses.iter().any(|network| network.contains(*gateway))) {
            return Err(wrong(match addresses.is_empty() {
                true => "who asks for a gateway has an address itself: 'ip=ADDRESS/LENGTH'".into(),
                false => format!("the gateway {gateway} is not in a network of the port"),
            }));
        }
        Ok(PortSpec { text: text.into(), creation, addresses, gateway, source, destination, vlan, line })
    }
}

/// A VLAN's number, if it is one (IEEE 802.1Q, 9.6: 0 is a priority alone, 4095 is reserved).
fn vlan(number: u16) -> Option<u16> {
    (1..=4094).contains(&number).then_some(number)
}

/// Sets an option of a driver.
fn set(creation: &mut InterfaceConfig, key: &str, value: &str) -> Result<(), String> {
    let number = |most: u32| match value.parse::<u32>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("a number from 1 to {most}")),
    };
    match (creation, key) {
        (InterfaceConfig::Tap(options), "netns") => options.host_namespace = Some(value.into()),
        (InterfaceConfig::Tap(options), "queues") => options.queues = number(64)? as u16,
        (InterfaceConfig::Tap(options), "id") => options.id = number(1 << 20)?,
        (InterfaceConfig::HostInterface(options), "queues") => options.queues = number(64)? as u16,
        (InterfaceConfig::AfXdp(options), "netns") => options.namespace = Some(value.into()),
        (InterfaceConfig::AfXdp(options), "queues") => options.queues = Some(number(64)? as u16),
        (InterfaceConfig::Memif(options), "id") => options.id = value.parse().map_err(|_| "a number")?,
        (InterfaceConfig::Memif(options), "role") => {
            options.role = match value {
                "master" => Role::Master,
                "slave" => Role::Slave,
                _ => return Err("'master' or 'slave'".into()),
            }
        }
        (InterfaceConfig::Memif(options), "queues") => {
            options.rx_queues = number(64)? as u16;
            options.tx_queues = options.rx_queues;
        }
        (InterfaceConfig::Memif(options), "ring") => {
            let size = number(1 << 14)?;
            if !size.is_power_of_two() {
                return Err("a power of two".into());
            }
            options.log2_ring_size = size.ilog2() as u8;
        }
        (InterfaceConfig::Memif(options), "secret") => {
            let mut secret = [0; memif::SECRET];
            let place = secret.get_mut(..value.len()).filter(|place| !place.is_empty());
            place.ok_or("1 to 24 bytes")?.copy_from_slice(value.as_bytes());
            options.secret = Some(secret);
        }
        (InterfaceConfig::Memif(options), "buffer") => options.buffer_size = number(1 << 16)?,
        (_, _) => {
            return Err(
                "not known of this driver: there are ip, gw, src, dst, vlan, speed, and of most drivers queues".into(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let port: PortSpec = "memif:/run/x.sock,id=3,role=master,ring=512,dst=02:00:00:00:00:01".parse().unwrap();
        let InterfaceConfig::Memif(options) = port.creation else { panic!("a memif") };
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
