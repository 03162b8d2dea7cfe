use serde_json::{Value, json};

use super::*;
use crate::config::Json;

fn read(value: Value) -> Result<Range> {
    let json = Json::parse(value.to_string().as_bytes()).unwrap();
    Range::read(&Fields::new(&json, "ipam").unwrap())
}

fn range(subnet: &str) -> Range {
    read(json!({ "subnet": subnet })).unwrap()
}

fn set(subnets: &[&str]) -> RangeSet {
    RangeSet::new(subnets.iter().map(|subnet| range(subnet)).collect(), "ipam").unwrap()
}

fn all(set: &RangeSet, last: Option<&str>) -> Vec<String> {
    set.candidates(last.map(|text| text.parse().unwrap()))
        .map(|(address, _)| address.to_string())
        .collect()
}

#[test]
fn a_subnet_alone_gives_first_to_last_address_and_the_first_as_gateway() {
    let four = range("10.98.0.0/24");
    assert_eq!(four.to_string(), "10.98.0.1-10.98.0.254");
    assert_eq!(four.gateway().to_string(), "10.98.0.1");
    let six = range("fd98::/64");
    assert_eq!(six.to_string(), "fd98::1-fd98::ffff:ffff:ffff:ffff");
    assert_eq!(six.gateway().to_string(), "fd98::1");
}

#[test]
fn wrong_ranges_name_field_and_value() {
    for (value, field, reason) in [
        (json!({}), "ipam.subnet", "must be there"),
        (json!({"subnet": "10.0.0.0"}), "ipam.subnet", "\"10.0.0.0\""),
        (json!({"subnet": "10.0.0.0/33"}), "ipam.subnet", "prefix length"),
        (
            json!({"subnet": "10.1.2.3/24"}),
            "ipam.subnet",
            "Network has host bits set. For a subnet mask of length 24 the network address is \
             10.1.2.0",
        ),
        (
            json!({"subnet": "10.0.0.0/31"}),
            "ipam.subnet",
            "Network 10.0.0.0/31 too small to allocate from",
        ),
        (json!({"subnet": "10.0.0.0/32"}), "ipam.subnet", "too small"),
        (json!({"subnet": "fd00::/127"}), "ipam.subnet", "too small"),
        (json!({"subnet": "fd00::1/128"}), "ipam.subnet", "too small"),
        (
            json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}),
            "ipam.rangeStart",
            "must be in network 10.0.0.0/24",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "rangeEnd": "fd00::1"}),
            "ipam.rangeEnd",
            "must be in network",
        ),
        (
            json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.8"}),
            "ipam.rangeEnd",
            "before rangeStart",
        ),
        (json!({"subnet": "10.0.0.0/24", "gateway": "x"}), "ipam.gateway", "IP address"),
        (json!({"subnet": "10.0.0.0/24", "gateway": "10.0.1.1"}), "ipam.gateway", "in network"),
        (json!({"subnet": "10.0.0.0/24", "gateway": "10.0.0.0"}), "ipam.gateway", "network"),
        (json!({"subnet": "10.0.0.0/24", "gateway": "10.0.0.255"}), "ipam.gateway", "broad"),
    ] {
        let error = read(value.clone()).unwrap_err();
        assert_eq!(error.code(), 7, "{value}");
        let message = error.to_string();
        assert!(message.contains(field) && message.contains(reason), "{message}");
    }
}

#[test]
fn a_gateway_may_be_any_address_of_the_subnet_or_link_local() {
    let last = read(json!({"subnet": "10.0.0.0/24", "gateway": "10.0.0.254"})).unwrap();
    assert_eq!(last.gateway().to_string(), "10.0.0.254");
    let six = read(json!({"subnet": "fd00::/64", "gateway": "fe80::1"})).unwrap();
    assert_eq!(six.gateway().to_string(), "fe80::1");
}

#[test]
fn network_broadcast_and_gateway_are_never_given_out() {
    assert_eq!(
        all(&set(&["10.98.0.0/29"]), None),
        ["10.98.0.2", "10.98.0.3", "10.98.0.4", "10.98.0.5", "10.98.0.6"]
    );
    let whole = json!({
        "subnet": "10.0.0.0/30", "rangeStart": "10.0.0.0", "rangeEnd": "10.0.0.3",
        "gateway": "10.0.0.2"
    });
    let whole = RangeSet::new(vec![read(whole).unwrap()], "ipam").unwrap();
    assert_eq!(all(&whole, None), ["10.0.0.1"]);
    assert_eq!(all(&set(&["fd00::/126"]), None), ["fd00::2", "fd00::3"]);
}

#[test]
fn candidates_begin_after_the_last_one_and_come_round_once() {
    let one = set(&["10.98.0.0/29"]);
    assert_eq!(
        all(&one, Some("10.98.0.4")),
        ["10.98.0.5", "10.98.0.6", "10.98.0.2", "10.98.0.3", "10.98.0.4"]
    );
    assert_eq!(all(&one, Some("10.98.0.6")), all(&one, None));
    assert_eq!(all(&one, Some("192.0.2.1")), all(&one, None));
    let two = set(&["10.1.0.0/30", "10.2.0.0/29"]);
    let expected = ["10.2.0.6", "10.1.0.2", "10.2.0.2", "10.2.0.3", "10.2.0.4", "10.2.0.5"];
    assert_eq!(all(&two, Some("10.2.0.5")), expected);
}

#[test]
fn every_candidate_comes_exactly_once_wherever_it_begins() {
    let sets = set(&["10.1.0.0/28", "10.2.0.0/29", "10.3.0.0/30"]);
    let mut expected = all(&sets, None);
    expected.sort();
    for last in expected.clone() {
        let mut found = all(&sets, Some(&last));
        assert_eq!(found.last(), Some(&last));
        found.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_ends_of_the_address_space_do_not_overflow() {
    let top = set(&["ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"]);
    assert_eq!(all(&top, None).len(), 2);
    assert_eq!(all(&top, Some("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")).len(), 2);
    let v4 = set(&["255.255.255.248/29"]);
    assert_eq!(all(&v4, Some("255.255.255.254")).len(), 5);
    assert_eq!(all(&set(&["0.0.0.0/29"]), None).len(), 5);
}

#[test]
fn sets_are_of_one_family_without_overlaps() {
    let new = |subnets: &[&str]| {
        RangeSet::new(subnets.iter().map(|subnet| range(subnet)).collect(), "ipam.ranges[0]")
    };
    for (subnets, reason) in [
        (&["10.0.0.0/24", "fd00::/64"][..], "mixed address families"),
        (&["10.0.0.0/24", "10.0.0.0/25"][..], "overlap"),
        (&["10.0.0.0/25", "10.0.0.0/24"][..], "overlap"),
        (&[][..], "empty range set"),
    ] {
        let error = new(subnets).unwrap_err();
        assert_eq!(error.code(), 7);
        assert!(error.to_string().contains(reason), "{error}");
    }
    let sets = [set(&["10.0.0.0/24"]), set(&["fd00::/64"]), set(&["10.0.0.128/25"])];
    let error = check_overlaps(&sets, "ipam.ranges").unwrap_err();
    assert!(error.to_string().contains("range set 0 overlaps with 2"), "{error}");
    check_overlaps(&sets[..2], "ipam.ranges").unwrap();
}
