//! The DHCP clients as the control thread keeps them: the states of RFC 2131 figure 5.
//!
//! A client sends when something is due ([`Router::tick`]) or a server has answered. It pauses while its interface
//! cannot be used. When the interface can be used again, it asks whether its lease still holds (INIT-REBOOT). A lease
//! is an address of the interface and, when the server names a router, a default route of its own source. An operator's
//! default route takes precedence over that one.

use super::Event;
use super::input::{Expected, NAME};
use crate::local;
use graph::{InterfaceIndex, PerInterface};
pub use router::agenda::{Agenda, Timed};
use router::capability::Change;
use router::interface::Interface;
use router::interface::InterfaceError;
use router::ip::control::{Path, PathAction, Source};
use router::{Error, Router, random};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::checksum::pseudo_header4;
use wire::dhcp::{self, CLIENT_PORT, Kind, Message, SERVER_PORT};
use wire::ethernet::EtherType;
use wire::ipv4::{self, Protocol};
use wire::{Family, MacAddress, Prefix, Prefix4, udp};

const TTL: u8 = 64;
/// RFC 2131 4.1: the first and the longest pause between two tries. It doubles each time, and varies by up to a second.
const FIRST_PAUSE: u64 = 4;
const LAST_PAUSE: u64 = 64;
const JITTER: Duration = Duration::from_secs(1);
/// Unanswered requests for an address before the client begins anew: about a minute.
const MAX_REQUESTS: u32 = 4;
/// RFC 2131 4.4.5: the shortest pause between requests to keep an address.
const LEAST_RENEWAL_PAUSE: Duration = Duration::from_secs(60);
/// RFC 2131 3.1: the pause after the client declined an address.
const DECLINE_PAUSE: Duration = Duration::from_secs(10);
/// Shorter leases are refused: they would load the network with nothing but renewals.
const LEAST_LEASE: u32 = 10;
/// Shorter prefixes are refused: no network of hosts is larger.
const LEAST_LENGTH: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The interface or its link is down.
    Paused,
    /// About to look for servers.
    Init,
    /// Looking for servers.
    Selecting,
    /// A server offered an address, and the client requested it.
    Requesting,
    /// The link was down, and the client asked whether its lease still holds.
    Rebooting,
    Bound,
    /// The client asks the server that leased the address to extend the lease.
    Renewing,
    /// The client asks any server to extend the lease.
    Rebinding,
}

impl State {
    /// The name that VPP uses; VPP has fewer states.
    pub fn name(self) -> &'static str {
        match self {
            State::Paused | State::Init | State::Selecting => "DHCP_DISCOVER",
            State::Requesting | State::Rebooting => "DHCP_REQUEST",
            State::Bound => "DHCP_BOUND",
            State::Renewing => "DHCP_RENEW",
            State::Rebinding => "DHCP_REBIND",
        }
    }
}

/// An address that a server leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub prefix: Prefix4,
    pub server: Ipv4Addr,
    /// The Ethernet address to which frames to the server go.
    station: MacAddress,
    pub router: Option<Ipv4Addr>,
    pub name_servers: [Option<Ipv4Addr>; super::MAX_NAME_SERVERS],
    /// RFC 2131's T1 and T2, and the end of the lease; `None` for a lease without end.
    pub renewal: Option<Instant>,
    pub rebinding: Option<Instant>,
    pub expiry: Option<Instant>,
}

pub struct Client {
    pub hostname: Option<String>,
    pub state: State,
    pub lease: Option<Lease>,
    /// The address that a server offered and the client requested, with that server.
    offer: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The last address that the client had: it asks for this one again.
    last: Option<Ipv4Addr>,
    transaction: u32,
    /// Messages sent in this transaction.
    tries: u32,
    /// Refusals since the last lease.
    refusals: u32,
    /// When the client began to look for an address or to extend its lease.
    began: Instant,
    /// When the first message of the present request went out, and the seconds since `began` at that time.
    asked: Instant,
    seconds: u16,
    due: Option<Instant>,
    /// Messages sent in total.
    pub sent: u64,
}

impl Timed for Client {
    fn next_due(&self) -> Option<Instant> {
        self.due
    }
}

