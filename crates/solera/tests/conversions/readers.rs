//! Tests of what readers and writers see while values move: threads, deletes, snapshots, iterators,
//! absent keys, a write at the same moment.

use super::{
    DIR, Model, WAYS, assert_holds, assert_whole, key, live_bytes, named, open, options, round,
    value_file_bytes, wasteful,
};
use solera::{Reclaim, vfs::mem::MemFs};
use std::sync::Arc;

#[test]
fn many_threads_convert_and_write_at_once_and_every_answer_stays() {
    for way in WAYS {
        let fs = MemFs::new();
        let db = options(Arc::new(fs.clone()), way).background_threads(3).open(DIR).unwrap();
        let model = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2u32)
                .map(|writer| {
                    let db = &db;
                    scope.spawn(move || {
                        let mut model = Model::new();
                        for again in 0..12 {
                            round(
                                db,
                                &mut model,
                                (0..400).filter(|n| n % 2 == writer && n * 7 % (again + 1) < 2),
                                again,
                            );
                        }
                        model
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Model>()
        });
        db.flush().unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{way:?}: {:?}", report.problems);
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_delete_counts_before_during_and_after_a_conversion_and_of_absent_keys_too() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = wasteful(&fs, 300);
        let db = open(&fs, way);
        let delete = |model: &mut Model, n: u32| {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        };
        (0..300).step_by(11).for_each(|n| delete(&mut model, n));
        (1000..1010).for_each(|n| delete(&mut model, n));
        db.flush().unwrap();
        let mut next = 1;
        while db.step().unwrap() {
            // Some lie in ranges that are converted already, some in others.
            delete(&mut model, next % 300);
            delete(&mut model, 2000 + next);
            next += 13;
            assert!(next < 100_000, "{way:?}: work goes on for ever");
        }
        assert_holds(&db, &model);
        (2..300).step_by(17).for_each(|n| delete(&mut model, n));
        assert_holds(&db, &model);
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn a_snapshot_or_an_iterator_older_than_a_conversion_reads_what_it_saw() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = wasteful(&fs, 200);
        let db = open(&fs, way);
        let (snapshot, then, mut iterator) = (db.snapshot(), model.clone(), db.iter());
        let first: Vec<_> = iterator.by_ref().take(20).map(|pair| pair.unwrap()).collect();
        for again in 5..9 {
            round(&db, &mut model, (0..200).filter(|n| (n + again) % 3 > 0), again);
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
        assert_holds(&db, &model);
        for (key, value) in &then {
            assert_eq!(snapshot.get(db.default(), key).unwrap().as_deref(), Some(&value[..]), "{way:?}");
        }
        let rest: Vec<_> = iterator.map(|pair| pair.unwrap()).collect();
        let seen: Model =
            first.iter().chain(&rest).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(seen == then, "{way:?}");
        drop(snapshot);
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model);
        db.close().unwrap();
        let taken = value_file_bytes(&fs);
        assert!(taken < live_bytes(&model) * 2, "{way:?}: {taken} bytes for {}", live_bytes(&model));
    }
}

#[test]
fn an_absent_key_is_refused_by_the_filters_of_the_tables_that_a_conversion_wrote() {
    let fs = MemFs::new();
    let model = wasteful(&fs, 300);
    let db = open(&fs, Reclaim::Tier);
    db.wait_idle().unwrap();
    assert!(!named(&fs, ".values").is_empty());
    let refused =
        || -> u64 { db.default().stats().levels.iter().map(|level| level.counters.filter_negatives).sum() };
    let before = refused();
    for n in 0..300 {
        assert_eq!(db.get([&key(n)[..], b"!"].concat()).unwrap(), None);
    }
    assert!(refused() > before + 200, "{} of 300", refused() - before);
    assert_holds(&db, &model);
}

#[test]
fn a_write_that_races_with_a_rewrite_wins() {
    let fs = MemFs::new();
    wasteful(&fs, 200);
    let db = options(Arc::new(fs.clone()), Reclaim::Rewrite).background_threads(2).open(DIR).unwrap();
    let model = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                let db = &db;
                scope.spawn(move || {
                    let mut model = Model::new();
                    for again in 100..160 {
                        for n in (0..200).filter(|n| n % 2 == writer) {
                            round(db, &mut model, [n], again);
                            // What was acknowledged is what is read, whatever is put again.
                            assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&model[&key(n)][..]));
                        }
                    }
                    model
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Model>()
    });
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_holds(&db, &model);
    db.close().unwrap();
    assert_whole(&fs);
}
