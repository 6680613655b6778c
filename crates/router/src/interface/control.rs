//! Interfaces as control keeps them, and the operations on them.

use super::facts::SubInterfaces;
use super::output::Output;
use super::queues::{OWNER, ReceiveQueue, TransmitQueues};
use super::{Creation, Facts, FactsTable, InterfaceCounters, Mtus};
use crate::handoff::Handoff;
use crate::ip::control::{Source, TableIndex};
use crate::ip6::Facts6;
use crate::span::Session;
use crate::vlan::Demux;
use crate::vlan::control::Sub;
use crate::{Error, Router};
use crate::{ip4, ip6};
use drivers::output::DeviceOutput;
use drivers::{Device, Finishes, Link, Transmit};
use graph::registry::MAX_INTERFACES;
use graph::{Behaviour, InterfaceIndex, NodeIndex};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::ethernet::EtherType;
use wire::vlan::{LinkHeader, Tags};
use wire::{Family, MacAddress, Prefix, Prefix4};

/// Longest interface name: what Linux and VPP's tables can show.
pub const MAX_NAME: usize = 63;
/// Bounds of the MTU: what IPv4 asks for (RFC 791), and the largest jumbo frame.
pub const MIN_MTU: u16 = 68;
pub const MAX_MTU: u16 = 9216;

/// An interface.
pub struct Interface {
    pub index: InterfaceIndex,
    pub name: String,
    pub driver: &'static str,
    pub description: String,
    /// The host's interface that it lies on, when it does.
    pub host: Option<String>,
    /// What made it, unless it was made of a device by the program.
    pub creation: Option<Creation>,
    pub mac: MacAddress,
    /// The device's own, or the parent's, for when an operator's is taken away.
    pub(crate) device_mac: MacAddress,
    /// Extra addresses whose frames it takes.
    pub secondary_macs: Vec<MacAddress>,
    /// The device is asked for every frame that it sees.
    pub promiscuous: bool,
    /// Largest network-layer packet, of any protocol and of IPv4: what follows from `mtus` and
    /// what the device carries.
    pub mtu: u16,
    pub ip4_mtu: u16,
    pub ip6_mtu: u16,
    pub mtus: Mtus,
    /// The device's own when it was opened, or what the parent carries.
    pub(crate) device_mtu: u16,
    /// An operator set the address.
    pub mac_is_set: bool,
    pub admin_up: bool,
    /// What operators said of IPv4 on it.
    pub ip4: ip4::Settings,
    /// The same of IPv6.
    pub ip6: ip6::Settings,
    /// Answers for the addresses of `set arp proxy`.
    pub proxy_arp: bool,
    pub addresses: Vec<Prefix4>,
    /// The one of them that a DHCP server leased.
    pub(crate) leased: Option<Prefix4>,
    /// It may get one.
    pub(crate) has_dhcp_client: bool,
    /// Whose addresses it uses when it is unnumbered.
    pub lender: Option<InterfaceIndex>,
    /// The VLAN tags that its frames carry.
    pub tags: Tags,
    /// Who gets copies of its packets, by destination.
    pub span: Vec<Session>,
    /// The edge of `span-output` to its tx node.
    pub(crate) span_wire: u16,
    /// What makes it a sub-interface, when it is one.
    pub sub: Option<Sub>,
    /// Whose its frames are, once it has had a sub-interface.
    pub(crate) demux: Option<Arc<Demux>>,
    /// What was published of it last.
    facts: RefCell<Option<Arc<Facts>>>,
    pub(crate) link: Box<dyn Link>,
    /// What it said of its carrier last ([`super::link_watch`]).
    pub(crate) link_is_up: bool,
    /// Edges to its output: from `interface-output` and from `ip4-rewrite`.
    pub(crate) output_edge: u16,
    pub(crate) rewrite_edge: u16,
    pub(crate) rewrite6_edge: u16,
    /// What its device finishes by itself.
    pub finishes: Finishes,
    /// None: its device brings nothing.
    pub receive_queues: Vec<ReceiveQueue>,
    pub transmit_queues: TransmitQueues,
    /// The workers among which its packets are shared out.
    pub handoff: Option<Handoff>,
    pub(crate) input_node: &'static str,
    pub(crate) output_node: NodeIndex,
    pub(crate) tx_node: NodeIndex,
}

