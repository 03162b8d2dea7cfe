//! The same questions to the reference plugins: what a test calls right has to be right there too.

use tests::{Lab, Plugin};

use crate::{host_addresses, host_ports, others_traffic, replacement};

#[test]
fn the_reference_answers_wherever_academy_has_to() {
    let lab = || Lab::of(Plugin::Reference);
    host_ports::outside_clients(&lab());
    host_ports::the_host_itself(&lab(), false);
    host_ports::own_port(&lab());
}

#[test]
fn the_reference_keeps_silent_wherever_academy_has_to() {
    let lab = || Lab::of(Plugin::Reference);
    host_ports::own_loopback(&lab());
    host_ports::after_del(&lab());
    host_addresses::one_address(&lab());
    host_addresses::unspecified(&lab());
}

#[test]
fn the_reference_leaves_alone_what_academy_has_to() {
    let lab = || Lab::of(Plugin::Reference);
    host_ports::by_protocol(&lab());
    others_traffic::transit(&lab());
    others_traffic::own_conversations(&lab());
    replacement::replaced(&lab());
}
