//! Commands on TAP interfaces, as VPP has them.

use super::TapConfig;
use command::{Args, Command, CommandError, CommandSet, Reply};
use drivers::tap::{MAX_QUEUES, TapOptions};
use router::Router;
use router::interface::cli::{create, delete_of};

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.section("Interfaces", "");
    let tap = format!(
        "create tap {{{{ [id <id:u32>] | [name <name:word>] | [host-if-name <host:word>] | [host-ns \
         <namespace:netns>] | \
         [host-ip4-addr <ip4:prefix4>] | [host-ip6-addr <ip6:prefix6>] | [host-ip4-gw <gateway4:ip4>] | \
         [host-ip6-gw <gateway6:ip6>] | [host-bridge <bridge:word>] | [host-mac-addr <hostmac:mac>] | \
         [host-mtu-size <mtu:u32 68..65521>] | \
         [hw-addr <mac:mac>] | [num-rx-queues <queues:u32 1..{MAX_QUEUES}>] }}}}"
    );
    set.add(
        Command::new(&tap, "Create an interface whose other end is a TAP device of the host.", create_tap)
            .also(&tap.replace("[name <name:word>]", "[if-name <name:word>]"))
            .configures()
            .example("create tap name e0 host-if-name eth0 host-ns peer host-ip4-addr 100.64.1.2/30")
            .example("create tap name e0 num-rx-queues 2"),
    );
    set.add(
        Command::new(
            "delete tap <interface:interface>",
            "Remove a TAP interface.",
            |router: &mut Router, args: &Args| delete_of::<TapConfig>(router, args, "TAP"),
        )
        .also("delete tap sw_if_index <index:u32>")
        .configures(),
    );
}

fn create_tap(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let host_namespace = args.optional_text("namespace").map(str::to_string);
    let options = TapOptions {
        id: match args.optional("id")? {
            Some(id) => id,
            None => super::free_id(router, host_namespace.as_deref()),
        },
        host_interface_name: args.optional_text("host").map(str::to_string),
        host_namespace,
        host_ip4: args.optional("ip4")?,
        host_ip6: args.optional("ip6")?,
        host_gateway4: args.optional("gateway4")?,
        host_gateway6: args.optional("gateway6")?,
        host_bridge: args.optional_text("bridge").map(str::to_string),
        host_mac: args.optional("hostmac")?,
        host_mtu: args.optional("mtu")?,
        hw_address: args.optional("mac")?,
        queues: args.optional("queues")?.unwrap_or(1),
        ..TapOptions::default()
    };
    create(router, args.optional_text("name"), Box::new(TapConfig(options)))
}