impl Interface {
    /// Whether it is set up: of a sub-interface, that packets pass its parent, too.
    pub fn is_up(&self) -> bool {
        self.admin_up && self.sub.as_ref().is_none_or(|sub| sub.parent_up)
    }

    /// Whether packets can leave by it.
    pub fn is_usable(&self) -> bool {
        self.is_up() && self.link_is_up
    }

    /// Whether it had a carrier when it was looked at last; a sub-interface has its parent's
    /// ([`Interfaces::link_up`]).
    pub fn link_up(&self) -> bool {
        self.link_is_up
    }

    /// Whether there is a wire that could be pulled out.
    pub(crate) fn has_wire(&self) -> bool {
        !self.receive_queues.is_empty()
    }

    /// The name of a sub-interface without its number; of others, their own.
    pub fn parent_name(&self) -> &str {
        match &self.sub {
            Some(_) => self.name.rsplit_once('.').map_or(&self.name, |(parent, _)| parent),
            None => &self.name,
        }
    }

    /// Whether it takes part in IPv4.
    pub fn is_ip4_enabled(&self) -> bool {
        !self.addresses.is_empty() || self.lender.is_some() || self.has_dhcp_client
    }

    /// The addresses that operators gave it: all but the leased one.
    pub(crate) fn stated_addresses(&self) -> impl Iterator<Item = &Prefix4> {
        self.addresses.iter().filter(|prefix| self.leased != Some(**prefix))
    }

    /// The same of a family.
    pub(crate) fn stated_networks(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.stated_addresses().copied().map(Prefix::from)),
            Family::Ip6 => Box::new(self.ip6.addresses.iter().copied().map(Prefix::from)),
        }
    }

    /// Its addresses of a family with their networks, that of the link only included.
    pub fn networks(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.addresses.iter().copied().map(Prefix::from)),
            Family::Ip6 => {
                let link_local = self.ip6.link_local.map(ip6::link_local_network);
                Box::new(self.ip6.addresses.iter().copied().chain(link_local).map(Prefix::from))
            }
        }
    }

    /// The address that it speaks IPv6 with to a peer: one of the peer's scope, on its network if there is one.
    pub(crate) fn address6_towards(&self, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        let facts = Facts6::new(&self.ip6);
        facts.address_towards(peer).or(facts.used_link_local())
    }

    /// The table of its addresses of a family, and of the packets that it receives.
    pub fn table(&self, family: Family) -> TableIndex {
        match family {
            Family::Ip4 => self.ip4.table,
            Family::Ip6 => self.ip6.table,
        }
    }

    pub(crate) fn table_mut(&mut self, family: Family) -> &mut TableIndex {
        match family {
            Family::Ip4 => &mut self.ip4.table,
            Family::Ip6 => &mut self.ip6.table,
        }
    }

    /// The edge to its output of the node that forwards packets of a family.
    pub(crate) fn rewrite_edge(&self, family: Family) -> u16 {
        match family {
            Family::Ip4 => self.rewrite_edge,
            Family::Ip6 => self.rewrite6_edge,
        }
    }

    /// The longest packet of a family that leaves by it.
    pub(crate) fn ip_mtu(&self, family: Family) -> u16 {
        match family {
            Family::Ip4 => self.ip4_mtu,
            Family::Ip6 => self.ip6_mtu,
        }
    }

    /// What tells it apart from other TAPs, when it is one.
    pub fn tap_id(&self) -> Option<u32> {
        match &self.creation {
            Some(Creation::Tap(options)) => Some(options.id),
            _ => None,
        }
    }

    /// Whether it lies on top of that interface of the host.
    pub fn is_on_host(&self, host: &str) -> bool {
        self.driver == "af_packet" && self.host.as_deref() == Some(host)
    }

    /// Takes another address, when the device goes along.
    fn change_mac(&mut self, mac: MacAddress, is_set: bool) -> Result<(), Error> {
        let before = (self.mac, self.mac_is_set);
        (self.mac, self.mac_is_set) = (mac, is_set);
        self.apply_filter().inspect_err(|_| (self.mac, self.mac_is_set) = before)
    }

    /// Whether nothing is behind it: it has no neighbours.
    pub fn is_loopback(&self) -> bool {
        self.driver == "loopback"
    }

    /// The number of a loopback interface.
    pub fn loopback_instance(&self) -> Option<u32> {
        match &self.creation {
            Some(Creation::Loopback(options)) => Some(options.instance),
            _ => None,
        }
    }

    /// What stands before a network header that it sends to a station.
    pub fn link_header(&self, to: MacAddress, ethertype: EtherType) -> LinkHeader {
        self.tags.link_header(to, self.mac, ethertype)
    }
}

