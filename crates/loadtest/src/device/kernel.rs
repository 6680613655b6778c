//! Linux as the device under test: a network namespace of its own between two pairs of veth, that routes as the
//! router under test does.

use super::process::done;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// The namespace; dropping it takes it and its interfaces away.
#[derive(Debug)]
pub struct KernelDevice {
    namespace: String,
    links: [String; 2],
    /// How the load tester's ports are to be opened.
    pub ports: [String; 2],
}

impl KernelDevice {
    /// Makes it.
    ///
    /// # Errors
    /// What cannot be done here: it takes root and the 'ip' command.
    pub fn start() -> Result<KernelDevice, String> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number =
            format!("{}{}", std::process::id(), (b'a' + (STARTED.fetch_add(1, Ordering::Relaxed) % 26) as u8) as char);
        let links = [0, 1].map(|port| format!("qlt{number}{port}"));
        let wrong = |error: String| format!("the kernel under test (as root, with iproute2): {error}");
        let ports = [1, 2].map(|net| {
            let link = &links[net - 1];
            format!("af_packet:{link},ip=100.64.{net}.2/30,ip=2001:2:0:{net}::2/64,gw=100.64.{net}.1")
        });
        let device = KernelDevice { namespace: format!("quiver-loadtest-{number}"), links, ports };
        device.make().map_err(wrong)?;
        Ok(device)
    }

    fn make(&self) -> Result<(), String> {
        let namespace = self.namespace.as_str();
        done("ip", &["netns", "add", namespace])?;
        let inside = |words: &[&str]| done("ip", &[&["-n", namespace], words].concat());
        let set = |key: &str, value: &str| {
            let script = format!("echo {value} > /proc/sys/net/{key}");
            done("ip", &["netns", "exec", namespace, "sh", "-c", &script])
        };
        set("ipv4/ip_forward", "1")?;
        let has_ip6 = Path::new("/proc/sys/net/ipv6").exists();
        if has_ip6 {
            set("ipv6/conf/all/forwarding", "1")?;
            set("ipv6/conf/default/accept_dad", "0")?;
        }
        for (port, link) in self.links.iter().enumerate() {
            let (end, net) = (format!("e{port}"), port + 1);
            done(
                "ip",
                &[
                    "link", "add", link, "mtu", "9200", "type", "veth", "peer", "name", &end, "mtu", "9200", "netns",
                    namespace,
                ],
            )?;
            done("ip", &["link", "set", link, "up"])?;
            inside(&["link", "set", &end, "up"])?;
            inside(&["address", "add", &format!("100.64.{net}.1/30"), "dev", &end])?;
            let network = ["16.0.0.0/8", "48.0.0.0/8"][port];
            inside(&["route", "add", network, "via", &format!("100.64.{net}.2")])?;
            if has_ip6 {
                inside(&["-6", "address", "add", &format!("2001:2:0:{net}::1/64"), "dev", &end, "nodad"])?;
                let network = ["2001:2:0:16::/64", "2001:2:0:48::/64"][port];
                inside(&["-6", "route", "add", network, "via", &format!("2001:2:0:{net}::2")])?;
            }
        }
        if has_mpls() {
            set("mpls/platform_labels", "1024")?;
            for port in ["e0", "e1"] {
                set(&format!("mpls/conf/{port}/input"), "1")?;
            }
            inside(&["-f", "mpls", "route", "add", "16", "via", "inet", "100.64.2.2", "dev", "e1"])?;
            inside(&["-f", "mpls", "route", "add", "17", "via", "inet", "100.64.1.2", "dev", "e0"])?;
        }
        Ok(())
    }
}

/// Whether this kernel forwards labels.
pub fn has_mpls() -> bool {
    Path::new("/proc/sys/net/mpls").exists()
}

impl Drop for KernelDevice {
    fn drop(&mut self) {
        for link in &self.links {
            let _ = done("ip", &["link", "del", link]);
        }
        let _ = done("ip", &["netns", "del", &self.namespace]);
    }
}
