//! The report as one web page: `render`, and `page` and `escape` for others. `beginning` tells a
//! page of ours from others.
//!
//! Charts and tables stand under facts about the run; colours follow the reader's preference for
//! light or dark.
//!
//! What must hold: the page has no script and needs no network. Text from the machine cannot become
//! markup.
//!
//! Callers: `Report::to_html`; `solera explain` makes its page by `page`, and it and `solera bench`
//! know an older one by `beginning`; `report::chart`, `lines`
//! and `picture` use `escape`.

use super::{
    ArmReport, Phase, Report, SetReport, Spread,
    chart::Chart,
    number::Quantity,
    picture::{COLOURS, PARTS},
    rows::{groups, phase_title},
    text::{conditions, facts},
};
use std::fmt::Write;

const STYLE: &str = "
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .75rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: .75rem; margin: 1rem 0; }
figure { margin: 0; padding: .7rem .8rem .5rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
figcaption { font-size: .9rem; margin-bottom: .3rem; } figcaption span { color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
figure.whole { grid-column: 1 / -1; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .2rem .75rem .2rem 0; text-align: right; white-space: nowrap; } th:first-child, td:first-child, td:nth-child(2),
th:nth-child(2) { text-align: left; } td:nth-child(2) { color: var(--soft); }
tr.group th { padding-top: .7rem; border-bottom: 1px solid var(--line); text-align: left; }
.warning { color: #c0392b; font-weight: 700; }
";

/// Text that may stand in HTML, also in an attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for set in &report.sets {
        let _ = writeln!(
            out,
            "<h2>{}</h2>\n<p>{}</p><p class=\"soft\">{}</p>",
            escape(&set.name),
            escape(&set.about),
            escape(&conditions(set))
        );
        charts(&mut out, report, set);
        table(&mut out, report, set);
    }
    page(TITLE, &facts(report), &out)
}

/// The title of a report's page.
pub const TITLE: &str = "Solera benchmark";

/// How each page with this title begins.
pub fn beginning(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title>",
        escape(title)
    )
}

/// A page with a title, facts and `body`, which is HTML; nothing else in it is. A fact named
/// `WARNING` stands out.
pub fn page(title: &str, facts: &[(&'static str, String)], body: &str) -> String {
    let mut out = beginning(title);
    let _ =
        write!(out, "<style>{COLOURS}{STYLE}{PARTS}</style></head><body>\n<h1>{}</h1>\n<dl>", escape(title));
    for (name, text) in facts {
        let class = if *name == "WARNING" { " class=\"warning\"" } else { "" };
        let _ = write!(out, "<dt>{name}</dt><dd{class}>{}</dd>", escape(text));
    }
    out.push_str("</dl>\n");
    out.push_str(body);
    out.push_str("</body></html>\n");
    out
}

fn charts(out: &mut String, report: &Report, set: &SetReport) {
    out.push_str("<div class=\"charts\">\n");
    let mut chart = |title: &str, quantity, better, value: &dyn Fn(&ArmReport) -> Option<Spread>| {
        let bars: Vec<_> = set.arms.iter().filter_map(|arm| Some((&arm.index[..], value(arm)?))).collect();
        if !bars.is_empty() {
            let _ = writeln!(out, "{}", Chart { title, quantity, better, bars }.draw().figure());
        }
    };
    let once = |x: f64| Some(Spread::of(vec![x]));
    for phase in Phase::ALL {
        let of = |arm: &ArmReport| arm.phases.iter().find(|report| report.phase == phase).cloned();
        let title = phase_title(phase, report.settings.scan_entries);
        let rate = |arm: &ArmReport| of(arm).map(|report| report.per_second);
        chart(&title, Quantity::Rate(phase.operations()), "higher", &rate);
        if matches!(phase, Phase::FoundUniform | Phase::Absent) {
            let p99 = |arm: &ArmReport| of(arm).and_then(|report| report.p99_ns);
            chart(&format!("{title}, p99"), Quantity::Nanoseconds, "lower", &p99);
        }
    }
    chart("Load in random order", Quantity::Rate("puts"), "higher", &|arm| once(arm.load.puts_per_s));
    chart("Index, in memory", Quantity::Plain("B/key"), "lower", &|arm| {
        once(arm.size.index_file_bytes_per_key)
    });
    out.push_str("</div>\n");
}

fn table(out: &mut String, report: &Report, set: &SetReport) {
    out.push_str("<div class=\"wide\"><table><thead><tr><th></th><th></th>");
    for arm in &set.arms {
        let _ = write!(out, "<th>{}</th>", escape(&arm.index));
    }
    out.push_str("</tr></thead><tbody>\n");
    for group in groups(set, report.settings.scan_entries) {
        let _ = writeln!(
            out,
            "<tr class=\"group\"><th colspan=\"{}\">{}</th></tr>",
            set.arms.len() + 2,
            escape(&group.title)
        );
        for row in group.rows {
            let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(&row.label), escape(&row.unit));
            row.cells.iter().for_each(|cell| {
                let _ = write!(out, "<td>{}</td>", escape(cell));
            });
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use crate::report::tests::example;

    #[test]
    fn the_page_needs_nothing_from_outside() {
        let page = example().to_html();
        for outside in ["http://", "https://", "<script", "<link", "@import", "url(", "src="] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn text_from_the_machine_cannot_become_markup() {
        let page = example().to_html();
        assert!(page.contains("Example &lt;CPU&gt; &amp; Co") && !page.contains("<CPU>"));
    }

    #[test]
    fn every_element_is_closed_and_every_kind_has_its_bars() {
        let page = example().to_html();
        for element in ["figure", "svg", "table", "tr", "td", "th", "g", "div", "dl", "body"] {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
        for kind in ["k0", "k1", "k2"] {
            assert_eq!(page.matches(&format!("class=\"bar {kind}\"")).count(), 9);
        }
    }
}
