#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| solera_fuzz::load(data));
