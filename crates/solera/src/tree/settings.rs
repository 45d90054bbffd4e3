//! What a tree is kept like: `Settings`, its layout by level, shape, filter bits, and threshold of
//! separated values.
//!
//! `get` and `set` read and write one `TreeKnob`, for one level or for all. `validate` says whether
//! layout and shape are in range; `narrowed` says what a knob may be while the others stay.
//! `layout_of` says how tables of a level are written. `SEPARATE_NONE` is the threshold that
//! separates no value below 256 KiB.
//!
//! What must hold: setting a knob for all levels ends what single levels had; the run limit of
//! level 0 alone stays. A value of `SEPARATE_ALL_FROM` bytes or more is always kept apart.
//! Callers: `View` holds one beside the version. `control::check` and `engine::{assignments,
//! change}` change copies; `engine::{job_parts, ingest}` ask for layouts; `engine` and `db` ask
//! what is separated.

use crate::{
    compaction::{LEVEL0_PATIENCE_DEFAULT, Shape, Transition},
    error::Result,
    knob::{LayoutKnob, TreeKnob, Value},
    table::Layout,
    version::LEVELS_MAX,
};
use std::ops::RangeInclusive;

/// What the threshold of separated values is set to where none is separated.
pub const SEPARATE_NONE: u32 = u32::MAX;

/// A value of so many bytes is kept apart whatever the threshold: memtables, flushes and merges
/// would each hold copies of it, beside any budget.
pub const SEPARATE_ALL_FROM: u32 = 1 << 18;

/// Layout and shape of one tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How tables are written where no level says otherwise.
    pub layout: Layout,
    /// The shape.
    pub shape: Shape,
    /// How levels come to other run limits.
    pub transition: Transition,
    /// Runs that level 0 may come to while reads have not paid for its merge.
    pub level0_patience: u32,
    /// A value of at least so many bytes is kept apart from its entry; `None`: only large ones are,
    /// from [`SEPARATE_ALL_FROM`] on.
    pub separate_from: Option<u32>,
    /// What single levels have otherwise than `layout`.
    of_levels: Vec<(u32, LayoutKnob, Value)>,
}

impl Settings {
    /// The same layout for all levels.
    pub fn new(layout: Layout, shape: Shape) -> Settings {
        Settings {
            layout,
            shape,
            transition: Transition::default(),
            level0_patience: LEVEL0_PATIENCE_DEFAULT,
            separate_from: None,
            of_levels: Vec::new(),
        }
    }

    /// Whether a value of so many bytes is kept apart from its entry.
    #[inline]
    pub fn separates(&self, value_len: usize) -> bool {
        value_len as u64 >= self.bytes_separated()
    }

    /// From how many bytes on values are kept apart.
    pub fn bytes_separated(&self) -> u64 {
        u64::from(self.separate_from.map_or(SEPARATE_ALL_FROM, |from| from.min(SEPARATE_ALL_FROM)))
    }

    /// How tables of `level` are written.
    pub fn layout_of(&self, level: u32) -> Layout {
        let mut layout = self.layout;
        let of_level = self.of_levels.iter().filter(|(at, ..)| *at == level);
        of_level.for_each(|(_, knob, value)| layout.set(*knob, value));
        layout
    }

    /// Bits of filter that `level` was given for itself.
    pub fn filter_bits_of(&self, level: u32) -> Option<f32> {
        let is_own =
            |(at, knob, _): &(u32, LayoutKnob, Value)| (*at, *knob) == (level, LayoutKnob::FilterBitsPerKey);
        self.of_levels.iter().any(is_own).then(|| self.layout_of(level).filter.bits_per_key)
    }

    /// What `knob` is set to, for `level` or where no level says otherwise. Of all levels' run
    /// limits below level 0, the deepest that is named speaks.
    pub fn get(&self, knob: TreeKnob, level: Option<u32>) -> Value {
        match knob {
            TreeKnob::SizeRatio => self.shape.size_ratio.into(),
            TreeKnob::RunLimit => self.shape.run_limit(level.unwrap_or(LEVELS_MAX)).into(),
            TreeKnob::Level0Patience => self.level0_patience.into(),
            TreeKnob::Transition => self.transition.name().into(),
            TreeKnob::SeparateFrom => self.separate_from.unwrap_or(SEPARATE_NONE).into(),
            TreeKnob::Layout(knob) => level.map_or(self.layout, |level| self.layout_of(level)).get(knob),
        }
    }

