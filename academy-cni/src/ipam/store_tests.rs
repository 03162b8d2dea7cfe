use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::{ipam::remove_spare, testing::TempDir};

fn attachment(id: &str) -> Attachment {
    Attachment::new("net", id, "eth0").unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn store(top: &TempDir) -> Store {
    Store::open(&top.path().join("net")).unwrap()
}

/// What an ADD does to take these addresses.
fn take(store: &Store, id: &str, addresses: &[&str]) {
    let _guard = store.lock().unwrap();
    let file = store.begin(&attachment(id)).unwrap();
    for text in addresses {
        assert!(matches!(store.claim(&file, address(text)).unwrap(), Claim::Taken));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[test]
fn a_lease_has_the_content_of_host_local_and_a_second_link_of_the_same_inode() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    let file = top.path().join("net/10.98.0.2");
    let mark = top.path().join("net/.academy/10.98.0.2");
    assert_eq!(fs::read(&file).unwrap(), b"c1\r\neth0");
    assert_eq!(fs::metadata(&file).unwrap().ino(), fs::metadata(&mark).unwrap().ino());
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(top.path().join("net")).unwrap().mode() & 0o777, 0o700);
    let lease = store.leases().unwrap().pop().unwrap();
    assert!(lease.own && lease.holder.unwrap().is(&attachment("c1")));
}

#[test]
fn a_held_address_says_who_holds_it() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    let file = store.begin(&attachment("c2")).unwrap();
    let Claim::Held(lease) = store.claim(&file, address("10.98.0.2")).unwrap() else {
        panic!("the address was given out twice")
    };
    assert_eq!(store.attachment(&lease).unwrap(), attachment("c1"));
}

#[test]
fn cni_plugins_1196_release_frees_by_owner_and_nothing_else() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2", "fd98::2"]);
    take(&store, "c2", &["10.98.0.3"]);
    let mut freed = store.release(&attachment("c1")).unwrap();
    freed.sort();
    assert_eq!(freed, [address("10.98.0.2"), address("fd98::2")]);
    assert!(store.release(&attachment("c1")).unwrap().is_empty());
    assert!(store.holds(&attachment("c2"), address("10.98.0.3")).unwrap());
    assert!(!store.holds(&attachment("c1"), address("10.98.0.3")).unwrap());
    assert!(!store.holds(&attachment("c1"), address("10.98.0.2")).unwrap());
}

#[test]
fn cilium_10065_a_late_release_leaves_the_next_holder_alone() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "old", &["10.98.0.2"]);
    store.release(&attachment("old")).unwrap();
    take(&store, "new", &["10.98.0.2"]);
    assert!(store.release(&attachment("old")).unwrap().is_empty());
    assert!(store.holds(&attachment("new"), address("10.98.0.2")).unwrap());
}

#[test]
fn a_missing_directory_is_released_and_not_made() {
    let top = TempDir::new();
    let store = store(&top);
    assert!(store.release(&attachment("c1")).unwrap().is_empty());
    assert!(store.retain(|_| false).unwrap().is_empty());
    assert!(store.leases().unwrap().is_empty());
    assert!(!store.holds(&attachment("c1"), address("10.98.0.2")).unwrap());
    assert!(names(top.path()).is_empty());
}

#[test]
fn leases_of_host_local_old_and_new_are_released_by_owner() {
    let top = TempDir::new();
    let store = store(&top);
    let directory = top.path().join("net");
    fs::create_dir(&directory).unwrap();
    for (name, content) in [
        ("10.98.0.2", "c1\r\neth0"),
        ("10.98.0.3", "c1"),
        ("10.98.0.4", "c1\r\neth1"),
        ("10.98.0.5", "c2\r\neth0"),
        ("last_reserved_ip.0", "10.98.0.5"),
        ("lock", ""),
    ] {
        fs::write(directory.join(name), content).unwrap();
    }
    let mut freed = store.release(&attachment("c1")).unwrap();
    freed.sort();
    assert_eq!(freed, [address("10.98.0.2"), address("10.98.0.3")]);
    assert_eq!(names(&directory), ["10.98.0.4", "10.98.0.5", "last_reserved_ip.0", "lock"]);
    assert!(store.leases().unwrap().iter().all(|lease| !lease.own));
}

#[test]
fn a_name_that_host_local_made_again_is_host_locals() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    let file = top.path().join("net/10.98.0.2");
    fs::remove_file(&file).unwrap();
    fs::write(&file, "c2\r\neth0").unwrap();
    assert!(!store.leases().unwrap().pop().unwrap().own);
    // What is left of ours goes, and theirs stays.
    store.release(&attachment("c1")).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"c2\r\neth0");
    assert_eq!(names(&top.path().join("net/.academy")), Vec::<String>::new());
}

