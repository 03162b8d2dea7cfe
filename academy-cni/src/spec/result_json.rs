//! Results as each version writes them (CNI spec 1.1, "Success"; SPEC.md of the older versions).

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::{CniResult, Dns, Interface, Ip, Route, Version};
use crate::{
    config::{Fields, Json},
    error::{Error, Result},
};

impl CniResult {
    /// The document that is printed, in this version.
    ///
    /// # Errors
    ///
    /// Code 7 when the version has no words for it: no address at all before 0.3.0.
    pub fn to_json(&self, version: Version) -> Result<Value> {
        if version < Version::V0_3_0 {
            return self.to_oldest_json(version);
        }
        let mut document = Map::new();
        document.insert("cniVersion".to_owned(), version.as_str().into());
        let mut list = |key: &str, items: Vec<Value>| {
            if !items.is_empty() {
                document.insert(key.to_owned(), items.into());
            }
        };
        list("interfaces", self.interfaces.iter().map(|one| one.to_json(version)).collect());
        list("ips", self.ips.iter().map(|ip| ip.to_json(version)).collect());
        list("routes", self.routes.iter().map(|route| route.to_json(version)).collect());
        document.insert("dns".to_owned(), self.dns.to_json());
        Ok(document.into())
    }

    /// Before 0.3.0 there are no interfaces, and of each family the first address counts.
    fn to_oldest_json(&self, version: Version) -> Result<Value> {
        if self.ips.is_empty() {
            let reason = "cannot convert: no valid IP addresses; results without any need 0.3.0";
            return Err(Error::config("cniVersion", version, reason));
        }
        let mut document = Map::new();
        document.insert("cniVersion".to_owned(), version.as_str().into());
        for (key, ipv4) in [("ip4", true), ("ip6", false)] {
            let Some(ip) = self.ips.iter().find(|ip| ip.address.addr().is_ipv4() == ipv4) else {
                continue;
            };
            let mut fields = Map::new();
            fields.insert("ip".to_owned(), ip.address.to_string().into());
            if let Some(gateway) = ip.gateway {
                fields.insert("gateway".to_owned(), gateway.to_string().into());
            }
            let routes: Vec<Value> = self
                .routes
                .iter()
                .filter(|route| route.dst.addr().is_ipv4() == ipv4)
                .map(|route| route.to_json(version))
                .collect();
            if !routes.is_empty() {
                fields.insert("routes".to_owned(), routes.into());
            }
            document.insert(key.to_owned(), fields.into());
        }
        document.insert("dns".to_owned(), self.dns.to_json());
        Ok(document.into())
    }

    /// The `prevResult` of a configuration of this version; none if it has none.
    ///
    /// # Errors
    ///
    /// Code 7 for one that is no result.
    pub fn previous(config: &Json, version: Version) -> Result<Option<Self>> {
        config.get("prevResult").map(|result| Self::from_json(result, version)).transpose()
    }

    /// Reads a result. One that does not say its version has that of the configuration.
    ///
    /// # Errors
    ///
    /// Code 7, naming the field.
    pub fn from_json(result: &Json, of_config: Version) -> Result<Self> {
        let fields = Fields::new(result, PREVIOUS)?;
        let version = match fields.string("cniVersion")? {
            None => of_config,
            Some(_) => Version::of(result)
                .map_err(|_| fields.wrong("cniVersion", "is no version that academy speaks"))?,
        };
        let dns = dns(result, PREVIOUS)?;
        if version < Version::V0_3_0 {
            return Self::from_oldest(&fields, dns);
        }
        Ok(Self {
            interfaces: each(&fields, "interfaces", interface)?,
            ips: each(&fields, "ips", ip)?,
            routes: routes(&fields)?,
            dns,
        })
    }

    fn from_oldest(fields: &Fields<'_>, dns: Dns) -> Result<Self> {
        let mut result = Self { dns, ..Self::default() };
        for key in ["ip4", "ip6"] {
            let Some(family) = fields.get(key) else { continue };
            let name = fields.name(key);
            let family = Fields::new(family, &name)?;
            let address = family.parsed("ip", "must be an address with its prefix length")?;
            result.ips.push(Ip {
                address: address.ok_or_else(|| family.wrong("ip", "must be there"))?,
                gateway: family.address("gateway")?,
                interface: None,
            });
            result.routes.extend(routes(&family)?);
        }
        Ok(result)
    }
}

const PREVIOUS: &str = "prevResult";

impl Interface {
    fn to_json(&self, version: Version) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), self.name.clone().into());
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                fields.insert(key.to_owned(), value.into());
            }
        };
        text("mac", &self.mac);
        text("sandbox", &self.sandbox);
        if version >= Version::V1_1_0 {
            text("socketPath", &self.socket_path);
            text("pciID", &self.pci_id);
            if let Some(mtu) = self.mtu {
                fields.insert("mtu".to_owned(), mtu.into());
            }
        }
        fields.into()
    }
}

