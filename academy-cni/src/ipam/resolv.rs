//! `resolvConf`: name resolution taken from a file in the form of resolv.conf(5).

use std::{fs, path::Path};

use crate::{
    error::{IoContext, Result},
    spec::Dns,
};

/// Reads the file.
///
/// # Errors
///
/// Code 5 when it cannot be read.
pub fn read(path: &Path) -> Result<Dns> {
    let text = fs::read(path).doing("read", path)?;
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// Takes `nameserver`, `domain`, `search` and `options`. Comments begin with `#` or `;`.
#[must_use]
pub fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_whitespace();
        let keyword = words.next().unwrap_or_default();
        let mut values = words.map(str::to_owned);
        match keyword {
            "nameserver" => dns.nameservers.extend(values.next()),
            "domain" => dns.domain = values.next().unwrap_or_default(),
            "search" => dns.search.extend(values),
            "options" => dns.options.extend(values),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_servers_domain_search_list_and_options() {
        let text = "# comment\n; other comment\nnameserver 192.0.2.1\n\nnameserver 2001:db8::1 \n\
                    domain example.net\nsearch a.example b.example\n  options ndots:1 rotate\n\
                    sortlist 10.0.0.0\nnameserver\n";
        let expected = Dns {
            nameservers: vec!["192.0.2.1".into(), "2001:db8::1".into()],
            domain: "example.net".into(),
            search: vec!["a.example".into(), "b.example".into()],
            options: vec!["ndots:1".into(), "rotate".into()],
        };
        assert_eq!(parse(text), expected);
        assert!(parse("").is_empty());
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_it() {
        let error = read(Path::new("/nonexistent/resolv.conf")).unwrap_err();
        assert_eq!(error.code(), 5);
        assert!(error.to_string().contains("/nonexistent/resolv.conf"), "{error}");
    }
}