    /// Sets `knob`, for one level or for all, to a value that is legal for it by itself; another
    /// value is a mistake of the caller's. Whether it suits the others is said by
    /// [`Settings::validate`].
    pub fn set(&mut self, knob: TreeKnob, level: Option<u32>, value: &Value) {
        match knob {
            TreeKnob::SizeRatio => self.shape.size_ratio = value.to_u32(),
            TreeKnob::RunLimit => self.shape.set_run_limit(level, value.to_u32()),
            TreeKnob::Level0Patience => self.level0_patience = value.to_u32(),
            TreeKnob::Transition => self.transition = value.to_name().parse().expect("a legal name"),
            TreeKnob::SeparateFrom => {
                self.separate_from = Some(value.to_u32()).filter(|&bytes| bytes != SEPARATE_NONE);
            }
            TreeKnob::Layout(knob) => self.set_layout(knob, level, value),
        }
    }

    /// What `knob` may be while all else stays as it is, if that is less than it may ever be.
    pub fn narrowed(&self, knob: TreeKnob, level: Option<u32>) -> Option<RangeInclusive<u32>> {
        match knob {
            TreeKnob::SizeRatio => Some(self.shape.legal_size_ratio()),
            TreeKnob::RunLimit => Some(self.shape.legal_run_limit(level)),
            TreeKnob::Level0Patience
            | TreeKnob::Transition
            | TreeKnob::SeparateFrom
            | TreeKnob::Layout(_) => None,
        }
    }

    /// Setting it for all levels ends what single ones had.
    fn set_layout(&mut self, knob: LayoutKnob, level: Option<u32>, value: &Value) {
        self.of_levels.retain(|(at, other, _)| *other != knob || level.is_some_and(|level| level != *at));
        match level {
            None => self.layout.set(knob, value),
            Some(level) => self.of_levels.push((level, knob, value.clone())),
        }
    }

    /// Whether every value is in its range, given the others.
    ///
    /// # Errors
    /// [`Error::Invalid`], with what is legal.
    pub fn validate(&self) -> Result<()> {
        self.layout.validate()?;
        self.shape.validate()
    }

    /// Lowers run limits that the size ratio does not allow to what it does.
    pub fn fit_run_limits(&mut self) {
        let Shape { size_ratio, .. } = self.shape;
        let fitted = |level| match self.shape.run_limit(level) {
            limit if level == 0 => limit,
            limit => limit.min(size_ratio),
        };
        self.shape.run_limits = (0..self.shape.run_limits.len().max(2) as u32).map(fitted).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filters;

    #[test]
    fn a_level_may_be_laid_out_otherwise_until_all_are_set() {
        let mut settings = Settings::new(Layout::default(), Shape::default());
        let block_bytes = TreeKnob::Layout(LayoutKnob::BlockBytes);
        settings.set(block_bytes, Some(2), &512u32.into());
        settings.set(TreeKnob::Layout(LayoutKnob::Index), Some(2), &"s-tree".into());
        settings.set(TreeKnob::Layout(LayoutKnob::FilterBitsPerKey), None, &4.5.into());
        assert_eq!(settings.layout_of(1), Layout { filter: Filters::monkey(4.5), ..Layout::default() });
        let second = settings.layout_of(2);
        assert_eq!((second.block_bytes, second.index.name()), (512, "s-tree"));
        assert_eq!(second.filter.bits_per_key, 4.5);
        settings.set(block_bytes, Some(2), &1024u32.into());
        assert_eq!(settings.layout_of(2).block_bytes, 1024);
        assert_eq!(settings.get(block_bytes, Some(2)), 1024u32.into());
        settings.set(block_bytes, None, &2048u32.into());
        assert_eq!(settings.layout_of(2).block_bytes, 2048);
        assert_eq!(settings.layout_of(2).index.name(), "s-tree");
    }

    #[test]
    fn the_largest_threshold_separates_nothing() {
        let mut settings = Settings::new(Layout::default(), Shape::default());
        assert_eq!(settings.get(TreeKnob::SeparateFrom, None), SEPARATE_NONE.into());
        settings.set(TreeKnob::SeparateFrom, None, &1024u32.into());
        assert!(settings.separates(1024) && !settings.separates(1023));
        assert_eq!(settings.get(TreeKnob::SeparateFrom, None), 1024u32.into());
        settings.set(TreeKnob::SeparateFrom, None, &SEPARATE_NONE.into());
        assert_eq!(settings.separate_from, None);
    }

    #[test]
    fn a_smaller_size_ratio_lowers_the_run_limits_that_it_does_not_allow() {
        let shape = Shape { size_ratio: 4, run_limits: vec![20, 9, 2, 8], ..Shape::default() };
        let mut settings = Settings::new(Layout::default(), shape);
        assert!(settings.validate().is_err());
        settings.fit_run_limits();
        settings.validate().unwrap();
        let limits = (0..6).map(|level| settings.shape.run_limit(level)).collect::<Vec<_>>();
        assert_eq!(limits, [20, 4, 2, 4, 4, 4]);
    }
}
