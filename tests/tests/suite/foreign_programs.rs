//! Programs of others on the interfaces that academy uses, as the lab's exercises 28 and 30 have
//! them: they see what they saw before, and stay when academy goes.

use tests::{
    Case, Lab, Mapping, Report,
    foreign::{Counting, Side},
    topology::HOST,
};

#[test]
fn cni_29_tcx_programs_of_others_see_the_packets_and_stay() {
    let lab = Lab::new();
    let mut uplink = Counting::load();
    uplink.attach_tcx(&lab.host, "up0", Side::Ingress);
    let (web, beside) = (lab.container("web"), lab.container("beside"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let neighbour = lab.add(&beside, &[]);
    let mut veth = Counting::load();
    veth.attach_tcx(&lab.host, &attached.host_interface(), Side::Ingress);
    talk(&lab, &web, &attached, &[("uplink", &uplink), ("veth", &veth)]);
    lab.del(&neighbour);
    talk(&lab, &web, &attached, &[("uplink", &uplink), ("veth", &veth)]);
    lab.del(&attached);
    let before = uplink.packets();
    let _nobody = lab.from_client(tests::Protocol::Udp, HOST.0.into(), 18080).in_vain().ask();
    assert!(uplink.packets() > before, "the program on the uplink is gone");
}

#[test]
fn cni_29_tc_filters_of_others_see_the_packets_and_stay() {
    let lab = Lab::new();
    let (web, beside) = (lab.container("web"), lab.container("beside"));
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let neighbour = lab.add(&beside, &[]);
    let filter = |name: &str, interface: &str| {
        let program = Counting::load();
        let pin = lab.bpffs().with_file_name(name);
        program.pin(&pin);
        let line = format!("tc filter add dev {interface} ingress prio 10 bpf da pinned");
        lab.host.run(&format!("{line} {}", pin.display()));
        program
    };
    let uplink = filter("uplink", "up0");
    let veth = filter("veth", &attached.host_interface());
    talk(&lab, &web, &attached, &[("uplink", &uplink), ("veth", &veth)]);
    lab.del(&neighbour);
    talk(&lab, &web, &attached, &[("uplink", &uplink), ("veth", &veth)]);
    lab.del(&attached);
    let _outcome = lab.command_line("reset").success();
    let before = uplink.packets();
    let _nobody = lab.from_client(tests::Protocol::Udp, HOST.0.into(), 18080).in_vain().ask();
    assert!(uplink.packets() > before, "the filter on the uplink is gone");
}

/// The published port answers, and each program sees at least one packet of each conversation.
fn talk(
    lab: &Lab,
    web: &tests::Container,
    attached: &tests::Attached,
    programs: &[(&str, &Counting)],
) {
    let _servers = attached.serve("web", web, 8080);
    let mut report = Report::new();
    for case in Case::ALL {
        let before: Vec<_> = programs.iter().map(|(_, program)| program.packets()).collect();
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        report.answered_by(&case.to_string(), &reply, "web");
        for ((name, program), before) in programs.iter().zip(before) {
            let seen = program.packets() - before;
            report.check(seen > 0, || format!("{case}: the program on the {name} saw nothing"));
        }
    }
}
