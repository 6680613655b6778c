//! Static neighbours as the commands that make them known. Learned ones are no
//! configuration.

use super::control::State;
use crate::Router;
use crate::config::Statement;
use crate::interface;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (key, neighbour) in router.neighbours.iter() {
        let State::Known { mac, is_static: true } = neighbour.state else { continue };
        let Ok(interface) = router.interfaces.get(key.interface) else { continue };
        let (name, address) = (&interface.name, key.address);
        let line = format!("ip neighbor {name} {address} {mac}");
        let statement = Statement::new(line, format!("ip neighbor del {name} {address}")).replaced_by_itself();
        into.push(statement.needing(interface::config::removal(name)));
    }
}
