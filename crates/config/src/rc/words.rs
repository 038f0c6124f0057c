//! Words and quotes, as a shell has them and without what a shell does with them.

/// Splits a text into words. Quotes are taken off; nothing is expanded.
///
/// # Errors
/// A quote that is not closed, or a backslash with nothing after it.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(it) = chars.next() {
        match it {
            it if it.is_whitespace() => out.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(it) => word.push(it),
                        None => return Err("a single quote is not closed".to_owned()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(it @ ('$' | '`' | '"' | '\\')) => word.push(it),
                            Some('n') => word.push('\n'),
                            Some('\n') => {}
                            Some(it) => word.extend(['\\', it]),
                            None => return Err("a double quote is not closed".to_owned()),
                        },
                        Some(it) => word.push(it),
                        None => return Err("a double quote is not closed".to_owned()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(it) if it.is_whitespace() || "'\"".contains(it) => word.get_or_insert_default().push(it),
                Some(it) => word.get_or_insert_default().extend(['\\', it]),
                None => return Err("it ends in a backslash".to_owned()),
            },
            it => word.get_or_insert_default().push(it),
        }
    }
    out.extend(word);
    Ok(out)
}

/// Words as a text that [`split`] takes apart again.
#[must_use]
pub fn quote(words: &[String]) -> String {
    let one = |it: &String| {
        let plain = !it.is_empty() && it.chars().all(|it| !it.is_whitespace() && !"\"'\\$`".contains(it));
        if plain {
            return it.clone();
        }
        let mut out = String::from("\"");
        for it in it.chars() {
            match it {
                '$' | '`' | '"' | '\\' => out.extend(['\\', it]),
                '\n' => out.push_str("\\n"),
                it => out.push(it),
            }
        }
        out + "\""
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}
