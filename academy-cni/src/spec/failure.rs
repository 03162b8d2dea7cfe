//! The document that a failed call prints (CNI spec 1.1, "Error").

use serde_json::{Value, json};

use super::Version;
use crate::error::Error;

/// The one JSON document of a failed call. `version` is that of the configuration as far as it
/// is known.
#[must_use]
pub fn failure(version: Version, error: &Error) -> Value {
    let mut document = json!({
        "cniVersion": version.as_str(),
        "code": error.code(),
        "msg": error.to_string(),
    });
    if let (Some(details), Some(fields)) = (error.details(), document.as_object_mut()) {
        fields.insert("details".to_owned(), Value::String(details));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_document_has_version_code_message_and_details_where_there_are_any() {
        let error = Error::Exhausted {
            ranges: "10.0.0.1-10.0.0.6".into(),
            subnet: "10.0.0.0/29".into(),
            used: 5,
            free: 0,
        };
        assert_eq!(
            failure(Version::V1_0_0, &error),
            json!({
                "cniVersion": "1.0.0",
                "code": 100,
                "msg": "no IP addresses available in range set: 10.0.0.1-10.0.0.6",
                "details": "subnet 10.0.0.0/29, 5 used, 0 free",
            })
        );
        let error = Error::env("unknown CNI_COMMAND: X");
        assert_eq!(
            failure(Version::V1_1_0, &error),
            json!({ "cniVersion": "1.1.0", "code": 4, "msg": "unknown CNI_COMMAND: X" })
        );
    }
}
