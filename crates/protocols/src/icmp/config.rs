//! What operators set of ICMP, as the commands that set it.

use super::Icmp;
use router::Router;
use router::capability::Statement;
use router::interface;
use wire::Family;

/// What switches redirects of a family.
pub(super) const REDIRECTS: [(Family, &str); 2] = [(Family::Ip4, "ip"), (Family::Ip6, "ip6")];

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    if router.state::<Icmp>().limit_is_set() {
        let limit = router.state::<Icmp>().limit;
        let line = format!("set ip icmp error-rate {} burst {}", limit.per_second, limit.burst);
        into.push(Statement::new(line, "set ip icmp error-rate default".into()).replaced_by_itself());
    }
    for (family, word) in REDIRECTS {
        for interface in router.state::<Icmp>().redirects(family).filter_map(|index| router.interfaces.get(index).ok())
        {
            let name = &interface.name;
            let line = format!("set interface {word} redirects {name} enable");
            let statement = Statement::new(line, format!("set interface {word} redirects {name} disable"));
            into.push(statement.needing(interface::config::removal(name)));
        }
    }
}
