//! A memif as a kind of interfaces.

use super::Memif;
use crate::Router;
use crate::interface::kind::{self, InterfaceConfig, option};
use drivers::memif::{self, Options, Role, SECRET};
use drivers::{Device, OpenError, stand_in};
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

impl InterfaceConfig for Options {
    fn default_name(&self, _: &mut Router) -> String {
        self.usual_name()
    }

    fn command(&self, name: &str) -> String {
        let role = if self.role == Role::Master { "master" } else { "slave" };
        let text = |secret: [u8; SECRET]| String::from_utf8_lossy(&secret).trim_end_matches('\0').to_string();
        [
            format!("create interface memif id {} socket-id {} {role}", self.id, self.socket_id),
            format!(" ring-size {} buffer-size {}", 1u32 << self.log2_ring_size, self.buffer_size),
            format!(" rx-queues {} tx-queues {}", self.rx_queues, self.tx_queues),
            option("hw-addr", self.hw_address),
            if self.zero_copy { " zero-copy" } else { "" }.to_string(),
            option("secret", self.secret.map(text)),
            format!(" name {name}"),
        ]
        .concat()
    }

    /// Its number on its socket, for one of the two sides.
    fn claims(&self) -> Vec<String> {
        vec![format!("memif {} {:?} on {}", self.id, self.role, self.socket)]
    }

    fn needs(&self) -> Option<String> {
        (self.socket_id != 0).then(|| super::config::removal(self.socket_id))
    }

    fn mac(&self) -> Option<MacAddress> {
        self.hw_address
    }

    fn held(&self) -> Option<String> {
        self.claims().pop()
    }

    fn open(&self, router: &mut Router, name: &str) -> Result<Device, OpenError> {
        let pool = router.graph.pool().clone();
        router.state_mut::<Memif>().open(Options { name: name.into(), ..self.clone() }, &pool)
    }

    fn stand_in(&self) -> Device {
        stand_in::open(memif::DRIVER, memif::INPUT, None, self.rx_queues)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "id" => self.id = value.parse().map_err(|_| "a number")?,
            "role" => {
                self.role = match value {
                    "master" => Role::Master,
                    "slave" => Role::Slave,
                    _ => return Err("'master' or 'slave'".into()),
                }
            }
            "queues" => {
                self.rx_queues = kind::queues(value)?;
                self.tx_queues = self.rx_queues;
            }
            "ring" => {
                let size = kind::number(value, 1 << 14)?;
                if !size.is_power_of_two() {
                    return Err("a power of two".into());
                }
                self.log2_ring_size = size.ilog2() as u8;
            }
            "secret" => {
                let given = Some(value).filter(|value| !value.is_empty());
                self.secret = Some(given.and_then(secret).ok_or("1 to 24 bytes")?);
            }
            "buffer" => self.buffer_size = kind::number(value, 1 << 16)?,
            _ => return Err(kind::NO_SUCH_OPTION.into()),
        }
        Ok(())
    }
}