/// All clients, by interface.
pub struct DhcpClients {
    clients: Agenda<InterfaceIndex, Client>,
    /// What the node knows of them.
    expected: PerInterface<Expected>,
    /// The time of the last tick. Tests let it run ahead of the clock.
    ticked: Instant,
}

impl DhcpClients {
    pub(super) fn new(expected: PerInterface<Expected>) -> DhcpClients {
        DhcpClients { clients: Agenda::default(), expected, ticked: Instant::now() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, &Client)> {
        self.clients.iter()
    }

    pub fn get(&self, index: InterfaceIndex) -> Option<&Client> {
        self.clients.get(&index)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.clients.next_due()
    }

    fn now(&self) -> Instant {
        Instant::now().max(self.ticked)
    }
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DhcpError {
    #[error("{0} has no DHCP client (show dhcp client lists them)")]
    NoClient(String),
    #[error("'{0}' is no host name: letters, digits, - and ., at most {max} in all", max = dhcp::MAX_HOST_NAME)]
    BadHostName(String),
    #[error("{prefix} on {name} is leased by DHCP ('set dhcp client del intfc {name}' gives it back)")]
    Leased { prefix: Prefix4, name: String },
    #[error("{0} gets its address by DHCP: 'set dhcp client del intfc {0}' first")]
    ClientThere(String),
    #[error("{name} has a DHCP client, whose routes are in its table: 'set dhcp client del intfc {name}' first")]
    InTable { name: String },
}

router::codes! { DhcpError {
    NoClient => "dhcp-no-client",
    BadHostName => "dhcp-bad-host-name",
    Leased => "leased",
    ClientThere => "dhcp-client-there",
    InTable => "table-has-dhcp-client",
} }

/// How long to wait for an answer to try number `tries`, counted from 0.
fn patience(tries: u32) -> Duration {
    let pause = (FIRST_PAUSE << tries.min(8)).min(LAST_PAUSE);
    let jitter = Duration::from_millis(random::number() % (2 * JITTER.as_millis() as u64 + 1));
    Duration::from_secs(pause) - JITTER + jitter
}

/// When to ask again for what is needed before `limit`.
fn halfway(now: Instant, limit: Instant) -> Instant {
    let left = limit.saturating_duration_since(now);
    (now + (left / 2).max(LEAST_RENEWAL_PAUSE)).min(limit)
}

/// Names of hosts and domains (RFC 1123 2.1).
fn check_host_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let is_name = !name.is_empty() && name.len() <= dhcp::MAX_HOST_NAME && name.chars().all(plain);
    if is_name { Ok(()) } else { Err(DhcpError::BadHostName(name.into()).into()) }
}

fn is_host(address: Ipv4Addr) -> bool {
    (1..224).contains(&address.octets()[0]) && !address.is_loopback()
}

/// A server's text for people, as far as it is printable.
fn text_of(event: &Event) -> String {
    let plain = event.text.iter().take_while(|byte| **byte != 0);
    let text: String = plain.map(|byte| if (0x20..0x7f).contains(byte) { *byte as char } else { '?' }).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Makes an interface get its address from a DHCP server, to which it sends a host name. For an existing client
/// this changes the name, and the lease stays.
///
/// # Errors
/// When there is no such interface, it cannot have addresses of its own, or the name is not valid.
pub fn set_client(router: &mut Router, index: InterfaceIndex, hostname: Option<&str>) -> Result<(), Error> {
    hostname.map_or(Ok(()), check_host_name)?;
    let interface = router.interfaces.get(index)?;
    if !interface.has_neighbours() {
        return Err(Error::NoNeighbours(interface.name.clone()));
    }
    check_station(router, interface)?;
    let hostname = hostname.map(str::to_string);
    if let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) {
        client.hostname = hostname;
        return Ok(());
    }
    if router.state::<DhcpClients>().clients.is_empty() {
        local::listen_udp(router, Family::Ip4, CLIENT_PORT, NAME, "DHCP client")?;
    }
    let now = router.state::<DhcpClients>().now();
    let client = Client {
        hostname,
        state: State::Paused,
        lease: None,
        offer: None,
        last: None,
        transaction: 0,
        tries: 0,
        refusals: 0,
        began: now,
        asked: now,
        seconds: 0,
        due: None,
        sent: 0,
    };
    router.state_mut::<DhcpClients>().clients.insert(index, client);
    router.interfaces.get_mut(index)?.awaits_address = true;
    router.publish_facts();
    link_changed(router, index);
    tick(router, now);
    Ok(())
}

/// Removes a client and releases its lease, so that the server knows that the address is free.
///
/// # Errors
/// When the interface has no client.
pub fn remove_client(router: &mut Router, index: InterfaceIndex) -> Result<(), Error> {
    if !router.state::<DhcpClients>().clients.contains_key(&index) {
        let name = router.interfaces.get(index)?.name.clone();
        return Err(DhcpError::NoClient(name).into());
    }
    if router.is_usable(index) {
        release_lease(router, index);
    }
    forget(router, index);
    Ok(())
}

/// Removes a client, together with its lease.
pub(crate) fn forget(router: &mut Router, index: InterfaceIndex) {
    unbind(router, index);
    if router.state_mut::<DhcpClients>().clients.remove(&index).is_none() {
        return;
    }
    if let Ok(interface) = router.interfaces.get_mut(index) {
        interface.awaits_address = false;
    }
    if router.state::<DhcpClients>().clients.is_empty() {
        local::unlisten_udp(router, Family::Ip4, CLIENT_PORT);
    }
    router.publish_facts();
    publish(router, index);
}

/// What a client has must stay while it is there.
pub(crate) fn allows(router: &Router, change: &Change) -> Result<(), Error> {
    let (Change::NoAddress { interface, .. } | Change::Borrow { interface } | Change::Table { interface, .. }) =
        *change
    else {
        return Ok(());
    };
    let clients = router.state::<DhcpClients>();
    let Some(client) = clients.get(interface) else { return Ok(()) };
    let name = router.interfaces.get(interface)?.name.clone();
    match *change {
        Change::NoAddress { address: Prefix::V4(prefix), .. }
            if client.lease.as_ref().is_some_and(|lease| lease.prefix == prefix) =>
        {
            Err(DhcpError::Leased { prefix, name }.into())
        }
        Change::Borrow { .. } => Err(DhcpError::ClientThere(name).into()),
        Change::Table { family: Family::Ip4, .. } => Err(DhcpError::InTable { name }.into()),
        _ => Ok(()),
    }
}

/// Called when an interface has become usable or unusable.
pub(crate) fn link_changed(router: &mut Router, index: InterfaceIndex) {
    let (usable, now) = (router.is_usable(index), router.state::<DhcpClients>().now());
    let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
    if usable != (client.state == State::Paused) {
        return;
    }
    if usable {
        // RFC 2131 3.2: a client that knows its address asks whether it may keep it.
        client.state = if client.lease.is_some() { State::Rebooting } else { State::Init };
        (client.transaction, client.tries, client.began, client.due) = (random::number() as u32, 0, now, Some(now));
    } else {
        client.state = State::Paused;
        client.due = client.lease.as_ref().and_then(|lease| lease.expiry);
    }
    drop(client);
    publish(router, index);
}

/// The Ethernet address of an interface has changed: servers see it as another client.
pub(crate) fn mac_changed(router: &mut Router, index: InterfaceIndex) {
    unbind(router, index);
    let now = router.state::<DhcpClients>().now();
    let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
    client.last = None;
    if client.state != State::Paused {
        (client.state, client.due) = (State::Init, Some(now));
    }
    drop(client);
    publish(router, index);
}

pub(crate) fn tick(router: &mut Router, now: Instant) {
    router.state_mut::<DhcpClients>().ticked = router.state_mut::<DhcpClients>().ticked.max(now);
    for index in router.state::<DhcpClients>().clients.due(now) {
        due(router, index, now);
    }
}

fn due(router: &mut Router, index: InterfaceIndex, now: Instant) {
    let Some(client) = router.state::<DhcpClients>().get(index) else { return };
    let (state, lease) = (client.state, client.lease.clone());
    let has_passed = |at: fn(&Lease) -> Option<Instant>| lease.as_ref().and_then(at).is_some_and(|at| at <= now);
    let gave_up = matches!(state, State::Requesting | State::Rebooting) && client.tries >= MAX_REQUESTS;
    let mut next = None;
    if has_passed(|lease| lease.expiry) {
        log::warn!("{}: the lease of {} has expired", name_of_client(router, index), lease.expect("it passed").prefix);
        begin_anew(router, index, now);
    } else if gave_up {
        begin_anew(router, index, now);
    } else if has_passed(|lease| lease.rebinding) && matches!(state, State::Bound | State::Renewing) {
        next = Some(State::Rebinding);
    } else if state == State::Bound {
        next = Some(State::Renewing);
    }
    let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
    next.into_iter().for_each(|state| client.begin(state, now));
    let lease = client.lease.as_ref();
    client.due = match client.state {
        // There is nothing to wait for.
        State::Paused => None,
        State::Init => {
            client.begin(State::Selecting, now);
            Some(now + patience(0))
        }
        State::Selecting | State::Requesting => Some(now + patience(client.tries)),
        // Not beyond the end of the lease.
        State::Rebooting => {
            lease.and_then(|lease| lease.expiry).into_iter().chain([now + patience(client.tries)]).min()
        }
        State::Renewing => lease.and_then(|lease| lease.rebinding).map(|limit| halfway(now, limit)),
        State::Rebinding => lease.and_then(|lease| lease.expiry).map(|limit| halfway(now, limit)),
        State::Bound => None,
    };
    let state = client.state;
    drop(client);
    let kind = match state {
        State::Paused | State::Init | State::Bound => return publish(router, index),
        State::Selecting => Kind::Discover,
        _ => Kind::Request,
    };
    send_dhcp(router, index, kind, now);
}

/// Looks for servers again, at the given time.
fn begin_anew(router: &mut Router, index: InterfaceIndex, at: Instant) {
    unbind(router, index);
    if let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) {
        client.offer = None;
        client.began = at;
        if client.state != State::Paused {
            (client.state, client.due) = (State::Init, Some(at));
        }
    }
    publish(router, index);
}

