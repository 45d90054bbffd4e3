//! How operations are printed and read back: `Text`, `Words`, `Bytes`, and the macros `worded` and
//! `record`.
//!
//! A line is words separated by spaces, byte strings quoted and escaped, lists in brackets. The
//! macros make an enum or a struct with its text form.
//!
//! What must hold: what is printed reads back to itself. So a printed script can be replayed, kept
//! as a regression test, and cut by hand.
//!
//! Callers: `script::mod` and `setting`; all that name keys in scripts use `Bytes`.

use std::fmt::Write;

/// A value with a text form that reads back to itself.
pub trait Text: Sized {
    /// Appends the text form, in one or more words, without a space at either end.
    fn write(&self, out: &mut String);
    /// Reads it from the next words.
    fn read(words: &mut Words<'_>) -> Result<Self, String>;
}

/// The words of one line.
#[derive(Debug)]
pub struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    /// The words of `line`.
    pub fn new(line: &'t str) -> Self {
        Words { rest: line.trim() }
    }

    /// The next word: up to a space outside of quotes.
    pub fn word(&mut self) -> Result<&'t str, String> {
        let mut quoted = false;
        let mut escaped = false;
        let end = self.rest.char_indices().find(|&(_, c)| {
            if c == '"' && !escaped {
                quoted = !quoted;
            }
            escaped = c == '\\' && !escaped;
            c == ' ' && !quoted
        });
        let (word, rest) = self.rest.split_at(end.map_or(self.rest.len(), |(at, _)| at));
        self.rest = rest.trim_start();
        if word.is_empty() { Err("the line ends too early".to_owned()) } else { Ok(word) }
    }

    /// The next word, left in place; empty at the end.
    pub fn peek(&self) -> &'t str {
        Words { rest: self.rest }.word().unwrap_or("")
    }
}

/// A number of a small kind.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Text for $number {
            fn write(&self, out: &mut String) {
                write!(out, "{self}").expect("a String takes everything");
            }
            fn read(words: &mut Words<'_>) -> Result<Self, String> {
                let word = words.word()?;
                word.parse().map_err(|_| format!("{word:?} is no {}", stringify!($number)))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, bool);

impl<T: Text> Text for Vec<T> {
    fn write(&self, out: &mut String) {
        out.push('[');
        for item in self {
            out.push(' ');
            item.write(out);
        }
        out.push_str(" ]");
    }

    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let open = words.word()?;
        if open != "[" {
            return Err(format!("expected a list, found {open:?}"));
        }
        let mut items = Vec::new();
        while words.peek() != "]" {
            items.push(T::read(words)?);
        }
        words.word()?;
        Ok(items)
    }
}

impl<A: Text, B: Text> Text for (A, B) {
    fn write(&self, out: &mut String) {
        self.0.write(out);
        out.push(' ');
        self.1.write(out);
    }

    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        Ok((A::read(words)?, B::read(words)?))
    }
}

/// A byte string in the script: a key.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub Vec<u8>);

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Text for Bytes {
    fn write(&self, out: &mut String) {
        write!(out, "{self:?}").expect("a String takes everything");
    }

    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let word = words.word()?;
        let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
        let quoted = quoted.ok_or_else(|| format!("{word} is no quoted byte string"))?;
        let mut bytes = Vec::new();
        let mut rest = quoted.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'\\' => match rest.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(b'x') => {
                        let mut digit = || rest.next().and_then(|digit| (digit as char).to_digit(16));
                        let (high, low) = (digit(), digit());
                        high.zip(low).map(|(high, low)| (high << 4 | low) as u8).ok_or("a bad \\x escape")?
                    }
                    Some(other) => other,
                    None => return Err("a backslash at the end".to_owned()),
                },
                byte => byte,
            });
        }
        Ok(Bytes(bytes))
    }
}

/// An enum whose variants are words with fields: prints, reads back, and lists its fields'
/// documentation once.
macro_rules! worded {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $word:literal { $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)? })* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant { $($(#[$fdoc])* $field: $type),* }),* }

        impl $crate::script::text::Text for $name {
            fn write(&self, out: &mut String) {
                match self {
                    $($name::$variant { $($field),* } => {
                        out.push_str($word);
                        $(out.push(' '); $field.write(out);)*
                    })*
                }
            }

            fn read(words: &mut $crate::script::text::Words<'_>) -> Result<Self, String> {
                match words.word()? {
                    $($word => Ok($name::$variant {
                        $($field: <$type as $crate::script::text::Text>::read(words)?),*
                    }),)*
                    other => Err(format!("{other:?} is no {}", stringify!($name))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut line = String::new();
                $crate::script::text::Text::write(self, &mut line);
                f.write_str(&line)
            }
        }
    };
}
pub(crate) use worded;

/// A struct whose text form is each field's name and value, in order.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: $type),* }

        impl $crate::script::text::Text for $name {
            fn write(&self, out: &mut String) {
                let mut space = "";
                $(
                    out.push_str(space);
                    out.push_str(concat!(stringify!($field), " "));
                    $crate::script::text::Text::write(&self.$field, out);
                    space = " ";
                )*
                let _ = space;
            }

            fn read(words: &mut $crate::script::text::Words<'_>) -> Result<Self, String> {
                $(
                    let word = words.word()?;
                    if word != stringify!($field) {
                        return Err(format!("expected {}, found {word:?}", stringify!($field)));
                    }
                    let $field = <$type as $crate::script::text::Text>::read(words)?;
                )*
                Ok($name { $($field),* })
            }
        }
    };
}
pub(crate) use record;
