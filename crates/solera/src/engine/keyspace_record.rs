//! A keyspace's settings as the manifest records them, and what an open makes of them: `encode`,
//! `decode` (docs/FORMAT.md, "5. CURRENT and manifest").
//!
//! `of_default` is for the default keyspace: layout, shape and separation that the program gives
//! count over the recorded ones. `find_operator` and `check_operator` are the rule for merge
//! operators, which are known by name.
//!
//! What must hold: a keyspace never gets an operator of another name than the recorded one. One
//! whose operator is neither given nor built in opens with a stand-in that refuses.
//!
//! Callers: `open`, `store` (which creates keyspaces), `handle`; `inspect::edits` prints
//! `recorded_settings`.

use super::{
    catalog::DEFAULT_KEYSPACE,
    options::{KeyspaceOptions, Options},
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    compaction::Shape,
    error::{Error, Result},
    key::VALUE_BYTES_MAX,
    operator::{self, MergeOperator, NotGiven},
    table::Layout,
};
use std::sync::Arc;

/// Layout, shape, the operator's name (empty: none) and from how many bytes on values are separated
/// (0: none are).
pub(super) fn encode(options: &KeyspaceOptions) -> Vec<u8> {
    let mut out = Vec::new();
    options.layout.encode(&mut out);
    options.shape.encode(&mut out);
    let operator = options.merge_operator.as_ref().map_or("", |operator| operator.name());
    put_bytes(&mut out, operator.as_bytes());
    put_varint(&mut out, options.separate_from.unwrap_or(0));
    out
}

/// Settings as read, before the operator is looked up.
pub(super) struct Recorded {
    pub(super) layout: Layout,
    pub(super) shape: Shape,
    pub(super) operator: String,
    pub(super) separate_from: Option<u64>,
}

pub(super) fn decode(bytes: &[u8]) -> Result<Recorded, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let layout = Layout::decode(&mut decoder)?;
    let shape = Shape::decode(&mut decoder)?;
    let Ok(operator) = String::from_utf8(decoder.bytes("merge operator name")?.to_vec()) else {
        return decoder.fail("merge operator name in UTF-8");
    };
    let separate_from = decoder.varint_up_to(VALUE_BYTES_MAX, "bytes from which values are separated")?;
    decoder.finish("end of keyspace settings")?;
    Ok(Recorded { layout, shape, operator, separate_from: Some(separate_from).filter(|&bytes| bytes > 0) })
}

/// The settings in words, as `dump` of a manifest prints them.
pub(crate) fn recorded_settings(bytes: &[u8]) -> Result<String, DecodeError> {
    let Recorded { layout, shape, operator, separate_from } = decode(bytes)?;
    let mut words = format!(
        "index {}, filter {}, blocks of {} bytes, {}, shape {shape}",
        layout.index, layout.filter, layout.block_bytes, layout.compression
    );
    if !operator.is_empty() {
        words += &format!(", merge operator {operator:?}");
    }
    if let Some(bytes) = separate_from {
        words += &format!(", values from {bytes} bytes on are separated");
    }
    Ok(words)
}

/// Refuses an operator in the place of another one: operands of one mean nothing to the other.
pub(super) fn check_operator(
    keyspace: &str,
    has: Option<&Arc<dyn MergeOperator>>,
    given: &Arc<dyn MergeOperator>,
) -> Result<()> {
    match has {
        Some(has) if has.name() != given.name() => Err(Error::Invalid(format!(
            "keyspace {keyspace:?} has the merge operator {:?} and cannot have {:?}: its operands are the other's",
            has.name(),
            given.name()
        ))),
        _ => Ok(()),
    }
}

/// The operator that a keyspace was created with: one that the program gave, a built-in one, or a
/// stand-in that has its name and refuses.
pub(super) fn find_operator(name: &str, given: &[Arc<dyn MergeOperator>]) -> Option<Arc<dyn MergeOperator>> {
    if name.is_empty() {
        return None;
    }
    let found = given.iter().find(|operator| operator.name() == name).cloned();
    found.or_else(|| operator::builtin(name)).or_else(|| Some(Arc::new(NotGiven(name.into()))))
}

/// What the default keyspace is opened with: as recorded, but for what this open says.
pub(super) fn of_default(options: &Options, recorded: KeyspaceOptions) -> Result<KeyspaceOptions> {
    let given = &options.keyspace;
    if let Some(given) = &given.merge_operator {
        check_operator(DEFAULT_KEYSPACE, recorded.merge_operator.as_ref(), given)?;
    }
    Ok(given.over(&recorded))
}
