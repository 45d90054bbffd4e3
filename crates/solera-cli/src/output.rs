//! What is printed: `stdout`, `Form` (the notation of entries), `say`, `print_json`, `print_text`,
//! `json_bytes`, `utc` (dates).
//!
//! `Form` is the notation of `get` and `scan`. It writes keys and values escaped, raw, in
//! hexadecimal or as JSON. Keys on the command line are plain, escaped or hexadecimal: it tells
//! which (`notation`), and `escape::Notation` reads them. `say` writes one line to standard error.
//!
//! What must hold: in JSON, `json_bytes` writes bytes that are not UTF-8 as `name_hex`, so nothing
//! is lost. What `say` says stays one line of bounded length, whatever is in it. No command panics
//! when its reader has gone.
//!
//! Callers: the commands, `main` and `signal` (`say`), `report` (`json_bytes`).

use crate::escape::{Notation, escape_into, hex, hex_into};
use serde_json::{Map, Value};
use std::io::{self, BufWriter, StdoutLock, Write};

/// Buffered standard output. Flush it before the command ends: errors must not be lost in a drop.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// `2026-11-21 18:05:09 UTC`.
pub(crate) fn utc(unix_ms: u64) -> String {
    solera_bench::report::number::date(unix_ms / 1000)
}

/// How `get` and `scan` write keys and values, and read them on the command line.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Form {
    /// Print the bytes as they are
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Hexadecimal digits for keys and values, those given here and those printed
    #[arg(long, conflicts_with = "json")]
    hex: bool,
    /// Print one JSON object per line: "key" and "value" where they are UTF-8, "key_hex" and
    /// "value_hex" where they are not
    #[arg(long)]
    json: bool,
    /// Keys given here are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
}

impl Form {
    /// How keys on the command line are written.
    pub(crate) fn notation(self) -> Notation {
        Notation::from_flags(self.escaped, self.hex)
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether the output is the bytes as they are.
    pub(crate) fn is_raw(self) -> bool {
        self.raw
    }

    /// Appends one entry and a newline: key, and, if there is one, a tab and the value.
    pub(crate) fn write_entry(self, line: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) -> io::Result<()> {
        if self.json {
            let mut object = Map::new();
            json_bytes(&mut object, "key", key);
            if let Some(value) = value {
                json_bytes(&mut object, "value", value);
            }
            serde_json::to_writer(&mut *line, &object)?;
        } else {
            self.write_bytes(line, key);
            if let Some(value) = value {
                line.push(b'\t');
                self.write_bytes(line, value);
            }
        }
        line.push(b'\n');
        Ok(())
    }

    /// Appends `bytes` in this form (text forms only).
    pub(crate) fn write_bytes(self, line: &mut Vec<u8>, bytes: &[u8]) {
        if self.raw {
            line.extend_from_slice(bytes);
        } else if self.hex {
            hex_into(line, bytes);
        } else {
            escape_into(line, bytes);
        }
    }
}

/// Puts `bytes` into a JSON object as `name` if they are UTF-8, otherwise as `name_hex`, so that
/// nothing is lost and nothing is mistaken.
pub(crate) fn json_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

/// Longest line on standard error, in characters.
const SAID_CHARACTERS_MAX: usize = 2000;

/// Says `what` on standard error as one line, `solera: <what>`. `eprintln!` would panic when the
/// reader has gone, and a handler of signals that panics never ends its process.
pub(crate) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "solera: {}", one_line(what));
}

/// A message on the one line that is promised, whatever the operating system or an argument put
/// into it: a terminal obeys control characters. One that quotes a long argument loses its middle.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for character in message.chars() {
        match character {
            '\n' => line.push(' '),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    let characters = line.chars().count();
    if characters <= SAID_CHARACTERS_MAX {
        return line;
    }
    let kept = SAID_CHARACTERS_MAX / 2;
    let head: String = line.chars().take(kept).collect();
    let tail: String = line.chars().skip(characters - kept).collect();
    format!("{head} ... {tail}")
}

/// Prints one JSON value as one line.
pub(crate) fn print_json(value: &Value) -> io::Result<()> {
    let mut out = stdout();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints text as it is, and a newline unless it has one. `println!` would panic when the reader
/// has gone.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
