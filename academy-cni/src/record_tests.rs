use super::*;
use crate::testing::TempDir;

fn record(network: &str, id: &str) -> Record {
    let attachment = Attachment::new(network, id, "eth0").unwrap();
    let claim = PortClaim {
        protocol: 6,
        address: "0.0.0.0".parse().unwrap(),
        port: 18888,
        container: "10.98.0.2".parse().unwrap(),
        container_port: 8080,
        snat: Some("10.98.0.1".parse().unwrap()),
        masq_all: false,
    };
    Record {
        host_ifindex: 7,
        addresses: vec!["10.98.0.2/24".parse().unwrap(), "fd98::2/64".parse().unwrap()],
        store_dir: Some("/var/lib/cni/academy/harness".into()),
        ports: vec![claim],
        ..Record::nameless(attachment, u64::MAX)
    }
}

#[test]
fn a_record_is_read_back_as_it_was_stored() {
    let top = TempDir::new();
    let paths = top.paths();
    let stored = record("harness", "c1");
    assert_eq!(load(&paths, &stored.attachment).unwrap(), None);
    stored.store(&paths).unwrap();
    let file = top.path().join("run/harness/c1:eth0.json");
    assert!(file.is_file());
    assert_eq!(load(&paths, &stored.attachment).unwrap().unwrap(), stored);
    remove(&paths, &stored.attachment).unwrap();
    remove(&paths, &stored.attachment).unwrap();
    assert!(!file.parent().unwrap().exists());
}

#[test]
fn lists_are_by_network_or_of_all() {
    let top = TempDir::new();
    let paths = top.paths();
    assert_eq!(list_all(&paths), []);
    for (network, id) in [("a", "c1"), ("a", "c2"), ("lock", "c1")] {
        record(network, id).store(&paths).unwrap();
    }
    fs::write(paths.lock_file(), "").unwrap();
    assert_eq!(list(&paths, "a"), [record("a", "c1"), record("a", "c2")]);
    assert_eq!(list(&paths, "lock"), [record("lock", "c1")]);
    assert_eq!(list(&paths, "b"), []);
    assert_eq!(list_all(&paths).len(), 3);
}

#[test]
fn a_damaged_record_still_says_whose_it_is() {
    let top = TempDir::new();
    let paths = top.paths();
    let good = record("a", "c1");
    good.store(&paths).unwrap();
    let directory = paths.records("a");
    for (name, text) in [
        ("c2:eth0.json", ""),
        ("c3:eth0.json", "{\"attachment\":{}}"),
        ("c4:eth0.json", &serde_json::to_string(&good).unwrap()),
        ("no-record", "x"),
        ("x:..json", "x"),
        (".new-1-0", "x"),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
    let records = list(&paths, "a");
    let ids: Vec<_> =
        records.iter().map(|record| (record.attachment.container_id(), record.damaged)).collect();
    assert_eq!(ids, [("c1", false), ("c2", true), ("c3", true), ("c4", true)]);
    let attachment = Attachment::new("a", "c2", "eth0").unwrap();
    let damaged = load(&paths, &attachment).unwrap().unwrap();
    assert!(damaged.damaged && damaged.host_ifname == attachment.veth_name());
    remove(&paths, &attachment).unwrap();
    assert_eq!(load(&paths, &attachment).unwrap(), None);
}
