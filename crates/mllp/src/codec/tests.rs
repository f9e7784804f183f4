//! Every departure from the framing, on the codec alone, with reads cut where they hurt.

use bytes::BytesMut;
use proptest::prelude::*;
use tokio_util::codec::{Decoder as _, Encoder as _};

use super::*;

fn limits() -> Limits {
    Limits { frame_bytes_max: 16, head_bytes_max: 4, preamble_bytes_max: 8, ..Limits::default() }
}

fn codec(end: FrameEnd) -> Codec {
    Codec::new(&limits(), end, OnOversize::Skip)
}

/// Everything a stream leads to: events, bytes skipped, whether the decoder gave up.
type Outcome = (Vec<Received>, Skipped, bool);

fn read(mut codec: Codec, reads: &[&[u8]]) -> Outcome {
    let mut buffer = BytesMut::new();
    let mut events = Vec::new();
    let bound = codec.frame_bytes_max + 1;
    for read in reads {
        buffer.extend_from_slice(read);
        loop {
            match codec.decode(&mut buffer) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, codec.skipped(), true),
            }
        }
        assert!(buffer.len() <= bound, "{} bytes kept", buffer.len());
    }
    loop {
        match codec.decode_eof(&mut buffer) {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, codec.skipped(), false),
            Err(_) => return (events, codec.skipped(), true),
        }
    }
}

fn lenient(reads: &[&[u8]]) -> Outcome {
    read(codec(FrameEnd::Lenient), reads)
}

fn strict(reads: &[&[u8]]) -> Outcome {
    read(codec(FrameEnd::Strict), reads)
}

fn frame(content: &'static [u8]) -> Received {
    Received::Frame(Bytes::from_static(content))
}

fn quarantined(fault: Fault, head: &'static [u8], content_bytes: u64) -> Received {
    Received::Quarantined { fault, head: Bytes::from_static(head), content_bytes }
}

#[test]
fn w1_several_frames_in_one_read() {
    let (events, skipped, _) = lenient(&[b"\x0bm1\x1c\r\x0bm2\x1c\r"]);
    assert_eq!(events, [frame(b"m1"), frame(b"m2")]);
    assert_eq!(skipped, Skipped::default());
}

#[test]
fn w2_junk_between_frames_leaves_a_partial_frame_alone() {
    let (events, skipped, _) = lenient(&[b"\x0bm1\x1c\r\n\x0bm2 fir", b"st\x1c\r"]);
    assert_eq!(events, [frame(b"m1"), frame(b"m2 first")]);
    assert_eq!(skipped, Skipped { line_end_bytes: 1, ..Skipped::default() });
}

#[test]
fn w3_preamble_is_skipped_by_reason_up_to_a_bound() {
    let (events, skipped, given_up) = lenient(&[b"\0\0\nlog\r\x1c\x0b\x0bm\x1c\r"]);
    assert_eq!((events, given_up), (vec![frame(b"m")], false));
    let expected = Skipped { line_end_bytes: 2, nul_bytes: 2, end_bytes: 1, start_bytes: 1, other_bytes: 3 };
    assert_eq!(skipped, expected);

    let (events, skipped, given_up) = lenient(&[b"GET / HTTP/1.1\r\n\r\n\x0bm\x1c\r"]);
    assert_eq!((events, given_up), (vec![], true));
    assert_eq!(skipped, Skipped { other_bytes: 8, ..Skipped::default() });
}

#[test]
fn w3_the_error_stays_after_the_preamble_was_too_long() {
    let mut codec = codec(FrameEnd::Lenient);
    let mut buffer = BytesMut::from(&b"123456789"[..]);
    for _ in 0..2 {
        assert!(matches!(codec.decode(&mut buffer), Err(DecodeError::Preamble { bytes_max: 8 })));
    }
}

#[test]
fn w4_delimiters_doubled_are_one_message() {
    for outcome in [lenient(&[b"\x0b\x0bm\x1c\r\x1c\r"]), strict(&[b"\x0b\x0bm\x1c\r\x1c\r"])] {
        assert_eq!(outcome.0, [frame(b"m")]);
        assert_eq!(outcome.1, Skipped { start_bytes: 1, end_bytes: 1, line_end_bytes: 1, ..Skipped::default() });
    }
    assert_eq!(lenient(&[b"\x0bm\x1c\x1c\r\x0bn\x1c\r"]).0, [frame(b"m"), frame(b"n")]);
}

