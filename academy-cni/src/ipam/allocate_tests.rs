use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::*;
use crate::{
    config::{Fields, Json, RequestSource},
    testing::TempDir,
};

struct Network {
    top: TempDir,
    config: IpamConfig,
}

impl Network {
    fn new(sets: &Value) -> Self {
        let top = TempDir::new();
        let range = |value: &Value| {
            let json = Json::parse(value.to_string().as_bytes()).unwrap();
            Range::read(&Fields::new(&json, "ipam").unwrap()).unwrap()
        };
        let sets = sets.as_array().unwrap().iter().map(|set| {
            RangeSet::new(set.as_array().unwrap().iter().map(range).collect(), "ipam").unwrap()
        });
        let config = IpamConfig {
            store_dir: top.path().join("state/net"),
            host_local_dir: Some(top.path().join("networks/net")),
            sets: sets.collect(),
            requested: Vec::new(),
        };
        Self { top, config }
    }

    fn of(subnet: &str) -> Self {
        Self::new(&json!([[{ "subnet": subnet }]]))
    }

    fn store(&self) -> Store {
        Store::open(&self.config.store_dir).unwrap()
    }

    fn wish(&mut self, wishes: &[(&str, RequestSource)]) {
        let wish = |(text, source): &(&str, RequestSource)| RequestedAddress {
            address: text.parse().unwrap(),
            source: *source,
        };
        self.config.requested = wishes.iter().map(wish).collect();
    }

    fn add_if(&self, id: &str, is_alive: impl Fn(&Attachment) -> bool) -> Result<Vec<String>> {
        let allocations = allocate(&self.config, &self.store(), &attachment(id), is_alive)?;
        Ok(allocations.iter().map(|allocation| allocation.address.to_string()).collect())
    }

    /// An ADD while all others live.
    fn add(&self, id: &str) -> Result<Vec<String>> {
        self.add_if(id, |other| *other != attachment(id))
    }

    fn del(&self, id: &str) {
        self.store().release(&attachment(id)).unwrap();
    }

    /// What `ls` shows.
    fn ls(&self) -> BTreeSet<String> {
        let names = fs::read_dir(&self.config.store_dir).unwrap().flatten();
        names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.'))
            .collect()
    }

    fn private(&self) -> Vec<String> {
        let names = fs::read_dir(self.config.store_dir.join(".academy")).unwrap().flatten();
        let mut names: Vec<_> =
            names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn write_host_local(&self, directory: &Path, address: &str, content: &str) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(address), content).unwrap();
        fs::write(directory.join("lock"), "").unwrap();
    }
}

fn attachment(id: &str) -> Attachment {
    Attachment::new("net", id, "eth0").unwrap()
}

const CAPABILITY: RequestSource = RequestSource::Capability;
const ENVIRONMENT: RequestSource = RequestSource::Environment;

#[test]
fn an_attachment_gets_the_first_address_after_the_gateway_with_the_subnets_prefix() {
    let network = Network::of("10.98.0.0/24");
    let allocations =
        allocate(&network.config, &network.store(), &attachment("a"), |_| true).unwrap();
    let expected = Allocation {
        address: "10.98.0.2/24".parse().unwrap(),
        gateway: Some("10.98.0.1".parse().unwrap()),
    };
    assert_eq!(allocations, [expected]);
    let file = network.config.store_dir.join("10.98.0.2");
    assert_eq!(fs::read_to_string(file).unwrap(), "a\r\neth0");
}

#[test]
fn one_address_comes_from_each_set() {
    let network = Network::new(&json!([
        [{"subnet": "10.1.0.0/24"}, {"subnet": "10.2.0.0/24"}],
        [{"subnet": "fd98::/64"}]
    ]));
    assert_eq!(network.add("a").unwrap(), ["10.1.0.2/24", "fd98::2/64"]);
    assert_eq!(network.add("b").unwrap(), ["10.1.0.3/24", "fd98::3/64"]);
    network.del("a");
    assert_eq!(network.ls(), ["10.1.0.3", "fd98::3"].map(str::to_owned).into());
}

#[test]
fn addresses_go_round_and_a_freed_one_is_not_given_out_again_at_once() {
    let network = Network::of("10.98.0.0/29");
    assert_eq!(network.add("a").unwrap(), ["10.98.0.2/29"]);
    network.del("a");
    assert_eq!(network.add("b").unwrap(), ["10.98.0.3/29"]);
    for (id, last) in [("c", 4), ("d", 5), ("e", 6), ("f", 2)] {
        assert_eq!(network.add(id).unwrap(), [format!("10.98.0.{last}/29")]);
    }
}

#[test]
fn a_slash_29_has_five_addresses_and_the_sixth_add_leaves_nothing() {
    let network = Network::of("10.98.0.0/29");
    for id in ["a", "b", "c", "d", "e"] {
        network.add(id).unwrap();
    }
    let before = (network.ls(), network.private());
    let error = network.add("f").unwrap_err();
    assert_eq!(error.code(), 100);
    assert_eq!(error.to_string(), "no IP addresses available in range set: 10.98.0.1-10.98.0.6");
    assert_eq!(error.details().unwrap(), "subnet 10.98.0.0/29, 5 used, 0 free");
    assert_eq!((network.ls(), network.private()), before);
    assert_eq!(network.ls().len(), 5);
}

