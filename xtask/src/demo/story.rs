//! What the demo shows, in order.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{
    BPFFS, DIRECTORY,
    machines::{self, C1, C2, CLIENT, CLIENT_ADDRESSES, HOST, HOST_ADDRESSES},
    plugin::{Attachment, Network},
    show,
    traffic::{Protocol, Reply, Server, ask, hold},
};
use crate::{
    interrupt::{self, Registered},
    netns,
    process::start,
};

const CONFLIST: &str = include_str!("../../../packaging/cni/10-academy-dual-stack.conflist");
/// The port of the host that c1 publishes.
const HOST_PORT: u16 = 8080;
/// The port in the container.
const CONTAINER_PORT: u16 = 80;

/// One question.
struct Case {
    from: &'static str,
    to: IpAddr,
    port: u16,
    what: &'static str,
    /// Who the container has to see; `None` when nobody may answer.
    seen: Option<IpAddr>,
}

impl Case {
    /// What is wrong with an answer.
    fn remark(&self, reply: &Reply) -> Option<String> {
        match (reply, self.seen) {
            (Reply::Answer { server, seen }, Some(wanted)) if server == "c1" && *seen == wanted => {
                None
            }
            (_, Some(wanted)) => Some(format!("c1 has to answer and to see {wanted}")),
            (Reply::Answer { .. }, None) => Some("nobody may answer".to_owned()),
            (Reply::Refused | Reply::Nothing(_), None) => None,
        }
    }
}

/// Tells it, and gives the number of requests.
///
/// # Errors
/// When a step fails or something goes another way than it should.
pub fn tell(binary: &Path, trace: bool) -> Result<usize> {
    title("Four machines: a host, a client outside, two containers");
    machines::make()?;
    println!("host   {}   (its wire to the client)", HOST_ADDRESSES.join(", "));
    println!("client {}", CLIENT_ADDRESSES.join(", "));

    title("ADD, as a runtime does it with packaging/cni/10-academy-dual-stack.conflist");
    let network = Network::new(binary, CONFLIST)?;
    let c1 = network.add(C1, vec![publish("tcp"), publish("udp")])?;
    let c2 = network.add(C2, Vec::new())?;
    for (name, attachment) in [("c1", &c1), ("c2", &c2)] {
        describe(name, attachment);
        network.check(attachment).context("CHECK")?;
    }
    println!("c1 publishes its port {CONTAINER_PORT} as {HOST_PORT} of the host, tcp and udp");
    interrupt::check()?;

    let log = if trace { Some(follow(&network)?) } else { None };
    let servers =
        [Server::start(C1, "c1", CONTAINER_PORT)?, Server::start(C2, "c2", CONTAINER_PORT)?];
    title("Requests: from where, to what, what came back");
    let cases = cases(&c1, &c2)?;
    let mut score = Score::default();
    score.ask(&cases)?;
    drop(log);

    title("What is in the maps, while the client holds a connection");
    let held = hold(CLIENT, SocketAddr::new(HOST_ADDRESSES[0].parse()?, HOST_PORT));
    ["ports4", "endpoints", "flows4", "opening4"].into_iter().try_for_each(show::map)?;
    drop(held);

    title("DEL of c1, and the same requests again");
    network.del(&c1)?;
    let published = cases.into_iter().filter(|case| case.port == HOST_PORT && case.from != C1);
    score.ask(&published.map(|case| Case { seen: None, ..case }).collect::<Vec<_>>())?;
    drop(servers);

    title("DEL of c2, academy reset");
    network.del(&c2)?;
    network.administrate("reset")?;
    require_nothing_left()?;
    if score.wrong > 0 {
        bail!("{} of {} requests went wrong", score.wrong, score.made);
    }
    Ok(score.made)
}

