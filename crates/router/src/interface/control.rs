//! The operations on interfaces.

use super::exit::Exit;
use super::ip6::Ip6View;
use super::known::{Interface, Retired};
use super::names::check_tag;
use super::output::{OUTPUT_ARC, Output};
use super::queues::{OWNER, TransmitQueues};
use super::view::SubInterfaces;
use super::{InterfaceView, Mtus};
use crate::farewell::Parting;
use crate::interface::sub::Sub;
use crate::notice::Notice;
use crate::{Error, Router, check_memory};
use drivers::output::DeviceOutput;
use drivers::{Device, Transmit, TxOffloads};
use graph::directory::Of;
use graph::{Behaviour, InterfaceIndex, NodeIndex};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use wire::MacAddress;
use wire::vlan::{LinkHeader, Tags};

/// Bounds of the MTU: what IPv4 asks for (RFC 791), and the largest jumbo frame.
pub const MIN_MTU: u16 = 68;
pub const MAX_MTU: u16 = 9216;

/// By what packets leave an interface.
pub enum Way<'a> {
    /// By its device's transmit queues.
    Device,
    /// By its parent.
    Above(Sub),
    /// By a node of its own, named `NAME-tx`, which this registers.
    Node(&'a dyn Fn(&mut Router, InterfaceIndex) -> Result<NodeIndex, Error>),
}

impl Router {
    /// Makes an interface of a device; it starts administratively down.
    ///
    /// # Errors
    /// When the name is malformed or taken, or a table is full; then nothing has changed
    /// and the device is closed.
    pub fn create_interface(&mut self, name: &str, device: Device) -> Result<InterfaceIndex, Error> {
        self.add_interface(name, device, Way::Device)
    }