/// All interfaces, by index.
#[derive(Default)]
pub struct Interfaces {
    /// Boxed: most of the indices that were ever given out stand for nothing any more.
    slots: Vec<Option<Box<Interface>>>,
    last_index: usize,
    /// Indices that packets may still carry, the oldest first.
    retired: VecDeque<Retired>,
}

/// The index of an interface that is gone.
struct Retired {
    index: usize,
    /// No worker works on a packet of its any more, and none is on its way from one to another.
    is_settled: Arc<AtomicBool>,
    since: Instant,
}

/// How long nodes may hold packets (waiting for ARP, in reassembly) that came by an interface which is gone.
const HELD: Duration = Duration::from_secs(60);

impl Interfaces {
    /// # Errors
    /// When there is no interface of this index.
    pub fn get(&self, index: InterfaceIndex) -> Result<&Interface, Error> {
        self.slots.get(index.0 as usize).and_then(Option::as_deref).ok_or(Error::NoSuchInterface(format!("#{index}")))
    }

    pub(crate) fn get_mut(&mut self, index: InterfaceIndex) -> Result<&mut Interface, Error> {
        let slot = self.slots.get_mut(index.0 as usize).and_then(Option::as_deref_mut);
        slot.ok_or(Error::NoSuchInterface(format!("#{index}")))
    }

    /// # Errors
    /// When there is no interface of this name.
    pub fn find(&self, name: &str) -> Result<InterfaceIndex, Error> {
        let named = self.iter().find(|interface| interface.name == name);
        named.map(|interface| interface.index).ok_or_else(|| Error::NoSuchInterface(name.into()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    pub fn sub_interfaces_of(&self, parent: InterfaceIndex) -> impl Iterator<Item = &Interface> {
        self.iter().filter(move |interface| interface.sub.as_ref().is_some_and(|sub| sub.parent == parent))
    }

    /// Whether there is a carrier: for a sub-interface that of its parent.
    pub fn link_up(&self, interface: &Interface) -> bool {
        let parent = interface.sub.as_ref().and_then(|sub| self.get(sub.parent).ok());
        parent.unwrap_or(interface).link_up()
    }

    /// The next index that is free, after the one given out last. One comes back only when no packet can
    /// carry it any more, and when all others have been used: a packet shall not meet another interface
    /// under the number of its own.
    fn free_index(&mut self, now: Instant) -> Result<InterfaceIndex, Error> {
        let may_be_met = |gone: &Retired| {
            !gone.is_settled.load(Ordering::Acquire) || now.saturating_duration_since(gone.since) < HELD
        };
        while self.retired.front().is_some_and(|gone| !may_be_met(gone)) {
            self.retired.pop_front();
        }
        let retired: HashSet<usize> = self.retired.iter().map(|gone| gone.index).collect();
        // 0 stays free: it is VPP's local0, and the value of metadata that nobody set.
        let is_free = |index: &usize| self.slots.get(*index).is_none_or(Option::is_none) && !retired.contains(index);
        let index = (self.last_index + 1..MAX_INTERFACES).chain(1..=self.last_index).find(is_free);
        self.last_index = index.ok_or(Error::TooManyInterfaces)?;
        Ok(InterfaceIndex(self.last_index as u32))
    }
}

/// Words that commands have where an interface may stand.
const WORDS_OF_COMMANDS: &[&str] = &[
    "all",
    "any",
    "blackhole",
    "default",
    "del",
    "drop",
    "flush",
    "local",
    "name",
    "null-send-prohibit",
    "null-send-unreach",
    "offlink",
    "onlink",
    "prohibit",
    "punt",
    "receive",
    "static",
    "unreach",
    "unreachable",
    "use",
    "via",
    "weight",
];

/// Names that make sense in node names, and that a command cannot take for something else:
/// a configuration must mean the same when it is read again.
fn check_name(name: &str) -> Result<(), Error> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:".contains(c));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !plain || !begins || name.len() > MAX_NAME {
        return Err(Error::BadName(name.into()));
    }
    let is_address = name.parse::<Ipv6Addr>().is_ok() || name.parse::<MacAddress>().is_ok();
    if is_address || WORDS_OF_COMMANDS.contains(&name) {
        return Err(Error::NameMeansElse(name.into()));
    }
    Ok(())
}

impl Router {
    /// A name like `tap0` that is free.
    pub fn free_name(&self, stem: &str) -> String {
        (0..).map(|n| format!("{stem}{n}")).find(|name| self.interfaces.find(name).is_err()).expect("endless")
    }

