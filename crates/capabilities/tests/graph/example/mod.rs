//! A capability from outside of the crate: packets whose time to live is below a floor are dropped, by interface. It is
//! the worked example of `docs/architecture.md`, "Add a capability", and goes through the same door as all others.

mod cli;
mod node;

use features::config;
use graph::directory::{Column, Of};
use graph::{Behaviour, CounterTable, InterfaceIndex, PerInterface};
use quiver_capabilities::CAPABILITIES;
use router::capability::{Chapter, Description, FeatureSpec, Notice, Part, Phase, Stage, Starting, Statement, no_more};
use router::{Error, Router};
use startup::{Key, Section};
use std::collections::BTreeMap;
use std::sync::Arc;

const ARC: &str = "ip4-unicast";

pub const CAPABILITY: Description = Description {
    name: "ttl-floor",
    description: "Drops packets that have too few hops left",
    nodes: &[node::NODE],
    features: &[FeatureSpec::new(ARC, node::NODE, no_more)],
    sections: &[Section::new("ttl-floor", KEYS)],
    log_classes: &[("example", "ttl-floor")],
    codes: &[FloorError::CODES],
    start,
    hears,
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(statements))],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "Too few hops",
        about: "Packets that would not get far.",
        nodes: &[node::NODE],
    }],
    ..Description::NONE
};

/// Of `startup.conf`: `ttl-floor { most 64 }`.
const KEYS: &[Key] = &[Key::value("most", "a number").of(|value| value.number(1, 255).map(drop))];

/// What control keeps.
struct Floors {
    /// The highest that is allowed.
    most: u8,
    of: BTreeMap<InterfaceIndex, u8>,
    /// The same, as the node reads it.
    published: PerInterface<u8>,
    low: Arc<CounterTable>,
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let published = starting.per_interface();
    let workers = starting.graph.workers();
    const COLUMNS: &[Column] = &[Column::packets("ttl low")];
    let low = starting.graph.directory.table("/if/ttl-low", workers, Of::Interface, COLUMNS, "Too few hops left.")?;
    let (floors, counts) = (published.clone(), low.clone());
    let new = move |_| Behaviour::Map(Box::new(node::TtlFloor::new(floors.clone(), counts.clone())));
    starting.graph.register(node::spec(), new)?;
    let most = starting.section("ttl-floor").get("most").and_then(|entry| entry.value().number(1, 255).ok());
    let most = most.map_or(u8::MAX, |most| most as u8);
    starting.own(Floors { most, of: BTreeMap::new(), published, low });
    Ok(())
}

/// What is published goes with the interface by itself; what control keeps does not.
fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Gone { interface, .. } = notice {
        router.state_mut::<Floors>().of.remove(interface);
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    #[error("a floor of 0 is none: 'del' removes a floor")]
    Zero,
    #[error("a floor of {0} is too high: at most {1} ('ttl-floor {{ most }}' in startup.conf)")]
    High(u8, u8),
}

router::codes! { FloorError { Zero => "ttl-floor-zero", High => "ttl-floor-high", } }

/// Gives an interface a floor, or takes it away.
///
/// # Errors
/// When there is no such interface, or the floor is 0 or too high; then nothing has changed.
pub fn set(router: &mut Router, index: InterfaceIndex, floor: Option<u8>) -> Result<(), Error> {
    router.interfaces.get(index)?;
    if floor == Some(0) {
        return Err(FloorError::Zero.into());
    }
    let most = router.state::<Floors>().most;
    if let Some(floor) = floor.filter(|floor| *floor > most) {
        return Err(FloorError::High(floor, most).into());
    }
    router.graph.set_feature(ARC, node::NODE, index, floor.is_some())?;
    let floors = router.state_mut::<Floors>();
    floors.published.set(index, floor);
    match floor {
        Some(floor) => drop(floors.of.insert(index, floor)),
        None => drop(floors.of.remove(&index)),
    }
    Ok(())
}

fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (index, floor) in &router.state::<Floors>().of {
        let Ok(interface) = router.interfaces.get(*index) else { continue };
        let command = format!("set interface ttl-floor {}", interface.name);
        let statement = Statement::new(format!("{command} {floor}"), format!("{command} del"));
        into.push(statement.needing(format!("delete interface {}", interface.name)).replaced_by_itself());
    }
}

