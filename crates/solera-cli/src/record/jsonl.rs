//! JSON lines, one object for each line, with keys and values chosen by field: `Jsonl`, a
//! `Records`.
//!
//! A field is a name, or a JSON pointer if it begins with a slash (`/user/id`). Several are joined
//! by tabs. Without `--value` the value is the whole line.
//!
//! What must hold: strings count by their content, everything else by its JSON text, so that
//! numbers keep every digit. A field of a key is a string, a number or a boolean. Of several
//! members of one name the last counts. Blank lines are passed over.
//!
//! Caller: `record::Options::open`.

use super::{
    Next, Passed, Record, Records,
    columns::Selectors,
    lines::{Line, LineReader},
};
use crate::failure::Result;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Records of which each is a JSON object on a line.
pub(super) struct Jsonl {
    lines: LineReader,
    key: Vec<Field>,
    value: Option<Vec<Field>>,
}

struct Field {
    /// As given, for messages.
    name: String,
    /// The path to it: one name, or the parts of a pointer.
    path: Vec<String>,
}

impl Field {
    fn new(name: &str) -> Field {
        let path = match name.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => vec![name.to_owned()],
        };
        Field { name: name.to_owned(), path }
    }

    /// The field's JSON text in an object.
    fn find<'j>(&self, object: &'j str) -> Result<&'j str, String> {
        let mut text = object;
        for (depth, part) in self.path.iter().enumerate() {
            let found = match text.trim_start().as_bytes().first() {
                Some(b'{') => member(text, part),
                Some(b'[') if depth > 0 => element(text, part),
                _ if depth > 0 => Ok(None),
                _ => {
                    return Err(match text.trim_start().chars().next() {
                        Some(first) => format!("not a JSON object: it begins with {first:?}"),
                        None => "not a JSON object: the line is empty".to_owned(),
                    });
                }
            };
            text = found
                .map_err(|error| format!("not a JSON object: {}", without_line(&error)))?
                .ok_or_else(|| format!("there is no field {:?}", self.name))?;
        }
        Ok(text)
    }

    /// Appends what the field's JSON text stands for.
    fn append(&self, out: &mut Vec<u8>, json: &str, is_key: bool) -> Result<(), String> {
        let kind = match json.as_bytes().first() {
            Some(b'"') => {
                let text: Cow<'_, str> = serde_json::from_str(json).map_err(|error| without_line(&error))?;
                out.extend_from_slice(text.as_bytes());
                return Ok(());
            }
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'n') => "null",
            _ => "",
        };
        if is_key && !kind.is_empty() {
            return Err(format!("field {:?} is {kind}; a key is a string, a number or a boolean", self.name));
        }
        out.extend_from_slice(json.as_bytes());
        Ok(())
    }
}

impl Jsonl {
    /// Reads objects from lines.
    pub(super) fn new(lines: LineReader, key: &Selectors, value: Option<&Selectors>) -> Self {
        let fields = |selectors: &Selectors| selectors.names().map(Field::new).collect();
        Jsonl { lines, key: fields(key), value: value.map(fields) }
    }

    fn parse(&self, record: &mut Record) -> Result<(), String> {
        let line = std::str::from_utf8(self.lines.content())
            .map_err(|error| format!("not a JSON object: not UTF-8 from byte {}", error.valid_up_to() + 1))?;
        record.key.clear();
        record.value.clear();
        project(&self.key, line, &mut record.key, true)?;
        match &self.value {
            Some(fields) => project(fields, line, &mut record.value, false)?,
            None => record.value.extend_from_slice(line.strip_suffix('\r').unwrap_or(line).as_bytes()),
        }
        Ok(())
    }
}

fn project(fields: &[Field], line: &str, out: &mut Vec<u8>, is_key: bool) -> Result<(), String> {
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            out.push(b'\t');
        }
        let start = out.len();
        field.append(out, field.find(line)?, is_key)?;
        if is_key && fields.len() > 1 && out[start..].contains(&b'\t') {
            return Err(format!(
                "field {:?} contains a tab, which separates the fields of a key",
                field.name
            ));
        }
    }
    Ok(())
}

impl Records for Jsonl {
    fn next(&mut self, record: &mut Record) -> Result<Next> {
        loop {
            let line = self.lines.advance()?;
            record.line = self.lines.number();
            match line {
                Line::Whole if self.lines.content().trim_ascii().is_empty() => continue,
                Line::Whole => {}
                Line::TooLong => return Ok(self.lines.too_long()),
                Line::End => return Ok(Next::End),
            }
            return Ok(match self.parse(record) {
                Ok(()) => Next::Record,
                Err(reason) => self.lines.bad(reason),
            });
        }
    }

    fn text(&self) -> Vec<u8> {
        self.lines.content().to_vec()
    }

    fn passed(&self) -> Passed {
        self.lines.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.lines.doubts(b"")
    }
}

/// The JSON text of the member `name` of an object, the last one if there are several.
fn member<'j>(object: &'j str, name: &str) -> serde_json::Result<Option<&'j str>> {
    struct Find<'n>(&'n str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<&'de str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(wanted) = map.next_key_seed(Is(self.0))? {
                if wanted {
                    found = Some(map.next_value::<&'de RawValue>()?.get());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let found = deserializer.deserialize_map(Find(name))?;
    deserializer.end()?;
    Ok(found)
}

/// Whether a member's name is the wanted one, without keeping it.
struct Is<'n>(&'n str);

impl<'de> serde::de::DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// The JSON text of element `index` of an array.
fn element<'j>(array: &'j str, index: &str) -> serde_json::Result<Option<&'j str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array)?;
    Ok(index.parse::<usize>().ok().and_then(|index| elements.get(index).map(|json| json.get())))
}

/// The text of the error, without the line, which is always the first of a line of its own.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}