    /// Refuses a name that cannot be given to a new interface.
    ///
    /// # Errors
    /// When it is malformed or taken.
    pub fn check_new_name(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        match self.interfaces.find(name) {
            Ok(_) => Err(Error::NameTaken(name.into())),
            Err(_) => Ok(()),
        }
    }

    /// Makes an interface of a device; it starts administratively down.
    ///
    /// # Errors
    /// When the name is malformed or taken, or a table is full; then nothing has changed
    /// and the device is closed.
    pub fn create_interface(&mut self, name: &str, device: Device) -> Result<InterfaceIndex, Error> {
        self.check_new_name(name)?;
        self.add_interface(name, device, None)
    }

    /// [`Router::create_interface`], of a device or of a share in a parent's.
    pub(crate) fn add_interface(
        &mut self,
        name: &str,
        device: Device,
        sub: Option<Sub>,
    ) -> Result<InterfaceIndex, Error> {
        let index = self.interfaces.free_index(Instant::now())?;
        let Device { driver, input_node, description, host, mac, mtu, finishes, receive, transmit, link } = device;
        let receive_queues = self.attach_receive(input_node, index, receive)?;
        let owner = receive_queues.first().map_or(OWNER, |queue| queue.thread);
        let transmit_queues = TransmitQueues::of(&*transmit, owner);
        let registered = match &sub {
            None => self.register_output(name, index, finishes, transmit, owner),
            Some(sub) => self.register_sub_output(name, index, sub.parent),
        };
        let (tx_node, output_node) = registered.inspect_err(|_| self.detach_receive(input_node, index))?;
        // A sub-interface has its parent's.
        let device = sub.as_ref().and_then(|sub| self.interfaces.get(sub.parent).ok());
        let (to_output, to_tx) =
            (format!("{name}-output"), format!("{}-tx", device.map_or(name, |device| &device.name)));
        let from = &self.nodes;
        let ways = [
            (from.interface.output, &to_output),
            (from.ip4.rewrite, &to_output),
            (from.ip6.rewrite, &to_output),
            (from.span.output, &to_tx),
        ];
        let connected: Result<Vec<_>, _> = ways.into_iter().map(|(node, to)| self.graph.connect(node, to)).collect();
        let [output_edge, rewrite_edge, rewrite6_edge, span_wire] =
            connected.map(|edges| [edges[0], edges[1], edges[2], edges[3]]).inspect_err(|_| {
                self.detach_receive(input_node, index);
                self.graph.remove(output_node);
                if sub.is_none() {
                    self.graph.remove(tx_node);
                }
            })?;
        let interface = Interface {
            index,
            name: name.into(),
            driver,
            description,
            host,
            creation: None,
            mac,
            device_mac: mac,
            secondary_macs: Vec::new(),
            promiscuous: false,
            mtu: mtu.clamp(MIN_MTU, MAX_MTU),
            ip4_mtu: mtu.clamp(MIN_MTU, MAX_MTU),
            ip6_mtu: mtu.clamp(MIN_MTU, MAX_MTU),
            mtus: Mtus::default(),
            device_mtu: mtu,
            mac_is_set: false,
            ip4: Default::default(),
            ip6: Default::default(),
            admin_up: false,
            proxy_arp: false,
            addresses: Vec::new(),
            leased: None,
            has_dhcp_client: false,
            lender: None,
            tags: sub.as_ref().and_then(|sub| sub.takes.tags()).unwrap_or(Tags::NONE),
            span: Vec::new(),
            span_wire,
            sub,
            demux: None,
            facts: RefCell::default(),
            link_is_up: link.is_up(),
            link,
            output_edge,
            rewrite_edge,
            rewrite6_edge,
            finishes,
            receive_queues,
            transmit_queues,
            handoff: None,
            input_node,
            output_node,
            tx_node,
        };
        let at = index.0 as usize;
        if self.interfaces.slots.len() <= at {
            self.interfaces.slots.resize_with(at + 1, || None);
        }
        self.interfaces.slots[at] = Some(Box::new(interface));
        self.clear_interface_counters(index);
        self.publish_facts();
        Ok(index)
    }

