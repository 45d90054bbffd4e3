//! Tests of what is converted: values of every length, operands, expiries, damaged files; and from
//! which length on values lie apart.

use super::{DIR, Model, WAYS, assert_holds, assert_whole, key, named, open, options, put, wasteful};
use solera::{
    Db, Error, KeyspaceOptions, ManualClock, Options, Reclaim,
    control::{Change, knob},
    vfs::{Fs, mem::MemFs},
};
use std::{path::Path, sync::Arc, time::Duration};

#[test]
fn a_sorted_value_file_that_is_torn_swapped_missing_or_anothers_harms_its_own_values_and_says_where() {
    let fs = MemFs::new();
    let model = wasteful(&fs, 400);
    let db = open(&fs, Reclaim::Tier);
    db.wait_idle().unwrap();
    db.close().unwrap();
    // Another database with files of the same numbers.
    let other = MemFs::new();
    wasteful(&other, 400);
    let foreign = options(Arc::new(other.clone()), Reclaim::Tier).seed(2).open("/other").unwrap();
    (0..400).for_each(|n| foreign.put(key(n), [1; 300]).unwrap());
    foreign.ingest((0..400).map(|n| (key(n), vec![2; 300]))).unwrap();
    foreign.close().unwrap();
    let names = other.list_dir("/other".as_ref()).unwrap();
    let foreign = names.iter().find(|name| name.ends_with(".values")).unwrap();
    let foreign = other.content(&Path::new("/other").join(foreign)).unwrap();
    let values = named(&fs, ".values");
    assert!(values.len() > 1, "{values:?}");
    let victim = values[0].clone();
    let whole = fs.content(&victim).unwrap();
    let second = fs.content(&values[1]).unwrap();
    // Cut in the middle, every pointer behind leads past the end.
    for damaged in [Some(whole[..whole.len() / 2].to_vec()), Some(second), Some(foreign), Some(vec![]), None]
    {
        match damaged {
            Some(bytes) => fs.set_content(&victim, &bytes).unwrap(),
            None => fs.remove_file(&victim).unwrap(),
        }
        let db = options(Arc::new(fs.clone()), Reclaim::Tier).read_only(true).open(DIR).unwrap();
        let mut harmed = 0;
        for (key, value) in &model {
            match db.get(key) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                Err(Error::Corrupt { file, offset, .. }) => {
                    assert_eq!(file, victim);
                    assert!(offset <= whole.len() as u64);
                    harmed += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!((1..400).contains(&harmed), "{harmed} harmed");
        assert_eq!(db.iter().keys().filter(|key| key.is_ok()).count(), model.len());
        drop(db);
        let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
        assert!(!check.problems.is_empty());
    }
}

#[test]
fn values_of_every_length_and_keys_longer_than_eight_bytes_convert() {
    for way in WAYS {
        let fs = MemFs::new();
        let mut model = Model::new();
        let long = |n: u32| {
            let beginning = vec![b'p'; [3, 40, 3000][n as usize % 3]];
            [&beginning[..], format!("/{:04}", n / 2).as_bytes(), &vec![0; n as usize % 2]].concat()
        };
        let lengths = [0, 1, 15, 16, 17, 127, 128, 1000, 5000, 70_000];
        let db = open(&fs, way);
        for again in 0..4 {
            for n in (0..150).filter(|n| again == 0 || n % 3 != 1) {
                let value = vec![(n + again) as u8; lengths[(n + again) as usize % lengths.len()]];
                db.put(long(n), &value).unwrap();
                model.insert(long(n), value);
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_holds(&db, &model);
        }
        let from: Vec<_> = db.range(&long(30)[..]..).map(|pair| pair.unwrap().0.to_vec()).collect();
        assert!(from.iter().eq(model.range(long(30)..).map(|(key, _)| key)), "{way:?}");
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn operands_on_a_separated_base_and_values_that_expire_convert() {
    for way in WAYS {
        let fs = MemFs::new();
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let db = options(Arc::new(fs.clone()), way).clock(clock.clone()).open(DIR).unwrap();
        let mut model = Model::new();
        for again in 0..6 {
            for n in 0..200u32 {
                match (n + again) % 5 {
                    0 => {
                        db.merge(key(n), b"+operand that is long enough").unwrap();
                        model.entry(key(n)).or_default().extend(b"+operand that is long enough");
                    }
                    1 => {
                        let ttl = if n % 2 == 0 { 5 } else { 1 << 30 };
                        db.put_with_ttl(key(n), [again as u8; 200], Duration::from_secs(ttl)).unwrap();
                        model.insert(key(n), vec![again as u8; 200]);
                        if n % 2 == 0 {
                            // Gone when this round has ended.
                            model.remove(&key(n));
                        }
                    }
                    _ => put(&db, &mut model, n, vec![(n + again) as u8; 200]),
                }
            }
            db.flush().unwrap();
            clock.advance(Duration::from_secs(6));
            db.wait_idle().unwrap();
            assert_holds(&db, &model);
        }
        db.close().unwrap();
        assert_whole(&fs);
    }
}

#[test]
fn the_threshold_is_a_knob_that_acts_on_what_is_written_from_then_on() {
    let fs = MemFs::new();
    let open =
        || Options::new().memory(4 << 20).background_threads(0).fs(Arc::new(fs.clone())).open(DIR).unwrap();
    let db = open();
    let other = db.keyspace_with("other", KeyspaceOptions::new()).unwrap();
    let separated = |db: &Db| {
        db.flush().unwrap();
        db.default().stats().separated_values
    };
    let write = |db: &Db, from: u32| (from..from + 50).for_each(|n| db.put(key(n), [1; 100]).unwrap());
    write(&db, 0);
    assert_eq!(separated(&db), 0);
    let set = |db: &Db, bytes: u32| {
        db.control().apply(Change::new("test", "to see").set(&knob::SEPARATE_FROM, bytes))
    };
    set(&db, 100).unwrap();
    write(&db, 100);
    (0..50).for_each(|n| other.put(key(n), [1; 100]).unwrap());
    assert_eq!(separated(&db), 50);
    assert_eq!(other.stats().separated_values, 0);
    drop(other);
    db.close().unwrap();
    let db = open();
    write(&db, 200);
    assert_eq!(separated(&db), 100);
    set(&db, 101).unwrap();
    write(&db, 300);
    set(&db, u32::MAX).unwrap();
    write(&db, 400);
    assert_eq!(separated(&db), 100, "what was written before stays as it is");
    db.compact_range(..).unwrap();
    assert_eq!(separated(&db), 50, "what leaves its file is written as is set now");
    assert!((0..50).all(|n| db.get(key(n + 100)).unwrap().unwrap() == vec![1; 100]));
    let refused = set(&db, 0).unwrap_err();
    assert!(refused.to_string().contains("1 to 4294967295"), "{refused}");
}
