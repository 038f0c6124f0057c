//! Server-sent events, framing only (WHATWG HTML §9.2.6).

/// Cuts a byte stream into the `data` of its events.
///
/// Lines may end in LF, CR or CRLF, wherever the network cut them; comments and other fields are skipped; several data
/// lines are joined by a newline.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    line: Vec<u8>,
    data: Vec<u8>,
    any: bool,
    after_cr: bool,
    begun: bool,
}

impl Sse {
    /// Takes bytes and calls `event` with the data of each event that is complete.
    ///
    /// # Errors
    /// The first error of `event`.
    pub(crate) fn feed<E>(&mut self, mut bytes: &[u8], event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|it| matches!(it, b'\n' | b'\r')) else {
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.after_cr = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.end_of_line(&bytes[..end], event)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.end_of_line(&line, event)?;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The stream is over; a last event without its blank line counts.
    ///
    /// # Errors
    /// The error of `event`.
    pub(crate) fn finish<E>(&mut self, event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        self.end_of_line(&line, event)?;
        self.end_of_line(b"", event)
    }

    fn end_of_line<E>(&mut self, line: &[u8], event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let line = if self.begun { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            if !std::mem::take(&mut self.any) {
                return Ok(());
            }
            let done = event(&self.data);
            self.data.clear();
            return done;
        }
        if let Some(rest) = line.strip_prefix(b"data:") {
            if self.any {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(rest.strip_prefix(b" ").unwrap_or(rest));
            self.any = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let (mut it, mut out) = (Sse::default(), Vec::new());
        let mut event = |data: &[u8]| {
            out.push(String::from_utf8_lossy(data).into_owned());
            Ok::<(), ()>(())
        };
        for piece in pieces {
            it.feed(piece, &mut event).unwrap();
        }
        it.finish(&mut event).unwrap();
        out
    }

    #[test]
    fn st_02_every_legal_framing() {
        for text in [
            "data: {\"a\":1}\n\ndata: b\n\n",
            "data:{\"a\":1}\r\n\r\ndata:b\r\n\r\n",
            "data: {\"a\":1}\r\rdata: b\r\r",
            ": ping\n\nid: 7\nevent: x\nretry: 1\ndata: {\"a\":1}\n\n: more\ndata: b\n\n",
            "\u{feff}data: {\"a\":1}\n\ndata: b",
            "\n\n\ndata: {\"a\":1}\n\n\n\ndata: b\n",
        ] {
            assert_eq!(events(&[text.as_bytes()]), ["{\"a\":1}", "b"], "{text:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(events(&bytes), ["{\"a\":1}", "b"], "{text:?} by bytes");
        }
        assert_eq!(events(&[b"data: {\ndata: }\n\n"]), ["{\n}"]);
        assert_eq!(events(&[b"data\n\nevent: x\n\n"]), Vec::<String>::new());
    }
}
