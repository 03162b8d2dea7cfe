//! `runtimeConfig.portMappings`: the host ports that a container is to answer on.

use std::net::IpAddr;

use academy_common::protocol;

use super::{Fields, Json};
use crate::error::{Error, Result};

/// A port mapping as the runtime asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRequest {
    /// IP protocol number: TCP or UDP.
    pub protocol: u8,
    /// The host's address. None means all of both families; unspecified, all of its family.
    pub host_ip: Option<IpAddr>,
    /// The host's port.
    pub host_port: u16,
    /// The container's port.
    pub container_port: u16,
}

const PORTS: &str = "runtimeConfig.portMappings";

impl PortRequest {
    /// The port mappings of a configuration. An exact repetition counts once.
    ///
    /// # Errors
    ///
    /// Code 7, naming the field, its index and value; also for a port that is to lead to two
    /// targets. Code 2 for SCTP with equal ports, which is not forwarded yet.
    pub(super) fn read_all(config: &Json) -> Result<Vec<Self>> {
        let items = match config.at(&["runtimeConfig", "portMappings"]) {
            None => return Ok(Vec::new()),
            Some(Json::Array(items)) => items,
            Some(other) => return Err(Error::config(PORTS, other, "must be a list")),
        };
        let mut requests: Vec<Self> = Vec::with_capacity(items.len());
        let mut by_port = std::collections::HashMap::<_, Vec<Self>>::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{PORTS}[{index}]");
            let request = Self::read(&Fields::new(item, &path)?)?;
            let others = by_port.entry((request.protocol, request.host_port)).or_default();
            if others.contains(&request) {
                continue;
            }
            if let Some(other) = others.iter().find(|other| request.contradicts(other)) {
                let reason = format!(
                    "host port {} is to lead to the container's ports {} and {}",
                    request.host_port, other.container_port, request.container_port
                );
                return Err(Error::config(path, item, reason));
            }
            others.push(request);
            requests.push(request);
        }
        Ok(requests)
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let port = |key: &str| match fields.number(key, 1, u16::MAX.into())? {
            Some(port) => u16::try_from(port).map_err(|_| fields.wrong(key, "must be a port")),
            None => Err(fields.wrong(key, "must be a port from 1 to 65535")),
        };
        let request = Self {
            host_port: port("hostPort")?,
            container_port: port("containerPort")?,
            protocol: read_protocol(fields)?,
            host_ip: fields.address("hostIP")?,
        };
        if request.host_ip.is_some_and(is_no_host) {
            return Err(fields.wrong("hostIP", "must be an address that a host can have"));
        }
        if request.protocol == protocol::SCTP {
            return Err(refuse_sctp(fields, request));
        }
        Ok(request)
    }

    /// Whether some packets are for both, with different targets.
    fn contradicts(&self, other: &Self) -> bool {
        let overlap = match (self.host_ip, other.host_ip) {
            (None, _) | (_, None) => true,
            (Some(one), Some(other)) => {
                one.is_ipv4() == other.is_ipv4()
                    && (one == other || one.is_unspecified() || other.is_unspecified())
            }
        };
        overlap
            && (self.protocol, self.host_port) == (other.protocol, other.host_port)
            && self.container_port != other.container_port
    }
}

fn read_protocol(fields: &Fields<'_>) -> Result<u8> {
    let name = fields.string("protocol")?.unwrap_or("tcp").to_ascii_lowercase();
    match name.as_str() {
        "tcp" => Ok(protocol::TCP),
        "udp" => Ok(protocol::UDP),
        "sctp" => Ok(protocol::SCTP),
        _ => Err(fields.wrong("protocol", "must be tcp, udp or sctp")),
    }
}

/// The programs cannot change a port of SCTP, since its checksum (RFC 9260 6.8) covers the whole
/// packet; and with equal ports they do not forward it yet.
fn refuse_sctp(fields: &Fields<'_>, request: PortRequest) -> Error {
    if request.host_port != request.container_port {
        return fields.wrong("containerPort", "must be hostPort for protocol sctp");
    }
    Error::Unsupported {
        key: fields.name("protocol"),
        value: "\"sctp\"".to_owned(),
        reason: "academy does not forward SCTP yet".to_owned(),
    }
}

fn is_no_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    address.is_multicast() || is_broadcast
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