    /// [`Router::create_interface`], whose packets leave by its device or another way.
    pub fn add_interface(&mut self, name: &str, device: Device, way: Way<'_>) -> Result<InterfaceIndex, Error> {
        check_memory()?;
        self.check_new_name(name)?;
        let index = self.interfaces.free_index(Instant::now())?;
        let Device { driver, carries, input_node, description, host, mac, mtu, finishes, receive, transmit, link } =
            device;
        let receive_queues = self.attach_receive(input_node, index, receive)?;
        let owner = receive_queues.first().map_or(OWNER, |queue| queue.thread);
        let transmit_queues = TransmitQueues::of(&*transmit, owner, self.graph.workers());
        let (registered, sub) = match way {
            Way::Device => (self.register_output(name, index, finishes, transmit, owner), None),
            Way::Node(register) => {
                let tx_node = register(self, index);
                (tx_node.and_then(|tx_node| self.register_way_out(name, index, finishes, tx_node)), None)
            }
            Way::Above(sub) => (self.register_sub_output(name, index, sub.parent), Some(sub)),
        };
        let (tx_node, output_node) = registered.inspect_err(|_| self.detach_receive(input_node, index))?;
        // A sub-interface has its parent's.
        let device = sub.as_ref().and_then(|sub| self.interfaces.get(sub.parent).ok());
        let (to_output, to_tx) =
            (format!("{name}-output"), format!("{}-tx", device.map_or(name, |device| &device.name)));
        let connect = |(exit, node, arc): &(Exit, NodeIndex, Option<&str>)| {
            let to = if *exit == Exit::Device { &to_tx } else { &to_output };
            let edge = match arc {
                None => self.graph.connect(*node, to)?,
                Some(arc) => self.graph.connect_output(*node, to, arc, index)?,
            };
            Ok::<_, Error>((*exit, edge))
        };
        let connected: Result<_, _> = self.exits.iter().map(connect).collect();
        let edges = connected.inspect_err(|_| {
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
            carries,
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
            mpls_mtu: mtu.clamp(MIN_MTU, MAX_MTU),
            mtus: Mtus::default(),
            device_mtu: mtu,
            stated_mac: None,
            mac_is_set: false,
            ip4: Default::default(),
            ip6: Default::default(),
            admin_up: false,
            stated_up: false,
            tag: None,
            mpls: false,
            all_groups: false,
            addresses: Vec::new(),
            found: BTreeSet::new(),
            awaits_address: false,
            lender: None,
            tags: sub.as_ref().and_then(|sub| sub.takes.tags()).unwrap_or(Tags::NONE),
            sub,
            demux: None,
            link_is_up: link.is_up(),
            link,
            edges,
            finishes,
            receive_queues,
            transmit_queues,
            input_node,
            output_node,
            tx_node,
        };
        self.interfaces.put(interface);
        self.clear_interface_counters(index);
        self.publish_facts();
        self.say(Notice::Created(index));
        Ok(index)
    }

    /// The two nodes of an interface's output side.
    fn register_output(
        &mut self,
        name: &str,
        index: InterfaceIndex,
        finishes: TxOffloads,
        transmit: Box<dyn Transmit>,
        owner: usize,
    ) -> Result<(NodeIndex, NodeIndex), Error> {
        let tx = self.counters.tx.clone();
        let spec = DeviceOutput::spec(name, transmit.edges());
        let node = |queue| Behaviour::Map(Box::new(DeviceOutput::new(index, queue, tx.clone())) as Box<dyn graph::Map>);
        // Each worker has its own, where that makes sense; else one owns it.
        let tx_node = match transmit.is_for_all(self.graph.workers()) {
            true => {
                let workers = self.graph.workers();
                let own = |worker| transmit.another(worker, workers).expect("as there was one");
                self.graph.register(spec, |worker| node(own(worker)))?
            }
            false => {
                let only = RefCell::new(Some(transmit));
                self.graph.register_owned(spec, owner, || node(only.take().expect("asked for once")))?
            }
        };
        self.register_way_out(name, index, finishes, tx_node)
    }

    /// The node ahead of a tx node.
    fn register_way_out(
        &mut self,
        name: &str,
        index: InterfaceIndex,
        finishes: TxOffloads,
        tx_node: NodeIndex,
    ) -> Result<(NodeIndex, NodeIndex), Error> {
        let view = self.view.clone();
        let arc = self.graph.arc(OUTPUT_ARC)?;
        let output_node = self.graph.register(Output::spec(name), move |_| {
            Behaviour::Expand(Box::new(Output::new(index, view.clone(), finishes, arc)))
        });
        let output_node = output_node.inspect_err(|_| self.graph.remove(tx_node))?;
        let edge = self.graph.connect(output_node, &format!("{name}-tx"))?;
        self.graph.call(|_| {
            Box::new(move |core| core.node::<Output>(output_node).into_iter().for_each(|output| output.set_tx(edge)))
        });
        Ok((tx_node, output_node))
    }

    /// Removes an interface with its routes and neighbours.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_interface(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        self.operation(|router| router.begin_deletion(index))
    }

    /// Sets an interface and its sub-interfaces down, and says that they leave. When all have heard it, they go.
    fn begin_deletion(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let subs: Vec<InterfaceIndex> = self.interfaces.sub_interfaces_of(index).map(|sub| sub.index).collect();
        subs.iter().chain([&index]).try_for_each(|gone| self.check_lends_nothing(*gone))?;
        self.interfaces.get(index)?;
        if self.notices.leaving.contains(&index) {
            return Ok(());
        }
        for sub in subs {
            self.begin_deletion(sub)?;
            self.breathe();
        }
        self.part_from(&[index], Parting::Deleted);
        // First, so that the steps that follow find little that hangs on the interface.
        self.flush_neighbours(index, true);
        self.set_admin(index, false)?;
        // Those that lie on it were added before it, and go first.
        self.notices.leaving.push_back(index);
        self.say(Notice::Leaving(index));
        Ok(())
    }

    /// Whether an interface is about to go.
    pub fn is_leaving(&self, index: InterfaceIndex) -> bool {
        self.notices.leaving.contains(&index)
    }

