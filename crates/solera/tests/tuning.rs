//! Test that docs/TUNING.md holds the table of knobs as the engine prints it (`control::knob`).

#[test]
fn the_page_on_tuning_shows_every_knob_as_it_is() {
    let page = include_str!("../../../docs/TUNING.md");
    let tables = [false, true].map(solera::control::knob::table);
    for table in tables.iter().filter(|table| table.lines().count() > 2) {
        println!("{table}");
        assert!(page.contains(table.as_str()), "docs/TUNING.md must hold the table above");
    }
}