/// Begins again after a refusal: the more refusals there were, the later.
fn begin_later(router: &mut Router, index: InterfaceIndex, least: Duration) {
    let now = router.state::<DhcpClients>().now();
    let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
    let pause = Duration::from_secs((1 << client.refusals.min(6)).min(LAST_PAUSE));
    client.refusals += 1;
    drop(client);
    begin_anew(router, index, now + pause.max(least));
}

/// Handles a message from a server.
pub(crate) fn handle(router: &mut Router, event: Event) {
    let index = event.interface;
    let Some(client) = router.state::<DhcpClients>().clients.get(&index) else { return };
    if event.transaction != client.transaction {
        return;
    }
    let server = match client.state {
        State::Requesting => client.offer.map(|(_, server)| server),
        State::Renewing => client.lease.as_ref().map(|lease| lease.server),
        _ => None,
    };
    let awaits = matches!(client.state, State::Requesting | State::Rebooting | State::Renewing | State::Rebinding);
    match event.kind {
        Kind::Offer if client.state == State::Selecting => take_offer(router, &event),
        Kind::Ack | Kind::Nak if awaits && server.is_some() && event.server != server => {
            log::debug!("{}: not the server that was asked answered", name_of_client(router, index));
        }
        Kind::Ack if awaits => bind(router, &event),
        Kind::Nak if awaits => {
            let (name, text) = (name_of_client(router, index), text_of(&event));
            log::warn!("{name}: the DHCP server {} refuses the address{text}", shown(event.server));
            begin_later(router, index, Duration::ZERO);
            if let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) {
                client.last = None;
            }
        }
        _ => {}
    }
}

