//! How an interface is created: the options for opening its device, and the command with the same options, so that a
//! saved configuration creates it again.

use super::Interface;
use crate::memif::Memif;
use crate::{Devices, Error, Router};
use drivers::af_packet::{self, AfPacketOptions};
use drivers::af_xdp;
use drivers::memif::{self, Role};
use drivers::tap::{self, TapOptions};
use drivers::{Device, OpenError, loopback, null, pg, stand_in};
use graph::{InterfaceIndex, Pool};
use std::io::ErrorKind;
use std::sync::Arc;
use wire::MacAddress;

/// The kind of an interface, with the options that it was requested with.
#[derive(Debug, Clone)]
pub enum InterfaceConfig {
    Tap(TapOptions),
    HostInterface(AfPacketOptions),
    AfXdp(af_xdp::Options),
    PacketGenerator,
    Null,
    Loopback(LoopbackOptions),
    Memif(memif::Options),
}

/// The options of a loopback interface.
#[derive(Debug, Clone)]
pub struct LoopbackOptions {
    /// The loopback's number, which its default name contains.
    pub instance: u32,
    pub mac: Option<MacAddress>,
}

impl InterfaceConfig {
    /// The name of an interface that was created without one.
    pub fn default_name(&self, router: &mut Router) -> String {
        match self {
            InterfaceConfig::Tap(options) => format!("tap{}", options.id),
            InterfaceConfig::HostInterface(options) => format!("host-{}", options.host_interface),
            InterfaceConfig::AfXdp(options) => format!("{}/0", options.host_interface),
            InterfaceConfig::PacketGenerator => router.free_name("pg"),
            InterfaceConfig::Null => router.free_name("null"),
            InterfaceConfig::Loopback(options) => format!("loop{}", options.instance),
            InterfaceConfig::Memif(options) => options.usual_name(),
        }
    }

    /// The command that creates it under a name.
    pub fn command(&self, name: &str) -> String {
        let option =
            |word: &str, value: Option<String>| value.map_or(String::new(), |value| format!(" {word} {value}"));
        let queues = |queues: u16| (queues > 1).then(|| queues.to_string());
        match self {
            InterfaceConfig::Tap(options) => [
                format!("create tap id {} name {name}", options.id),
                option("host-if-name", options.host_interface_name.clone()),
                option("host-ns", options.host_namespace.clone()),
                option("host-ip4-addr", options.host_ip4.map(|prefix| prefix.to_string())),
                option("host-ip6-addr", options.host_ip6.map(|prefix| prefix.to_string())),
                option("host-ip4-gw", options.host_gateway4.map(|gateway| gateway.to_string())),
                option("host-ip6-gw", options.host_gateway6.map(|gateway| gateway.to_string())),
                option("host-bridge", options.host_bridge.clone()),
                option("host-mac-addr", options.host_mac.map(|mac| mac.to_string())),
                option("host-mtu-size", options.host_mtu.map(|mtu| mtu.to_string())),
                option("hw-addr", options.hw_address.map(|mac| mac.to_string())),
                option("num-rx-queues", queues(options.queues)),
            ]
            .concat(),
            InterfaceConfig::HostInterface(options) => {
                let mac = option("hw-addr", options.hw_address.map(|mac| mac.to_string()));
                let queues = option("num-rx-queues", queues(options.queues));
                // VPP's long form, because a host interface may be called `name`.
                format!("create host-interface name {}{mac}{queues} interface-name {name}", options.host_interface)
            }
            InterfaceConfig::AfXdp(options) => format!("{} name {name}", super::af_xdp::command(options)),
            InterfaceConfig::PacketGenerator => format!("create packet-generator interface {name}"),
            InterfaceConfig::Null => format!("create null interface name {name}"),
            InterfaceConfig::Loopback(options) => {
                let mac = option("mac", options.mac.map(|mac| mac.to_string()));
                format!("create loopback interface instance {}{mac} name {name}", options.instance)
            }
            InterfaceConfig::Memif(options) => {
                let role = if options.role == Role::Master { "master" } else { "slave" };
                let text =
                    |secret: [u8; memif::SECRET]| String::from_utf8_lossy(&secret).trim_end_matches('\0').to_string();
                [
                    format!("create interface memif id {} socket-id {} {role}", options.id, options.socket_id),
                    format!(" ring-size {} buffer-size {}", 1u32 << options.log2_ring_size, options.buffer_size),
                    format!(" rx-queues {} tx-queues {}", options.rx_queues, options.tx_queues),
                    option("hw-addr", options.hw_address.map(|mac| mac.to_string())),
                    if options.zero_copy { " zero-copy" } else { "" }.to_string(),
                    option("secret", options.secret.map(text)),
                    format!(" name {name}"),
                ]
                .concat()
            }
        }
    }