    /// Removes an interface that leaves, with all that the core has of it.
    pub(crate) fn finish_deletion(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        for prefix in interface.addresses.clone() {
            if let Err(error) = self.remove_address(index, prefix) {
                log::error!("{prefix} of an interface that is removed: {error}");
            }
        }
        self.forget_ip6(index);
        self.remove_paths_of(index);
        self.remove_label_paths_of(index);
        self.stop_encapsulating(index);
        let Some(interface) = self.interfaces.take(index) else { return };
        if let Some(sub) = &interface.sub {
            self.forget_frames_of(sub);
        }
        self.detach_receive(interface.input_node, index);
        self.publish_facts();
        self.published.iter().for_each(|forget| forget(index));
        self.graph.clear_features(index);
        self.graph.remove(interface.output_node);
        if interface.sub.is_none() {
            self.graph.remove(interface.tx_node);
        }
        let is_settled = Arc::new(AtomicBool::new(false));
        let settled = is_settled.clone();
        self.graph.when_settled(move || settled.store(true, Ordering::Release));
        self.closing.extend(interface.creation.as_ref().and_then(|creation| creation.held()));
        self.closing.extend(interface.host);
        self.graph.janitor().close_later(interface.link);
        let retired = Retired { index: index.0 as usize, is_settled, since: Instant::now() };
        self.interfaces.retired.push_back(retired);
        self.say(Notice::Gone { interface: index, name: interface.name });
    }

    /// Brings neighbours and routes in line with interfaces of which each is up now, or down.
    pub(crate) fn settle(&mut self, changed: &[(InterfaceIndex, bool)]) {
        for (index, _) in changed.iter().filter(|(_, up)| !up) {
            // Who is on the wire when it comes back is not known.
            self.flush_neighbours(*index, false);
            self.suspend_detection(*index);
        }
        changed.iter().for_each(|(index, _)| self.install_by(*index));
        for (index, _) in changed.iter().filter(|(_, up)| *up) {
            self.announce_all(*index);
            self.detect_all_duplicates(*index);
        }
        changed.iter().for_each(|(index, up)| self.say(Notice::State { interface: *index, up: *up }));
    }

    /// Sets an interface up or down. Its connected routes come and go with it.
    ///
    /// # Errors
    /// When there is none, or the system refuses to bring the device up.
    pub fn set_admin(&mut self, index: InterfaceIndex, up: bool) -> Result<(), Error> {
        self.operation(|router| {
            router.change_admin(index, up)?;
            router.interfaces.get_mut(index)?.stated_up = up;
            Ok(())
        })
    }

    pub(super) fn change_admin(&mut self, index: InterfaceIndex, up: bool) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        if interface.admin_up == up {
            return Ok(());
        }
        if !up {
            let subs = self.interfaces.sub_interfaces_of(index).map(|sub| sub.index);
            let silent: Vec<InterfaceIndex> = [index].into_iter().chain(subs).collect();
            self.part_from(&silent, Parting::Down);
        }
        let interface = self.interfaces.get_mut(index)?;
        if let Err(source) = interface.link.set_admin(up) {
            let (name, up) = (interface.name.clone(), interface.is_up());
            // Those that have said farewell go on.
            self.say(Notice::State { interface: index, up });
            return Err(Error::Device { name, source });
        }
        interface.admin_up = up;
        let before = std::mem::replace(&mut interface.link_is_up, interface.link.is_up());
        let link = (interface.link_is_up != before).then_some(interface.link_is_up);
        self.links.poll_soon(Instant::now());
        let interface = self.interfaces.get(index)?;
        let node = interface.input_node;
        let states = self.state_changed(index);
        self.publish_facts();
        // Null devices and the generator's are in no driver's input.
        if let Ok(input) = self.graph.find(node) {
            self.tell_input(input, move |input| input.set_up(index, up));
        }
        self.say(Notice::AdminState { interface: index, up });
        link.into_iter().for_each(|up| self.say(Notice::LinkState { interface: index, up }));
        self.settle(&states);
        Ok(())
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When there is no such interface, the address is a group's, or an extra one of the interface.
    pub fn set_mac(&mut self, index: InterfaceIndex, mac: MacAddress) -> Result<(), Error> {
        check_mac(mac)?;
        let interface = self.interfaces.get_mut(index)?;
        interface.check_not_secondary(mac)?;
        let is_new = interface.mac != mac;
        interface.change_mac(mac, true)?;
        interface.stated_mac = Some(mac);
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
        interface.stated_mac = None;
        if is_new {
            self.mac_changed(index);
        }
        Ok(())
    }

