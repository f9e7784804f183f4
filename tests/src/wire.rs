//! MLLP by hand: frames as bytes, whole conversations over one socket, and what an answer says.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const VT: u8 = 0x0b;
const FS: u8 = 0x1c;
const CR: u8 = 0x0d;

/// One frame around `content`.
pub fn frame(content: impl AsRef<[u8]>) -> Vec<u8> {
    [&[VT], content.as_ref(), &[FS, CR]].concat()
}

/// Writes `bytes`, ends the sending side and reads the content of every frame that comes until the peer ends, too: no
/// answer can be missed, and none counted that is not there.
pub async fn conversation(addr: impl tokio::net::ToSocketAddrs, bytes: &[u8]) -> Vec<Answer> {
    let mut stream = TcpStream::connect(addr).await.expect("the listener takes the connection");
    stream.write_all(bytes).await.expect("the listener reads");
    stream.shutdown().await.expect("the sending side ends");
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.expect("the listener ends the connection");
    frames(&answers)
}

fn frames(bytes: &[u8]) -> Vec<Answer> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((&VT, after)) = rest.split_first() {
        let end = after.windows(2).position(|w| w == [FS, CR]).expect("an answer is a whole frame");
        found.push(Answer { bytes: after[..end].to_vec() });
        rest = &after[end + 2..];
    }
    assert!(rest.is_empty(), "bytes outside of frames");
    found
}

/// An acknowledgement as received.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Its text; answers in other character sets than UTF-8 lose what is not ASCII.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Field `n` of the first `segment`, by the answer's own field separator; empty where there is none.
    pub fn field(&self, segment: &str, n: usize) -> String {
        let text = self.text();
        let separator = text.chars().nth(3).unwrap_or('|');
        let n = if segment == "MSH" { n - 1 } else { n };
        let found = text.split('\r').find(|line| line.starts_with(segment));
        found.and_then(|line| line.split(separator).nth(n)).unwrap_or_default().to_owned()
    }

    /// MSA-1.
    pub fn code(&self) -> String {
        self.field("MSA", 1)
    }

    /// MSA-2.
    pub fn control_id(&self) -> String {
        self.field("MSA", 2)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}
