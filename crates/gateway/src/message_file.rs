//! Files with one or many messages: archives, captures, test data.

/// Splits a file into its messages. Frames (VT … FS CR) are taken as framed; otherwise each line that begins with `MSH`
/// begins a message. Bytes before the first message that are only white space are left out; anything else is a message of
/// its own, so that nothing in a file is passed over.
pub fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    const VT: u8 = 0x0b;
    const FS: u8 = 0x1c;
    if bytes.contains(&VT) {
        let frames = bytes.split(|&b| b == VT).skip(1);
        return frames
            .map(|f| f.split(|&b| b == FS).next().unwrap_or_default().to_vec())
            .filter(|f| !f.is_empty())
            .collect();
    }
    let mut messages = Vec::new();
    let mut start = 0;
    for (at, _) in bytes.windows(4).enumerate().filter(|(_, w)| w.starts_with(b"MSH") && !w[3].is_ascii_alphanumeric())
    {
        let begins_line = at == 0 || matches!(bytes[at - 1], b'\r' | b'\n') || bytes[..at].ends_with(b"\xef\xbb\xbf");
        if begins_line && at > start {
            push(&mut messages, &bytes[start..at]);
            start = at;
        }
    }
    push(&mut messages, &bytes[start..]);
    messages
}

fn push(messages: &mut Vec<Vec<u8>>, bytes: &[u8]) {
    let end = bytes.iter().rposition(|b| !matches!(b, b'\r' | b'\n')).map_or(0, |last| last + 1);
    let mut message = bytes[..end].to_vec();
    if message.iter().all(u8::is_ascii_whitespace) || message == b"\xef\xbb\xbf" {
        return;
    }
    if end < bytes.len() {
        message.push(bytes[end]);
    }
    messages.push(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_split_at_their_headers_and_frames() {
        assert_eq!(split(b"MSH|a\rPID|1\r\r\nMSH|b\r"), [b"MSH|a\rPID|1\r".to_vec(), b"MSH|b\r".to_vec()]);
        assert_eq!(split(b"\x0bMSH|a\r\x1c\r\x0bMSH|b\x1c\r"), [b"MSH|a\r".to_vec(), b"MSH|b".to_vec()]);
        assert_eq!(split(b"\n\nMSH|a\nNTE|xMSH|y\n"), [b"MSH|a\nNTE|xMSH|y\n".to_vec()]);
        assert_eq!(split(b"junk\nMSH|a"), [b"junk\n".to_vec(), b"MSH|a".to_vec()]);
        assert!(split(b"").is_empty());
        assert!(split(b"\r\n").is_empty());
    }
}
