//! What `bpftool` shows to a human.

use academy_common::map_names;
use serde_json::Value;
use tests::{
    Case, Lab, Mapping,
    netns::must,
    topology::{CLIENT, HOST},
};

fn named(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            !fields.is_empty()
                && fields.keys().all(|name| !name.starts_with("__"))
                && fields.values().all(|field| !field.is_object() || named(field))
        }
        _ => false,
    }
}

#[test]
fn every_map_has_named_fields_in_keys_and_values() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    for case in Case::ALL {
        let reply = lab.from_client(case.protocol, case.family.of(HOST), 18080).ask();
        assert_eq!(reply.server(), Some("web"), "{case}: {reply:?}");
    }
    let mut open: Vec<_> = Case::ALL
        .map(|case| lab.from_client(case.protocol, case.family.of(HOST), 18080).open().unwrap())
        .into();
    for conversation in &mut open {
        let _reply = conversation.ask();
    }
    let mut empty = Vec::new();
    for name in map_names::ALL {
        let pin = lab.map(name);
        let shown = must(
            std::process::Command::new("bpftool").args(["-j", "map", "show", "pinned"]).arg(&pin),
        );
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert!(shown["btf_id"].is_u64(), "{name} has no BTF: {shown}");
        assert_eq!(shown["name"], name);
        let rows = lab.rows(name);
        for row in &rows {
            let formatted = &row["formatted"];
            assert!(formatted.is_object(), "{name}: {row}");
            let array = formatted["key"].is_u64();
            assert!(array || named(&formatted["key"]), "{name}: {row}");
            match formatted["values"].as_array() {
                Some(cpus) => assert!(cpus.iter().all(|cpu| named(&cpu["value"])), "{name}: {row}"),
                None => assert!(named(&formatted["value"]), "{name}: {row}"),
            }
        }
        if rows.is_empty() {
            empty.push(name);
        }
    }
    for name in ["endpoints", "addresses4", "addresses6", "fdb", "ports4", "ports6", "uplinks"] {
        assert!(!empty.contains(&name), "{name} is empty");
    }
    for (name, count) in [("flows4", 2), ("flows6", 2)] {
        assert!(lab.rows(name).len() >= count, "{name}: {:?}", lab.rows(name));
    }
}

/// What `academy-common` says about the layout is what a reader of the maps finds.
#[test]
fn a_published_port_reads_as_configured() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &[Mapping::new(tests::Protocol::Tcp, 18080, 8080)]);
    let [row] = &lab.rows("ports4")[..] else { panic!("one row") };
    let (key, value) = (&row["formatted"]["key"], &row["formatted"]["value"]);
    assert_eq!(key["protocol"], 6, "{key}");
    assert_eq!(key["port"]["be16"], 18080_u16.to_be(), "{key}");
    assert_eq!(value["port"]["be16"], 8080_u16.to_be(), "{value}");
    assert_eq!(value["ifindex"], lab.host.ifindex(&attached.host_interface()), "{value}");
    let octets: Vec<_> = attached.addresses().0.octets().into();
    assert_eq!(value["address"]["octets"], serde_json::json!(octets), "{value}");
}

#[test]
fn a_conversation_is_one_row_per_direction() {
    let lab = Lab::new();
    let web = lab.container("web");
    let attached = lab.add(&web, &Mapping::both(18080, 8080));
    let _servers = attached.serve("web", &web, 8080);
    let query = lab.from_client(tests::Protocol::Tcp, HOST.0.into(), 18080).source_port(43_210);
    let mut conversation = query.open().unwrap();
    let _reply = conversation.ask();
    let rows = lab.rows("flows4");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let client = serde_json::json!(CLIENT.0.octets());
    let of = |field: &str, address: &Value| {
        rows.iter().filter(|row| &row["formatted"]["key"][field]["octets"] == address).count()
    };
    assert_eq!((of("source", &client), of("destination", &client)), (1, 1), "{rows:?}");
    conversation.close();
    tests::wait::until("the closed conversation leaves the table", || {
        lab.rows("flows4").is_empty().then_some(())
    });
}