    /// The two nodes of an interface's output side.
    fn register_output(
        &mut self,
        name: &str,
        index: InterfaceIndex,
        finishes: Finishes,
        transmit: Box<dyn Transmit>,
        owner: usize,
    ) -> Result<(NodeIndex, NodeIndex), Error> {
        let tx = self.counters.tx.clone();
        let spec = DeviceOutput::spec(name, transmit.edges());
        let node = |queue| Behaviour::Map(Box::new(DeviceOutput::new(index, queue, tx.clone())) as Box<dyn graph::Map>);
        // Each worker has its own, where that makes sense; else one owns it.
        let tx_node = match transmit.another(owner) {
            Some(_) => {
                let own = |worker| transmit.another(worker).expect("as there was one");
                self.graph.register(spec, |worker| node(own(worker)))?
            }
            None => {
                let only = RefCell::new(Some(transmit));
                self.graph.register_owned(spec, owner, || node(only.take().expect("asked for once")))?
            }
        };
        let facts = self.facts.clone();
        // The only edge beyond the drops leads to the tx node.
        let tx_edge = Output::spec(name).edges.len() as u16;
        let output_node = self.graph.register(Output::spec(name), move |_| {
            Behaviour::Expand(Box::new(Output::new(index, facts.clone(), finishes, tx_edge)))
        });
        let output_node = output_node.inspect_err(|_| self.graph.remove(tx_node))?;
        let edge = self.graph.connect(output_node, &format!("{name}-tx"))?;
        assert_eq!(edge, tx_edge);
        Ok((tx_node, output_node))
    }

    /// Removes an interface with its routes and neighbours.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_interface(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let subs: Vec<InterfaceIndex> = self.interfaces.sub_interfaces_of(index).map(|sub| sub.index).collect();
        subs.iter().chain([&index]).try_for_each(|gone| self.check_lends_nothing(*gone))?;
        for sub in subs {
            self.delete_interface(sub)?;
        }
        self.set_admin(index, false)?;
        self.forget_dhcp_client(index);
        for prefix in self.interfaces.get(index)?.addresses.clone() {
            self.remove_address(index, prefix)?;
        }
        self.forget_advertising(index);
        self.listening.forget(index);
        self.forget_ip6(index)?;
        self.flush_neighbours(index, true);
        self.remove_paths_of(index);
        self.forget_proxied_hosts(index);
        self.forget_listener(index);
        let interface = self.interfaces.slots[index.0 as usize].take().expect("looked up above");
        if let Some(sub) = &interface.sub {
            self.forget_frames_of(sub);
        }
        self.detach_receive(interface.input_node, index);
        self.forget_streams(index);
        self.forget_redirects(index);
        self.forget_punts(index);
        self.publish_facts();
        self.graph.remove(interface.output_node);
        if interface.sub.is_none() {
            self.graph.remove(interface.tx_node);
        }
        let is_settled = Arc::new(AtomicBool::new(false));
        let settled = is_settled.clone();
        self.graph.when_settled(move || settled.store(true, Ordering::Release));
        self.closing.extend(interface.host);
        self.graph.janitor().put_away(interface.link);
        let retired = Retired { index: index.0 as usize, is_settled, since: Instant::now() };
        self.interfaces.retired.push_back(retired);
        Ok(())
    }

