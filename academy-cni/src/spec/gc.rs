//! The list of attachments that a GC must leave alone.

use crate::{
    attachment::{Attachment, check_container_id, check_ifname},
    config::Json,
    error::{Error, Result},
};

/// The key of the spec, and the one that libcni sent before it (containernetworking/cni#1101).
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// An attachment that the runtime still knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ValidAttachment {
    /// Its container.
    pub container_id: String,
    /// Its interface in there.
    pub ifname: String,
}

impl ValidAttachment {
    /// Whether it is this one.
    #[must_use]
    pub fn is(&self, attachment: &Attachment) -> bool {
        self.container_id == attachment.container_id() && self.ifname == attachment.ifname()
    }
}

/// The valid attachments of a GC. Empty for an absent, `null` or empty list: then nothing of the
/// network is to stay.
///
/// # Errors
///
/// Code 7 for a list that is none or holds something that is no attachment. Nothing may be
/// removed then.
pub fn valid_attachments(config: &Json) -> Result<Vec<ValidAttachment>> {
    let Some((key, list)) = KEYS.iter().find_map(|key| Some((*key, config.get(key)?))) else {
        return Ok(Vec::new());
    };
    let Json::Array(items) = list else {
        return Err(Error::config(key, list, "must be a list of attachments"));
    };
    items.iter().enumerate().map(|(index, item)| attachment(key, index, item)).collect()
}

fn attachment(key: &str, index: usize, item: &Json) -> Result<ValidAttachment> {
    let name = |field: &str, check: fn(&str) -> Result<()>| match item.get(field) {
        Some(Json::String(text)) if check(text).is_ok() => Ok(text.clone()),
        _ => {
            let reason = format!("must be an attachment with a valid {field}");
            Err(Error::config(format_args!("{key}[{index}]"), item, reason))
        }
    };
    Ok(ValidAttachment {
        container_id: name("containerID", check_container_id)?,
        ifname: name("ifname", check_ifname)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Vec<ValidAttachment>> {
        valid_attachments(&Json::parse(text.as_bytes()).unwrap())
    }

    fn valid(container_id: &str, ifname: &str) -> ValidAttachment {
        ValidAttachment { container_id: container_id.into(), ifname: ifname.into() }
    }

    #[test]
    fn cni_1080_absent_null_and_empty_lists_keep_nothing() {
        for text in [
            "{}",
            r#"{"cni.dev/valid-attachments":null}"#,
            r#"{"cni.dev/valid-attachments":[]}"#,
            r#"{"cni.dev/valid-attachments":null,"cni.dev/attachments":null}"#,
        ] {
            assert_eq!(list(text).unwrap(), [], "{text}");
        }
    }

    #[test]
    fn cni_1101_the_list_may_come_under_either_key() {
        for key in KEYS {
            let text = format!(r#"{{"{key}":[{{"containerID":"a","ifname":"eth0"}}]}}"#);
            assert_eq!(list(&text).unwrap(), [valid("a", "eth0")]);
        }
        let both = r#"{"cni.dev/attachments":[{"containerID":"old","ifname":"eth0"}],
            "cni.dev/valid-attachments":[{"containerID":"new","ifname":"eth0"}]}"#;
        assert_eq!(list(both).unwrap(), [valid("new", "eth0")]);
    }

    #[test]
    fn a_malformed_list_is_an_error() {
        for bad in [
            "{}",
            r#""all""#,
            "7",
            "[null]",
            "[7]",
            r#"["a"]"#,
            r#"[{"containerID":"a"}]"#,
            r#"[{"ifname":"eth0"}]"#,
            r#"[{"containerID":"","ifname":"eth0"}]"#,
            r#"[{"containerID":"../x","ifname":"eth0"}]"#,
            r#"[{"containerID":"a","ifname":7}]"#,
            r#"[{"containerID":"a","ifname":"eth0"},{"containerID":"b"}]"#,
        ] {
            let error = list(&format!(r#"{{"cni.dev/valid-attachments":{bad}}}"#)).unwrap_err();
            assert_eq!(error.code(), 7, "{bad}");
            assert!(error.to_string().contains("cni.dev/valid-attachments"), "{error}");
        }
    }

    #[test]
    fn an_attachment_is_valid_by_container_and_interface() {
        let attachment = Attachment::new("n", "a", "eth0").unwrap();
        assert!(valid("a", "eth0").is(&attachment));
        assert!(!valid("a", "eth1").is(&attachment));
        assert!(!valid("b", "eth0").is(&attachment));
    }
}