/// All capabilities of the router, and this one.
pub fn with_it() -> &'static [&'static Description] {
    [CAPABILITIES, &[&CAPABILITY]].concat().leak()
}

mod tests {
    use super::*;
    use crate::bed::{Bed, host_mac};
    use crate::packet::*;
    use router::capability;
    use startup::StartupConfig;

    fn bed() -> (Bed, [crate::bed::Port; 3]) {
        let mut bed = Bed::with_capabilities(with_it());
        let ports = bed.three_ports();
        (bed, ports)
    }

    #[test]
    fn a_capability_from_outside_is_whole() {
        let (mut bed, [e0, e1, _]) = bed();
        let (low, high) = (Packet::udp("10.0.0.2", "10.0.1.2", b"x").ttl(4), Packet::udp("10.0.0.2", "10.0.1.2", b"y"));
        let send = |bed: &mut Bed| {
            for packet in [&low, &high] {
                e0.receive(packet.frame(e0.mac, host_mac(ip("10.0.0.2"))));
            }
            bed.run();
            e1.sent().len()
        };
        assert_eq!(send(&mut bed), 2, "no floor");
        bed.command("set interface ttl-floor e0 5").unwrap();
        assert_eq!(send(&mut bed), 1);
        let low_count = bed.router.state::<Floors>().low.sum(e0.index.0 as usize, 0);
        assert_eq!(low_count, 1);
        // What it gets by being in the list.
        assert!(bed.command("show plugins").unwrap().contains("ttl-floor"));
        assert!(bed.command("show errors").unwrap().contains("too few hops left"));
        assert!(bed.command("show interface e0").unwrap().contains("ttl low"));
        assert!(bed.command("show interface features e0").unwrap().contains(node::NODE));
        let stated = bed.command("show running-config").unwrap();
        assert!(stated.contains("set interface ttl-floor e0 5"), "{stated}");
        let error = bed.command("set interface ttl-floor e0 0").unwrap_err().to_string();
        assert!(error.contains("'del' removes a floor"), "{error}");
        bed.command("set interface ttl-floor e0 del").unwrap();
        assert_eq!(send(&mut bed), 2);
    }

    #[test]
    fn it_finds_its_section_of_the_startup_configuration() {
        let sections = capability::sections(with_it());
        let config = StartupConfig::parse("q.conf", "ttl-floor { most 9 }", &sections).unwrap();
        let mut bed = Bed::with_sections(config.sections, with_it());
        let [e0, ..] = bed.three_ports();
        let error = set(&mut bed.router, e0.index, Some(10)).unwrap_err().to_string();
        assert!(error.starts_with("a floor of 10 is too high: at most 9"), "{error}");
        set(&mut bed.router, e0.index, Some(9)).unwrap();
        let error = StartupConfig::parse("q.conf", "ttl-floor { most 0 }", &sections).unwrap_err().to_string();
        assert_eq!(error, "q.conf:1:18: '0' is no value for 'most': expected a number 1..255");
        StartupConfig::parse("q.conf", "ttl-floor { most 9 }", &[]).unwrap_err();
    }

    #[test]
    fn its_statements_are_loaded_like_all_others() {
        let (mut bed, [e0, ..]) = bed();
        bed.command("create loopback interface instance 7").unwrap();
        bed.command("set interface ttl-floor loop7 9").unwrap();
        let stated: Vec<String> = config::running_config(&bed.router).into_iter().map(|one| one.line).collect();
        // The other router has none of this one's ports, which no command made.
        let own: Vec<&String> = stated.iter().filter(|line| line.contains("loop7")).collect();
        let wanted = config::parse_config(
            &mut bed.router,
            "file",
            &own.iter().map(|line| format!("{line}\n")).collect::<String>(),
        );
        assert!(wanted.unwrap().iter().any(|one| one.line == "set interface ttl-floor loop7 9"));
        bed.command("delete interface loop7").unwrap();
        set(&mut bed.router, e0.index, Some(3)).unwrap();
        assert_eq!(bed.router.state::<Floors>().of.len(), 1, "that of loop7 went with it");
    }
}