    /// Brings neighbours and routes in line with interfaces of which each is up now, or down.
    pub(crate) fn settle(&mut self, changed: &[(InterfaceIndex, bool)]) {
        // Streams can be received on any interface.
        let states = changed.to_vec();
        self.on_generators(move |generator| states.iter().for_each(|(index, up)| generator.set_up(*index, *up)));
        for (index, _) in changed.iter().filter(|(_, up)| !up) {
            // Who is on the wire when it comes back is not known.
            self.flush_neighbours(*index, false);
            self.suspend_detection(*index);
        }
        changed.iter().for_each(|(index, _)| self.install_by(*index));
        changed.iter().for_each(|(index, _)| self.dhcp_link_changed(*index));
        for (index, _) in changed.iter().filter(|(_, up)| *up) {
            self.announce_all(*index);
            self.detect_all_duplicates(*index);
        }
    }

    /// Takes every path that names an interface off the operators' routes.
    fn remove_paths_of(&mut self, gone: InterfaceIndex) {
        // Those on the link go with the paths that insist on them.
        let routes = self.routes_by(gone).into_iter().filter(|(_, _, source, _)| *source != Source::OnLink);
        for (table, prefix, source, paths) in routes {
            if let Err(error) = self.remove_route_in(table, prefix, source, &paths) {
                log::error!("route {prefix} is not up to date: {error}");
            }
        }
    }

    /// Sets an interface up or down. Its connected routes come and go with it.
    ///
    /// # Errors
    /// When there is none, or the system refuses to bring the device up.
    pub fn set_admin(&mut self, index: InterfaceIndex, up: bool) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        if interface.admin_up == up {
            return Ok(());
        }
        interface.link.set_admin(up).map_err(|source| Error::Device { name: interface.name.clone(), source })?;
        interface.admin_up = up;
        interface.link_is_up = interface.link.is_up();
        self.links.hurry(Instant::now());
        let interface = self.interfaces.get(index)?;
        let node = interface.input_node;
        let states = self.state_changed(index);
        self.publish_facts();
        // Null devices and the generator's are in no driver's input.
        if let Ok(input) = self.graph.find(node) {
            self.tell_input(input, move |input| input.set_up(index, up));
        }
        self.settle(&states);
        Ok(())
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When there is no such interface, the address is a group's, or an extra one of the interface.
    pub fn set_mac(&mut self, index: InterfaceIndex, mac: MacAddress) -> Result<(), Error> {
        if mac.is_multicast() || mac.is_zero() {
            return Err(Error::BadInterfaceMac(mac));
        }
        let interface = self.interfaces.get_mut(index)?;
        interface.check_not_secondary(mac)?;
        let is_new = interface.mac != mac;
        interface.change_mac(mac, true)?;
        if is_new {
            self.mac_changed(index);
        }
        Ok(())
    }

    /// Goes back to the device's own Ethernet address.
    ///
    /// # Errors
    /// When there is no such interface, or that is an extra address of it by now.
    pub fn reset_mac(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        interface.check_not_secondary(interface.device_mac)?;
        let is_new = interface.mac != interface.device_mac;
        interface.change_mac(interface.device_mac, false)?;
        if is_new {
            self.mac_changed(index);
        }
        Ok(())
    }