    /// What only one interface can have: a host interface in its namespace, or a number (of a TAP, of a loopback, or on
    /// a memif socket).
    pub fn claims(&self) -> Vec<String> {
        match self {
            InterfaceConfig::Tap(options) => {
                let name = options.host_interface_name.clone().unwrap_or_else(|| format!("tap{}", options.id));
                let on_host = format!("{} {name}", options.host_namespace.as_deref().unwrap_or(""));
                vec![on_host, format!("tap id {}", options.id)]
            }
            InterfaceConfig::HostInterface(options) => vec![format!(" {}", options.host_interface)],
            InterfaceConfig::AfXdp(options) => {
                vec![format!("{} {}", options.namespace.as_deref().unwrap_or(""), options.host_interface)]
            }
            InterfaceConfig::Loopback(options) => vec![format!("loopback instance {}", options.instance)],
            InterfaceConfig::Memif(options) => {
                vec![format!("memif {} {:?} on {}", options.id, options.role, options.socket)]
            }
            InterfaceConfig::PacketGenerator | InterfaceConfig::Null => vec![],
        }
    }

    /// The commands that remove what must exist first.
    pub fn needs(&self) -> Option<String> {
        match self {
            InterfaceConfig::Memif(options) if options.socket_id != 0 => {
                Some(crate::memif::config::removal(options.socket_id))
            }
            _ => None,
        }
    }

    fn driver(&self) -> &'static str {
        match self {
            InterfaceConfig::Tap(_) => "tap",
            InterfaceConfig::HostInterface(_) => "af_packet",
            InterfaceConfig::AfXdp(_) => "af_xdp",
            InterfaceConfig::PacketGenerator => "pg",
            InterfaceConfig::Null => "null",
            InterfaceConfig::Loopback(_) => "loopback",
            InterfaceConfig::Memif(_) => "memif",
        }
    }

    /// The Ethernet address that was requested.
    fn mac(&self) -> Option<MacAddress> {
        match self {
            InterfaceConfig::Tap(options) => options.hw_address,
            InterfaceConfig::HostInterface(options) => options.hw_address,
            InterfaceConfig::AfXdp(options) => options.hw_address,
            InterfaceConfig::Loopback(options) => options.mac,
            InterfaceConfig::Memif(options) => options.hw_address,
            InterfaceConfig::PacketGenerator | InterfaceConfig::Null => None,
        }
    }

    /// The host interface that it lies on.
    fn host(&self) -> Option<String> {
        match self {
            InterfaceConfig::Tap(options) => {
                Some(options.host_interface_name.clone().unwrap_or_else(|| format!("tap{}", options.id)))
            }
            InterfaceConfig::HostInterface(options) => Some(options.host_interface.clone()),
            InterfaceConfig::AfXdp(options) => Some(options.host_interface.clone()),
            InterfaceConfig::PacketGenerator
            | InterfaceConfig::Null
            | InterfaceConfig::Loopback(_)
            | InterfaceConfig::Memif(_) => None,
        }
    }

    /// What another interface can have only after this one's device is closed: the host interface, or the number on a
    /// memif socket.
    pub(super) fn held(&self) -> Option<String> {
        match self {
            InterfaceConfig::Memif(_) => self.claims().pop(),
            _ => self.host(),
        }
    }

    fn open(&self, name: &str, number: u32, memifs: &mut Memif, pool: &Arc<Pool>) -> Result<Device, OpenError> {
        Ok(match self {
            InterfaceConfig::Tap(options) => tap::open(options.clone())?,
            InterfaceConfig::HostInterface(options) => af_packet::open(options.clone())?,
            InterfaceConfig::AfXdp(options) => af_xdp::open(options, pool)?,
            InterfaceConfig::PacketGenerator => pg::open(number),
            InterfaceConfig::Null => null::open(number),
            InterfaceConfig::Loopback(options) => loopback::open(options.instance, options.mac),
            InterfaceConfig::Memif(options) => {
                memifs.open(memif::Options { name: name.into(), ..options.clone() }, pool)?
            }
        })
    }

    /// A stand-in for the device: records what would be opened, and touches nothing of the host.
    fn stand_in(&self) -> Device {
        if let InterfaceConfig::Loopback(options) = self {
            return loopback::open(options.instance, options.mac);
        }
        let queues = match self {
            InterfaceConfig::Tap(options) => options.queues,
            InterfaceConfig::HostInterface(options) => options.queues,
            // Only the device knows how many queues it has.
            InterfaceConfig::AfXdp(options) => options.queues.unwrap_or(af_xdp::MAX_QUEUES),
            InterfaceConfig::Memif(options) => options.rx_queues,
            InterfaceConfig::PacketGenerator | InterfaceConfig::Null | InterfaceConfig::Loopback(_) => 0,
        };
        stand_in::open(self.driver(), self.host(), queues)
    }
}