#[test]
fn when_one_set_is_exhausted_the_others_addresses_are_given_back() {
    let network = Network::new(&json!([
        [{"subnet": "10.1.0.0/24"}],
        [{"subnet": "10.2.0.0/30"}]
    ]));
    network.add("a").unwrap();
    assert_eq!(network.add("b").unwrap_err().code(), 100);
    assert_eq!(network.ls().len(), 2);
}

#[test]
fn nerdctl_3355_a_second_add_of_the_same_attachment_says_what_it_has() {
    let network = Network::of("10.98.0.0/24");
    network.add("a").unwrap();
    let error = network.add_if("a", |_| true).unwrap_err();
    assert!(error.to_string().contains("already has 10.98.0.2"), "{error}");
    assert_eq!(network.ls().len(), 1);
    network.del("a");
    network.add("a").unwrap();
}

#[test]
fn an_attachment_whose_earlier_self_is_dead_starts_anew() {
    let network = Network::of("10.98.0.0/24");
    network.add("a").unwrap();
    network.add("a").unwrap();
    assert_eq!(network.ls(), ["10.98.0.3"].map(str::to_owned).into());
}

#[test]
fn other_interfaces_of_the_container_have_leases_of_their_own() {
    let network = Network::of("10.98.0.0/24");
    network.add("a").unwrap();
    let second = Attachment::new("net", "a", "eth1").unwrap();
    let store = network.store();
    allocate(&network.config, &store, &second, |_| true).unwrap();
    assert_eq!(store.release(&second).unwrap(), ["10.98.0.3".parse::<IpAddr>().unwrap()]);
    assert_eq!(network.ls(), ["10.98.0.2"].map(str::to_owned).into());
}

#[test]
fn cni_plugins_252_a_dead_lease_is_taken_over_on_the_spot() {
    let network = Network::of("10.98.0.0/30");
    network.add("old").unwrap();
    assert_eq!(network.add_if("new", |_| true).unwrap_err().code(), 100);
    assert_eq!(network.add_if("new", |_| false).unwrap(), ["10.98.0.2/30"]);
    let store = network.store();
    assert!(store.holds(&attachment("new"), "10.98.0.2".parse().unwrap()).unwrap());
    assert_eq!(store.release(&attachment("old")).unwrap(), Vec::<IpAddr>::new());
    assert_eq!(network.ls().len(), 1);
}

#[test]
fn a_dead_lease_is_taken_over_when_its_address_is_asked_for() {
    let mut network = Network::of("10.98.0.0/24");
    network.add("old").unwrap();
    network.wish(&[("10.98.0.2", CAPABILITY)]);
    assert_eq!(network.add_if("new", |_| false).unwrap(), ["10.98.0.2/24"]);
}

#[test]
fn podman_19583_the_holder_of_a_requested_address_is_named() {
    let mut network = Network::of("10.98.0.0/24");
    network.add("a").unwrap();
    network.wish(&[("10.98.0.2", ENVIRONMENT)]);
    let error = network.add("b").unwrap_err();
    assert_eq!(error.code(), 100);
    assert_eq!(
        error.to_string(),
        "requested IP address 10.98.0.2 is not available in range set 10.98.0.1-10.98.0.254: \
         it is held by interface eth0 of container a"
    );
    assert_eq!(network.ls().len(), 1);
}

#[test]
fn requested_addresses_are_taken_from_the_sets_they_belong_to() {
    let mut network = Network::new(&json!([
        [{"subnet": "10.1.0.0/24"}], [{"subnet": "10.2.0.0/24"}], [{"subnet": "fd98::/64"}]
    ]));
    network.wish(&[("fd98::77", CAPABILITY), ("10.2.0.9", ENVIRONMENT)]);
    assert_eq!(network.add("a").unwrap(), ["10.1.0.2/24", "10.2.0.9/24", "fd98::77/64"]);
}

#[test]
fn of_two_sources_the_one_of_more_weight_decides() {
    let mut network = Network::of("10.98.0.0/24");
    network.wish(&[("10.98.0.9", CAPABILITY), ("10.98.0.8", ENVIRONMENT)]);
    assert_eq!(network.add("a").unwrap(), ["10.98.0.9/24"]);
    network.wish(&[("10.98.0.10", CAPABILITY), ("10.98.0.11", CAPABILITY)]);
    let error = network.add("b").unwrap_err();
    assert_eq!(error.code(), 7);
    assert!(error.to_string().contains("failed to allocate all requested IPs"), "{error}");
    assert_eq!(network.ls().len(), 1);
}

