//! JSON as Go's decoder reads it, which is what runtimes are written against.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};

use crate::error::{Error, Result};

/// A JSON value whose objects keep every pair in its order: keys match whatever their case
/// (containerd sends `HostPort`), and of several that match the last one counts.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a network configuration as it comes on stdin.
    ///
    /// # Errors
    ///
    /// Code 6 for what is no JSON, or no object.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let reason = match serde_json::from_slice(text) {
            Ok(object @ Self::Object(_)) => return Ok(object),
            Ok(other) => format!("must be an object (got {other})"),
            Err(error) => error.to_string(),
        };
        Err(Error::Decode { what: "error unmarshall network config".to_owned(), reason })
    }

    /// The value of a key of this object; none where this is no object, the key is absent, or
    /// its value is `null`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(pairs) = self else { return None };
        pairs
            .iter()
            .rev()
            .filter(|(name, value)| name.eq_ignore_ascii_case(key) && *value != Self::Null)
            .map(|(_, value)| value)
            .next()
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Whether it says nothing: `null`, `false`, 0, and what is empty.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Number(number) => number.as_f64() == Some(0.0),
            Self::String(text) => text.is_empty(),
            Self::Array(items) => items.is_empty(),
            Self::Object(pairs) => pairs.iter().all(|(_, value)| *value == Self::Null),
        }
    }

    /// As a value of `serde_json`. Of pairs with the same key the last one stays.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(text) => Value::String(text.clone()),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(pairs) => Value::Object(
                pairs.iter().map(|(key, value)| (key.clone(), value.to_value())).collect(),
            ),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_value())
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Json, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Json::Object(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn go_11673_keys_match_whatever_their_case() {
        let config = json(r#"{"RuntimeConfig":{"PORTMAPPINGS":[{"HostPort":1}]}}"#);
        let Some(Json::Array(list)) = config.at(&["runtimeConfig", "portMappings"]) else {
            panic!("{config}")
        };
        assert_eq!(list.first().and_then(|item| item.get("hostPort")).unwrap().to_value(), 1);
    }

    #[test]
    fn go_43664_the_last_of_several_matching_keys_wins_in_any_spelling() {
        assert_eq!(json(r#"{"mtu":1,"MTU":2,"mtu":3}"#).get("Mtu").unwrap().to_value(), 3);
        assert_eq!(json(r#"{"mtu":3,"mtu":1,"MTU":2}"#).get("mtu").unwrap().to_value(), 2);
    }

    #[test]
    fn null_is_absent_and_hides_nothing() {
        assert_eq!(json(r#"{"mtu":null}"#).get("mtu"), None);
        assert_eq!(json(r#"{"mtu":5,"MTU":null}"#).get("mtu").unwrap().to_value(), 5);
    }

    #[test]
    fn what_is_no_object_is_code_6() {
        for bad in
            ["", " ", "null", "[]", "7", "\"x\"", "{", "{}{}", r#"{"a":}"#, "{\"a\":\"\u{1}\"}"]
        {
            assert_eq!(Json::parse(bad.as_bytes()).unwrap_err().code(), 6, "{bad:?}");
        }
        assert_eq!(Json::parse(b"{\"a\":\"\xff\"}").unwrap_err().code(), 6);
    }

    #[test]
    fn nesting_without_end_is_an_error_and_no_crash() {
        let bomb = format!("{{\"a\":{}", "[".repeat(1_000_000));
        assert_eq!(Json::parse(bomb.as_bytes()).unwrap_err().code(), 6);
    }

    #[test]
    fn nothing_is_told_from_something() {
        for nothing in ["null", "false", "0", "0.0", "\"\"", "[]", "{}", r#"{"a":null}"#] {
            let text = format!(r#"{{"x":{nothing}}}"#);
            assert!(json(&text).get("x").is_none_or(Json::is_nothing), "{nothing}");
        }
        for something in ["true", "1", "-1", "\"a\"", "[0]", r#"{"a":0}"#] {
            let text = format!(r#"{{"x":{something}}}"#);
            assert!(!json(&text).get("x").unwrap().is_nothing(), "{something}");
        }
    }
}
