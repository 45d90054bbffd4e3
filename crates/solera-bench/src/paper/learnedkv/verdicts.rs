//! What holds of the aims of L1 and L2: `of`.
//!
//! The aims bound bytes written, rates, scans, read calls, latencies and space. They hold `tier`,
//! or each way that gives space back, against inline, an unsorted log, `rewrite`, or a number. One
//! holds `learnedkv` against `rewrite`, as the paper does.
//!
//! What must hold: each aim is a row, whether it holds or not.
//!
//! Caller: `learnedkv::run`.

use super::{Arm, Course, PHASES, SCAN_ENTRIES, SPARE_PERCENT, Site, VALUE_BYTES};
use crate::{
    paper::{
        Verdict,
        keeper::{KEY_BYTES, Phase, Way},
        row,
    },
    report::number::digits,
};
use solera::Reclaim;

/// What holds of the aims, arm by arm.
pub(super) fn of(site: &Site<'_>, arms: &[Arm], asked: &mut Vec<Verdict>) {
    let pair = KEY_BYTES + VALUE_BYTES as u64;
    let live = site.setting(Way::Inline, site.scale.entries as u64, VALUE_BYTES).live_bytes() as f64;
    let find = |way: Way| arms.iter().find(|arm| arm.way == way);
    let by_name = |name: &str| arms.iter().find(|arm| arm.way.name() == name);
    let (Some(inline), Some(tier), Some(log)) =
        (find(Way::Inline), find(Way::Separated(Reclaim::Tier)), find(Way::Separated(Reclaim::Off)))
    else {
        return;
    };
    let load = |arm: &Arm| {
        arm.median(|of| of.load.written.all() as f64 / (of.load.writes.count * pair).max(1) as f64)
    };
    row(
        asked,
        "a random load writes at most 1.15 bytes for each byte put, log included (`tier`)",
        format!("{:.3}; inline {:.2}", load(tier), load(inline)),
        load(tier) <= 1.15,
    );
    let churn = |arm: &Arm| arm.median(|of| of.written_per_byte(pair));
    row(
        asked,
        "P1 to P3 write at most half the bytes of inline (`tier`)",
        format!(
            "{:.2} for each byte put, inline {:.2}: {:.2}",
            churn(tier),
            churn(inline),
            churn(tier) / churn(inline)
        ),
        churn(tier) <= 0.5 * churn(inline),
    );
    let rate = |arm: &Arm| arm.median(Course::update_rate);
    let reads = |arm: &Arm| arm.median(|of| of.found.0);
    for arm in arms.iter().filter(|arm| matches!(arm.way, Way::Separated(way) if way != Reclaim::Off)) {
        against_log(arm, inline, log, live, asked);
    }
    row(
        asked,
        "found reads after the updates are no slower than inline (`tier`)",
        format!("{:.2} times", reads(tier) / reads(inline)),
        reads(tier) >= reads(inline),
    );
    if let Some(rewrite) = by_name("rewrite") {
        row(
            asked,
            "P1 to P3 write at most 0.7 of the bytes of `rewrite` (`tier`)",
            format!("{:.2} against {:.2}: {:.2}", churn(tier), churn(rewrite), churn(tier) / churn(rewrite)),
            churn(tier) <= 0.7 * churn(rewrite),
        );
        row(
            asked,
            "updates are at least 1.25 times as fast as with `rewrite` (`tier`)",
            format!("{:.2} times", rate(tier) / rate(rewrite)),
            rate(tier) >= 1.25 * rate(rewrite),
        );
        if let Some(paper) = by_name("learnedkv") {
            let last = |arm: &Arm, of: fn(&Phase) -> f64| arm.median(|course| of(&course.phases[PHASES - 1]));
            let [writes, reads] = [|p: &Phase| p.writes.per_second(), |p: &Phase| p.reads.per_second()]
                .map(|of| last(paper, of) / last(rewrite, of));
            let scans = paper.median(|of| of.scans[2]) / rewrite.median(|of| of.scans[2]);
            row(
                asked,
                "the paper's claim against its baseline in P3, 1.31 × writes, 1.32 × reads, 3.6 × scans (`learnedkv` against `rewrite`)",
                format!("{writes:.2} ×, {reads:.2} ×, {scans:.2} ×"),
                writes >= 1.31 && reads >= 1.32 && scans >= 3.6,
            );
        }
    }
}

/// What is asked of every way that gives space back.
fn against_log(arm: &Arm, inline: &Arm, log: &Arm, live: f64, asked: &mut Vec<Verdict>) {
    let name = arm.way.name();
    for (moment, when) in [(3, "after P3"), (4, "after P3 and conversion for walks")] {
        let scans = |arm: &Arm| arm.median(|of| of.scans[moment]);
        row(
            asked,
            format!(
                "scans of {SCAN_ENTRIES} {when} are at least 3 times those of an unsorted log and 0.9 of inline (`{name}`)"
            ),
            format!("{:.2} and {:.2} times", scans(arm) / scans(log), scans(arm) / scans(inline)),
            scans(arm) >= 3.0 * scans(log) && scans(arm) >= 0.9 * scans(inline),
        );
    }
    let calls = arm.courses.iter().filter_map(|course| course.found.1).fold(f64::NAN, f64::max);
    row(
        asked,
        format!("a found read whose pointers are in memory is at most 1.02 reads of files (`{name}`)"),
        format!("{calls:.3}"),
        calls <= 1.02,
    );
    for (reads, what) in [(false, "writes"), (true, "reads")] {
        let at = |moving: bool, quantile: f64| arm.median(|of| of.latency(reads, moving, quantile));
        let (rest, moving, longest) = (at(false, 0.99), at(true, 0.99), at(true, 1.0));
        let own = arm.median(|of| of.own_longest(reads, true));
        row(
            asked,
            format!(
                "p99 of {what} while values move is at most twice the rest, no pause over 100 ms (`{name}`)"
            ),
            format!(
                "{} µs against {} µs; longest {} ms, and {} ms without what was waited for a processor or a device that stood still",
                digits(moving / 1e3),
                digits(rest / 1e3),
                digits(longest / 1e6),
                digits(own / 1e6)
            ),
            moving <= 2.0 * rest && longest <= 1e8,
        );
    }
    let steady = arm.median(|of| of.holding.space as f64) / live;
    let peak = arm.median(|of| of.space_peak() as f64) / live;
    let allowed = 1.1 + f64::from(SPARE_PERCENT) / 100.0;
    row(
        asked,
        format!(
            "files take at most {allowed:.1} of the live bytes at the end, and {:.3} at the peak (`{name}`)",
            allowed + 0.125
        ),
        format!("{steady:.3} and {peak:.3}"),
        steady <= allowed && peak <= allowed + 0.125,
    );
}