#[test]
fn a_lease_whose_call_was_killed_before_the_second_link_is_academys_and_is_freed() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    fs::remove_file(top.path().join("net/.academy/10.98.0.2")).unwrap();
    assert!(store.leases().unwrap().pop().unwrap().own);
    assert_eq!(store.release(&attachment("c1")).unwrap(), [address("10.98.0.2")]);
    assert_eq!(names(&top.path().join("net/.academy")), Vec::<String>::new());
}

#[test]
fn a_release_that_was_killed_half_way_is_finished_by_the_next() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    fs::remove_file(top.path().join("net/10.98.0.2")).unwrap();
    take(&store, "c2", &["10.98.0.2"]);
    store.release(&attachment("c1")).unwrap();
    assert!(store.holds(&attachment("c2"), address("10.98.0.2")).unwrap());
    let lease = store.leases().unwrap().pop().unwrap();
    assert!(lease.own);
}

#[test]
fn cni_plugins_1047_retain_keeps_what_is_valid_and_clears_what_killed_calls_left() {
    let top = TempDir::new();
    let store = store(&top);
    take(&store, "c1", &["10.98.0.2"]);
    take(&store, "c2", &["10.98.0.3"]);
    take(&store, "c3", &[]);
    let directory = top.path().join("net");
    for (name, content) in [
        ("10.98.0.4", ""),
        ("10.98.0.5", "c5\r\neth0"),
        ("10.98.0.6", "c1"),
        ("lock", ""),
        ("last_reserved_ip.0", "10.98.0.5"),
        (".academy/10.98.0.9", "c9\r\neth0"),
        (".academy/.new-1-0", "c"),
        (".academy/last_reserved.0", "10.98.0.5"),
    ] {
        fs::write(directory.join(name), content).unwrap();
    }
    let mut freed = store.retain(|holder| holder.container_id == "c1").unwrap();
    freed.sort();
    assert_eq!(freed, ["10.98.0.3", "10.98.0.4", "10.98.0.5"].map(address));
    let visible = [".academy", "10.98.0.2", "10.98.0.6", "last_reserved_ip.0", "lock"];
    assert_eq!(names(&directory), visible);
    let hidden = names(&directory.join(".academy"));
    let owner = format!("owner-{:016x}", attachment("c1").owner());
    assert_eq!(hidden, ["10.98.0.2".to_owned(), "last_reserved.0".to_owned(), owner]);
}

#[test]
fn a_store_that_others_could_write_to_is_refused() {
    let top = TempDir::new();
    let directory = top.path().join("net");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(store(&top).lock().unwrap_err().code(), 103);
}

#[test]
fn a_directory_that_is_no_name_of_a_network_is_no_store() {
    for bad in ["/", "/x/..", "/x/.hidden"] {
        assert_eq!(Store::open(Path::new(bad)).unwrap_err().code(), 7);
    }
}

#[test]
fn host_locals_lock_is_waited_for() {
    let top = TempDir::new();
    let directory = top.path().join("net");
    fs::create_dir(&directory).unwrap();
    let theirs = File::create(directory.join("lock")).unwrap();
    theirs.lock().unwrap();
    let waiting = std::thread::spawn({
        let store = store(&top);
        move || take(&store, "c1", &["10.98.0.2"])
    });
    std::thread::sleep(Duration::from_millis(30));
    assert!(!directory.join("10.98.0.2").exists());
    drop(theirs);
    waiting.join().unwrap();
    assert!(directory.join("10.98.0.2").exists());
}

#[test]
fn spare_directories_go_and_those_with_leases_stay() {
    let top = TempDir::new();
    let state = top.path().join("state");
    let [one, two] = ["one", "two"].map(|name| Store::open(&state.join(name)).unwrap());
    take(&one, "c1", &["10.98.0.2"]);
    take(&two, "c2", &["10.99.0.2"]);
    let theirs = Attachment::new("one", "c1", "eth0").unwrap();
    one.release(&attachment("c1")).unwrap();
    one.release(&theirs).unwrap();
    one.set_last_reserved(0, address("10.98.0.2")).unwrap();
    remove_spare(&state).unwrap();
    assert_eq!(names(&state), ["two"]);
    two.retain(|_| false).unwrap();
    remove_spare(&state).unwrap();
    remove_spare(&state).unwrap();
    assert!(!state.exists());
}