impl Router {
    /// Makes an interface with its device; it starts administratively down.
    ///
    /// # Errors
    /// When the name is malformed or taken, the host interface is in use here already, or
    /// the system refuses; then nothing has changed.
    pub fn create(&mut self, name: &str, creation: InterfaceConfig) -> Result<InterfaceIndex, Error> {
        self.check_new_name(name)?;
        if let InterfaceConfig::HostInterface(options) = &creation {
            let host = &options.host_interface;
            let on_host = self.interfaces.iter().find(|interface| interface.is_on_host(host));
            if let Some(interface) = on_host {
                return Err(Error::HostInterfaceTaken { host: host.clone(), name: interface.name.clone() });
            }
        }
        if let InterfaceConfig::AfXdp(options) = &creation {
            let claims = creation.claims();
            let has_it = |other: &&Interface| other.creation.as_ref().is_some_and(|other| other.claims() == claims);
            if let Some(taken) = self.interfaces.iter().find(has_it) {
                let host = options.host_interface.clone();
                return Err(Error::HostInterfaceTaken { host, name: taken.name.clone() });
            }
        }
        if let InterfaceConfig::Tap(options) = &creation
            && let Some(taken) = self.interfaces.claimed(&format!("tap id {}", options.id))
        {
            return Err(Error::TapTaken { id: options.id, name: taken.name.clone() });
        }
        if let InterfaceConfig::Loopback(options) = &creation
            && let Some(taken) = creation.claims().first().and_then(|claim| self.interfaces.claimed(claim))
        {
            return Err(Error::LoopbackTaken { instance: options.instance, name: taken.name.clone() });
        }
        if let Some(mac) = creation.mac().filter(|mac| mac.is_multicast() || mac.is_zero()) {
            return Err(Error::BadInterfaceMac(mac));
        }
        let device = match self.devices {
            Devices::Real => self.open(name, &creation)?,
            Devices::DryRun => creation.stand_in(),
        };
        self.operation(|router| {
            let index = router.create_interface(name, device)?;
            router.interfaces.made_by(index, creation)?;
            Ok(index)
        })
    }

    /// Opens the device of an interface that is to be created ([`Router::create_interface`]). A device that was removed
    /// just now stays open until the workers give it up and the janitor closes it. Until then the host would refuse
    /// another of its name, or hand out the old one. So this waits until such a device is closed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(&mut self, name: &str, creation: &InterfaceConfig) -> Result<Device, OpenError> {
        let number = self.interfaces.free_device(creation.driver());
        let unheard = match creation.held().is_some_and(|held| self.closing.contains(&held)) {
            true => self.await_closing(),
            false => None,
        };
        match (creation.open(name, number, &mut self.memif, self.graph.pool()), unheard) {
            (Err(OpenError::System { what, source }), Some(worker)) if source.kind() == ErrorKind::ResourceBusy => {
                Err(OpenError::Refused(format!(
                    "{what}: worker {worker}, which is stuck ('show threads'), has it open still"
                )))
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits until removed devices are closed. Returns a worker that did not answer, which may still have one open.
    fn await_closing(&mut self) -> Option<usize> {
        // Workers handle messages in order: one that answers has given up removed devices before.
        let unheard = (0..self.graph.workers()).find(|worker| self.graph.ask(*worker, |_| ()).is_err());
        if self.graph.janitor().wait() && unheard.is_none() {
            self.closing.clear();
        }
        unheard
    }
}
