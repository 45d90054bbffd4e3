//! What a tree is kept like: the numbers that its writers, flushes and compactions obey.
//!
//! Owns [`Settings`]. A tree's view holds them beside the version, so that whoever decides sees a shape and the
//! tables it is about in one step, and a change of either is one exchange of the view.

use crate::{
    compaction::{LEVEL0_PATIENCE, LEVEL0_PATIENCE_DEFAULT, Shape, TRANSITION, Transition},
    error::{Error, Result},
    knob::{Knob, Legal, Scope, Value},
    table::{Layout, layout::FILTER_BITS_PER_KEY},
};

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
    /// What single levels have otherwise than `layout`.
    of_levels: Vec<(u32, &'static Knob, Value)>,
}

impl Settings {
    /// The same layout for all levels.
    pub fn new(layout: Layout, shape: Shape) -> Settings {
        Settings {
            layout,
            shape,
            transition: Transition::default(),
            level0_patience: LEVEL0_PATIENCE_DEFAULT,
            of_levels: Vec::new(),
        }
    }

    /// The knobs that a tree obeys.
    pub fn knobs() -> impl Iterator<Item = &'static Knob> {
        Shape::KNOBS.into_iter().chain([&LEVEL0_PATIENCE]).chain(Layout::KNOBS).chain([&TRANSITION])
    }

    /// How tables of `level` are written.
    pub fn layout_of(&self, level: u32) -> Layout {
        let mut layout = self.layout;
        let of_level = self.of_levels.iter().filter(|(at, ..)| *at == level);
        of_level.for_each(|(_, knob, value)| layout.set(knob, value));
        layout
    }

    /// Bits of filter that `level` was given for itself.
    pub fn filter_bits_of(&self, level: u32) -> Option<f32> {
        let own = self.of_levels.iter().any(|(at, knob, _)| *at == level && **knob == FILTER_BITS_PER_KEY);
        own.then(|| self.layout_of(level).filter.bits_per_key)
    }

    /// What `knob` is set to, if it is one of a tree.
    pub fn setting(&self, knob: &Knob, level: Option<u32>) -> Option<Value> {
        let layout = level.map_or(self.layout, |level| self.layout_of(level));
        let transition = || (*knob == TRANSITION).then(|| self.transition.name().into());
        let patience = || (*knob == LEVEL0_PATIENCE).then(|| self.level0_patience.into());
        let of_shape = self.shape.setting(knob, level).or_else(patience);
        of_shape.or_else(|| layout.setting(knob)).or_else(transition)
    }

    /// What `knob`, one of a tree, may be set to while all else stays as it is.
    pub fn legal(&self, knob: &Knob, level: Option<u32>) -> Legal {
        match Shape::KNOBS.contains(&knob) {
            true => self.shape.legal(knob, level),
            false => knob.legal.clone(),
        }
    }

    /// Sets `knob`, one of a tree, for one level or for all. The value is checked by itself here;
    /// whether it suits the others is said by [`Settings::validate`].
    ///
    /// # Errors
    /// [`Error::Invalid`]: nothing is changed.
    pub fn set(&mut self, knob: &'static Knob, level: Option<u32>, value: &Value) -> Result<()> {
        if level.is_some() && knob.scope != Scope::Level {
            return Err(Error::Invalid(format!(
                "{} is set for a {}, not for a level",
                knob.name,
                knob.scope.name()
            )));
        }
        if Shape::KNOBS.contains(&knob) {
            let Some(number) = value.whole() else { return knob.check(&self.legal(knob, level), value) };
            self.shape.set(knob, level, number);
            return Ok(());
        }
        knob.check(&knob.legal, value)?;
        if *knob == LEVEL0_PATIENCE {
            self.level0_patience = value.whole().and_then(|runs| runs.try_into().ok()).unwrap_or_default();
            return Ok(());
        }
        if *knob == TRANSITION {
            self.transition = value.name().and_then(|name| name.parse().ok()).unwrap_or_default();
            return Ok(());
        }
        self.of_levels.retain(|(at, other, _)| *other != knob || level.is_some_and(|level| level != *at));
        match level {
            None => self.layout.set(knob, value),
            Some(level) => self.of_levels.push((level, knob, value.clone())),
        }
        Ok(())
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
    use crate::{
        filter::Filters,
        table::layout::{BLOCK_BYTES, INDEX},
    };

    #[test]
    fn a_level_may_be_laid_out_otherwise_until_all_are_set() {
        let mut settings = Settings::new(Layout::default(), Shape::default());
        settings.set(&BLOCK_BYTES, Some(2), &512u32.into()).unwrap();
        settings.set(&INDEX, Some(2), &"s-tree".into()).unwrap();
        settings.set(&FILTER_BITS_PER_KEY, None, &4.5.into()).unwrap();
        assert_eq!(settings.layout_of(1), Layout { filter: Filters::monkey(4.5), ..Layout::default() });
        let second = settings.layout_of(2);
        assert_eq!((second.block_bytes, second.index.name()), (512, "s-tree"));
        assert_eq!(second.filter.bits_per_key, 4.5);
        settings.set(&BLOCK_BYTES, Some(2), &1024u32.into()).unwrap();
        assert_eq!(settings.layout_of(2).block_bytes, 1024);
        settings.set(&BLOCK_BYTES, None, &2048u32.into()).unwrap();
        assert_eq!(settings.layout_of(2).block_bytes, 2048);
        assert_eq!(settings.layout_of(2).index.name(), "s-tree");
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
