//! Links, addresses, routes and neighbours of one network namespace, over rtnetlink.

mod address;
mod bridge;
mod link;
mod neighbour;
mod route;
mod veth;

use std::{io, rc::Rc, time::Duration};

use futures_util::StreamExt;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use rtnetlink::Handle;
use tokio::runtime::{Builder, Runtime};

pub use address::Address;
pub use bridge::PortOptions;
pub use link::{Link, LinkChange};
pub use route::Route;
pub use veth::VethPair;

use crate::{
    error::{Error, Result},
    netns::Netns,
};

/// How often a dump is asked for again that the kernel calls inconsistent, since something
/// changed while it was written (`NLM_F_DUMP_INTR`).
const DUMP_ATTEMPTS: u32 = 20;

/// How long to wait for an answer. The kernel gives one at once; but one that rtnetlink cannot
/// read it leaves out.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the kernel's routing netlink in one network namespace. A netlink socket stays
/// in the namespace that it was opened in, so no call below enters one.
#[derive(Debug)]
pub struct Netlink {
    /// One for all connections, on the calling thread: another thread could be in another
    /// namespace.
    runtime: Rc<Runtime>,
    handle: Handle,
}

impl Netlink {
    /// A connection in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`Error::Netlink`] when the socket cannot be had.
    pub fn open() -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|source| failure("open", "a netlink socket", source))?;
        let connection = connect(runtime.handle());
        Self::start(Rc::new(runtime), connection)
    }

    /// A connection in another namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`] when the socket cannot be had, [`Error::Netns`] when the namespace
    /// cannot be entered.
    pub fn open_in(&self, netns: &Netns) -> Result<Self> {
        let runtime = self.runtime.handle();
        let connection = netns.run(|| connect(runtime))?;
        Self::start(Rc::clone(&self.runtime), connection)
    }

    fn start(
        runtime: Rc<Runtime>,
        connection: io::Result<(impl Future<Output = ()> + Send + 'static, Handle)>,
    ) -> Result<Self> {
        let (connection, handle) =
            connection.map_err(|source| failure("open", "a netlink socket", source))?;
        runtime.spawn(connection);
        Ok(Self { runtime, handle })
    }

    /// Asks for a change.
    fn change(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, NLM_F_ACK | flags).map(drop)
    }

    /// Asks for one object.
    fn get(&self, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        Ok(self.exchange(message, 0)?.objects.into_iter().next())
    }

    /// Asks for all objects of a kind, as they were at one moment.
    fn dump(&self, message: &RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..DUMP_ATTEMPTS {
            let replies = self.exchange(message.clone(), NLM_F_DUMP)?;
            if !replies.interrupted {
                return Ok(replies.objects);
            }
        }
        Err(Errno::EAGAIN.into())
    }

    fn exchange(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Replies> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        let mut handle = self.handle.clone();
        let answer = async {
            let mut stream = handle.request(request).map_err(io::Error::other)?;
            let mut replies = Replies { objects: Vec::new(), interrupted: false };
            while let Some(reply) = stream.next().await {
                replies.interrupted |= reply.header.flags & NLM_F_DUMP_INTR != 0;
                match reply.payload {
                    NetlinkPayload::InnerMessage(object) => replies.objects.push(object),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    _ => {}
                }
            }
            Ok(replies)
        };
        let late = |_| Err(io::ErrorKind::TimedOut.into());
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(late) })
    }
}

/// What the kernel answered to one request.
struct Replies {
    objects: Vec<RouteNetlinkMessage>,
    interrupted: bool,
}

/// Opens a socket in the calling thread's namespace, with the task that will serve it.
fn connect(
    runtime: &tokio::runtime::Handle,
) -> io::Result<(impl Future<Output = ()> + Send + use<>, Handle)> {
    let _guard = runtime.enter();
    // The third part is a queue of messages nobody asked for: there are none without multicast.
    let (mut connection, handle, _) = rtnetlink::new_connection()?;
    // The last message of a dump may be the one that says it was interrupted.
    connection.set_forward_done(true);
    Ok((connection, handle))
}

/// Says what was being done to which object when the kernel refused.
fn failure(doing: &'static str, object: impl Into<String>, source: io::Error) -> Error {
    // containerd takes a DEL for done when its error has the kernel's own words for this.
    let reason = match source.kind() {
        io::ErrorKind::NotFound => "it does not exist (ENOENT)".to_owned(),
        _ => source.to_string(),
    };
    Error::Netlink { doing, object: object.into(), reason }
}

/// Whether the kernel's answer is this one.
fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno as i32)
}

/// Takes one kind of refusal for success: the object is there already, or gone already.
fn tolerate(result: io::Result<()>, errnos: &[Errno]) -> io::Result<()> {
    match result {
        Err(error) if errnos.iter().any(|errno| is(&error, *errno)) => Ok(()),
        other => other,
    }
}
