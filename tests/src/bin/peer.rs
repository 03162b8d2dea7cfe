//! `peer NAME tcp|udp ADDRESS PORT [WORD…]`: a server in a process of its own, since a listener
//! that an ancestor of the plugin holds is the runtime's reservation. It ends with its stdin. The
//! further words are for the reader of its command line.

use std::{
    env,
    error::Error,
    io::{self, Read},
    net::SocketAddr,
};

use tests::{Protocol, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let mut next = || words.next().ok_or("usage: peer NAME tcp|udp ADDRESS PORT");
    let name = next()?;
    let protocol = if next()? == "tcp" { Protocol::Tcp } else { Protocol::Udp };
    let at = SocketAddr::new(next()?.parse()?, next()?.parse()?);
    let _server = Server::here(&name, protocol, at)?;
    println!("{at}");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
