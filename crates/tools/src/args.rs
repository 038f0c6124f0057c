//! Arguments as models really send them.
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a call's raw arguments. Nothing at all counts as `{}`; arguments encoded twice are decoded twice.
///
/// # Errors
/// What is wrong and where, for the model; such a call never runs.
pub(crate) fn parse<T: DeserializeOwned>(raw: &str) -> Result<T, String> {
    let raw = raw.trim();
    let mut value: Value = if raw.is_empty() { Value::Object(serde_json::Map::new()) } else { json(raw)? };
    if let Value::String(inner) = &value {
        value = if inner.trim().is_empty() { Value::Object(serde_json::Map::new()) } else { json(inner)? };
    }
    if !value.is_object() {
        return Err("failed to parse arguments: they must be a JSON object. The call was not run.".to_owned());
    }
    serde_json::from_value(value).map_err(|err| {
        let said = err.to_string();
        match said.strip_prefix("missing field `").and_then(|it| it.split_once('`')) {
            Some((name, _)) => format!("missing required parameter \"{name}\". The call was not run."),
            None => format!("the arguments do not fit: {said}. The call was not run."),
        }
    })
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|err| {
        let line = text.lines().nth(err.line().saturating_sub(1)).unwrap_or("");
        let from = err.column().saturating_sub(20);
        let near: String = line.chars().skip(from).take(30).collect();
        format!("failed to parse arguments: {err}, near `{near}`. The call was not run; send valid JSON.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Args {
        path: String,
    }

    #[test]
    fn st_12_arguments_that_are_not_json() {
        let ok = |raw| parse::<Args>(raw).map(|it| it.path);
        assert_eq!(ok(r#"{"path":"a"}"#).unwrap(), "a");
        assert_eq!(ok(r#""{\"path\":\"a\"}""#).unwrap(), "a");
        for (raw, want) in [
            (r#"{"path": "a" "b"}"#, "column 14"),
            ("", "missing required parameter \"path\""),
            (r#""{}""#, "missing required parameter \"path\""),
            (r#"{"path":"a",}"#, "trailing comma"),
            (r#"{"path":"a"#, "EOF"),
            ("[1]", "must be a JSON object"),
            (r#"{"path":1}"#, "do not fit"),
        ] {
            let said = ok(raw).unwrap_err();
            assert!(said.contains(want) && said.contains("not run"), "{raw}: {said}");
        }
    }
}
