//! A memif as a kind of interfaces.

use super::Memif;
use drivers::memif::{self, Options, Role, SECRET};
use drivers::{Device, OpenError, stand_in};
use router::Router;
use router::interface::kind::{self, InterfaceConfig, option};
use wire::MacAddress;

/// A load test's port at a socket.
pub(super) fn port(socket: &str) -> Options {
    Options { name: "loadtest".into(), ..Options::new(Role::Slave, 0, 1, socket) }
}

/// A secret of up to 24 bytes.
pub(super) fn secret(text: &str) -> Option<[u8; SECRET]> {
    let mut secret = [0; SECRET];
    secret.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
    Some(secret)
}

/// What makes one: the options of its driver.
#[derive(Debug, Clone)]
pub struct MemifConfig(pub Options);

impl InterfaceConfig for MemifConfig {
    fn default_name(&self, _: &mut Router) -> String {
        self.0.usual_name()
    }

    fn command(&self, name: &str) -> String {
        let role = if self.0.role == Role::Master { "master" } else { "slave" };
        let text = |secret: [u8; SECRET]| String::from_utf8_lossy(&secret).trim_end_matches('\0').to_string();
        [
            format!("create interface memif id {} socket-id {} {role}", self.0.id, self.0.socket_id),
            format!(" ring-size {} buffer-size {}", 1u32 << self.0.log2_ring_size, self.0.buffer_size),
            format!(" rx-queues {} tx-queues {}", self.0.rx_queues, self.0.tx_queues),
            option("hw-addr", self.0.hw_address),
            if self.0.zero_copy { " zero-copy" } else { "" }.to_string(),
            option("secret", self.0.secret.map(text)),
            format!(" name {name}"),
        ]
        .concat()
    }

    /// Its number on its socket, for one of the two sides.
    fn claims(&self) -> Vec<String> {
        vec![format!("memif {} {:?} on {}", self.0.id, self.0.role, self.0.socket)]
    }

    fn needs(&self) -> Option<String> {
        (self.0.socket_id != 0).then(|| super::config::removal(self.0.socket_id))
    }

    fn mac(&self) -> Option<MacAddress> {
        self.0.hw_address
    }

    fn held(&self) -> Option<String> {
        self.claims().pop()
    }

    fn open(&self, router: &mut Router, name: &str) -> Result<Device, OpenError> {
        let pool = router.graph.pool().clone();
        router.state_mut::<Memif>().open(Options { name: name.into(), ..self.0.clone() }, &pool)
    }

    fn stand_in(&self) -> Device {
        stand_in::open(memif::DRIVER, memif::INPUT, None, self.0.rx_queues)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "id" => self.0.id = value.parse().map_err(|_| "a number")?,
            "role" => {
                self.0.role = match value {
                    "master" => Role::Master,
                    "slave" => Role::Slave,
                    _ => return Err("'master' or 'slave'".into()),
                }
            }
            "queues" => {
                self.0.rx_queues = kind::queues(value)?;
                self.0.tx_queues = self.0.rx_queues;
            }
            "ring" => {
                let size = kind::number(value, 1 << 14)?;
                if !size.is_power_of_two() {
                    return Err("a power of two".into());
                }
                self.0.log2_ring_size = size.ilog2() as u8;
            }
            "secret" => {
                let given = Some(value).filter(|value| !value.is_empty());
                self.0.secret = Some(given.and_then(secret).ok_or("1 to 24 bytes")?);
            }
            "buffer" => self.0.buffer_size = kind::number(value, 1 << 16)?,
            _ => return Err(kind::NO_SUCH_OPTION.into()),
        }
        Ok(())
    }
}