impl Ip {
    fn to_json(&self, version: Version) -> Value {
        let mut fields = Map::new();
        if version < Version::V1_0_0 {
            let family = if self.address.addr().is_ipv4() { "4" } else { "6" };
            fields.insert("version".to_owned(), family.into());
        }
        if let Some(interface) = self.interface {
            fields.insert("interface".to_owned(), interface.into());
        }
        fields.insert("address".to_owned(), self.address.to_string().into());
        if let Some(gateway) = self.gateway {
            fields.insert("gateway".to_owned(), gateway.to_string().into());
        }
        fields.into()
    }
}

impl Route {
    fn to_json(&self, version: Version) -> Value {
        let mut fields = Map::new();
        fields.insert("dst".to_owned(), self.dst.to_string().into());
        if let Some(gw) = self.gw {
            fields.insert("gw".to_owned(), gw.to_string().into());
        }
        if version >= Version::V1_1_0 {
            let numbers = [
                ("mtu", self.mtu),
                ("advmss", self.advmss),
                ("priority", self.priority),
                ("table", self.table),
                ("scope", self.scope.map(u32::from)),
            ];
            for (key, number) in numbers {
                if let Some(number) = number {
                    fields.insert(key.to_owned(), number.into());
                }
            }
        }
        fields.into()
    }
}

impl Dns {
    fn to_json(&self) -> Value {
        let mut fields = json!({});
        let Some(map) = fields.as_object_mut() else { return fields };
        let lists = [
            ("nameservers", &self.nameservers),
            ("search", &self.search),
            ("options", &self.options),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                map.insert(key.to_owned(), list.clone().into());
            }
        }
        if !self.domain.is_empty() {
            map.insert("domain".to_owned(), self.domain.clone().into());
        }
        fields
    }
}

/// The `dns` of a configuration or a result.
pub(crate) fn dns(object: &Json, path: &str) -> Result<Dns> {
    let Some(dns) = object.get("dns") else { return Ok(Dns::default()) };
    let name = if path.is_empty() { "dns".to_owned() } else { format!("{path}.dns") };
    let fields = Fields::new(dns, &name)?;
    Ok(Dns {
        nameservers: fields.strings("nameservers")?,
        domain: fields.string("domain")?.unwrap_or_default().to_owned(),
        search: fields.strings("search")?,
        options: fields.strings("options")?,
    })
}

/// The `routes` of an object.
pub(crate) fn routes(fields: &Fields<'_>) -> Result<Vec<Route>> {
    each(fields, "routes", route)
}

fn each<T>(
    fields: &Fields<'_>,
    key: &str,
    read: impl Fn(&Fields<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let item = |(index, item): (usize, &Json)| {
        let name = format!("{}[{index}]", fields.name(key));
        read(&Fields::new(item, &name)?)
    };
    fields.list(key)?.iter().enumerate().map(item).collect()
}

fn interface(fields: &Fields<'_>) -> Result<Interface> {
    let text = |key| fields.string(key).map(|text| text.unwrap_or_default().to_owned());
    Ok(Interface {
        name: text("name")?,
        mac: text("mac")?,
        mtu: fields.number("mtu", 0, u32::MAX)?,
        sandbox: text("sandbox")?,
        socket_path: text("socketPath")?,
        pci_id: text("pciID")?,
    })
}

fn ip(fields: &Fields<'_>) -> Result<Ip> {
    let address: Option<IpNet> =
        fields.parsed("address", "must be an address with its prefix length")?;
    Ok(Ip {
        address: address.ok_or_else(|| fields.wrong("address", "must be there"))?,
        gateway: fields.address("gateway")?,
        interface: fields
            .number("interface", 0, u32::MAX)?
            .and_then(|index| usize::try_from(index).ok()),
    })
}

fn route(fields: &Fields<'_>) -> Result<Route> {
    let dst: Option<IpNet> = fields.parsed("dst", "must be a network with its prefix length")?;
    let dst = dst.ok_or_else(|| fields.wrong("dst", "must be there"))?.trunc();
    let gw: Option<IpAddr> = fields.address("gw")?;
    if gw.is_some_and(|gw| gw.is_ipv4() != dst.addr().is_ipv4()) {
        return Err(fields.wrong("gw", "must be of the family of dst"));
    }
    let number = |key| fields.number(key, 0, u32::MAX);
    Ok(Route {
        dst,
        gw,
        mtu: number("mtu")?,
        advmss: number("advmss")?,
        priority: number("priority")?,
        table: number("table")?,
        scope: fields
            .number("scope", 0, u8::MAX.into())?
            .and_then(|scope| u8::try_from(scope).ok()),
    })
}

#[cfg(test)]
#[path = "result_json_tests.rs"]
mod tests;
