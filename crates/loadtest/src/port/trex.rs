//! Ports as T-Rex's configuration has them (`/etc/trex_cfg.yaml`, version 2): `interfaces`, and `port_info` with `ip`
//! and `default_gw`, or `src_mac` and `dest_mac`, and a `vlan`. What speaks of DPDK and of T-Rex's own threads is
//! read over.

use super::{PortError, PortSpec, vlan};
use command::Files;
use serde::Deserialize;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use wire::MacAddress;

#[derive(Deserialize)]
struct Entry {
    version: u32,
    interfaces: Vec<String>,
    /// How many of them are used.
    port_limit: Option<usize>,
    #[serde(default)]
    port_info: Vec<Info>,
    port_bandwidth_gb: Option<f64>,
}

#[derive(Deserialize, Default)]
struct Info {
    ip: Option<Ipv4Addr>,
    default_gw: Option<Ipv4Addr>,
    src_mac: Option<Mac>,
    dest_mac: Option<Mac>,
    vlan: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Mac {
    Bytes([u8; 6]),
    Text(String),
}

impl Mac {
    fn address(&self) -> Result<MacAddress, PortError> {
        match self {
            Mac::Bytes(bytes) => Ok(MacAddress(*bytes)),
            Mac::Text(text) => text.parse().map_err(|_| PortError(format!("'{text}' is not an Ethernet address"))),
        }
    }
}

/// Bytes of such a file: one of hundreds of ports takes some thousand.
const MOST: u64 = 1 << 20;

/// Reads the ports of such a file.
///
/// # Errors
/// What is wrong with it, with its place, or with a port.
pub fn read(file: &Path) -> Result<Vec<PortSpec>, PortError> {
    let within = |message: String| PortError(format!("{}: {message}", file.display()));
    let text = Files::anywhere().read_text(file, MOST).map_err(|error| within(error.why().into()))?;
    ports(&text, &interface_of).map_err(|PortError(message)| within(message))
}

fn ports(text: &str, interface_of: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<PortSpec>, PortError> {
    let entries: Vec<Entry> = serde_saphyr::from_str(text).map_err(|error| PortError(error.to_string()))?;
    let [entry] = &entries[..] else { return Err(PortError("there is to be one entry, '- version: 2'".into())) };
    if entry.version != 2 {
        return Err(PortError(format!("version {}: version 2 is known", entry.version)));
    }
    if entry.port_info.len() > entry.interfaces.len() {
        return Err(PortError(format!(
            "{} 'port_info' for {} 'interfaces'",
            entry.port_info.len(),
            entry.interfaces.len()
        )));
    }
    let default = Info::default();
    let infos = entry.port_info.iter().chain(std::iter::repeat(&default));
    entry
        .interfaces
        .iter()
        .zip(infos)
        .take(entry.port_limit.unwrap_or(usize::MAX))
        .map(|(name, info)| {
            let device = match name.as_str() {
                // An odd number of ports is made even with it.
                "dummy" => "null".into(),
                name if name.contains(':') && name.starts_with(|c: char| c.is_ascii_hexdigit()) && is_pci(name) => {
                    format!("af_xdp:{}", interface_of(name).map_err(PortError)?)
                }
                // Our own drivers may be named, too.
                name if name.contains(':') => name.into(),
                name => format!("af_xdp:{name}"),
            };
            let mut spec: PortSpec = device.parse()?;
            if let (Some(ip), Some(gateway)) = (info.ip, info.default_gw) {
                spec.addresses = vec![wire::Prefix::V4(network(ip, gateway))];
                spec.gateway = Some(gateway.into());
            }
            spec.source = info.src_mac.as_ref().map(Mac::address).transpose()?;
            spec.destination = info.dest_mac.as_ref().map(Mac::address).transpose()?;
            if let Some(number) = info.vlan {
                // T-Rex writes 0 for none.
                let wrong = || PortError(format!("'vlan: {number}' of '{name}': a VLAN is 1 to 4094, and 0 is none"));
                spec.vlan = if number == 0 { None } else { Some(vlan(number).ok_or_else(wrong)?) };
            }
            spec.line = entry.port_bandwidth_gb.map(|gigabits| gigabits * 1e9);
            Ok(spec)
        })
        .collect()
}

/// The address in the smallest network that has the gateway, too, and in which both are hosts.
fn network(ip: Ipv4Addr, gateway: Ipv4Addr) -> wire::Prefix4 {
    let is_host = |address: u32, length: u8| {
        let rest = u32::MAX >> length;
        address & rest != 0 && address & rest != rest
    };
    let (a, b) = (ip.to_bits(), gateway.to_bits());
    let length =
        (1..=30).rev().find(|length| (a ^ b) >> (32 - length) == 0 && is_host(a, *length) && is_host(b, *length));
    wire::Prefix4::new(ip, length.unwrap_or(1)).expect("a length of 1 to 30")
}

/// `5:00.0`, `05:00.0` or `0000:05:00.0`.
fn is_pci(text: &str) -> bool {
    pci(text).is_some()
}

fn pci(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts: Vec<&str> = rest.split(':').collect();
    if parts.len() == 2 {
        parts.insert(0, "0");
    }
    let [domain, bus, device] = parts[..] else { return None };
    let hex = |text: &str, most| u32::from_str_radix(text, 16).ok().filter(|number| *number <= most);
    Some(format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        hex(domain, 0xffff)?,
        hex(bus, 0xff)?,
        hex(device, 0x1f)?,
        hex(function, 7)?
    ))
}

/// The interface of Linux that lies on a PCI device.
fn interface_of(device: &str) -> Result<String, String> {
    let address = pci(device).ok_or_else(|| format!("'{device}' is no PCI address"))?;
    let directory = format!("/sys/bus/pci/devices/{address}");
    if !Path::new(&directory).exists() {
        return Err(format!("there is no PCI device {address} (lspci lists them)"));
    }
    let names = fs::read_dir(format!("{directory}/net")).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|name| name.file_name().to_string_lossy().into()).collect();
    names.sort();
    names.into_iter().next().ok_or_else(|| {
        format!(
            "no interface of Linux lies on PCI device {address}: bound to a driver of DPDK, it is to be given back \
             to the \
             kernel (dpdk-devbind.py -b DRIVER {address})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(device: &str) -> Result<String, String> {
        Ok(format!("eth-{}", pci(device).expect("only those are asked for")))
    }

    #[test]
    fn files_of_the_talk_are_read() {
        let text = "\
- version: 2
  interfaces: ['5:00.0', '5:00.1']
  port_info:
      - ip        : 100.65.1.2
        default_gw: 100.65.1.1
      - ip        : 100.65.2.2
        default_gw: 100.65.2.1
";
        let ports = ports(text, &found).unwrap();
        assert_eq!(ports[0].text, "af_xdp:eth-0000:05:00.0");
        assert_eq!(ports[1].addresses[0].to_string(), "100.65.2.2/30");
        assert_eq!(ports[1].gateway, Some("100.65.2.1".parse().unwrap()));
        let text = "\
- version: 2
  interfaces: ['05:00.0', 'veth1', dummy, 'memif:/run/x.sock']
  port_bandwidth_gb: 10
  c: 6
  port_info:
      - src_mac   : [0x0A,0x0B,0x0C,0x01,0x02,0xAA] # Mac A
        dest_mac  : [0x0A,0x0B,0x0C,0x01,0x02,0xBB] # Mac B
      - src_mac   : '0a:0b:0c:01:02:bb'
        dest_mac  : 0a:0b:0c:01:02:aa
";
        let ports = super::ports(text, &found).unwrap();
        assert_eq!(
            ports.iter().map(|port| &port.text[..]).collect::<Vec<_>>(),
            ["af_xdp:eth-0000:05:00.0", "af_xdp:veth1", "null", "memif:/run/x.sock"]
        );
        assert_eq!(ports[0].source, Some(MacAddress([10, 11, 12, 1, 2, 0xaa])));
        assert_eq!(ports[1].destination, Some(MacAddress([10, 11, 12, 1, 2, 0xaa])));
        assert_eq!(ports[0].line, Some(10e9));
        let text = "\
- port_limit      : 2
  version         : 2
  low_end         : true
  interfaces      : [\"af_packet:a0\",\"af_packet:a1\",\"af_packet:a2\"]
  port_info       :
                 - default_gw  : 1.1.1.1
                   ip          : 2.2.2.2
                   vlan        : 100
                 - dest_mac        :   [0x0,0x0,0x0,0x1,0x0,0x00]
                   src_mac         :   [0x0,0x0,0x0,0x2,0x0,0x00]
                   vlan            : 0
  memory          :
             mbuf_64     : 16380
";
        let ports = super::ports(text, &found).unwrap();
        assert_eq!(ports.iter().map(|port| port.vlan).collect::<Vec<_>>(), [Some(100), None], "two of three");
    }

    #[test]
    fn networks_have_both_as_hosts() {
        for (ip, gateway, network) in [
            ("100.65.1.2", "100.65.1.1", "100.65.1.2/30"),
            ("192.0.2.3", "192.0.2.4", "192.0.2.3/29"),
            ("10.0.0.5", "10.0.1.1", "10.0.0.5/23"),
        ] {
            assert_eq!(super::network(ip.parse().unwrap(), gateway.parse().unwrap()).to_string(), network);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, wrong) in [
            ("- version: 2\n", "interfaces"),
            ("- version: 3\n  interfaces: []\n", "version 2 is known"),
            ("- version: 2\n  interfaces: [a]\n  port_info:\n    - ip: 1.2.3\n", "line 4"),
            (
                "- version: 2\n  interfaces: [a]\n  port_info:\n    - src_mac: nonsense\n",
                "'nonsense' is not an Ethernet address",
            ),
            ("- version: 2\n  interfaces: [a]\n  port_info: [{}, {}]\n", "2 'port_info' for 1 'interfaces'"),
            (
                "- version: 2\n  interfaces: [a]\n  port_info: [{ vlan: 4095 }]\n",
                "'vlan: 4095' of 'a': a VLAN is 1 to 4094",
            ),
            ("hello", ""),
        ] {
            let error = ports(text, &found).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(wrong), "{text}: {error}");
        }
        assert!(interface_of("ff:1f.7").unwrap_err().contains("there is no PCI device 0000:ff:1f.7"));
    }
}
