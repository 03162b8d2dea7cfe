//! CNI_ARGS (CNI spec 1.1, CONVENTIONS.md).

use std::net::IpAddr;

use crate::{
    config::{Mac, parse_address, parse_mac},
    error::{Error, Result},
};

/// What academy takes from CNI_ARGS. Everything else is ignored, with or without
/// `IgnoreUnknown`: it is meant for others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CniArgs {
    /// `IP`: the addresses that the container shall have.
    pub ips: Vec<IpAddr>,
    /// `MAC`: the address of the container's interface.
    pub mac: Option<Mac>,
}

impl CniArgs {
    /// Reads `key=value` pairs with `;` between them. Keys are case-sensitive.
    ///
    /// # Errors
    ///
    /// Code 4 for what is no pair, and for an IP or MAC that is none.
    pub fn parse(text: &str) -> Result<Self> {
        let mut args = Self::default();
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let wrong = |what: &str| Error::Env {
                message: format!("CNI_ARGS: {what} {pair:?}"),
                details: text.to_owned(),
            };
            let (key, value) = pair
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| wrong("invalid pair"))?;
            match key {
                "IP" => {
                    for address in value.split(',').filter(|address| !address.is_empty()) {
                        let address = parse_address(address.trim());
                        args.ips.push(address.ok_or_else(|| wrong("invalid address in"))?);
                    }
                }
                "MAC" if !value.is_empty() => {
                    args.mac = Some(parse_mac(value).ok_or_else(|| wrong("invalid MAC in"))?);
                }
                _ => {}
            }
        }
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cni_126_unknown_arguments_break_nothing() {
        for text in [
            "K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=ab;K8S_POD_UID=1",
            "IgnoreUnknown=1;FOO=BAR",
            "FOO=BAR;IgnoreUnknown=true",
            "NERDCTL_CNI_DHCP_HOSTNAME=h",
            "",
            ";",
        ] {
            assert_eq!(CniArgs::parse(text).unwrap(), CniArgs::default(), "{text}");
        }
    }

    #[test]
    fn an_address_may_have_a_prefix_length_and_company() {
        let args = CniArgs::parse("IgnoreUnknown=1;IP=10.98.0.7/24,fd00::7;X=y").unwrap();
        let expected: [IpAddr; 2] = ["10.98.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        assert_eq!(args.ips, expected);
    }

    #[test]
    fn podman_sends_mac_and_address_after_its_own_pairs() {
        let text = "IgnoreUnknown=1;K8S_POD_NAME=x;MAC=92:d0:c6:0a:29:33;IP=10.88.0.9";
        let args = CniArgs::parse(text).unwrap();
        assert_eq!(args.mac.unwrap(), [0x92, 0xd0, 0xc6, 0x0a, 0x29, 0x33]);
        assert_eq!(args.ips, ["10.88.0.9".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn what_is_no_pair_or_no_address_is_code_4_and_shown() {
        for (text, shown) in [
            ("IgnoreUnknown=1;IP", "\"IP\""),
            ("A=b=c", "\"A=b=c\""),
            ("IP=10.0.0.256", "\"IP=10.0.0.256\""),
            ("MAC=zz:00:00:00:00:00", "\"MAC=zz:00:00:00:00:00\""),
        ] {
            let error = CniArgs::parse(text).unwrap_err();
            assert_eq!(error.code(), 4);
            assert!(error.to_string().contains(shown), "{error}");
        }
    }
}