fn take_offer(router: &mut Router, event: &Event) {
    let (index, now) = (event.interface, router.state::<DhcpClients>().now());
    match judge(router, event, now).and_then(|lease| check_lease(router, index, &lease).map(|()| lease)) {
        Ok(lease) => {
            let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
            client.offer = Some((lease.prefix.address(), lease.server));
            (client.state, client.tries) = (State::Requesting, 0);
            client.due = Some(now + patience(0));
            drop(client);
            send_dhcp(router, index, Kind::Request, now);
        }
        Err(why) => {
            let name = name_of_client(router, index);
            log::warn!(
                "{name}: the offer of {} by the DHCP server {} is refused: {why}",
                event.yours,
                shown(event.server)
            );
        }
    }
}

/// Begins a lease, or extends it.
fn bind(router: &mut Router, event: &Event) {
    let index = event.interface;
    let Some(client) = router.state::<DhcpClients>().clients.get(&index) else { return };
    let (has_lease, asked) = (client.lease.is_some(), client.asked);
    let name = name_of_client(router, index);
    let judged = judge(router, event, asked);
    // An answer that makes no valid lease does not end the present one. Until that ends, its server or another one
    // may still send a valid answer.
    if has_lease && let Err(why) = &judged {
        log::warn!("{name}: an answer of the DHCP server {} is ignored: {why}", shown(event.server));
        return;
    }
    let bound = judged.and_then(|lease| install_lease(router, index, lease));
    match bound {
        Ok(lease) => {
            let time = event.lease_time.unwrap_or_default();
            log::info!("{name}: {} is leased by {} for {time} s", lease.prefix, lease.server);
            let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
            (client.state, client.refusals, client.offer) = (State::Bound, 0, None);
            client.due = lease.renewal;
            client.last = Some(lease.prefix.address());
            drop(client);
            publish(router, index);
        }
        Err(why) => {
            log::warn!("{name}: {} of the DHCP server {} is declined: {why}", event.yours, shown(event.server));
            decline(router, event);
            begin_later(router, index, DECLINE_PAUSE);
        }
    }
}