#[test]
fn addresses_that_are_never_given_out_are_not_to_be_had_by_request() {
    let mut network = Network::of("10.98.0.0/24");
    for (address, reason) in [
        ("10.98.0.1", "gateway"),
        ("10.98.1.5", "failed to allocate all requested IPs"),
        ("10.98.0.255", "failed to allocate all requested IPs"),
        ("fd00::1", "failed to allocate all requested IPs"),
    ] {
        network.wish(&[(address, CAPABILITY)]);
        let error = network.add("a").unwrap_err();
        assert_eq!(error.code(), 7);
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains("runtimeConfig.ips"), "{text}");
        assert!(network.ls().is_empty());
    }
}

#[test]
fn addresses_in_host_locals_own_directory_are_held_and_whoever_holds_them_is_named() {
    let mut network = Network::of("10.98.0.0/24");
    let other = network.top.path().join("networks/net");
    network.write_host_local(&other, "10.98.0.2", "elsewhere\r\neth0");
    assert_eq!(network.add("a").unwrap(), ["10.98.0.3/24"]);
    network.wish(&[("10.98.0.2", CAPABILITY)]);
    let error = network.add("b").unwrap_err();
    assert!(error.to_string().contains("container elsewhere"), "{error}");
    network.config.requested.clear();
    let error = network.add("elsewhere").unwrap_err();
    assert!(error.to_string().contains("already has 10.98.0.2"), "{error}");
    Store::open(&other).unwrap().release(&attachment("elsewhere")).unwrap();
    assert!(!other.join("10.98.0.2").exists() && !other.join(".academy").exists());
    network.wish(&[("10.98.0.2", CAPABILITY)]);
    assert_eq!(network.add("b").unwrap(), ["10.98.0.2/24"]);
}

#[test]
fn a_lease_of_host_local_is_alive_whatever_the_records_say() {
    let network = Network::of("10.98.0.0/30");
    network.write_host_local(&network.config.store_dir, "10.98.0.2", "other\r\neth0");
    assert_eq!(network.add_if("a", |_| false).unwrap_err().code(), 100);
    let error = network.add_if("other", |_| false).unwrap_err();
    assert!(error.to_string().contains("already has 10.98.0.2"), "{error}");
    network.del("other");
    network.add("a").unwrap();
}

#[test]
fn cni_plugins_498_an_empty_file_is_reclaimed() {
    let network = Network::of("10.98.0.0/30");
    network.write_host_local(&network.config.store_dir, "10.98.0.2", "");
    assert_eq!(network.add("a").unwrap(), ["10.98.0.2/30"]);
    let file = network.config.store_dir.join("10.98.0.2");
    assert_eq!(fs::read_to_string(file).unwrap(), "a\r\neth0");
}

#[test]
fn what_is_no_file_is_in_the_way_and_no_crash() {
    let network = Network::of("10.98.0.0/30");
    fs::create_dir_all(network.config.store_dir.join("10.98.0.2")).unwrap();
    assert_eq!(network.add_if("a", |_| false).unwrap_err().code(), 100);
    fs::remove_dir(network.config.store_dir.join("10.98.0.2")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", network.config.store_dir.join("10.98.0.2")).unwrap();
    assert_eq!(network.add_if("a", |_| false).unwrap_err().code(), 100);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn cni_118_parallel_adds_get_different_addresses() {
    let network = Network::of("10.98.0.0/24");
    let mut addresses: Vec<String> = thread::scope(|scope| {
        let add = |index: usize| {
            let network = &network;
            scope.spawn(move || network.add(&format!("c{index}")).unwrap())
        };
        let threads: Vec<_> = (0..50).map(add).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 50);
    assert_eq!(network.ls().len(), 50);
    for index in 0..50 {
        network.del(&format!("c{index}"));
    }
    assert!(network.ls().is_empty());
    assert_eq!(network.private(), ["last_reserved.0"]);
}

#[test]
fn forty_cycles_leave_no_visible_file_and_nothing_hidden_but_the_place_to_go_on() {
    let network = Network::of("10.98.0.0/24");
    for _ in 0..40 {
        network.add("a").unwrap();
        network.del("a");
    }
    assert!(network.ls().is_empty());
    assert_eq!(network.private(), ["last_reserved.0"]);
}

#[test]
fn a_store_that_is_removed_by_hand_comes_back() {
    let network = Network::of("10.98.0.0/24");
    network.add("a").unwrap();
    fs::remove_dir_all(&network.config.store_dir).unwrap();
    network.del("a");
    assert_eq!(network.add("b").unwrap(), ["10.98.0.2/24"]);
}

#[test]
fn sixty_thousand_leases_do_not_slow_the_next_one_down() {
    let network = Network::of("10.98.0.0/16");
    network.add("first").unwrap();
    let address = |number: u32| std::net::Ipv4Addr::from(0x0a62_0000 + number);
    let shared = network.config.store_dir.join("10.98.0.2");
    // Names of one file are quicker to make than files. ext4 allows 65 000 of them.
    for number in 3..60_000 {
        let path = network.config.store_dir.join(address(number).to_string());
        fs::hard_link(&shared, path).unwrap();
    }
    let start = Instant::now();
    assert_eq!(network.add("next").unwrap(), ["10.98.234.96/16"]);
    // The run of held addresses is skipped by their names: no call per address.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(network.add("after").unwrap(), ["10.98.234.97/16"]);
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
}
