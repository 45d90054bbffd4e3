//! Tests of `MemFs`: what a power cut keeps, takes, and brings back.
//!
//! Synced content under a synced name survives every crash; the same seed gives the same image.
//! Names, renames and removals are durable once their directory is synced; a rename is atomic.
//! Unsynced pages are kept or lost each by itself. Each variant of `Persist` loses what its name
//! says; a lost truncation brings bytes back.
//!
//! `crash_after(n)` cuts the power at operation n, and nothing succeeds after it; `record_cuts`
//! gives the same images. An image shares nothing written later; hard links stay one file in it.
//! What a lying disk syncs is not durable. A reserving file ends in zeros until it is trimmed; a
//! power cut after that may bring them back.

use super::*;
use std::collections::BTreeSet;

fn with_dir() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("d")).unwrap();
    fs
}

fn path() -> &'static Path {
    Path::new("d/f")
}

fn content(fs: &MemFs) -> Option<Vec<u8>> {
    fs.content(path()).ok()
}

#[test]
fn synced_content_under_a_synced_name_survives_every_crash() {
    let fs = with_dir();
    let mut file = fs.create(path()).unwrap();
    file.append(&[7; 100_000]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    file.append(&[9; 50_000]).unwrap();
    for persist in Persist::ALL {
        for seed in 0..20 {
            let image = fs.crash(persist, seed);
            assert_eq!(content(&image).unwrap()[..100_000], [7; 100_000], "{persist:?} {seed}");
            assert_eq!(content(&image), content(&fs.crash(persist, seed)), "same seed, same image");
            assert_eq!(content(&image), content(&image.crash(Persist::Nothing, 0)), "all is durable");
        }
    }
    assert_eq!(content(&fs.crash(Persist::Nothing, 0)).unwrap().len(), 100_000);
    assert_eq!(content(&fs.crash(Persist::Everything, 0)).unwrap().len(), 150_000);
}

#[test]
fn unsynced_pages_are_kept_or_lost_each_by_itself() {
    let fs = with_dir();
    let mut file = fs.create(path()).unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    file.append(&[1; 1000]).unwrap();
    file.sync().unwrap();
    file.append(&[2; 4096 * 4]).unwrap();
    let (mut holes, mut shorter) = (0, 0);
    for seed in 0..200 {
        let bytes = content(&fs.crash(Persist::RandomPages(4096), seed)).unwrap();
        assert!(bytes[..1000].iter().all(|&byte| byte == 1));
        for (start, page) in bytes.chunks(4096).enumerate() {
            let unsynced = &page[if start == 0 { 1000.min(page.len()) } else { 0 }..];
            assert!(unsynced.iter().all(|&byte| byte == 2) || unsynced.iter().all(|&byte| byte == 0));
        }
        let zero = bytes.iter().position(|&byte| byte == 0);
        holes += usize::from(zero.is_some_and(|zero| bytes[zero..].contains(&2)));
        shorter += usize::from(bytes.len() < 1000 + 4096 * 4);
    }
    assert!(holes > 20 && shorter > 20, "{holes} {shorter}");
}

#[test]
fn a_name_is_durable_only_after_its_directory_is_synced() {
    let fs = with_dir();
    let other = Path::new("d/g");
    fs.create(path()).unwrap().sync().unwrap();
    assert_eq!(fs.crash(Persist::Nothing, 0).files(), Vec::<PathBuf>::new());
    fs.sync_dir(Path::new("d")).unwrap();
    fs.rename(path(), other).unwrap();
    assert_eq!(fs.crash(Persist::Nothing, 0).files(), [path()]);
    assert_eq!(fs.crash(Persist::NamesBeforeContent, 0).files(), [other]);
    assert_eq!(fs.crash(Persist::ContentBeforeNames, 0).files(), [path()]);
    for seed in 0..20 {
        let files = fs.crash(Persist::RandomPages(4096), seed).files();
        assert!(files == [path()] || files == [other], "a rename is atomic");
    }
    fs.sync_dir(Path::new("d")).unwrap();
    fs.remove_file(other).unwrap();
    assert_eq!(fs.crash(Persist::Nothing, 0).files(), [other], "a removed file may come back");
}

#[test]
fn a_lost_truncation_brings_bytes_back() {
    let fs = with_dir();
    let mut file = fs.create(path()).unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    file.append(b"synced").unwrap();
    file.sync().unwrap();
    file.append(b"+unsynced").unwrap();
    file.truncate(4).unwrap();
    file.append(b"NEW").unwrap();
    assert_eq!(content(&fs.crash(Persist::Nothing, 0)).unwrap(), b"synced");
    assert_eq!(content(&fs.crash(Persist::Everything, 0)).unwrap(), b"syncNEW");
    let images: BTreeSet<_> =
        (0..300).map(|seed| content(&fs.crash(Persist::RandomPages(4096), seed)).unwrap()).collect();
    assert!(images.iter().all(|image| image.starts_with(b"sync")));
    assert!(images.contains(&b"synced+unsynced"[..]) && images.contains(&b"syncNEW"[..]));
}

#[test]
fn the_power_cut_comes_at_the_ordered_operation_and_stays() {
    let life = |fs: &MemFs| -> Result<()> {
        let mut file = fs.create(path())?;
        file.append(b"a")?;
        file.sync()?;
        fs.sync_dir(Path::new("d"))?;
        file.append(b"b")?;
        fs.rename(path(), Path::new("d/g"))
    };
    let whole = with_dir();
    let before = whole.operations();
    life(&whole).unwrap();
    let operations = whole.operations() - before;
    assert_eq!(operations, 6);
    for n in 0..operations {
        let fs = with_dir();
        fs.crash_after(n);
        assert!(!fs.crashed());
        let error = life(&fs).unwrap_err();
        assert!(fs.crashed() && error.to_string().contains("crashed"), "{error}");
        fs.create(Path::new("d/later")).unwrap_err();
        fs.sync_dir(Path::new("d")).unwrap_err();
        assert_eq!(content(&fs.crash(Persist::Nothing, 0)), (n > 3).then(|| b"a".to_vec()));
        let everything = fs.crash(Persist::Everything, 0);
        assert_eq!(everything.files().len(), 1, "the interrupted operation may have happened");
        assert_eq!(content(&everything).is_none(), n == 5);
    }
}

#[test]
fn an_image_shares_nothing_that_is_written_later() {
    let fs = with_dir();
    let mut file = fs.create(path()).unwrap();
    file.append(&[1; 10]).unwrap();
    let image = fs.crash(Persist::Everything, 0);
    file.append(&[2; 10]).unwrap();
    assert_eq!((content(&image).unwrap().len(), content(&fs).unwrap().len()), (10, 20));
    let lock = fs.lock(Path::new("d/LOCK")).unwrap();
    fs.crash(Persist::Everything, 0).lock(Path::new("d/LOCK")).unwrap();
    drop(lock);
}

#[test]
fn hard_links_are_one_file_in_the_image_too() {
    let fs = with_dir();
    let mut file = fs.create(path()).unwrap();
    file.append(&[1; 9000]).unwrap();
    fs.hard_link(path(), Path::new("d/g")).unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    for seed in 0..50 {
        let image = fs.crash(Persist::RandomPages(512), seed);
        assert_eq!(content(&image), image.content(Path::new("d/g")).ok());
    }
}

/// Every file of an image with its content.
fn whole(fs: &MemFs) -> Vec<(PathBuf, Vec<u8>)> {
    fs.files().into_iter().map(|path| (path.clone(), fs.content(&path).unwrap())).collect()
}

#[test]
fn a_recorded_cut_is_the_cut_that_was_ordered() {
    let life = |fs: &MemFs| -> Result<()> {
        let mut file = fs.create(path())?;
        file.append(&[1; 700])?;
        file.sync()?;
        fs.sync_dir(Path::new("d"))?;
        file.append(&[2; 700])?;
        file.truncate(900)?;
        fs.rename(path(), Path::new("d/g"))?;
        fs.create_dir_all(Path::new("d/e"))?;
        fs.rename(Path::new("d/g"), Path::new("d/e/f"))?;
        file.sync()?;
        fs.remove_file(Path::new("d/e/f"))
    };
    let recorded = with_dir();
    recorded.record_cuts(true);
    life(&recorded).unwrap();
    let cuts = recorded.take_cuts();
    assert_eq!(cuts.len(), 11);
    for (n, cut) in cuts.iter().enumerate() {
        let ordered = with_dir();
        ordered.crash_after(n as u64);
        life(&ordered).unwrap_err();
        for persist in Persist::ALL {
            for seed in 0..3 {
                let (one, other) = (ordered.crash(persist, seed), cut.crash(persist, seed));
                assert_eq!(whole(&one), whole(&other), "operation {n}, {persist:?}, seed {seed}");
            }
        }
    }
    assert!(recorded.take_cuts().is_empty(), "taken once");
}

#[test]
fn each_way_of_losing_loses_what_it_says() {
    let fs = with_dir();
    let other = Path::new("d/o");
    fs.create(other).unwrap().append(&[9; 2000]).unwrap();
    let mut file = fs.create(path()).unwrap();
    file.append(&[1; 600]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    file.append(&[2; 600]).unwrap();
    file.append(&[3; 600]).unwrap();
    let images = |persist| -> BTreeSet<_> {
        (0..100).map(|seed| content(&fs.crash(persist, seed)).unwrap()).collect()
    };
    let written = fs.content(path()).unwrap();
    for image in images(Persist::TornLastWrite) {
        assert!(image.len() >= 1200 && written.starts_with(&image));
    }
    assert!(images(Persist::TornLastWrite).len() > 50);
    assert_eq!(images(Persist::FirstSector), BTreeSet::from([written[..1024].to_vec()]));
    let stale: Vec<u8> = [vec![1; 600], vec![9; 1200]].concat();
    assert!(images(Persist::Stale).contains(&stale), "blocks of the other file");
    let some = images(Persist::SomeFiles);
    assert_eq!(some, BTreeSet::from([written[..600].to_vec(), written.clone()]));
    let both = |seed| {
        let image = fs.crash(Persist::SomeFiles, seed);
        (content(&image).unwrap().len(), image.content(other).unwrap().len())
    };
    let both: BTreeSet<_> = (0..100).map(both).collect();
    assert_eq!(both, BTreeSet::from([(600, 0), (600, 2000), (1800, 0), (1800, 2000)]));

    file.truncate(1500).unwrap();
    file.append(&[4; 10]).unwrap();
    let back = [&written[..1500], &[4; 10], &written[1510..]].concat();
    assert_eq!(images(Persist::LostTruncation), BTreeSet::from([back]));

    fs.remove_file(other).unwrap();
    fs.rename(path(), Path::new("d/g")).unwrap();
    fs.create(Path::new("d/h")).unwrap();
    let names: BTreeSet<_> = (0..100).map(|seed| fs.crash(Persist::LostName, seed).files()).collect();
    let expected = [&["d/g", "d/h", "d/o"][..], &["d/f", "d/h"], &["d/g"]];
    assert_eq!(names, expected.iter().map(|names| names.iter().map(PathBuf::from).collect()).collect());
}

#[test]
fn a_lying_disk_keeps_nothing() {
    let fs = with_dir();
    fs.lie(true);
    let mut file = fs.create(path()).unwrap();
    file.append(b"promised").unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    assert_eq!(fs.crash(Persist::Nothing, 0).files(), Vec::<PathBuf>::new());
    assert_eq!(content(&fs.crash(Persist::NamesBeforeContent, 0)).unwrap(), b"");
    fs.lie(false);
    fs.sync_dir(Path::new("d")).unwrap();
    assert_eq!(content(&fs.crash(Persist::Nothing, 0)).unwrap(), b"");
}

#[test]
fn a_file_that_reserves_has_zeros_behind_until_it_is_trimmed_and_perhaps_after_a_power_cut() {
    let fs = with_dir();
    let mut file = fs.create_reserving(path()).unwrap();
    fs.sync_dir(Path::new("d")).unwrap();
    file.append(&[1; 5000]).unwrap();
    file.sync().unwrap();
    file.append(&[2; 4000]).unwrap();
    let whole = |ones: usize, twos: usize, len: usize| {
        let mut bytes = [vec![1; ones], vec![2; twos]].concat();
        bytes.resize(len, 0);
        bytes
    };
    let now = |persist, seed| content(&fs.crash(persist, seed)).unwrap();
    assert_eq!(content(&fs).unwrap(), whole(5000, 4000, 12_288));
    assert_eq!(now(Persist::Nothing, 0), whole(5000, 0, 8192));
    assert_eq!(now(Persist::Everything, 0), whole(5000, 4000, 12_288));
    let lens: BTreeSet<_> = (0..50).map(|seed| now(Persist::RandomPages(4096), seed).len()).collect();
    assert!(lens.contains(&8192) && lens.contains(&12_288), "{lens:?}");

    file.trim().unwrap();
    assert_eq!(content(&fs).unwrap(), whole(5000, 4000, 9000));
    assert_eq!(now(Persist::Nothing, 0), whole(5000, 0, 8192));
    assert_eq!(now(Persist::Everything, 0), whole(5000, 4000, 9000));
    assert_eq!(now(Persist::LostTruncation, 0), whole(5000, 4000, 12_288));
    file.sync().unwrap();
    assert_eq!(now(Persist::LostTruncation, 0), whole(5000, 4000, 9000));

    file.append(&[2; 10]).unwrap();
    assert_eq!(content(&fs.kill()).unwrap(), whole(5000, 4010, 12_288), "a killed process leaves them");
    drop(file);
    assert_eq!(content(&fs).unwrap(), whole(5000, 4010, 9010), "a writer that ends does not");
}
