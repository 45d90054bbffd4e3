//! A Zstandard stream as `zstd` writes it: `Frames`, a `Read` of any number of frames, some of them
//! skippable.
//!
//! What must hold: each frame's checksum is compared, if it has one. A window above 128 MiB, what
//! `zstd` itself accepts unasked, is refused. Damage is an error, not an end.
//!
//! Caller: `input::mod`.

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};
use std::io::{self, Read};

/// Largest window: what `zstd` itself accepts without being asked for more (`--long=27`).
const WINDOW_BYTES_MAX: u64 = 128 << 20;

/// The decompressed content of all frames of a source.
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    BetweenFrames,
    InFrame,
    Ended,
}

impl<R: Read> Frames<R> {
    /// Reads frames until the source ends.
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Frames { source, decoder, state: State::BetweenFrames }
    }

    /// Goes to the start of the next frame's content, or to the end.
    fn begin_frame(&mut self) -> io::Result<()> {
        loop {
            let mut magic = Vec::with_capacity(4);
            self.source.by_ref().take(4).read_to_end(&mut magic)?;
            if magic.is_empty() {
                self.state = State::Ended;
                return Ok(());
            }
            match self.decoder.reset((&magic[..]).chain(&mut self.source)) {
                Ok(()) => {
                    self.state = State::InFrame;
                    return Ok(());
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut self.source.by_ref().take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(invalid("the input ends inside a skippable Zstandard frame"));
                    }
                }
                Err(error) => return Err(damage(&error)),
            }
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let stored = self.decoder.get_checksum_from_data();
        if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
            return Err(invalid("the checksum of a Zstandard frame does not match its content"));
        }
        self.state = State::BetweenFrames;
        Ok(())
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state {
                State::Ended => return Ok(0),
                State::BetweenFrames => self.begin_frame()?,
                State::InFrame => {
                    if self.decoder.can_collect() > 0 {
                        return self.decoder.read(buf);
                    }
                    if self.decoder.is_finished() {
                        self.end_frame()?;
                        continue;
                    }
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(|error| damage(&error))?;
                }
            }
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What is wrong with a frame, in words. The library's own texts are of its types.
fn damage(error: &(dyn std::error::Error + 'static)) -> io::Error {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let ends = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        // The library keeps the cause in the text of some of its errors.
        if ends || error.to_string().contains("UnexpectedEof") {
            return invalid("the input ends inside a Zstandard frame");
        }
        cause = error.source();
    }
    invalid("a Zstandard frame is not what was compressed")
}
