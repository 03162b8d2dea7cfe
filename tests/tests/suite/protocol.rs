//! The verbs, the environment, and what goes to stdout and to stderr (`reference/cni.md` 1.1).

use std::path::Path;

use serde_json::{Value, json};
use tests::{Call, Lab, leak::Snapshot, tools};

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

fn run(call: Call, lab: &Lab) -> tests::Outcome {
    lab.places(call).run(&lab.host)
}

fn academy(command: &str) -> Call {
    Call::new(&tools::academy(), command, &tools::directory())
}

#[test]
fn version_answers_with_and_without_stdin() {
    let lab = Lab::new();
    for stdin in ["", "{}", r#"{"cniVersion":"0.4.0"}"#, r#"{"cniVersion":"1.1.0"}"#] {
        let outcome = run(academy("VERSION").stdin(stdin), &lab).success();
        let answer = outcome.json();
        assert_eq!(answer["supportedVersions"], json!(VERSIONS), "{stdin}");
        assert!(answer["cniVersion"].is_string(), "{outcome:?}");
    }
    // podman: everything else is a dummy.
    let call = academy("VERSION").container("dummy", Path::new("dummy"), "dummy");
    let outcome = run(call.stdin(r#"{"cniVersion":"1.0.0"}"#), &lab);
    assert_eq!(outcome.success().json()["supportedVersions"], json!(VERSIONS));
}

#[test]
fn without_a_command_the_versions_are_shown_on_stderr() {
    let lab = Lab::new();
    let outcome = run(Call::bare(&tools::academy()), &lab).success();
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("academy"), "{outcome:?}");
    for version in VERSIONS {
        assert!(outcome.stderr.contains(version), "{version}: {outcome:?}");
    }
}

#[test]
fn an_unknown_command_is_named() {
    let lab = Lab::new();
    let call = academy("DANCE").container("id", Path::new("/run/netns/x"), "eth0");
    run(call.config(&lab.config(&[])), &lab).fails_with(4, &["DANCE"]);
}

#[test]
fn all_missing_variables_are_named_at_once() {
    let lab = Lab::new();
    let all = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
    for (command, required) in [
        ("ADD", &all[..]),
        ("CHECK", &all[..]),
        ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"][..]),
        ("GC", &["CNI_PATH"][..]),
        ("STATUS", &["CNI_PATH"][..]),
    ] {
        let call = academy(command).without("CNI_PATH").config(&lab.config(&[]));
        run(call, &lab).fails_with(4, required);
        for variable in required {
            let call = academy(command).container("id", Path::new("/run/netns/none"), "eth0");
            let call = call.without(variable).config(&lab.config(&[]));
            run(call, &lab).fails_with(4, &[variable]);
        }
    }
}

#[test]
fn ids_and_interface_names_that_are_no_names_are_refused() {
    let lab = Lab::new();
    let web = lab.container("web");
    let before = Snapshot::of(&lab);
    for command in ["ADD", "DEL", "CHECK"] {
        for id in ["../escape", "-x", ".x", "a/b", "a b", "a\nb"] {
            let call = lab.call(command).container(id, web.netns.path(), "eth0");
            let outcome = call.config(&lab.config(&[])).run(&lab.host);
            assert_eq!(outcome.error().code, 4, "{command} of {id:?}: {outcome:?}");
        }
        for ifname in [".", "..", "a/b", "a:b", "a b", "sixteen-letters-"] {
            let call = lab.call(command).container(&web.id, web.netns.path(), ifname);
            let outcome = call.config(&lab.config(&[])).run(&lab.host);
            assert_eq!(outcome.error().code, 4, "{command} of {ifname:?}: {outcome:?}");
        }
    }
    before.assert_unchanged(&lab);
}

#[test]
fn a_network_without_a_usable_name_is_refused() {
    let lab = Lab::new();
    let web = lab.container("web");
    for command in ["ADD", "DEL", "GC", "STATUS"] {
        for name in [json!(null), json!(""), json!("../escape"), json!("-x"), json!("a b")] {
            let mut config = lab.config(&[]);
            config["name"] = name.clone();
            let outcome = lab.run(command, &web, "eth0", &config);
            assert_eq!(outcome.error().code, 7, "{command} of {name}: {outcome:?}");
        }
    }
}

#[test]
fn what_is_no_json_is_code_6() {
    let lab = Lab::new();
    let web = lab.container("web");
    for text in ["", "{", "[]", "7", "\"text\"", "{\"name\":\"lab\"} trailing", "\u{0}"] {
        for command in ["ADD", "CHECK", "GC", "STATUS"] {
            let call = lab.call(command).container(&web.id, web.netns.path(), "eth0");
            let outcome = call.stdin(text).run(&lab.host);
            assert_eq!(outcome.error().code, 6, "{command} of {text:?}: {outcome:?}");
        }
    }
}

#[test]
fn versions_that_are_unknown_or_lack_the_verb_are_refused() {
    let lab = Lab::new();
    let web = lab.container("web");
    for (command, version, code) in [
        ("ADD", "1.2.0", 1),
        ("ADD", "2.0.0", 1),
        ("DEL", "9.9.9", 1),
        ("ADD", "0.5.0", 1),
        ("CHECK", "0.3.1", 1),
        ("CHECK", "0.1.0", 1),
        ("GC", "1.0.0", 1),
        ("STATUS", "0.4.0", 1),
        ("ADD", "one", 6),
    ] {
        let mut config = lab.config(&[]);
        config["cniVersion"] = json!(version);
        let outcome = lab.run(command, &web, "eth0", &config);
        assert_eq!(outcome.error().code, code, "{command} of {version}: {outcome:?}");
    }
    let mut config = lab.config(&[]);
    config["cniVersion"] = json!("1.2.0");
    let error = lab.run("ADD", &web, "eth0", &config).error();
    let text = format!("{} {}", error.msg, error.details);
    assert!(text.contains("1.2.0") && text.contains("1.1.0"), "{text}");
}

#[test]
fn a_namespace_that_is_none_is_code_8_or_names_the_path() {
    let lab = Lab::new();
    let web = lab.container("web");
    let before = Snapshot::of(&lab);
    let file = lab.scratch().join("no-namespace");
    std::fs::write(&file, "text").unwrap();
    let missing = Path::new("/run/netns/act-never-there");
    for path in [missing, &file, Path::new("relative"), lab.host.path()] {
        let call = lab.call("ADD").container(&web.id, path, "eth0").config(&lab.config(&[]));
        let outcome = call.run(&lab.host);
        assert_eq!(outcome.error().code, 8, "{path:?}: {outcome:?}");
        before.assert_unchanged(&lab);
    }
}

/// The lab's exercise 12: whatever fails, stdout is one JSON document and nothing else.
#[test]
fn stdout_is_one_document_also_when_everything_is_wrong() {
    let lab = Lab::new();
    let web = lab.container("web");
    for (key, value) in [
        ("bridge", json!("up0")),
        ("ipam", json!({ "type": "no-such-plugin" })),
        ("ipam", json!({ "ranges": [[{ "subnet": "10.98.0.0/33" }]] })),
        ("runtimeConfig", json!({ "portMappings": [{ "hostPort": 1 }] })),
    ] {
        let mut config = lab.config(&[]);
        config[key] = value;
        let outcome = lab.run("ADD", &web, "eth0", &config);
        let document: Value = outcome.json();
        assert!(document["code"].is_u64() && document["msg"].is_string(), "{outcome:?}");
        assert_ne!(outcome.code, Some(0));
    }
}

#[test]
fn status_is_well_on_a_fresh_host_and_changes_nothing() {
    let lab = Lab::new();
    let before = Snapshot::of(&lab);
    let config = lab.config(&[]);
    lab.call("STATUS").config(&config).run(&lab.host).silent_success();
    before.assert_unchanged(&lab);
    assert!(!lab.run_directory().exists() && !lab.state_directory().exists());
}

#[test]
fn status_is_50_without_a_bpffs() {
    let lab = Lab::new();
    let nowhere = lab.scratch().join("plain-directory");
    std::fs::create_dir(&nowhere).unwrap();
    for place in [nowhere.clone(), nowhere.join("academy")] {
        let call = lab.call("STATUS").env("ACADEMY_BPFFS", place.to_str().unwrap());
        let outcome = call.config(&lab.config(&[])).run(&lab.host);
        outcome.fails_with(50, &["bpf"]);
    }
}

/// A pool without a free address is no reason to take the node out of service.
#[test]
fn status_is_well_with_an_exhausted_pool_and_warns() {
    let lab = Lab::new();
    let network = tests::Network { subnet4: "10.98.0.0/30".into(), ..tests::Network::default() };
    let web = lab.container("web");
    let attached = lab.add_to(&network, &web, "eth0", &[]);
    let config = &attached.configs[0];
    let outcome = lab.call("STATUS").config(config).run(&lab.host).success();
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("10.98.0."), "{outcome:?}");
}