#[test]
fn w5_a_large_frame_over_many_reads_is_searched_once() {
    let content = vec![b'A'; 300 << 10];
    let mut codec = Codec::new(&Limits::default(), FrameEnd::Lenient, OnOversize::Skip);
    let mut stream = BytesMut::new();
    codec.encode(content.as_slice(), &mut stream).unwrap();
    let mut buffer = BytesMut::new();
    let mut events = Vec::new();
    for read in stream.chunks(64 << 10) {
        buffer.extend_from_slice(read);
        let event = codec.decode(&mut buffer).unwrap();
        // What the next read adds is all that is left to search.
        assert!(event.is_some() || codec.searched == buffer.len());
        events.extend(event);
    }
    assert_eq!(events, [Received::Frame(content.into())]);
}

#[test]
fn w6_end_of_frame_split_between_reads() {
    for end in [FrameEnd::Lenient, FrameEnd::Strict] {
        let (events, skipped, _) = read(codec(end), &[b"\x0bm\x1c", b"\r\x0bn\x1c\r"]);
        assert_eq!(events, [frame(b"m"), frame(b"n")]);
        assert_eq!(skipped, Skipped::default());
    }
}

#[test]
fn w6_fs_without_cr_ends_a_frame_for_a_lenient_listener_only() {
    let stream: &[&[u8]] = &[b"\x0bm\x1c\x0bn\x1c\n\x0bo\x1c"];
    assert_eq!(lenient(stream).0, [frame(b"m"), frame(b"n"), frame(b"o")]);
    let fault = |head| quarantined(Fault::EndWithoutReturn, head, 1);
    assert_eq!(strict(stream).0, [fault(b"m"), fault(b"n"), fault(b"o")]);
}

#[test]
fn w6_a_stray_fs_does_not_make_half_a_message_whole() {
    assert_eq!(lenient(&[b"\x0bm\x1cn\x1c\r"]).0, [frame(b"m\x1cn")]);
    let (events, skipped, _) = strict(&[b"\x0bm\x1cn\x1c\r"]);
    assert_eq!(events, [quarantined(Fault::EndWithoutReturn, b"m", 1)]);
    assert_eq!(skipped, Skipped { other_bytes: 1, end_bytes: 1, line_end_bytes: 1, ..Skipped::default() });
}

#[test]
fn w6_progress_tells_an_open_frame_from_one_that_awaits_its_cr() {
    let mut codec = codec(FrameEnd::Lenient);
    let mut buffer = BytesMut::from(&b"\x0bm"[..]);
    assert_eq!(codec.progress(&buffer), Progress::Between);
    assert_eq!(codec.decode(&mut buffer).unwrap(), None);
    assert_eq!(codec.progress(&buffer), Progress::Open);
    buffer.extend_from_slice(b"\x1c");
    assert_eq!(codec.decode(&mut buffer).unwrap(), None);
    assert_eq!(codec.progress(&buffer), Progress::AwaitingReturn);
    assert_eq!(codec.cut(&mut buffer), Some(frame(b"m")));
    assert_eq!(codec.progress(&buffer), Progress::Between);
    assert_eq!(codec.frames_begun(), 1);
}

#[test]
fn w7_a_frame_without_end_is_unfinished_at_the_end_of_the_stream() {
    assert_eq!(lenient(&[b"\x0bmes", b"sage"]).0, [quarantined(Fault::Unfinished, b"message", 7)]);
    let (events, skipped, _) = lenient(&[b"\x0b"]);
    assert_eq!((events, skipped.start_bytes), (vec![], 1));
}

#[test]
fn w8_truncated_frame_and_its_resend() {
    for outcome in [lenient(&[b"\x0bm1 tr\x0bm1 whole\x1c\r"]), strict(&[b"\x0bm1 tr", b"\x0bm1 whole\x1c\r"])] {
        assert_eq!(outcome.0, [quarantined(Fault::Truncated, b"m1 tr", 5), frame(b"m1 whole")]);
    }
}

