//! Decoding speed of the codec, and the echo over real sockets.

use std::hint::black_box;

use bytes::BytesMut;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mllp::{Codec, FrameEnd, Limits, OnOversize};
use tokio_util::codec::{Decoder as _, Encoder as _};

const ADT_BYTES: usize = 1_400;
const REPORT_BYTES: usize = 300 << 10;

fn stream(content_bytes: usize, frames: usize) -> BytesMut {
    let mut codec = Codec::new(&Limits::default(), FrameEnd::Lenient, OnOversize::Skip);
    let line = b"PID|1||8000001^^^HOSPITAL^MR||FAMILY^GIVEN||19700101|F|||1 STREET^^CITY\r";
    let content: Vec<u8> = line.iter().copied().cycle().take(content_bytes).collect();
    let mut out = BytesMut::new();
    for _ in 0..frames {
        codec.encode(content.as_slice(), &mut out).expect("no delimiter in it");
    }
    out
}

/// Decodes `stream` in reads of 16 KiB.
fn decode(stream: &[u8]) -> usize {
    let mut codec = Codec::new(&Limits::default(), FrameEnd::Lenient, OnOversize::Skip);
    let mut buffer = BytesMut::new();
    let mut frames = 0;
    for read in stream.chunks(16 << 10) {
        buffer.extend_from_slice(read);
        while let Some(received) = codec.decode(&mut buffer).expect("well formed") {
            black_box(received);
            frames += 1;
        }
    }
    frames
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    for (name, content_bytes, frames) in [("adt_1.4KB", ADT_BYTES, 700), ("report_300KB", REPORT_BYTES, 4)] {
        let stream = stream(content_bytes, frames);
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| assert_eq!(decode(black_box(&stream)), frames)));
    }
    group.finish();
}

fn echo(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let message = vec![b'x'; ADT_BYTES];
    let mut group = criterion.benchmark_group("echo");
    group.sample_size(10);
    for (name, connections, window) in [("1", 1, 1), ("64", 64, 1), ("64_pipelined", 64, 16)] {
        const MESSAGES: usize = 20_000;
        group.throughput(Throughput::Elements(MESSAGES as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                (0..iterations)
                    .map(|_| mllp::bench::echo_pipelined(connections, MESSAGES, window, &message))
                    .map(|run| runtime.block_on(run).expect("an echo"))
                    .sum()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decoding, echo);
criterion_main!(benches);