/// The lease that a server's answer makes, or why the answer makes none. The times count from when the client asked
/// (RFC 2131 4.4.1).
fn judge(router: &Router, event: &Event, asked: Instant) -> Result<Lease, String> {
    let server = event.server.ok_or("it does not say who the server is")?;
    if !is_host(server) {
        return Err(format!("the server says that it is {server}, which is no host's address"));
    }
    // Without a mask only the router can be reached.
    let mask = u32::from(event.mask.unwrap_or(Ipv4Addr::BROADCAST));
    if mask.leading_ones() + mask.trailing_zeros() != u32::BITS && mask != u32::MAX {
        return Err(format!("{} is no mask", Ipv4Addr::from(mask)));
    }
    let length = mask.leading_ones() as u8;
    if length < LEAST_LENGTH {
        return Err(format!("a network of /{length} is too large"));
    }
    let prefix = Prefix4::new(event.yours, length).map_err(|error| error.to_string())?;
    let time = event.lease_time.ok_or("it does not say for how long")?;
    if time < LEAST_LEASE {
        return Err(format!("a lease of {time} s is too short (at least {LEAST_LEASE})"));
    }
    // RFC 2131 4.4.5: T1 is half of the lease and T2 seven eighths, when the server does not give them or they make
    // no sense.
    let told =
        (event.renewal_time.unwrap_or(time / 2), event.rebinding_time.unwrap_or((u64::from(time) * 7 / 8) as u32));
    let (renewal, rebinding) = match told {
        (renewal, rebinding) if 0 < renewal && renewal < rebinding && rebinding < time => told,
        _ => (time / 2, (u64::from(time) * 7 / 8) as u32),
    };
    let at = |seconds: u32| (time != dhcp::INFINITE).then(|| asked + Duration::from_secs(seconds.into()));
    let is_edge = |hop: Ipv4Addr| prefix.length() < 31 && (hop == prefix.first() || hop == prefix.last());
    let is_usable = |hop: &Ipv4Addr| is_host(*hop) && *hop != event.yours && !is_edge(*hop);
    // The first router on the network; else the first one beside it, because some networks give out a /32.
    let named = || event.routers.into_iter().flatten();
    let mut usable = named().filter(is_usable);
    let gateway = usable.clone().find(|gateway| prefix.contains(*gateway)).or_else(|| usable.next());
    for other in named().take_while(|named| Some(*named) != gateway) {
        log::warn!("{}: {other} cannot be the router of {prefix}", name_of_client(router, event.interface));
    }
    Ok(Lease {
        prefix,
        server,
        station: event.station,
        router: gateway,
        name_servers: event.name_servers,
        renewal: at(renewal),
        rebinding: at(rebinding),
        expiry: at(time),
    })
}

/// Refuses an address that the interface must not have.
fn check_lease(router: &Router, index: InterfaceIndex, lease: &Lease) -> Result<(), String> {
    router.check_new_address(index, lease.prefix).map_err(|error| error.to_string())
}

