//! Commands on interfaces on top of those of the host, as VPP has them.

use super::AfPacketConfig;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use drivers::af_packet::{AfPacketOptions, MAX_QUEUES};
use router::Router;
use router::interface::cli::create;

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.section("Interfaces", "");
    let options = format!("[hw-addr <mac:mac>] | [num-rx-queues <queues:u32 1..{MAX_QUEUES}>]");
    let host_interface = format!(
        "create host-interface {{[v2] name <host:word> {{{{ {options} | [interface-name <name:word>] }}}} | \
         <device:word> {{{{ {options} | [name <name:word>] }}}}}}"
    );
    set.add(
        Command::new(
            &host_interface,
            "Create an interface on top of one of the host's (AF_PACKET).",
            create_host_interface,
        )
        .configures()
        .example("create host-interface eth0 name e0"),
    );
    set.add(
        Command::new(
            "delete host-interface name <host:word>",
            "Remove the interface on top of a host interface.",
            |router: &mut Router, args: &Args| {
                let host = args.text("host")?;
                let Some(index) = super::on_host(router, host).map(|interface| interface.index) else {
                    return fail(format!("no interface on top of '{host}'"));
                };
                router.delete_interface(index)?;
                reply(Done)
            },
        )
        .configures()
        .example("delete host-interface name eth0"),
    );
}

fn create_host_interface(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let host_interface = args.text("host").or_else(|_| args.text("device"))?.to_string();
    let options = AfPacketOptions {
        host_interface,
        hw_address: args.optional("mac")?,
        queues: args.optional("queues")?.unwrap_or(1),
    };
    create(router, args.optional_text("name"), Box::new(AfPacketConfig(options)))
}
