//! Addresses of devices on the PCI bus, as Linux writes them: `0000:02:00.0`.

use std::fmt;
use std::str::FromStr;

/// Domain, bus, device, function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    /// Below 32.
    pub device: u8,
    /// Below 8.
    pub function: u8,
}

impl FromStr for PciAddress {
    /// What was expected.
    type Err = String;

    /// Reads `0000:02:00.0`; without a domain (`02:00.0`) it is domain 0.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| "a PCI address, like 0000:02:00.0 ('lspci -D' lists them)".into())
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let hex = |text: &str, most: usize| {
        let fits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| u16::from_str_radix(text, 16).ok()).flatten()
    };
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
    let address = PciAddress {
        domain: hex(domain, 4)?,
        bus: u8::try_from(hex(bus, 2)?).ok()?,
        device: u8::try_from(hex(device, 2)?).ok()?,
        function: u8::try_from(hex(function, 1)?).ok()?,
    };
    (address.device < 32 && address.function < 8).then_some(address)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_lspci_prints_them() {
        for (text, shown) in
            [("0000:02:00.0", "0000:02:00.0"), ("03:1f.7", "0000:03:1f.7"), ("FfFf:ff:0.1", "ffff:ff:00.1")]
        {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "02:00", "0000:02:20.0", "0000:02:00.8", "10000:02:00.0", "0:0:0:0.0", "é:00.0", "+1:00.0"] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