    /// Answers ARP requests for the addresses of `set arp proxy`, or not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_proxy_arp(&mut self, index: InterfaceIndex, answers: bool) -> Result<(), Error> {
        self.interfaces.get_mut(index)?.proxy_arp = answers;
        self.publish_facts();
        Ok(())
    }

    /// Gives an interface another name.
    ///
    /// # Errors
    /// When there is no such interface, or the name is malformed or taken.
    pub fn rename_interface(&mut self, index: InterfaceIndex, name: &str) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if interface.name == name {
            return Ok(());
        }
        if interface.sub.is_some() {
            let (name, parent) = (interface.name.clone(), interface.parent_name().to_string());
            return Err(Error::NamedAfterParent { name, parent });
        }
        let (output, tx) = (interface.output_node, interface.tx_node);
        self.check_new_name(name)?;
        let subs = self.names_below(index, name);
        subs.iter().try_for_each(|(_, _, name)| self.check_new_name(name))?;
        self.graph.rename(output, &format!("{name}-output"))?;
        self.graph.rename(tx, &format!("{name}-tx"))?;
        self.interfaces.get_mut(index)?.name = name.into();
        for (sub, output, name) in subs {
            self.graph.rename(output, &format!("{name}-output"))?;
            self.interfaces.get_mut(sub)?.name = name;
        }
        Ok(())
    }

    /// Makes the counters of an interface read zero.
    pub fn clear_interface_counters(&mut self, index: InterfaceIndex) {
        let at = [index.0 as usize];
        let InterfaceCounters { rx, tx, ip4, ip6, punts } = &self.counters;
        for table in [rx, tx, ip4, ip6, punts] {
            table.clear(at);
        }
        self.graph.counters().drops.clear(at);
    }

    /// Sends a frame out of an interface: a link header and what follows it.
    pub(crate) fn inject(&self, interface: InterfaceIndex, header: &LinkHeader, payload: &[u8]) {
        let node = self.nodes.interface.inject;
        let (frame, header_length) = ([header, payload].concat(), header.len());
        self.graph.call_one(OWNER, move |core| {
            if let Some(inject) = core.node::<super::inject::Inject>(node) {
                inject.send(interface, frame, header_length);
            }
        });
    }

    /// Publishes what the data path knows of interfaces.
    pub(crate) fn publish_facts(&self) {
        let facts = |interface: &Interface| Facts {
            index: interface.index,
            mac: interface.mac,
            stations: interface.secondary_macs.clone(),
            up: interface.is_up(),
            addresses: self.interfaces.addresses_of(interface),
            ip4_enabled: interface.is_ip4_enabled(),
            ip4_table: interface.ip4.table,
            ip6: Facts6::new(&interface.ip6),
            source_check: interface.ip4.source_check,
            tags: interface.tags,
            span: interface.listeners(),
            handoff: self.shares(interface),
            sub_interfaces: interface.demux.clone().map(SubInterfaces),
            output: interface.output_edge,
            proxy_arp: interface.proxy_arp,
        };
        let shared = |interface: &Interface| {
            let facts = facts(interface);
            let mut known = interface.facts.borrow_mut();
            if known.as_deref() != Some(&facts) {
                *known = Some(Arc::new(facts));
            }
            known.clone()
        };
        let table = self.interfaces.slots.iter().map(|slot| slot.as_deref().and_then(shared));
        self.facts.publish(FactsTable(table.collect()));
        // Many changes in a row must not leave as many tables behind until the next tick.
        self.graph.domain().collect();
        self.publish_icmp_policy();
        self.publish_punts();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_comes_back_when_no_packet_can_carry_it() {
        let mut interfaces = Interfaces { last_index: MAX_INTERFACES - 2, ..Interfaces::default() };
        let start = Instant::now();
        let settled: Vec<Arc<AtomicBool>> = (1..MAX_INTERFACES).map(|_| Arc::default()).collect();
        for (index, is_settled) in (1..MAX_INTERFACES).zip(&settled) {
            interfaces.retired.push_back(Retired { index, is_settled: is_settled.clone(), since: start });
        }
        let next = |interfaces: &mut Interfaces, seconds| {
            interfaces.free_index(start + Duration::from_secs(seconds)).map(|index| index.0).ok()
        };
        assert_eq!(next(&mut interfaces, 61), None, "a worker has not come to it");
        settled[..2].iter().for_each(|settled| settled.store(true, Ordering::Relaxed));
        assert_eq!(next(&mut interfaces, 59), None, "a node may hold one");
        assert_eq!(next(&mut interfaces, 60), Some(1));
        assert_eq!(next(&mut interfaces, 60), Some(2));
        assert_eq!(interfaces.retired.len(), MAX_INTERFACES - 3);
    }
}