/// Replaces the previous lease of the interface by a new one.
fn install_lease(router: &mut Router, index: InterfaceIndex, lease: Lease) -> Result<Lease, String> {
    let before = router.state::<DhcpClients>().get(index).and_then(|client| client.lease.clone());
    let is_same = before.as_ref().is_some_and(|before| (before.prefix, before.router) == (lease.prefix, lease.router));
    if !is_same {
        unbind(router, index);
        check_lease(router, index, &lease)?;
        router.add_found_address(index, lease.prefix.into()).map_err(|error| error.to_string())?;
        if let Some(path) = default_path(index, &lease)
            && let Err(error) = router.add_route_in(
                router.table_of(index, Family::Ip4),
                default_route(),
                Source::Dhcp,
                vec![path],
                false,
            )
        {
            log::error!("{}: no default route by the lease: {error}", name_of_client(router, index));
        }
    }
    if let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) {
        client.lease = Some(lease.clone());
    }
    Ok(lease)
}

/// Removes from the interface what was leased.
fn unbind(router: &mut Router, index: InterfaceIndex) {
    let Some(lease) =
        router.state_mut::<DhcpClients>().clients.get_mut(&index).and_then(|mut client| client.lease.take())
    else {
        return;
    };
    if let Some(path) = default_path(index, &lease) {
        match router.remove_route_in(router.table_of(index, Family::Ip4), default_route(), Source::Dhcp, &[path]) {
            // The route could not be added before.
            Ok(()) | Err(Error::NoSuchRoute(_) | Error::NoSuchPath(_)) => {}
            Err(error) => log::error!("route {} is not up to date: {error}", default_route()),
        }
    }
    if let Err(error) = router.remove_address(index, lease.prefix) {
        log::error!("{}: {} is not taken away: {error}", name_of_client(router, index), lease.prefix);
    }
}

fn name_of_client(router: &Router, index: InterfaceIndex) -> String {
    router.interfaces.get(index).map_or_else(|_| index.to_string(), |interface| interface.name.clone())
}

/// Publishes the present client of an interface, or its absence, to the nodes.
fn publish(router: &mut Router, index: InterfaceIndex) {
    let mac = router.interfaces.get(index).ok().map(|interface| interface.mac);
    let expected = router.state::<DhcpClients>().clients.get(&index).zip(mac).map(|(client, mac)| {
        let rests = matches!(client.state, State::Paused | State::Init | State::Bound);
        let transaction = (!rests).then_some(client.transaction);
        Expected { interface: index, transaction, mac, sent: client.sent }
    });
    router.state_mut::<DhcpClients>().expected.set(index, expected);
    // Otherwise many changes in a row would leave as many old values behind until the next tick.
    router.graph.domain().collect();
}

/// Sends the message that the client's state requires.
fn send_dhcp(router: &mut Router, index: InterfaceIndex, kind: Kind, now: Instant) {
    let Ok(mac) = router.interfaces.get(index).map(|interface| interface.mac) else { return };
    let Some(mut client) = router.state_mut::<DhcpClients>().clients.get_mut(&index) else { return };
    if client.tries == 0 {
        client.asked = now;
    }
    client.tries += 1;
    client.sent += 1;
    let hostname = client.hostname.clone().unwrap_or_default();
    let mut message = Message::new(kind, client.transaction, mac);
    // A request repeats the `secs` of the discovery (RFC 2131 3.1).
    if client.state != State::Requesting {
        client.seconds = now.saturating_duration_since(client.began).as_secs().min(u16::MAX.into()) as u16;
    }
    message.seconds = client.seconds;
    message.host_name = hostname.as_bytes();
    // Until the client has an address, only broadcasts reach it (RFC 2131 4.1).
    message.broadcast = true;
    let mut way = To::ALL;
    match (client.state, &client.lease) {
        (State::Selecting, _) => message.requested = client.last,
        (State::Requesting, _) => {
            message.requested = client.offer.map(|(address, _)| address);
            message.server = client.offer.map(|(_, server)| server);
        }
        (State::Rebooting, Some(lease)) => message.requested = Some(lease.prefix.address()),
        (State::Renewing | State::Rebinding, Some(lease)) => {
            message.broadcast = false;
            message.client = lease.prefix.address();
            way.source = lease.prefix.address();
            if client.state == State::Renewing {
                (way.station, way.destination) = (lease.station, lease.server);
            }
        }
        _ => {}
    }
    drop(client);
    // Before the message is sent, because the answer may come quickly.
    publish(router, index);
    inject_dhcp(router, index, &way, &message);
}

