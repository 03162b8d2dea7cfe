//! Typed reading of objects, with errors that name the field and its value.

use std::{net::IpAddr, str::FromStr};

use super::Json;
use crate::error::{Error, Result};

/// An Ethernet address, in the order of the wire.
pub type Mac = [u8; 6];

/// An object of the configuration and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Json,
    /// Empty at the top, otherwise as in `ipam.ranges[0][1]`.
    path: &'a str,
}

impl<'a> Fields<'a> {
    /// The fields of an object that stands at this path.
    ///
    /// # Errors
    ///
    /// Code 7 when it is no object.
    pub(crate) fn new(object: &'a Json, path: &'a str) -> Result<Self> {
        match object {
            Json::Object(_) => Ok(Self { object, path }),
            other => Err(Error::config(path, other, "must be an object")),
        }
    }

    /// A field by its full name.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A field, unless it is absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Json> {
        self.object.get(key)
    }

    /// An error about a field, with the value that it has.
    pub(crate) fn wrong(&self, key: &str, reason: &str) -> Error {
        self.get(key).map_or_else(
            || Error::config(self.name(key), "nothing", reason),
            |value| Error::config(self.name(key), value, reason),
        )
    }

    /// A boolean.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(key, "must be true or false")),
        }
    }

    /// A boolean that is false unless it is given.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        Ok(self.bool(key)?.unwrap_or(false))
    }

    /// A string; an empty one is absent.
    pub(crate) fn string(&self, key: &str) -> Result<Option<&'a str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(self.wrong(key, "must be a string")),
        }
    }

    /// A string of a form of its own, described by `what`; an empty one is absent.
    pub(crate) fn parsed<T: FromStr>(&self, key: &str, what: &str) -> Result<Option<T>> {
        match self.string(key)? {
            None => Ok(None),
            Some(text) => match text.parse() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(self.wrong(key, what)),
            },
        }
    }

    /// An address, without prefix length and zone; an empty one is absent.
    pub(crate) fn address(&self, key: &str) -> Result<Option<IpAddr>> {
        let address = self.parsed::<IpAddr>(key, "must be an IP address")?;
        Ok(address.map(|address| address.to_canonical()))
    }

    /// A whole number between these two, both included.
    pub(crate) fn number(&self, key: &str, from: u32, to: u32) -> Result<Option<u32>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value {
            Json::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        match number.filter(|number| (from..=to).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, &format!("must be a whole number from {from} to {to}"))),
        }
    }

    /// A list; an absent one is empty.
    pub(crate) fn list(&self, key: &str) -> Result<&'a [Json]> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Json::Array(items)) => Ok(items),
            Some(_) => Err(self.wrong(key, "must be a list")),
        }
    }

    /// A list of strings; an absent one is empty.
    pub(crate) fn strings(&self, key: &str) -> Result<Vec<String>> {
        let item = |item: &Json| {
            let text = item.as_str().map(str::to_owned);
            text.ok_or_else(|| self.wrong(key, "must be a list of strings"))
        };
        self.list(key)?.iter().map(item).collect()
    }
}

/// An address that may have a prefix length, which is dropped.
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if let Some(prefix) = prefix {
        prefix.parse::<u8>().ok().filter(|prefix| *prefix <= longest)?;
    }
    Some(address.to_canonical())
}

/// Six bytes in hexadecimal with colons or hyphens between them, of a unicast address.
#[must_use]
pub fn parse_mac(text: &str) -> Option<Mac> {
    let mut mac = Mac::default();
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    let [first, ..] = mac;
    let unicast = first & 1 == 0 && mac != Mac::default();
    (parts.next().is_none() && unicast).then_some(mac)
}

/// A MAC with colons, as results have it.
#[must_use]
pub fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_six_bytes_of_a_unicast_address() {
        assert_eq!(parse_mac("c2:11:22:33:44:5F").unwrap(), [0xc2, 0x11, 0x22, 0x33, 0x44, 0x5f]);
        assert_eq!(parse_mac("c2-11-22-33-44-55"), parse_mac("c2:11:22:33:44:55"));
        for bad in [
            "",
            "c2:11:22:33:44",
            "c2:11:22:33:44:55:66",
            "c2:11:22:33:44:5",
            "c2:11:22:33:44:+5",
            "01:00:5e:00:00:01",
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
        ] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
        assert_eq!(mac_text([0xc2, 0, 1, 2, 3, 0xff]), "c2:00:01:02:03:ff");
    }

    #[test]
    fn a_requested_address_may_have_a_prefix_length_that_fits() {
        let address: IpAddr = "10.0.0.5".parse().unwrap();
        for text in ["10.0.0.5", "10.0.0.5/24", "10.0.0.5/32", "::ffff:10.0.0.5"] {
            assert_eq!(parse_address(text), Some(address), "{text}");
        }
        for bad in
            ["", "10.0.0.5/33", "10.0.0.5/", "10.0.0", "10.0.0.5/a", "fe80::1%eth0", "::/129"]
        {
            assert_eq!(parse_address(bad), None, "{bad}");
        }
    }
}