#[test]
fn w9_oversize_frame_keeps_its_head_and_the_stream_goes_on() {
    let stream: &[&[u8]] = &[b"\x0b0123456789abcdef", b"g", b"hij\x1ck", b"\x1c", b"\r\x0bm\x1c\r"];
    assert_eq!(lenient(stream).0, [quarantined(Fault::Oversize, b"0123", 22), frame(b"m")]);
    assert_eq!(lenient(&[b"\x0b0123456789abcdef\x1c\r"]).0, [frame(b"0123456789abcdef")]);
    let closed = read(Codec::new(&limits(), FrameEnd::Lenient, OnOversize::Close), stream);
    assert_eq!((closed.0, closed.2), (vec![quarantined(Fault::Oversize, b"0123", 17)], true));
}

#[test]
fn w9_oversize_frame_without_end_gives_way_to_the_next_start() {
    let stream: &[&[u8]] = &[b"\x0b0123456789abcdefgh\x0bm\x1c\r"];
    assert_eq!(lenient(stream).0, [quarantined(Fault::Oversize, b"0123", 18), frame(b"m")]);
    assert_eq!(lenient(&[b"\x0b0123456789abcdefgh"]).0, [quarantined(Fault::Oversize, b"0123", 18)]);
}

#[test]
fn w13_an_empty_frame_is_a_frame() {
    assert_eq!(lenient(&[b"\x0b\x1c\r"]).0, [frame(b"")]);
}

#[test]
fn content_with_a_delimiter_is_not_sent() {
    let mut out = BytesMut::new();
    let refused = codec(FrameEnd::Lenient).encode(b"ab\x1c".as_slice(), &mut out);
    assert!(matches!(refused, Err(EncodeError::Delimiter { offset: 2 })));
    assert!(out.is_empty());
    put_frame(b"a\x0bb\x1cc", &mut out);
    assert_eq!(out, b"\x0babc\x1c\r".as_slice());
}

#[test]
fn debug_shows_no_content() {
    let shown = format!("{:?} {:?}", frame(b"SECRET"), quarantined(Fault::Truncated, b"SECRET", 6));
    assert_eq!(shown, "Frame(6 bytes) Quarantined(Truncated, 6 bytes)");
}

/// Bytes in which delimiters are as frequent as they are hard on the decoder.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => Just(VT), 3 => Just(FS), 3 => Just(CR), 1 => Just(LF), 1 => Just(0), 6 => Just(b'x'), 1 => any::<u8>()
    ];
    let text = prop::collection::vec(any::<u8>(), 0..40);
    let piece = prop_oneof![
        2 => prop::collection::vec(byte, 0..24),
        2 => text.prop_map(|content| {
            let mut out = BytesMut::new();
            put_frame(&content, &mut out);
            out.to_vec()
        }),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn settings() -> impl Strategy<Value = (FrameEnd, OnOversize)> {
    (
        prop_oneof![Just(FrameEnd::Lenient), Just(FrameEnd::Strict)],
        prop_oneof![Just(OnOversize::Skip), Just(OnOversize::Close)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cuts_change_nothing(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        (end, on_oversize) in settings(),
    ) {
        let new = || Codec::new(&limits(), end, on_oversize);
        let singles: Vec<&[u8]> = stream.chunks(1).collect();
        let whole = read(new(), &[&stream]);
        prop_assert_eq!(&read(new(), &singles), &whole);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let reads: Vec<&[u8]> = at.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        prop_assert_eq!(&read(new(), &reads), &whole);
    }

    #[test]
    fn frames_come_back_as_they_were_sent(contents in prop::collection::vec("[ -~\r]{0,16}", 0..8)) {
        let mut codec = codec(FrameEnd::Strict);
        let mut stream = BytesMut::new();
        for content in &contents {
            codec.encode(content.as_bytes(), &mut stream).unwrap();
        }
        let (events, skipped, given_up) = read(codec, &[&stream]);
        let sent: Vec<Received> = contents.into_iter().map(|content| Received::Frame(content.into())).collect();
        prop_assert_eq!((events, skipped, given_up), (sent, Skipped::default(), false));
    }
}