    /// Has an interface take packets to all groups, not only to those of the router: somebody else is a member.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_all_groups(&mut self, index: InterfaceIndex, takes: bool) -> Result<(), Error> {
        self.interfaces.get_mut(index)?.all_groups = takes;
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
        let before = self.interfaces.rename(index, name)?;
        self.operation(|router| {
            router.say(Notice::Renamed { interface: index, before });
            for (sub, output, name) in subs {
                router.graph.rename(output, &format!("{name}-output"))?;
                let before = router.interfaces.rename(sub, &name)?;
                router.say(Notice::Renamed { interface: sub, before });
            }
            Ok(())
        })
    }

    /// Gives an interface a tag, or takes it away. It says nothing to the router.
    ///
    /// # Errors
    /// When there is no such interface, or the tag is longer than [`MAX_TAG`](super::names::MAX_TAG) or has
    /// characters that mean something in a file of commands; then nothing has changed.
    pub fn set_tag(&mut self, index: InterfaceIndex, tag: Option<&str>) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        tag.map_or(Ok(()), check_tag)?;
        interface.tag = tag.map(String::from);
        Ok(())
    }

    /// Makes the counters of an interface read zero.
    pub fn clear_interface_counters(&mut self, index: InterfaceIndex) {
        let at = [index.0 as usize];
        self.graph.directory.of(Of::Interface).for_each(|listed| listed.table.clear(at));
    }

    /// Sends a frame out of an interface: a link header and what follows it.
    pub fn inject(&self, interface: InterfaceIndex, header: &LinkHeader, payload: &[u8]) {
        let node = self.state::<super::Nodes>().inject;
        let (frame, header_length) = ([header, payload].concat(), header.len());
        self.graph.call_one(OWNER, move |core| {
            if let Some(inject) = core.node::<super::inject::Inject>(node) {
                inject.send(interface, frame, header_length);
            }
        });
    }

    /// Publishes what the data path knows of interfaces: of those that may have changed.
    pub fn publish_facts(&self) {
        let view = |interface: &Interface| InterfaceView {
            index: interface.index,
            mac: interface.mac,
            stations: interface.secondary_macs.clone(),
            up: interface.is_up(),
            addresses: self.interfaces.addresses_of(interface),
            ip4_enabled: interface.is_ip4_enabled(),
            ip4_table: interface.ip4.table,
            ip6: Ip6View::new(&interface.ip6).taking_all_groups(interface.all_groups),
            source_check: interface.ip4.source_check,
            tags: interface.tags,
            tx: interface.exit(Exit::Device),
            sub_interfaces: interface.demux.clone().map(SubInterfaces),
            output: interface.exit(Exit::Frames),
            mpls: interface.mpls,
            all_groups: interface.all_groups,
        };
        let mut book = self.interfaces.book.borrow_mut();
        let mut has_changed = false;
        let touched = book.take_touched(&self.interfaces);
        for index in touched.iter().copied() {
            let interface = self.interfaces.get(index).ok();
            has_changed |= book.put(index, interface.map(|interface| (interface, view(interface))));
        }
        if has_changed {
            self.view.publish(book.table().clone());
        }
        drop(book);
        // Many changes in a row must not leave as many tables behind until the next tick.
        self.graph.domain().collect();
        self.capabilities.iter().for_each(|capability| (capability.publishes)(self, &touched));
    }
}

/// RFC 7042 section 2.1: a station's address is no group's.
pub(super) fn check_mac(mac: MacAddress) -> Result<(), Error> {
    match mac.is_multicast() || mac.is_zero() {
        true => Err(Error::BadInterfaceMac(mac)),
        false => Ok(()),
    }
}