/// The request table of the product, as far as it fits here.
fn cases(c1: &Attachment, c2: &Attachment) -> Result<Vec<Case>> {
    let loopbacks: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let families = c1.addresses.iter().zip(&c1.gateways).zip(&c2.addresses).zip(loopbacks);
    let wire = HOST_ADDRESSES.iter().zip(CLIENT_ADDRESSES);
    let mut cases = Vec::new();
    for ((((&own, &gateway), &neighbour), loopback), (host, client)) in families.zip(wire) {
        let (host, client): (IpAddr, IpAddr) = (host.parse()?, client.parse()?);
        let mut case = |from, to, port, what, seen| {
            cases.push(Case { from, to, port, what, seen: Some(seen) });
        };
        case(CLIENT, host, HOST_PORT, "client outside", client);
        case(HOST, loopback, HOST_PORT, "host, loopback", gateway);
        case(HOST, host, HOST_PORT, "host, own address", host);
        case(HOST, gateway, HOST_PORT, "host, gateway", gateway);
        case(C2, host, HOST_PORT, "neighbour c2", neighbour);
        case(C1, host, HOST_PORT, "c1 itself", gateway);
        case(C2, own, CONTAINER_PORT, "c2, directly", neighbour);
    }
    Ok(cases)
}

/// How many requests were made, and how many went another way than they should.
#[derive(Default)]
struct Score {
    made: usize,
    wrong: usize,
}

impl Score {
    /// Puts the questions over both protocols and prints the answers.
    fn ask(&mut self, cases: &[Case]) -> Result<()> {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for case in cases {
                interrupt::check()?;
                let to = SocketAddr::new(case.to, case.port);
                let reply = ask(case.from, protocol, to)?;
                let remark = case.remark(&reply);
                self.made += 1;
                self.wrong += usize::from(remark.is_some());
                let remark = remark.map_or(String::new(), |remark| format!("   WRONG: {remark}"));
                println!("{:<18} {protocol} {:<22} {reply}{remark}", case.what, to.to_string());
            }
        }
        Ok(())
    }
}

fn publish(protocol: &str) -> Value {
    json!({ "hostPort": HOST_PORT, "containerPort": CONTAINER_PORT, "protocol": protocol })
}

fn describe(name: &str, attachment: &Attachment) {
    let addresses: Vec<_> = attachment.addresses.iter().map(ToString::to_string).collect();
    println!("{name}: {} ({})", addresses.join(", "), attachment.interfaces.join(", "));
}

/// The reader of the verdict log; it prints until it is dropped.
struct Follower(Registered);

impl Drop for Follower {
    fn drop(&mut self) {
        // What it has not read yet is about the last requests.
        thread::sleep(Duration::from_millis(200));
        // It may have ended by itself.
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

fn follow(network: &Network) -> Result<Follower> {
    let mut command = network.command();
    command.arg("trace");
    let mut follower = netns::enter(HOST, || start(&mut command))?;
    // It opens the log before the first packet.
    thread::sleep(Duration::from_millis(500));
    if let Some(status) = follower.child.try_wait()? {
        bail!("academy trace ended at once: {status}");
    }
    Ok(Follower(follower))
}

/// Fails when the plugin has left anything.
fn require_nothing_left() -> Result<()> {
    let mut left = Vec::new();
    let links = netns::ip(HOST, "-o link show")?;
    left.extend(
        links
            .lines()
            .filter(|link| !link.contains(": lo:") && !link.contains(": up0@"))
            .map(str::to_owned),
    );
    for directory in [BPFFS.to_owned(), format!("{DIRECTORY}/run"), format!("{DIRECTORY}/state")] {
        files(Path::new(&directory), &mut left)?;
    }
    if !left.is_empty() {
        bail!("academy reset left behind:\n  {}", left.join("\n  "));
    }
    println!("no interface, pin, record or lease is left");
    Ok(())
}

/// The files below a directory; of a directory that is not there none.
fn files(directory: &Path, found: &mut Vec<String>) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, found)?;
        } else if !path.ends_with("lock") {
            found.push(path.display().to_string());
        }
    }
    Ok(())
}

fn title(text: &str) {
    println!("\n=== {text}");
}
