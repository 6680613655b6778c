//! Commands on loopback interfaces, as VPP has them.

use super::LoopbackOptions;
use command::{Args, Command, CommandError, CommandSet, Reply, fail};
use drivers::loopback::MAX_INSTANCES;
use router::Router;
use router::interface::cli::{create, delete_of};

pub(super) fn register(set: &mut CommandSet<Router>) {
    set.section("Interfaces", "");
    set.add(
        Command::new(
            "create loopback interface {{ [mac <mac:mac>] | [instance <instance:u32 0..16383>] | [name <name:word>] }}",
            "Create a loopback interface, for addresses that must not depend on a link.",
            create_loopback,
        )
        .also("loopback create-interface {{ [mac <mac:mac>] | [instance <instance:u32 0..16383>] }}")
        .also("loop create {{ [mac <mac:mac>] | [instance <instance:u32 0..16383>] }}")
        .configures()
        .example("create loopback interface")
        .example("create loopback interface instance 7 mac de:ad:00:00:00:07"),
    );
    set.add(
        Command::new(
            "delete loopback interface intfc <interface:interface>",
            "Remove a loopback interface.",
            |router: &mut Router, args: &Args| delete_of::<LoopbackOptions>(router, args, "loopback"),
        )
        .also("loopback delete-interface intfc <interface:interface>")
        .also("loop delete intfc <interface:interface>")
        .configures()
        .example("delete loopback interface intfc loop0"),
    );
}

fn create_loopback(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let instance = match args.optional("instance")? {
        Some(instance) => instance,
        None => match super::free_instance(router) {
            MAX_INSTANCES.. => return fail(format!("all {MAX_INSTANCES} loopback interfaces are there already")),
            instance => instance,
        },
    };
    let options = LoopbackOptions { instance, mac: args.optional("mac")? };
    create(router, args.optional_text("name"), Box::new(options))
}