/// Tells the server that the leased address is free (RFC 2131 4.4.6). Returns whether there was a lease.
pub(crate) fn release_lease(router: &mut Router, index: InterfaceIndex) -> bool {
    let Some(lease) = router.state::<DhcpClients>().get(index).and_then(|client| client.lease.clone()) else {
        return false;
    };
    let Ok(mac) = router.interfaces.get(index).map(|interface| interface.mac) else { return false };
    let mut message = Message::new(Kind::Release, random::number() as u32, mac);
    (message.client, message.server) = (lease.prefix.address(), Some(lease.server));
    let way = To { station: lease.station, source: lease.prefix.address(), destination: lease.server };
    inject_dhcp(router, index, &way, &message);
    true
}

fn decline(router: &mut Router, event: &Event) {
    let Ok(mac) = router.interfaces.get(event.interface).map(|interface| interface.mac) else { return };
    let mut message = Message::new(Kind::Decline, event.transaction, mac);
    (message.requested, message.server) = (Some(event.yours), event.server);
    inject_dhcp(router, event.interface, &To::ALL, &message);
}

fn inject_dhcp(router: &Router, index: InterfaceIndex, way: &To, message: &Message<'_>) {
    let Ok(interface) = router.interfaces.get(index) else { return };
    let mut packet = [0; ipv4::HEADER_LEN + udp::HEADER_LEN + dhcp::MAX_LEN];
    let (header, datagram) = packet.split_at_mut(ipv4::HEADER_LEN);
    let length = udp::HEADER_LEN + message.emit(&mut datagram[udp::HEADER_LEN..]);
    udp::emit(datagram, CLIENT_PORT, SERVER_PORT, length as u16);
    let pseudo_header = pseudo_header4(way.source, way.destination, Protocol::UDP.0, length as u16);
    udp::Header::new_unchecked(&mut datagram[..length]).fill_checksum(pseudo_header);
    ipv4::Repr {
        src: way.source,
        dst: way.destination,
        protocol: Protocol::UDP,
        ttl: TTL,
        dscp: 0,
        ecn: 0,
        // The packet is never fragmented, so it needs no identification (RFC 6864 4.1).
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: length as u16,
    }
    .emit(header);
    let link = interface.link_header(way.station, EtherType::IPV4);
    router.inject(index, &link, &packet[..ipv4::HEADER_LEN + length]);
}

/// Refuses an interface that cannot have an address of its own.
fn check_station(router: &Router, interface: &Interface) -> Result<(), Error> {
    router.check_borrows_nothing(interface)?;
    match interface.sub.as_ref().filter(|sub| sub.takes.tags().is_none()) {
        Some(sub) => Err(InterfaceError::NoStation { name: interface.name.clone(), takes: sub.takes }.into()),
        None => Ok(()),
    }
}

impl Client {
    /// Begins another transaction.
    fn begin(&mut self, state: State, now: Instant) {
        (self.state, self.transaction, self.tries) = (state, random::number() as u32, 0);
        // While the client finds no server, the time counts from its first attempt.
        if state != State::Rebinding {
            self.began = now;
        }
    }
}

/// The sender and receiver of a message.
struct To {
    station: MacAddress,
    source: Ipv4Addr,
    destination: Ipv4Addr,
}

impl To {
    const ALL: To =
        To { station: MacAddress::BROADCAST, source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::BROADCAST };
}

fn shown(server: Option<Ipv4Addr>) -> String {
    server.map_or_else(|| "?".into(), |server| server.to_string())
}

fn default_route() -> Prefix4 {
    Prefix4::new(Ipv4Addr::UNSPECIFIED, 0).expect("0 is a length")
}

/// The path of the default route that a lease brings.
fn default_path(index: InterfaceIndex, lease: &Lease) -> Option<Path> {
    let next_hop = lease.router?;
    // Some networks give out a /32 and a router beside it.
    let way = if lease.prefix.contains(next_hop) {
        PathAction::Via { next_hop: next_hop.into(), interface: Some(index) }
    } else {
        PathAction::OnLink { next_hop: next_hop.into(), interface: index }
    };
    Some(Path::new(way))
}
